package plan

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// planSchema names the JSON form of a [Plan].
const planSchema = "waybill/plan/v1"

// outputDir is the directory for the outputs of a step, relative to its source
// tree; {out} in release.yaml.
const outputDir = "../out"

// Artifact is one file or image that the release will contain, by name. A file
// has its name in the file place; an image is named oci/REPOSITORY, and its
// platforms oci/REPOSITORY/OS/ARCH.
type Artifact struct {
	Name       string     `json:"name"`
	Class      Class      `json:"class"`
	MediaType  string     `json:"mediaType"`
	Place      string     `json:"place,omitempty"` // files or images
	Platform   string     `json:"platform,omitempty"`
	Step       string     `json:"step,omitempty"` // the instance that makes it
	Repository string     `json:"repository,omitempty"`
	Tags       []string   `json:"tags,omitempty"`
	Of         string     `json:"of,omitempty"`
	Evidence   []Evidence `json:"evidence,omitempty"`
}

// Evidence is one file or signature that will be published about an artifact.
// The signature of an image is attached in the registry and has no name.
type Evidence struct {
	Kind Kind   `json:"kind"`
	Name string `json:"name,omitempty"`
}

// IsImage reports whether the artifact is in the registry.
func (a Artifact) IsImage() bool { return a.Class == Image || a.Class == ImageChild }

// IsBuilt reports whether a step makes the artifact, so that it needs
// provenance.
func (a Artifact) IsBuilt() bool {
	return a.Step != "" && a.Class != Provenance && a.Class != ProvenanceV02
}

// InIndex is the platform of the artifact within an image index: empty for the
// index itself, and for an image of a single platform.
func (a Artifact) InIndex() string {
	if a.Class == ImageChild {
		return a.Platform
	}
	return ""
}

// Has reports whether evidence of a kind is planned.
func (a Artifact) Has(k Kind) bool {
	return slices.ContainsFunc(a.Evidence, func(e Evidence) bool { return e.Kind == k })
}

// Step is one expanded step of the plan. Nothing that it may use is defined
// elsewhere, except the digests in release.lock.yaml.
type Step struct {
	Name      string            `json:"name"`
	Instance  string            `json:"instance"`
	Each      map[string]string `json:"each,omitempty"`
	Run       []string          `json:"run,omitempty"`
	Env       []string          `json:"env,omitempty"`
	Tools     []string          `json:"tools,omitempty"`
	Root      string            `json:"root,omitempty"`    // [Scratch] runs without the machine's programs
	Network   []string          `json:"network,omitempty"` // HOST:PORT; none means no network
	Limits    *Limits           `json:"limits,omitempty"`
	Take      []string          `json:"take,omitempty"`      // outputs of earlier steps, under [InputDir]
	Downloads []string          `json:"downloads,omitempty"` // names of [Plan.Downloads], also there
	Archive   *ArchiveStep      `json:"archive,omitempty"`
	Image     *ImageStep        `json:"image,omitempty"`
	Checksums *ChecksumStep     `json:"checksums,omitempty"`
	Outputs   []string          `json:"outputs"`
}

// ArchiveStep packs files under one root directory: files of the source by
// their paths, outputs of earlier steps by the last part of their names, or the
// whole source.
type ArchiveStep struct {
	Zip    bool     `json:"zip,omitempty"` // by default it is a tar.gz
	Root   string   `json:"root"`
	Add    []string `json:"add,omitempty"`
	Take   []string `json:"take,omitempty"`
	Source bool     `json:"source,omitempty"`
}

// ImageStep assembles one image for several platforms from a base, or takes the
// image in an archive: an earlier output, or a download. The archive must
// contain exactly these platforms.
type ImageStep struct {
	Base       string          `json:"base,omitempty"`
	Import     string          `json:"import,omitempty"`
	Repository string          `json:"repository"`
	Platforms  []PlatformFiles `json:"platforms"`
	Entrypoint []string        `json:"entrypoint,omitempty"`
	User       string          `json:"user,omitempty"` // UID:GID; empty for that of the base
}

// Also is the repository with the image of one platform, or "".
func (i ImageStep) Also(platform string) string {
	return slice.First(i.Platforms, func(pf PlatformFiles) bool { return pf.Platform == platform }).Also
}

// PlatformFiles maps paths in the image to artifacts, for one platform. Also is
// the repository with that platform's image, or "".
type PlatformFiles struct {
	Platform string            `json:"platform"`
	Files    map[string]string `json:"files,omitempty"`
	Also     string            `json:"also,omitempty"`
}

// ChecksumStep lists digests of earlier outputs, in the form that sha256sum -c
// reads.
type ChecksumStep struct {
	Algorithm string   `json:"algorithm"`
	Take      []string `json:"take"`
}

// Owns says what in each place belongs to the release alone: everything under
// the address of the files, and these tags of every image repository.
type Owns struct {
	Files string   `json:"files"` // prefix
	Tags  []string `json:"tags,omitempty"`
}

