package plan

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
)

// evidence plans the evidence about all outputs, and the files about the whole
// release.
func (x *expander) evidence(s scope) {
	p := x.p
	if len(x.c.given) > 0 {
		x.evidenceGiven()
		p.Artifacts = append(append(p.Artifacts, p.sbomList()...), x.statements(s)...)
		return
	}
	p.SBOMs = Documents{Release: p.Name + ".spdx.json", Supplier: x.c.sboms.supplier.s}
	if t := x.c.sboms.release; t.given() {
		p.SBOMs.Release = x.fill(t, s)
	}
	if t := x.c.sboms.source; t.given() {
		p.SBOMs.Source = x.fill(t, s)
	}
	// Check the number before making any.
	if n := x.countEvidence(); len(p.Artifacts)+n > maxArtifacts {
		x.fail(x.c.name.at, "%d artifacts with their evidence, more than %d; make fewer, or several releases", len(p.Artifacts)+n, maxArtifacts)
		return
	}
	more := make([]Artifact, 0, x.countEvidence())
	for _, step := range p.Steps {
		more = append(more, Artifact{Name: ProvenanceName(step.Instance), Class: Provenance, MediaType: MediaBundle, Place: placeFiles, Step: step.Instance})
		if p.ProvenanceV02 {
			more = append(more, Artifact{Name: ProvenanceV02Name(step.Instance), Class: ProvenanceV02, MediaType: MediaBundle, Place: placeFiles, Step: step.Instance})
		}
		x.origin[step.Instance] = x.origin[step.Outputs[0]]
	}
	for i := range p.Artifacts {
		more = x.evidenceOf(&p.Artifacts[i], more)
	}
	more = append(more, about(p.SBOMs.Release, SBOM, sbomMedia(p.SBOMs.Release), ""))
	if p.SBOMs.Source != "" {
		more = append(more, about(p.SBOMs.Source, SBOM, sbomMedia(p.SBOMs.Source), ""))
	}
	more = append(more, about(ConfigName, ConfigFile, mediaYAML, ""))
	if p.Locked {
		more = append(more, about(LockName, ConfigFile, mediaYAML, ""))
	}
	for _, name := range x.c.places.sums {
		sums := about(name, Sums, mediaText, "")
		sums.Evidence = []Evidence{{kindBundle, BundleName(name)}}
		more = append(more, sums, about(BundleName(name), Signature, MediaBundle, name))
	}
	p.Artifacts = append(p.Artifacts, more...)
	p.Artifacts = append(append(p.Artifacts, p.sbomList()...), x.statements(s)...)
}

// sbomList plans the signed list of the planned SBOMs, if there are any.
func (p *Plan) sbomList() []Artifact {
	if !slices.ContainsFunc(p.Artifacts, func(a Artifact) bool { return a.Class == SBOM }) {
		return nil
	}
	return []Artifact{about(sbomlist.Name, Signature, MediaBundle, "")}
}

// IsSBOMList reports whether the artifact is the signed list of the release's
// SBOMs.
func (a Artifact) IsSBOMList() bool { return a.Class == Signature && a.Name == sbomlist.Name }

// WithoutSBOMList is the plan of a release that was sealed before such lists
// were planned.
func (p Plan) WithoutSBOMList() Plan {
	p.Artifacts = slices.DeleteFunc(slices.Clone(p.Artifacts), Artifact.IsSBOMList)
	return p
}

// packslipName is the name in packslip's specification.
const packslipName = "packslip.sigstore.json"

// statements plans the files about the whole release that release.yaml asks for.
func (x *expander) statements(s scope) (all []Artifact) {
	for _, reader := range x.c.places.alsoFor {
		name, media := packslipName, MediaBundle
		if reader == "scorecard" {
			name, media = x.p.Name+".intoto.jsonl", mediaLines // which Scorecard looks for
		}
		all = append(all, about(name, Signature, media, ""))
	}
	if t := x.c.places.statement; t.given() {
		all = append(all, about(x.fill(t, s), Signature, MediaBundle, ""))
	}
	return all
}

// Statements are the planned files about the whole release for other readers. The
// in-toto release statement is the last: it lists the others.
func (p Plan) Statements() (all []Artifact) {
	for _, a := range p.Artifacts {
		if a.IsPackslip() || a.IsProvenanceLines() {
			all = slices.Insert(all, 0, a)
		} else if a.IsStatement() {
			all = append(all, a)
		}
	}
	return all
}

// IsStatement reports whether the artifact is a file about the whole release for
// other readers: the in-toto release statement, the packslip, or all provenance in
// one file.
func (a Artifact) IsStatement() bool {
	return a.Class == Signature && a.MediaType != mediaLegacy && a.Of == "" && !a.IsSBOMList()
}

// IsPackslip reports whether the artifact is the release in the format of packslip.
func (a Artifact) IsPackslip() bool { return a.IsStatement() && a.Name == packslipName }

