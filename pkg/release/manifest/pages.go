package manifest

import (
	"encoding/json"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PageEntries is how many entries a page has at most. A manifest with more
// entries has pages.
const PageEntries = 1000

// maxPages is how many pages a manifest has at most: two million names.
const maxPages = 2000

// maxFormer is how many pages of superseded revisions a manifest names at most.
const maxFormer = 10 * maxPages

// MaxPage is the largest page in bytes that a reader accepts.
const MaxPage = 8 << 20

// PageMedia is the media type of a page, an in-toto statement.
const PageMedia = "application/vnd.in-toto+json"

// Page is one page of a manifest as its root names it: a file beside the
// manifest's bundle that lists Count entries, from First to Last by name.
type Page struct {
	Name        string
	Digests     digest.Set
	First, Last string
	Count       int
	Size        int64 // as it was read; not in the root
}

// PageName is the name of the page with a digest. Since its digest names it, a
// page is never overwritten, and revisions share equal pages.
func PageName(sha256 digest.Digest) string { return releasemanifest.PageDir + sha256.Hex() + ".json" }

// IsPaged reports whether the manifest is sealed as a root with pages.
func (m Manifest) IsPaged() bool { return len(m.Artifacts) > PageEntries }

// Seal encodes the manifest once: it calls put for each page, if there are any,
// and returns the statement to sign. Entries are sorted by name, so equal
// manifests are equal bytes. Only one page at a time is in memory.
func (m Manifest) Seal(put func(p Page, raw []byte) error) (intoto.Statement, error) {
	if m.IsPaged() {
		return m.SealPages(PageEntries, put)
	}
	wire, err := m.head()
	if err != nil {
		return intoto.Statement{}, err
	}
	subjects, entries := encode(m.sorted())
	wire.Artifacts = entries
	return intoto.New(releasemanifest.PredicateType, subjects, wire)
}

// SealPages is [Manifest.Seal] with pages of the given number of entries, even
// if one would do.
func (m Manifest) SealPages(entries int, put func(p Page, raw []byte) error) (intoto.Statement, error) {
	wire, err := m.head()
	if err != nil {
		return intoto.Statement{}, err
	}
	wire.Artifacts = []releasemanifest.Artifact{}
	var subjects []intoto.Subject
	for chunk := range slices.Chunk(m.sorted(), entries) {
		raw, err := m.page(chunk)
		if err != nil {
			return intoto.Statement{}, err
		}
		p := Page{
			Digests: digest.SetOf(raw), First: chunk[0].Name, Last: chunk[len(chunk)-1].Name, Count: len(chunk), Size: int64(len(raw)),
		}
		p.Name = PageName(p.Digests.SHA256)
		if err := put(p, raw); err != nil {
			return intoto.Statement{}, err
		}
		subjects = append(subjects, intoto.Subject{Name: p.Name, Digests: p.Digests})
		wire.Pages = append(wire.Pages, releasemanifest.Page{
			Name: p.Name, SHA256: p.Digests.SHA256.Hex(), First: p.First, Last: p.Last, Count: p.Count,
		})
	}
	if err := m.addFormer(&wire); err != nil {
		return intoto.Statement{}, err
	}
	return intoto.New(releasemanifest.PredicateType, subjects, wire)
}

// addFormer names the pages of superseded revisions that are not pages of this
// one.
func (m Manifest) addFormer(wire *releasemanifest.Predicate) error {
	former := slice.Unique(m.Former)
	for _, p := range wire.Pages {
		former = slices.DeleteFunc(former, func(name string) bool { return name == p.Name })
	}
	if len(former) == 0 {
		return nil
	}
	raw, err := json.Marshal(former)
	extend(wire, releasemanifest.FormerPages, raw)
	return err
}

// formerPages reads the names of pages of superseded revisions. A name that is not a
// page's is refused, since it would be exempt from the closure of the place.
func formerPages(raw json.RawMessage) (names []string, err error) {
	if raw == nil {
		return nil, nil
	}
	if err := strictjson.Unmarshal(raw, &names); err != nil {
		return nil, err
	}
	for _, name := range names {
		hex, is := strings.CutSuffix(strings.TrimPrefix(name, releasemanifest.PageDir), ".json")
		sum, err := digest.ParseHex(digest.SHA256, hex)
		if err != nil || !is || name != PageName(sum) || len(names) > maxFormer {
			return nil, verdict.Refuse(verdict.ManifestParse, "manifest", "%d former pages, among them %.100q; want at most %d, each named by its digest", len(names), name, maxFormer)
		}
	}
	return names, nil
}

// page is a statement about some of the artifacts. It names its release, for
// those who sign a page on its own.
func (m Manifest) page(artifacts []Artifact) ([]byte, error) {
	subjects, entries := encode(artifacts)
	s, err := intoto.New(releasemanifest.PageType, subjects, releasemanifest.PagePredicate{Name: m.Name, Version: m.Version.String(), Artifacts: entries})
	return s.Raw(), err
}

func encode(artifacts []Artifact) ([]intoto.Subject, []releasemanifest.Artifact) {
	subjects := make([]intoto.Subject, 0, len(artifacts))
	entries := make([]releasemanifest.Artifact, 0, len(artifacts))
	for _, a := range artifacts {
		subjects = append(subjects, intoto.Subject{Name: a.Name, Digests: a.Digests})
		entries = append(entries, toWire(a))
	}
	return subjects, entries
}

func (m Manifest) sorted() []Artifact {
	artifacts := slices.Clone(m.Artifacts)
	order.Sort(artifacts, byName)
	return artifacts
}

func byName(a, b Artifact) int { return strings.Compare(a.Name, b.Name) }