// Documents are the SBOMs about the whole release.
type Documents struct {
	Release string `json:"release"`
	Source  string `json:"source,omitempty"`
	// Supplier supplies the artifacts, for [sbom.Input].
	Supplier string `json:"supplier,omitempty"`
}

// Plan is the complete contents of a release, artifacts sorted by name.
type Plan struct {
	Schema        string            `json:"schema"`
	Name          string            `json:"name"`
	Version       version.Version   `json:"version"`
	Tag           string            `json:"tag"`
	Repository    string            `json:"repository"`
	ReleaseCommit string            `json:"releaseCommit"`
	Parameters    map[string]string `json:"parameters,omitempty"`
	Files         string            `json:"files"`
	Images        string            `json:"images,omitempty"`
	Owns          Owns              `json:"owns"`
	Locked        bool              `json:"locked"`
	Modules       []string          `json:"modules,omitempty"`       // Go modules to fetch, which the lock pins, by directory
	Downloads     map[string]string `json:"downloads,omitempty"`     // other downloads: address by name
	ProvenanceV02 bool              `json:"provenanceV02,omitempty"` // write the provenance of each step in the legacy form too
	SBOMs         Documents         `json:"sboms"`
	Markers       []string          `json:"markers,omitempty"`
	Steps         []Step            `json:"steps"`
	Given         []Given           `json:"given,omitempty"` // outputs of another tool, in place of steps
	GivenImages   []Given           `json:"givenImages,omitempty"`
	Outside       []string          `json:"outside,omitempty"` // files of that tool that are not released
	Artifacts     []Artifact        `json:"artifacts"`

	legacy bool // see [Plan.WithLegacy]
}

// Find returns the artifact of a name.
func (p Plan) Find(name string) (Artifact, bool) {
	i := p.index(name)
	if i < 0 {
		return Artifact{}, false
	}
	return p.Artifacts[i], true
}

// index finds a name, or is negative. Expand sorts the artifacts.
func (p Plan) index(name string) int {
	i, found := slices.BinarySearchFunc(p.Artifacts, name, func(a Artifact, n string) int { return strings.Compare(a.Name, n) })
	if !found {
		return -1
	}
	return i
}

// Digest identifies the plan: equal plans have equal digests. It depends on
// release.yaml, the version and the parameters alone, so anyone who has these
// can compute it.
func (p Plan) Digest() digest.Digest {
	raw, err := json.Marshal(p)
	if err != nil {
		panic("plan: a plan of strings always encodes: " + err.Error())
	}
	return digest.Of(digest.SHA256, raw)
}

// Inputs are the artifacts of earlier steps that the step takes.
func (s Step) Inputs() []string {
	names := slices.Clone(s.Take)
	if s.Archive != nil {
		names = append(names, s.Archive.Take...)
	}
	if s.Checksums != nil {
		names = append(names, s.Checksums.Take...)
	}
	if s.Image != nil {
		if s.Image.Import != "" && !slices.Contains(s.Downloads, s.Image.Import) {
			names = append(names, s.Image.Import)
		}
		for _, pf := range s.Image.Platforms {
			names = append(names, slices.Sorted(maps.Values(pf.Files))...)
		}
	}
	return names
}

// sort sorts the artifacts by name.
func (p *Plan) sort() {
	order.Sort(p.Artifacts, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) })
}

// nameError says which artifact clashes.
type nameError struct{ name, message string }

// Error is the message.
func (e *nameError) Error() string { return e.message }

// check refuses a plan whose names clash or whose steps take outputs that no
// earlier step makes.
func (p *Plan) check() error {
	for i, a := range p.Artifacts {
		if i > 0 && a.Name == p.Artifacts[i-1].Name {
			return &nameError{a.Name, "two artifacts are named " + quote(a.Name) + "; give one of them another name"}
		}
		if err := checkArtifactName(a); err != nil {
			return &nameError{a.Name, err.Error()}
		}
		if dir := path.Dir(a.Name); !a.IsImage() && p.hasFile(dir) {
			return &nameError{a.Name, "artifact " + quote(a.Name) + ": " + quote(dir) + " is an artifact too, not a directory"}
		}
		if err := p.checkNamed(a); err != nil {
			return err
		}
	}
	if err := p.checkDownloads(); err != nil {
		return err
	}
	return p.checkSteps()
}

// checkNamed refuses an artifact that refers to an unplanned one.
func (p *Plan) checkNamed(a Artifact) error {
	for _, name := range append([]string{a.Of}, slice.Map(a.Evidence, func(e Evidence) string { return e.Name })...) {
		if name != "" && p.index(name) < 0 {
			return &nameError{a.Name, "artifact " + quote(a.Name) + " names " + quote(name) + ", which is not planned"}
		}
	}
	return nil
}

// hasFile reports whether a path, or a parent of it, is an artifact.
func (p *Plan) hasFile(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if p.index(name) >= 0 {
			return true
		}
	}
	return false
}