// IsProvenanceLines reports whether the artifact repeats the provenance of all
// steps, a bundle on each line.
func (a Artifact) IsProvenanceLines() bool { return a.IsStatement() && a.MediaType == mediaLines }

// countEvidence is a lower limit of how many artifacts evidence will add.
func (x *expander) countEvidence() int {
	n := len(x.p.Steps) + 4 + 2*len(x.c.places.sums)
	if x.p.ProvenanceV02 {
		n += len(x.p.Steps)
	}
	for _, a := range x.p.Artifacts {
		if !a.IsImage() {
			n += 2 + len(x.c.places.sidecars)
		} else if a.Class == Image {
			n++
		}
	}
	return n
}

// evidenceOf plans the evidence of one output and its files.
func (x *expander) evidenceOf(a *Artifact, more []Artifact) []Artifact {
	class := a.Class
	if class == ImageChild {
		class = Image
	}
	kinds, said := x.c.defaults.evidence[class]
	if !said {
		kinds = kindsOf(class)
	}
	for _, k := range kinds {
		e := Evidence{Kind: k}
		switch {
		case k == KindProvenance:
			e.Name = ProvenanceName(a.Step)
		case k == KindSBOM && a.Class == ImageChild:
			continue // the SBOM of the index describes every platform
		case k == KindSBOM:
			e.Name = SBOMName(a.Name)
			more = append(more, about(e.Name, SBOM, mediaSPDX, a.Name))
		case k == kindBundle:
			e.Name = BundleName(a.Name)
			more = append(more, about(e.Name, Signature, MediaBundle, a.Name))
		}
		a.Evidence = append(a.Evidence, e)
	}
	if !a.IsImage() {
		for _, algorithm := range x.c.places.sidecars {
			more = append(more, about(a.Name+"."+algorithm, Checksum, mediaText, a.Name))
		}
	}
	return more
}

// about makes the artifact of a file that no step makes.
func about(name string, class Class, media, of string) Artifact {
	return Artifact{Name: name, Class: class, MediaType: media, Place: placeFiles, Of: of}
}

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// longestPart leaves room in a file name for the suffix of its evidence.
const longestPart = 200

func checkArtifactName(a Artifact) error {
	if err := releasemanifest.CheckName(a.Name); err != nil {
		return err
	}
	if a.IsImage() && strings.Trim(a.Repository, "abcdefghijklmnopqrstuvwxyz0123456789._/-") != "" {
		return fmt.Errorf("artifact %s: repositories have only lower-case letters, digits and ._-/", quote(a.Name))
	}
	if !a.IsBuilt() || a.IsImage() {
		return nil
	}
	for part := range strings.SplitSeq(a.Name, "/") {
		if strings.HasPrefix(part, "-") || strings.HasSuffix(part, ".") || len(part) > longestPart {
			return fmt.Errorf("artifact %s: the part %s is too long, looks like a flag, or is not a portable file name", quote(a.Name), quote(part))
		}
	}
	first, _, _ := strings.Cut(a.Name, "/")
	if slices.Contains([]string{"oci", "provenance", "image"}, first) {
		return fmt.Errorf("artifact %s: names under %s/ are reserved for the release itself", quote(a.Name), first)
	}
	return nil
}

// checkSteps refuses a step whose input no earlier step makes. An image is no
// file, so it cannot be an input; the names in an archive must be unique.
func (p *Plan) checkSteps() error {
	made, instances := map[string]bool{}, map[string]bool{}
	for _, s := range p.Steps {
		if instances[s.Instance] {
			return &nameError{s.Outputs[0], "two steps are named " + quote(s.Instance)}
		}
		instances[s.Instance] = true
		if err := p.checkInputs(s); err != nil {
			return err
		}
		for _, name := range s.Inputs() {
			if !made[name] {
				return &nameError{s.Outputs[0], "step " + quote(s.Instance) + " takes " + quote(name) + ", which no earlier step makes"}
			}
		}
		if s.Archive != nil {
			if err := s.Archive.check(); err != nil {
				return &nameError{s.Outputs[0], err.Error()}
			}
		}
		for _, name := range s.Outputs {
			made[name] = s.Image == nil
		}
	}
	return nil
}

// check refuses the source in a zip, because it may have symbolic links, which
// programs unpack from a zip in different ways; and two entries of one name. Outputs are placed below the root by
// the last part of their names, files of the source by their whole path.
func (a ArchiveStep) check() error {
	if a.Zip && a.Source {
		return errors.New("archive: a zip cannot hold the whole source, which may have links; use tar.gz")
	}
	seen := map[string]bool{}
	entries := slices.Clone(a.Add)
	for _, name := range a.Add {
		if !isSourcePath(name) {
			return fmt.Errorf("archive.add %s: want a clean path of the source", quote(name))
		}
	}
	for _, name := range a.Take {
		entries = append(entries, path.Base(name))
	}
	for _, name := range entries {
		if seen[name] {
			return fmt.Errorf("archive: two entries are named %s", quote(name))
		}
		seen[name] = true
	}
	return nil
}
