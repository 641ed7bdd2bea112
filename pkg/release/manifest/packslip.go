package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

type fields map[string]any // a JSON object

var (
	notInWords = pattern.Lazy(`[^a-z0-9_.-]`) // characters that a variant cannot have
	formats    = pattern.Lazy(`\.(tar\.(?:xz|gz|zst|bz2)|tgz|tar|zip|7z|deb|rpm|dmg|pkg|msi|msix|exe|appimage)$`)
)

// packslip is the manifest as a packslip: its files with what an installer needs
// to choose one.
//
// Specification: packslip, version 1 (draft), https://packslip.dev/release/v1.
func (m Manifest) packslip(repository string, existing intoto.Statement, signer identity.Identity) (intoto.Statement, error) {
	if signer.Issuer == "" {
		return intoto.Statement{}, verdict.Refuse(verdict.Identity, "packslip", "a packslip is signed by an identity of a certificate, not by a key").Advise("sign with an identity token, or leave out alsoFor: [packslip] in " + plan.ConfigName)
	}
	var was struct{ Predicate map[string]any }
	published := m.SealedOn
	_ = json.Unmarshal(existing.Raw(), &was) // of no use if it fails: then the statement is a new one
	text, _ := was.Predicate["published_at"].(string)
	if at, err := time.Parse(time.RFC3339, text); err == nil && at.Before(published) {
		published = at
	}
	var subjects []intoto.Subject
	var artifacts []fields
	kinds := map[string]int{}
	for _, a := range m.Files() {
		switch a.Class {
		case plan.Binary, plan.Archive, plan.Other:
			artifacts = append(artifacts, m.slipOf(a))
			kinds[a.Platform+formatOf(a)]++
			subjects = append(subjects, intoto.Subject{Name: a.Name, Digests: a.Digests})
		}
	}
	for _, s := range artifacts {
		// An installer chooses by platform and format among files without a variant.
		if a, _ := m.Find(s["name"].(string)); a.Platform == "" || kinds[a.Platform+formatOf(a)] > 1 {
			s["variant"] = strings.TrimLeft(notInWords().ReplaceAllString(strings.ToLower(a.Name), "-"), "_.-")
		}
	}
	return intoto.New("https://packslip.dev/release/v1", subjects, fields{
		"project": strings.TrimSuffix(strings.TrimPrefix(repository, "https://"), ".git"), "version": strings.TrimPrefix(m.Version.String(), "v"),
		"published_at": published.UTC().Format(time.RFC3339), "source": fields{"repo": repository, "commit": m.Source.Commit}, "artifacts": artifacts,
		"identity": fields{"scheme": "sigstore-oidc", "key_id": signer.Subject, "issuer": signer.Issuer},
	})
}

// slipOf describes one file, with the processors of Rust's target triples.
func (m Manifest) slipOf(a Artifact) fields {
	s := fields{"name": a.Name, "size": a.Size, "url": m.FilesURI + a.Name, "format": formatOf(a)}
	if a.Class == plan.Binary {
		s["bin"] = []string{a.Name}
	}
	if a.Provenance != "" {
		s["provenance"] = []string{m.FilesURI + a.Provenance}
	}
	if os, arch, has := strings.Cut(a.Platform, "/"); has {
		triples := map[string]string{"amd64": "x86_64", "arm64": "aarch64", "386": "i686", "ppc64le": "powerpc64le", "loong64": "loongarch64"}
		s["os"], s["arch"] = os, cmp.Or(triples[arch], strings.ReplaceAll(arch, "/", ""))
	}
	return s
}

// formatOf is the word for the form of a file; no installer unpacks a "file".
func formatOf(a Artifact) string {
	if a.Class == plan.Binary {
		return "raw"
	}
	if found := formats().FindStringSubmatch(strings.ToLower(a.Name)); found != nil {
		return found[1]
	}
	return "file"
}

// inTotoRelease is in-toto's release predicate, with the field that all its
// versions have.
type inTotoRelease struct {
	PURL string `json:"purl"`
}

// ForReaders is the manifest as the statement of a planned file about the whole
// release, a packslip or in-toto's release predicate. It says less than the manifest
// and is for other readers. An existing statement decides what the manifest leaves
// open: the version of in-toto's predicate, and when the packslip was made.
func (m Manifest) ForReaders(planned plan.Plan, file plan.Artifact, existing intoto.Statement, signer identity.Identity) (intoto.Statement, error) {
	if file.IsPackslip() {
		return m.packslip(planned.Repository, existing, signer)
	}
	kind := intoto.Release
	if older := "https://in-toto.io/attestation/release/v0.1"; existing.PredicateType() == older {
		kind = older
	}
	var subjects []intoto.Subject
	for _, a := range m.Artifacts {
		switch {
		case a.Name == file.Name:
		case a.IsImage() && a.Platform != "":
			subjects = append(subjects, intoto.Subject{Name: m.ImagesURI + "/" + a.Repository + "/" + a.Platform, Digests: a.Digests})
		case a.IsImage():
			subjects = append(subjects, intoto.Subject{Name: m.ImagesURI + "/" + a.Repository, Digests: a.Digests})
		default:
			subjects = append(subjects, intoto.Subject{Name: a.Name, Digests: a.Digests})
		}
	}
	return intoto.New(kind, subjects, inTotoRelease{PURL: "pkg:generic/" + m.Name + "@" + m.Version.String()})
}

// Provenance are the files with the provenance of the steps.
func (m Manifest) Provenance() []Artifact {
	return m.filter(func(a Artifact) bool { return a.Class == plan.Provenance })
}

// CheckLines refuses a file unless its lines are exactly the provenance files of
// the manifest.
func (m Manifest) CheckLines(name string, raw []byte) error {
	same := func(line []byte, a Artifact) bool { return digest.Of(digest.SHA256, line).Equal(a.Digests.SHA256) }
	if !slices.EqualFunc(bytes.Split(bytes.TrimSuffix(raw, []byte("\n")), []byte("\n")), m.Provenance(), same) {
		return verdict.Refuse(verdict.Conflict, name, "its lines differ from the provenance files that the manifest lists")
	}
	return nil
}

// SBOMList is the statement that lists the SBOMs of the release.
func (m Manifest) SBOMList() (intoto.Statement, error) {
	var sboms []intoto.Subject
	for _, a := range m.Artifacts {
		if a.Class == plan.SBOM {
			sboms = append(sboms, intoto.Subject{Name: a.Name, Digests: a.Digests})
		}
	}
	return sbomlist.Predicate{Name: m.Name, Version: m.Version.String()}.Of(sboms)
}
