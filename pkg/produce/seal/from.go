package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Origin is where another tool left a release.
type Origin struct {
	Files store.Place
	// Images is a registry or a layout; nil if the release has no images.
	Images registry.Source
	// Describe writes the SBOMs that release.yaml wants of the imported files.
	Describe func(context.Context, Request) error
}

// Compare compares a place that another tool filled with the plan, in both
// directions: every file and image of the plan exists, with exactly its
// platforms, and nothing else but what the plan lists as outside of the
// release. It reads only names and manifests.
func Compare(ctx context.Context, req Request, from Origin) error {
	objects, err := from.Files.List(ctx)
	if errors.Is(err, store.ErrNotListable) {
		return verdict.Refuse(verdict.Usage, from.Files.URI(), "the place cannot be listed, so unplanned files would go unnoticed; use the address of the bucket, or download the files into a directory")
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", from.Files.URI(), err)
	}
	there, wanted := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		there[o.Name] = true
	}
	var findings []verdict.Finding
	for _, g := range req.Plan.Given {
		wanted[g.From] = true
		if !there[g.From] {
			findings = append(findings, verdict.Find(verdict.SealMissing, g.From, "release.yaml needs this file for %s, but %s does not have it", g.Name, from.Files.URI()))
		}
	}
	for _, o := range objects {
		if !wanted[o.Name] && !slices.Contains(req.Plan.Outside, o.Name) {
			findings = append(findings, verdict.Find(verdict.SealExtra, o.Name, "%s has this file, but release.yaml lists it neither as an output nor under outside:", from.Files.URI()).
				Advise("list the file as an output in release.yaml, or under outside: if it is not part of the release, or remove it from the place"))
		}
	}
	images, err := compareImages(ctx, req, from.Images)
	if err != nil {
		return err
	}
	return findingsError(req, append(findings, images...))
}

// From seals a release that another tool made: planned files are copied from
// the place and hashed in the same pass, and exactly these bytes are signed
// and listed. Supplied evidence is published unchanged: it counts if the
// policy lists its signer, and must not contradict the bytes. A difference
// between plan and place, in either direction, is refused before anything is
// signed.
func From(ctx context.Context, req Request, from Origin, config []byte) (manifest.Manifest, error) {
	if err := Compare(ctx, req, from); err != nil {
		return manifest.Manifest{}, err
	}
	if _, err := SealedFrom(ctx, req, from, config); err != nil {
		return manifest.Manifest{}, err
	}
	var err error
	if req.imported, err = importFiles(ctx, req, from.Files); err != nil {
		return manifest.Manifest{}, err
	}
	if err := importImages(ctx, req, from.Images); err != nil {
		return manifest.Manifest{}, err
	}
	if err := req.Workspace.Writer().Put(ctx, plan.ConfigName, int64(len(config)), bytes.NewReader(config), store.PutOptions{}); err != nil {
		return manifest.Manifest{}, err
	}
	req.imported[plan.ConfigName] = digest.SetOf(config)
	req.Report(ctx, "imported %s and %s from %s", plural.Of(len(req.Plan.Given), "file"), plural.Of(len(req.Plan.GivenImages), "image"), from.Files.URI())
	if err := from.Describe(ctx, req); err != nil {
		return manifest.Manifest{}, err
	}
	if err := inspect(ctx, req); err != nil {
		return manifest.Manifest{}, err
	}
	if _, err := Sign(ctx, req); err != nil {
		return manifest.Manifest{}, err
	}
	return Run(ctx, req)
}

// importFiles copies every file of the plan into the workspace, and returns
// the digests of what was copied.
func importFiles(ctx context.Context, req Request, from store.Place) (map[string]digest.Set, error) {
	var mu sync.Mutex // guards taken
	taken := map[string]digest.Set{}
	return taken, atonce.Try(ctx, runtime.GOMAXPROCS(0), req.Plan.Given, func(ctx context.Context, _ int, g plan.Given) error {
		body, size, err := from.Open(ctx, g.From)
		if errors.Is(err, store.ErrNotFound) {
			return verdict.Wrap(verdict.SealMissing, g.From, err)
		}
		if err != nil {
			return fmt.Errorf("importing %q: %w", g.From, err)
		}
		defer body.Close()
		h := digest.NewHasher()
		if err := req.Workspace.Writer().Put(ctx, g.Name, size, io.TeeReader(body, h), store.PutOptions{}); err != nil {
			return fmt.Errorf("importing %q: %w", g.From, err)
		}
		mu.Lock()
		defer mu.Unlock()
		taken[g.Name] = h.Set()
		return nil
	})
}

