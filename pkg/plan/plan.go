package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/version"
)

// Class is the kind of an artifact; it decides what evidence it needs.
type Class string

// The classes.
const (
	Binary     Class = "binary"
	Archive    Class = "archive"
	Other      Class = "file"
	Image      Class = "image"
	ImageChild Class = "image-child"
	SBOM       Class = "sbom"
	Provenance Class = "provenance"
	Signature  Class = "signature"
	ConfigFile Class = "config"
	Sums       Class = "sums"
)

// Media types of artifacts.
const (
	MediaBundle = "application/vnd.dev.sigstore.bundle.v0.3+json"
	MediaSPDX   = "application/spdx+json"
	mediaOctet  = "application/octet-stream"
	mediaGzip   = "application/gzip"
	mediaYAML   = "application/yaml"
	mediaText   = "text/plain"
	mediaIndex  = "application/vnd.oci.image.index.v1+json"
	mediaImage  = "application/vnd.oci.image.manifest.v1+json"
)

// OutputDir is where a step writes its outputs, seen from the source tree that
// it runs in; {out} in release.yaml.
const OutputDir = "../out"

// Artifact is one thing that will exist, by name. Files have the name they get
// in the file place; images are named oci/REPOSITORY and their platforms
// oci/REPOSITORY/OS/ARCH.
type Artifact struct {
	Name       string   `json:"name"`
	Class      Class    `json:"class"`
	MediaType  string   `json:"mediaType"`
	Platform   string   `json:"platform,omitempty"`
	Step       string   `json:"step,omitempty"`
	Repository string   `json:"repository,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Of         string   `json:"of,omitempty"`
}

// IsImage reports whether the artifact lives in the registry.
func (a Artifact) IsImage() bool { return a.Class == Image || a.Class == ImageChild }

// IsBuilt reports whether a step makes the artifact, so that it needs
// provenance.
func (a Artifact) IsBuilt() bool { return a.Step != "" && a.Class != Provenance }

// Step is one step of the plan, expanded.
type Step struct {
	Name     string            `json:"name"`
	Instance string            `json:"instance"`
	Each     map[string]string `json:"each,omitempty"`
	Run      []string          `json:"run,omitempty"`
	Env      []string          `json:"env,omitempty"`
	Archive  *ArchiveStep      `json:"archive,omitempty"`
	Image    *ImageStep        `json:"image,omitempty"`
	Outputs  []string          `json:"outputs"`
}

// ArchiveStep packs files under one root directory.
type ArchiveStep struct {
	Root string   `json:"root"`
	Add  []string `json:"add,omitempty"`
	Take []string `json:"take"`
}

// ImageStep assembles one image for several platforms.
type ImageStep struct {
	Base       string          `json:"base"`
	Repository string          `json:"repository"`
	Platforms  []PlatformFiles `json:"platforms"`
	Entrypoint []string        `json:"entrypoint"`
}

// PlatformFiles maps paths in the image to artifacts, for one platform.
type PlatformFiles struct {
	Platform string            `json:"platform"`
	Files    map[string]string `json:"files"`
}

// Plan is everything that a release will consist of, artifacts sorted by name.
type Plan struct {
	Name       string          `json:"name"`
	Version    version.Version `json:"version"`
	Repository string          `json:"repository"`
	Files      string          `json:"files"`
	Images     string          `json:"images,omitempty"`
	Locked     bool            `json:"locked"`
	Steps      []Step          `json:"steps"`
	Artifacts  []Artifact      `json:"artifacts"`
}

// Expand makes the plan of one version.
func (c Config) Expand(v version.Version) (Plan, error) {
	if v.IsZero() {
		return Plan{}, verdict.Refuse(verdict.Usage, "version", "no version was given")
	}
	p := Plan{
		Name: c.Name, Version: v, Repository: c.Source.Repository,
		Files:  strings.ReplaceAll(c.Places.Files, "{version}", v.String()),
		Images: strings.ReplaceAll(c.Places.Images, "{version}", v.String()),
		Locked: c.Lock != "",
	}
	for _, s := range c.Steps {
		if err := p.expandStep(c, s); err != nil {
			return Plan{}, verdict.Wrap(verdict.ConfigParse, ConfigName, fmt.Errorf("step %q: %w", s.Name, err))
		}
	}
	p.addEvidence()
	if err := p.check(); err != nil {
		return Plan{}, verdict.Wrap(verdict.ConfigParse, ConfigName, err)
	}
	return p, nil
}

// Find returns the artifact of a name.
func (p Plan) Find(name string) (Artifact, bool) {
	i := p.index(name)
	if i < 0 {
		return Artifact{}, false
	}
	return p.Artifacts[i], true
}

// index finds a name, or is negative. Expand leaves the artifacts sorted.
func (p Plan) index(name string) int {
	i, found := slices.BinarySearchFunc(p.Artifacts, name, func(a Artifact, n string) int { return strings.Compare(a.Name, n) })
	if !found {
		return -1
	}
	return i
}

// Digest names the plan: equal plans have equal digests.
func (p Plan) Digest() digest.Digest {
	raw, err := json.Marshal(p)
	if err != nil {
		panic("plan: a plan of strings always encodes: " + err.Error())
	}
	return digest.Of(digest.SHA256, raw)
}

// ProvenanceName is the file that carries the provenance of a step.
func ProvenanceName(instance string) string { return "provenance/" + instance + ".sigstore.json" }

// SBOMName is the file that carries the SBOM of an artifact.
func SBOMName(artifact string) string {
	if image, ok := strings.CutPrefix(artifact, "oci/"); ok {
		artifact = "image/" + image
	}
	return artifact + ".spdx.json"
}

// BundleName is the file that carries the signature of an artifact.
func BundleName(artifact string) string { return artifact + ".sigstore.json" }

func (p *Plan) expandStep(c Config, s StepConfig) error {
	if s.Image != nil {
		return p.expandImage(c, s)
	}
	if s.Each.Platform == "" {
		return p.expandInstance(s, s.Name, p.vars())
	}
	for _, platform := range c.Lists[s.Each.Platform] {
		vars, err := p.platformVars(platform)
		if err != nil {
			return err
		}
		instance := s.Name + "-" + strings.ReplaceAll(platform, "/", "-")
		if err := p.expandInstance(s, instance, vars); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) expandInstance(s StepConfig, instance string, vars map[string]string) error {
	step := Step{Name: s.Name, Instance: instance}
	if vars["platform"] != "" {
		step.Each = map[string]string{"platform": vars["platform"]}
	}
	x := &expander{vars: vars}
	step.Run = x.all(s.Run)
	for _, k := range slices.Sorted(maps.Keys(s.Env)) {
		step.Env = append(step.Env, k+"="+x.one(s.Env[k]))
	}
	if s.Archive != nil {
		step.Archive = &ArchiveStep{Root: x.one(s.Archive.Root), Add: x.all(s.Archive.Add), Take: x.all(s.Archive.Take)}
	}
	for _, o := range s.Outputs {
		a := Artifact{Name: x.one(o.Name), Class: Class(o.Class), Platform: vars["platform"], Step: instance, MediaType: mediaOctet}
		if a.Class == Archive {
			a.MediaType = mediaGzip
		}
		step.Outputs = append(step.Outputs, a.Name)
		p.Artifacts = append(p.Artifacts, a)
	}
	p.Steps = append(p.Steps, step)
	return x.err
}

func (p *Plan) expandImage(c Config, s StepConfig) error {
	x := &expander{vars: p.vars()}
	repository := x.one(s.Outputs[0].Name)
	image := &ImageStep{Base: s.Image.Base, Repository: repository, Entrypoint: x.all(s.Image.Entrypoint)}
	index := Artifact{
		Name: "oci/" + repository, Class: Image, MediaType: mediaIndex, Step: s.Name,
		Repository: repository, Tags: []string{p.Version.String()},
	}
	step := Step{Name: s.Name, Instance: s.Name, Image: image, Outputs: []string{index.Name}}
	p.Artifacts = append(p.Artifacts, index)
	for _, platform := range c.Lists[s.Image.Platforms] {
		vars, err := p.platformVars(platform)
		if err != nil {
			return err
		}
		px := &expander{vars: vars}
		files := px.files(s.Image.Files)
		image.Platforms = append(image.Platforms, PlatformFiles{Platform: platform, Files: files})
		child := Artifact{
			Name: index.Name + "/" + platform, Class: ImageChild, MediaType: mediaImage, Step: s.Name,
			Platform: platform, Repository: repository, Of: index.Name,
		}
		step.Outputs = append(step.Outputs, child.Name)
		p.Artifacts = append(p.Artifacts, child)
		if px.err != nil {
			return px.err
		}
	}
	p.Steps = append(p.Steps, step)
	return x.err
}

// addEvidence plans everything that proves something about the outputs.
func (p *Plan) addEvidence() {
	outputs := slices.Clone(p.Artifacts)
	for _, s := range p.Steps {
		p.Artifacts = append(p.Artifacts, Artifact{Name: ProvenanceName(s.Instance), Class: Provenance, MediaType: MediaBundle, Step: s.Instance})
	}
	for _, a := range outputs {
		if a.Class != ImageChild {
			p.Artifacts = append(p.Artifacts, Artifact{Name: SBOMName(a.Name), Class: SBOM, MediaType: MediaSPDX, Of: a.Name})
		}
		if !a.IsImage() {
			p.addBundle(a.Name)
		}
	}
	p.Artifacts = append(p.Artifacts, Artifact{Name: p.Name + ".spdx.json", Class: SBOM, MediaType: MediaSPDX})
	p.Artifacts = append(p.Artifacts, Artifact{Name: ConfigName, Class: ConfigFile, MediaType: mediaYAML})
	if p.Locked {
		p.Artifacts = append(p.Artifacts, Artifact{Name: LockName, Class: ConfigFile, MediaType: mediaYAML})
	}
	for _, name := range []string{"SHA256SUMS", "SHA512SUMS"} {
		p.Artifacts = append(p.Artifacts, Artifact{Name: name, Class: Sums, MediaType: mediaText})
		p.addBundle(name)
	}
	slices.SortFunc(p.Artifacts, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) })
}

func (p *Plan) addBundle(of string) {
	p.Artifacts = append(p.Artifacts, Artifact{Name: BundleName(of), Class: Signature, MediaType: MediaBundle, Of: of})
}

func (p *Plan) vars() map[string]string {
	return map[string]string{"version": p.Version.String(), "name": p.Name, "out": OutputDir}
}

func (p *Plan) platformVars(platform string) (map[string]string, error) {
	goos, arch, ok := strings.Cut(platform, "/")
	if !ok || !isName(goos) || !isName(arch) {
		return nil, fmt.Errorf("platform %q: want os/arch", platform)
	}
	vars := p.vars()
	vars["platform"], vars["os"], vars["arch"], vars["exe"] = platform, goos, arch, ""
	if goos == "windows" {
		vars["exe"] = ".exe"
	}
	return vars, nil
}

// check refuses a plan whose names clash or whose steps take what no earlier
// step makes.
func (p *Plan) check() error {
	for i, a := range p.Artifacts {
		if i > 0 && a.Name == p.Artifacts[i-1].Name {
			return fmt.Errorf("two artifacts are named %q", a.Name)
		}
		if err := checkArtifactName(a); err != nil {
			return err
		}
		if dir := path.Dir(a.Name); !a.IsImage() && p.hasFile(dir) {
			return fmt.Errorf("artifact %q: %q is an artifact too, not a directory", a.Name, dir)
		}
	}
	return p.checkInputs()
}

// hasFile reports whether a path or one above it is an artifact.
func (p *Plan) hasFile(name string) bool {
	for ; name != "."; name = path.Dir(name) {
		if p.index(name) >= 0 {
			return true
		}
	}
	return false
}

// checkInputs refuses a step that takes what no earlier step makes. An image
// is no file, so no step can take it; an archive holds each name once.
func (p *Plan) checkInputs() error {
	made := map[string]bool{}
	for _, s := range p.Steps {
		for _, name := range s.Inputs() {
			if !made[name] {
				return fmt.Errorf("step %q takes %q, which no earlier step makes", s.Instance, name)
			}
		}
		if s.Archive != nil {
			if err := s.Archive.check(); err != nil {
				return fmt.Errorf("step %q: %w", s.Instance, err)
			}
		}
		for _, name := range s.Outputs {
			made[name] = s.Image == nil
		}
	}
	return nil
}

// check refuses two entries of one name. Outputs stand under the root by the
// last part of their names, files of the source by their whole path.
func (a ArchiveStep) check() error {
	seen := map[string]bool{}
	for _, name := range a.Add {
		if path.Clean(name) != name || path.IsAbs(name) || name == "." || strings.HasPrefix(name, "..") {
			return fmt.Errorf("archive.add %q: want a clean path of the source", name)
		}
	}
	entries := slices.Clone(a.Add)
	for _, name := range a.Take {
		entries = append(entries, path.Base(name))
	}
	for _, name := range entries {
		if seen[name] {
			return fmt.Errorf("archive: two entries are named %q", name)
		}
		seen[name] = true
	}
	return nil
}

// Inputs are the artifacts of earlier steps that the step takes.
func (s Step) Inputs() []string {
	var names []string
	if s.Archive != nil {
		names = append(names, s.Archive.Take...)
	}
	if s.Image != nil {
		for _, pf := range s.Image.Platforms {
			names = append(names, slices.Sorted(maps.Values(pf.Files))...)
		}
	}
	return names
}
