package promotionplan

import (
	"cmp"
	"iter"
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Release is the sealed release that a plan moves.
type Release struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Revision int    `json:"revision"`
	// Manifest is the digest of the verified manifest's bundle, which is moved
	// last.
	Manifest digest.Digest `json:"manifest"`
	From     string        `json:"from"` // workspace or staging
	To       string        `json:"to"`   // staging or release
	// Evidence counts the evidence that is moved with the artifacts:
	// provenance, SBOMs and signatures, including those of images.
	Evidence int `json:"evidence"`
}

// End is one end of a release's move: the stage and its places. Images is empty
// if the stage has no registry.
type End struct {
	Stage, Files, Images string
}

// MakeRelease plans the promotion of a sealed release from one stage to the
// next: exactly what its verified manifest lists.
func MakeRelease(m manifest.Manifest, bundle []byte, from, to End) (Plan, error) {
	sealed := Release{
		Name: m.Name, Version: m.Version.String(), Revision: max(1, m.Revision),
		Manifest: digest.Of(digest.SHA256, bundle), From: from.Stage, To: to.Stage,
	}
	title := m.Name + " " + m.Version.String()
	p := Plan{
		Schema: Schema, Routes: []Route{}, Edges: []Edge{},
		Stores: []Store{{Manifest: title, Source: from.Files, Destinations: []string{to.Files}}},
		Files:  []File{{Name: releasemanifest.Name, Digest: sealed.Manifest, Size: int64(len(bundle))}},
	}
	for _, page := range m.Pages {
		p.Files = append(p.Files, File{Name: page.Name, Digest: page.Digests.SHA256, Size: page.Size})
	}
	for _, a := range m.Artifacts {
		sealed.Evidence += evidenceOf(a)
		switch {
		case a.Class == plan.Image:
			p.Edges = append(p.Edges, Edge{Image: a.Repository, Digest: a.Digests.SHA256, Tags: slices.Sorted(slices.Values(a.Tags))})
		case !a.IsImage():
			p.Files = append(p.Files, File{Name: a.Name, Digest: a.Digests.SHA256, Size: a.Size})
		}
	}
	if len(p.Edges) > 0 {
		if from.Images == "" || to.Images == "" {
			return Plan{}, verdict.Refuse(verdict.ConfigParse, title, "the release has images, but the profile names no registry")
		}
		p.Routes = []Route{{Manifest: title, Source: from.Images, Destinations: []string{to.Images}}}
	}
	order.Sort(p.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(p.Edges, func(a, b Edge) int {
		return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.Digest.Hex(), b.Digest.Hex()))
	})
	p.Release = &sealed
	return p, p.check()
}

// evidenceOf counts the evidence of an artifact: one for a file that is
// evidence, and the attached evidence for an image.
func evidenceOf(a manifest.Artifact) int {
	if !a.IsImage() {
		if slices.Contains([]plan.Class{plan.Provenance, plan.SBOM, plan.Signature}, a.Class) {
			return 1
		}
		return 0
	}
	return slice.Count([]string{a.Provenance, a.SBOM, a.Signature}, func(name string) bool { return name != "" })
}

// Store is a place of files and its destinations. All end with a slash.
type Store struct {
	Manifest     string   `json:"manifest"`
	Source       string   `json:"source"`
	Destinations []string `json:"destinations"`
}

// File is one file of a store.
type File struct {
	Store  int           `json:"store"` // index into [Plan.Stores]
	Name   string        `json:"name"`
	Digest digest.Digest `json:"digest"`
	// Size is zero if no manifest gives it.
	Size int64 `json:"size,omitempty"`
}

// FileMove is one file to one destination.
type FileMove struct {
	From, To string // places
	Name     string
	Digest   digest.Digest
	Size     int64 // 0 if unknown
}

// MakeFiles makes the plan of manifests of files.
func MakeFiles(manifests []promoterfile.FileManifest) (Plan, error) {
	p := Plan{Schema: Schema, Routes: []Route{}, Edges: []Edge{}}
	sorted := slices.SortedFunc(slices.Values(manifests), func(a, b promoterfile.FileManifest) int {
		return cmp.Or(cmp.Compare(a.Source.Name, b.Source.Name), cmp.Compare(a.Name, b.Name))
	})
	for i, m := range sorted {
		p.Stores = append(p.Stores, Store{Manifest: m.Name, Source: m.Source.Name, Destinations: destinations(m.Destinations)})
		for _, f := range m.Files {
			p.Files = append(p.Files, File{Store: i, Name: f.Name, Digest: f.Digest})
		}
	}
	if len(p.Files) == 0 {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "the manifests list no files")
	}
	if err := p.check(); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// AllFiles iterates over every file that moves, destination by destination.
func (p Plan) AllFiles() iter.Seq[FileMove] {
	return func(yield func(FileMove) bool) {
		for _, f := range p.Files {
			s := p.Stores[f.Store]
			for _, to := range s.Destinations {
				if !yield(FileMove{From: s.Source, To: to, Name: f.Name, Digest: f.Digest, Size: f.Size}) {
					return
				}
			}
		}
	}
}