// needsProof reports whether the bytes of an artifact need proof: verified
// provenance for what was built, and the digests of the import for the files
// of another tool.
func (p proven) needsProof(a plan.Artifact) bool {
	_, taken := p.bytes[a.Name]
	return a.IsBuilt() || taken
}

// carried adds the supplied evidence of a file or image of another tool.
func carried(entry *manifest.Artifact) {
	for _, e := range entry.Evidence {
		switch e.Kind {
		case plan.KindProvenance:
			entry.Provenance = e.Name
		case plan.KindSBOM:
			entry.SBOM = e.Name
		}
	}
}

// imported is the proof for a release of another tool: the digests computed
// during the import, not its own provenance.
func imported(req Request) (proven, error) {
	if req.imported == nil {
		return proven{}, verdict.Refuse(verdict.Usage, plan.ConfigName, "release.yaml says that another tool makes the outputs; import them with waybill seal --from PLACE")
	}
	id := req.Workspace.Identity()
	return proven{bytes: req.imported, hashed: map[string]digest.Set{}, invocation: id.Invocation}, nil
}

// importedBefore is what was imported for a manifest that is sealed.
func importedBefore(p plan.Plan, m manifest.Manifest) map[string]digest.Set {
	taken := map[string]digest.Set{}
	for _, a := range m.Artifacts {
		isGiven := slices.ContainsFunc(p.Given, func(g plan.Given) bool { return g.Name == a.Name })
		if isGiven || a.IsImage() || a.Name == plan.ConfigName {
			taken[a.Name] = a.Digests
		}
	}
	return taken
}

// SealedFrom reports whether the workspace has our manifest of exactly the
// bytes in a place. Other bytes are refused: a version has only one first
// revision. If something is sealed already, it reads the whole place; it
// writes nothing.
func SealedFrom(ctx context.Context, req Request, from Origin, config []byte) (bool, error) {
	before, _, err := signedManifest(ctx, req)
	switch {
	case verdict.OutcomeOf(err) == verdict.Refused:
		return false, nil // no manifest, or not ours
	case err != nil:
		return false, err
	case before.Withdrawn != nil:
		return false, withdrawn(before)
	}
	if err := sealedOtherwise(ctx, req.Plan, from, before); err != nil {
		return false, err
	}
	if now := digest.SetOf(config); !before.Config.Equal(now.SHA256) {
		return false, otherBytes(plan.ConfigName, before.Config, now.SHA256)
	}
	return true, nil
}

func sealedOtherwise(ctx context.Context, p plan.Plan, from Origin, before manifest.Manifest) error {
	for _, g := range p.Given {
		now, err := hashGiven(ctx, from.Files, g.From)
		if err != nil {
			return err
		}
		if was, _ := before.Find(g.Name); !was.Digests.Equal(now) {
			return otherBytes(g.Name, was.Digests.SHA256, now.SHA256)
		}
	}
	for _, g := range p.GivenImages {
		repo, tag := splitImage(g.From)
		now, err := from.Images.Resolve(ctx, repo, tag)
		if err != nil {
			return fmt.Errorf("resolving %s: %w", g.From, err)
		}
		if was, _ := before.Find(g.Name); !was.Digests.SHA256.Equal(now.Digest) {
			return otherBytes(g.Name, was.Digests.SHA256, now.Digest)
		}
	}
	return nil
}

func hashGiven(ctx context.Context, from store.Place, name string) (digest.Set, error) {
	body, _, err := from.Open(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return digest.Set{}, verdict.Wrap(verdict.SealMissing, name, err)
	}
	if err != nil {
		return digest.Set{}, fmt.Errorf("reading %q: %w", name, err)
	}
	defer body.Close()
	set, _, err := digest.Sum(body)
	if err != nil {
		return digest.Set{}, fmt.Errorf("hashing %q: %w", name, err)
	}
	return set, nil
}

// otherBytes says what differs, and what can be done.
func otherBytes(name string, was, now digest.Digest) error {
	e := resealError(fmt.Sprintf("the place has other bytes for %s", name))
	e.Finding = e.Finding.Differ(was.String(), now.String())
	return e
}

func resealError(what string) *verdict.Error {
	return verdict.Refuse(verdict.Equivocation, releasemanifest.Name, "this version is sealed already, but %s", what).
		Advise("other bytes need a new version; if nothing was published yet, import them into another --state; if only evidence has changed, use --amend")
}
