package manifest

import (
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// critical lists the critical fields that this reader supports; none so far.
var critical = []string{}

// Statement encodes the manifest once. Subjects and entries are sorted by name,
// so equal manifests are equal bytes. Of a manifest with pages it is the root;
// [Manifest.Seal] writes the pages.
func (m Manifest) Statement() (intoto.Statement, error) {
	return m.Seal(func(Page, []byte) error { return nil })
}

// head is the wire form without the list.
func (m Manifest) head() (releasemanifest.Predicate, error) {
	wire := releasemanifest.Predicate{
		Name: m.Name, Version: m.Version.String(), Channel: m.Version.Channel().String(),
		Revision: m.Revision, Change: m.Change, SealedOn: m.SealedOn,
		Source: releasemanifest.Source(m.Source),
		Config: releasemanifest.File{Path: plan.ConfigName, SHA256: m.Config.Hex()},
		Places: m.places(), Runs: []releasemanifest.Run{},
	}
	if !m.Expires.IsZero() {
		wire.Expires = &m.Expires
	}
	if !m.Supersedes.IsZero() {
		wire.Supersedes = m.Supersedes.String()
	}
	if !m.Lock.IsZero() {
		wire.Lock = &releasemanifest.File{Path: plan.LockName, SHA256: m.Lock.Hex()}
	}
	for _, r := range m.Runs {
		wire.Runs = append(wire.Runs, releasemanifest.Run{Kind: r.Kind, ID: r.ID, TraceID: r.TraceID})
	}
	if m.Withdrawn != nil {
		wire.Withdrawn = &releasemanifest.Withdrawal{Reason: m.Withdrawn.Reason, Use: m.Withdrawn.Use}
	}
	err := m.addRuns(&wire)
	return wire, err
}

func (m Manifest) places() []releasemanifest.Place {
	places := []releasemanifest.Place{{Kind: "files", URI: m.FilesURI, Scope: releasemanifest.Scope{Prefix: true}}}
	if m.ImagesURI != "" {
		places = append(places, releasemanifest.Place{
			Kind: "images", URI: m.ImagesURI, Scope: releasemanifest.Scope{Tags: []string{m.Version.ImageTag()}},
		})
	}
	return places
}

func toWire(a Artifact) releasemanifest.Artifact {
	place := "files"
	if a.IsImage() {
		place = "images"
	}
	return releasemanifest.Artifact{
		Name: a.Name, Class: string(a.Class), Place: place, Size: a.Size, MediaType: a.MediaType,
		Platform: a.Platform, Repository: a.Repository, Tags: a.Tags, Step: a.Step,
		Provenance: a.Provenance, SBOM: a.SBOM, Signature: a.Signature,
	}
}

// ReadManifest reads a manifest from its statement and, if it has pages, from
// the pages that open returns.
func ReadManifest(s intoto.Statement, open Opener) (Manifest, error) {
	r, err := ParseRoot(s)
	if err != nil {
		return Manifest{}, err
	}
	if len(r.pages) > 0 && open == nil {
		return Manifest{}, verdict.Refuse("MANIFEST_CRITICAL", "manifest", "the manifest has its list on %s beside it, which this command does not read", plural.Of(len(r.pages), "page"))
	}
	m := r.Head()
	m.Artifacts = make([]Artifact, 0, r.count())
	for a, err := range r.Entries(open) {
		if err != nil {
			return Manifest{}, err
		}
		m.Artifacts = append(m.Artifacts, a)
	}
	for _, check := range []func() error{m.checkEvidence, m.checkSidecars, m.checkConfig, m.checkCommit} {
		if err := check(); err != nil {
			return Manifest{}, err
		}
	}
	return m, nil
}

func fromWire(wire releasemanifest.Predicate) (Manifest, error) {
	v, err := version.Parse(wire.Version)
	if err != nil {
		return Manifest{}, err
	}
	m := Manifest{
		Name: wire.Name, Version: v, Revision: wire.Revision, Change: wire.Change,
		SealedOn: wire.SealedOn, Source: Source(wire.Source),
	}
	if wire.Channel != v.Channel().String() {
		return Manifest{}, verdict.Refuse(verdict.ManifestParse, "manifest", "channel %q, but %s is %s", wire.Channel, v, v.Channel())
	}
	if m.Name == "" || m.Revision < 1 || m.SealedOn.IsZero() || m.Source.Commit == "" {
		return Manifest{}, verdict.Refuse(verdict.ManifestParse, "manifest", "name, revision, sealedOn and source are required")
	}
	if wire.Expires != nil {
		if m.Expires = *wire.Expires; m.Expires.IsZero() {
			return Manifest{}, verdict.Refuse(verdict.ManifestParse, "manifest", "expires: %q is not a date", m.Expires.String())
		}
	}
	if m.Config, err = fileDigest(&wire.Config, plan.ConfigName); err != nil {
		return Manifest{}, err
	}
	if m.Lock, err = fileDigest(wire.Lock, plan.LockName); err != nil {
		return Manifest{}, err
	}
	if m.Supersedes, err = supersedes(wire); err != nil {
		return Manifest{}, err
	}
	if m.Runs, err = runsOf(wire); err != nil {
		return Manifest{}, err
	}
	if wire.Withdrawn != nil {
		if wire.Withdrawn.Reason == "" {
			return Manifest{}, verdict.Refuse(verdict.ManifestParse, "manifest", "withdrawn: a reason is required")
		}
		m.Withdrawn = &Withdrawal{Reason: wire.Withdrawn.Reason, Use: wire.Withdrawn.Use}
	}
	return m, m.readPlaces(wire.Places)
}

func (m *Manifest) readPlaces(places []releasemanifest.Place) error {
	for _, p := range places {
		switch {
		case p.Kind == "files" && p.URI != "" && m.FilesURI == "" && p.Scope.Prefix && len(p.Scope.Tags) == 0:
			m.FilesURI = p.URI
		case p.Kind == "images" && p.URI != "" && m.ImagesURI == "" && !p.Scope.Prefix && slices.Equal(p.Scope.Tags, []string{m.Version.ImageTag()}):
			m.ImagesURI = p.URI
		default:
			return verdict.Refuse(verdict.ManifestParse, "manifest", "place %q of kind %q is listed twice, or has an unknown scope", p.URI, p.Kind)
		}
	}
	if m.FilesURI == "" {
		return verdict.Refuse(verdict.ManifestParse, "manifest", "no place of kind files")
	}
	return nil
}

// bind joins each entry with the subject of its name, in the order of the
// entries.
func (m *Manifest) bind(subjects []intoto.Subject, entries []releasemanifest.Artifact) ([]Artifact, error) {
	sets := make(map[string]digest.Set, len(subjects))
	for _, s := range subjects {
		sets[s.Name] = s.Digests
	}
	if len(entries) != len(subjects) {
		return nil, verdict.Refuse(verdict.ManifestParse, "manifest", "%d subjects but %d entries", len(subjects), len(entries))
	}
	list := make([]Artifact, 0, len(entries))
	for _, e := range entries {
		set, ok := sets[e.Name]
		if !ok {
			return nil, verdict.Refuse(verdict.ManifestParse, e.Name, "the entry has no subject of its own")
		}
		delete(sets, e.Name)
		a := artifactOf(e, set)
		if err := m.checkEntry(a, e.Place); err != nil {
			return nil, err
		}
		list = append(list, a)
	}
	return list, nil
}

func artifactOf(e releasemanifest.Artifact, set digest.Set) Artifact {
	a := Artifact{
		Artifact: plan.Artifact{
			Name: e.Name, Class: plan.Class(e.Class), MediaType: e.MediaType, Platform: e.Platform,
			Step: e.Step, Repository: e.Repository, Tags: e.Tags,
		},
		Digests: set, Size: e.Size, Provenance: e.Provenance, SBOM: e.SBOM, Signature: e.Signature,
	}
	if a.Class == plan.ImageChild {
		a.Of = strings.TrimSuffix(a.Name, "/"+a.Platform)
	}
	return a
}
