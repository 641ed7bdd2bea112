package manifest

import (
	"fmt"
	"iter"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Opener returns the bytes of a page, at most [MaxPage], by its name beside the
// manifest. If there is no such page, the error has the code MISSING.
type Opener func(name string) ([]byte, error)

// Root is the signed statement of a manifest without the list: it binds the
// pages of the list by digest. Until the list was read it is not a manifest.
type Root struct {
	head    Manifest
	entries []Artifact
	pages   []Page
}

// ParseRoot reads the signed statement of a manifest. [Root.Entries] then reads
// the list, from the statement itself or from its pages.
func ParseRoot(s intoto.Statement) (Root, error) {
	if s.PredicateType() != releasemanifest.PredicateType {
		return Root{}, verdict.Refuse(verdict.PredicateType, "manifest", "predicate type %q, want that of a release manifest", s.PredicateType())
	}
	// Verifiers accept extra fields in foreign statements; ours is parsed
	// strictly.
	s, err := s.Strict()
	if err != nil {
		return Root{}, err
	}
	var wire releasemanifest.Predicate
	if err := strictjson.Unmarshal(s.Predicate(), &wire); err != nil {
		return Root{}, verdict.Wrap(verdict.ManifestParse, "manifest", err)
	}
	for name := range wire.Critical {
		if !slices.Contains(critical, name) {
			return Root{}, verdict.Refuse("MANIFEST_CRITICAL", "manifest", "critical field %q is not supported by this version of the program", name)
		}
	}
	var r Root
	if r.head, err = fromWire(wire); err != nil {
		return Root{}, verdict.Wrap(verdict.ManifestParse, "manifest", err)
	}
	if len(wire.Pages) > 0 {
		r.pages, err = pagesOf(s.Subjects(), wire)
		r.head.Pages = r.pages
		if err == nil {
			r.head.Former, err = formerPages(wire.Extensions[releasemanifest.FormerPages])
		}
	} else {
		r.entries, err = r.head.bind(s.Subjects(), wire.Artifacts)
		order.Sort(r.entries, byName)
	}
	if err != nil {
		return Root{}, err
	}
	return r, nil
}

// pagesOf joins each page with the subject of its name, and refuses a list of
// pages that leaves the entries of the release ambiguous.
func pagesOf(subjects []intoto.Subject, wire releasemanifest.Predicate) ([]Page, error) {
	if len(wire.Artifacts) > 0 || len(subjects) != len(wire.Pages) || len(wire.Pages) > maxPages {
		return nil, verdict.Refuse(verdict.ManifestParse, "manifest", "%d pages, %d subjects and %d entries of its own; want a subject for each page, at most %d, and no other entry",
			len(wire.Pages), len(subjects), len(wire.Artifacts), maxPages)
	}
	sets := make(map[string]digest.Set, len(subjects))
	for _, s := range subjects {
		sets[s.Name] = s.Digests
	}
	pages, seen := make([]Page, 0, len(wire.Pages)), map[string]bool{}
	for i, w := range wire.Pages {
		p := Page{Name: w.Name, Digests: sets[w.Name], First: w.First, Last: w.Last, Count: w.Count}
		sum, err := digest.ParseHex(digest.SHA256, w.SHA256)
		switch {
		case seen[w.Name]:
			return nil, verdict.Refuse("PAGE_TWICE", w.Name, "the manifest lists the page twice")
		case err != nil || !p.Digests.SHA256.Equal(sum) || p.Digests.SHA512.IsZero() || w.Name != PageName(sum):
			return nil, verdict.Refuse(verdict.ManifestParse, w.Name, "name, digest and subject of the page do not agree")
		case w.Count < 1 || w.Count > PageEntries || w.First > w.Last || w.Count == 1 != (w.First == w.Last):
			return nil, verdict.Refuse(verdict.ManifestParse, w.Name, "the page has %d entries from %q to %q; want 1 to %d, sorted", w.Count, w.First, w.Last, PageEntries)
		case i > 0 && w.First < pages[i-1].First:
			return nil, verdict.Refuse("PAGE_ORDER", w.Name, "the page begins before the previous page")
		case i > 0 && w.First <= pages[i-1].Last:
			return nil, verdict.Refuse("PAGE_OVERLAP", w.Name, "the page begins at %q, before the end of the previous page at %q", w.First, pages[i-1].Last)
		}
		seen[w.Name] = true
		pages = append(pages, p)
	}
	return pages, nil
}

// Head is the manifest without its list.
func (r Root) Head() Manifest { return r.head }

// Entries reads the list, sorted by name and one page at a time. An error ends
// it, and the entries before the error must not be used. A page that is
// missing, changed, out of order or lists other entries is an error.
func (r Root) Entries(open Opener) iter.Seq2[Artifact, error] {
	return func(yield func(Artifact, error) bool) {
		for _, a := range r.entries {
			if !yield(a, nil) {
				return
			}
		}
		words := map[string]string{}
		for i := range r.pages {
			entries, err := r.read(&r.pages[i], open, words)
			if err != nil {
				yield(Artifact{}, err)
				return
			}
			for _, a := range entries {
				if !yield(a, nil) {
					return
				}
			}
		}
	}
}

func (r Root) read(p *Page, open Opener, words map[string]string) ([]Artifact, error) {
	raw, err := open(p.Name)
	if err != nil && verdict.FindingOf(p.Name, err).Code == verdict.Missing {
		return nil, verdict.Refuse("PAGE_MISSING", p.Name, "a page of the manifest is missing, so its entries are unknown")
	}
	if err != nil {
		return nil, err
	}
	if got := digest.SetOf(raw); len(raw) > MaxPage || !got.Equal(p.Digests) {
		return nil, &verdict.Error{Finding: verdict.Find("PAGE_TAMPERED", p.Name, "the page has another digest than the signed manifest names").
			Differ(p.Digests.SHA256.String(), got.SHA256.String())}
	}
	entries, err := r.parsePage(p, raw, words)
	if err != nil {
		return nil, err
	}
	switch first, last := entries[0].Name, entries[len(entries)-1].Name; {
	case !slices.IsSortedFunc(entries, byName):
		return nil, verdict.Refuse("PAGE_ORDER", p.Name, "the entries of the page are not sorted by name")
	case first != p.First || last != p.Last || len(entries) != p.Count:
		return nil, &verdict.Error{Finding: verdict.Find("PAGE_RANGE", p.Name, "the page has other entries than the manifest names").
			Differ(extent(p.Count, p.First, p.Last), extent(len(entries), first, last))}
	}
	p.Size = int64(len(raw))
	return entries, nil
}

func (r Root) parsePage(p *Page, raw []byte, words map[string]string) ([]Artifact, error) {
	s, err := intoto.Parse(raw)
	if err != nil {
		return nil, err
	}
	if s.PredicateType() != releasemanifest.PageType {
		return nil, verdict.Refuse(verdict.PredicateType, p.Name, "predicate type %q, want that of a manifest page", s.PredicateType())
	}
	var wire releasemanifest.PagePredicate
	if err := strictjson.Unmarshal(s.Predicate(), &wire); err != nil {
		return nil, verdict.Wrap(verdict.ManifestParse, p.Name, err)
	}
	if wire.Name != r.head.Name || wire.Version != r.head.Version.String() {
		return nil, verdict.Refuse(verdict.Version, p.Name, "the page is for %s %s, not for %s", wire.Name, wire.Version, r.head.title())
	}
	for i := range wire.Artifacts {
		intern(words, &wire.Artifacts[i])
	}
	return r.head.bind(s.Subjects(), wire.Artifacts)
}

// intern keeps one copy of words that many entries have, so that an entry does
// not keep its page's text in memory.
func intern(words map[string]string, e *releasemanifest.Artifact) {
	for _, word := range []*string{&e.Class, &e.Place, &e.MediaType, &e.Platform, &e.Repository, &e.Step, &e.Provenance} {
		kept, known := words[*word]
		if !known {
			kept = strings.Clone(*word)
			words[kept] = kept
		}
		*word = kept
	}
}

// count returns the number of entries.
func (r Root) count() int {
	n := len(r.entries)
	for _, p := range r.pages {
		n += p.Count
	}
	return n
}

func extent(n int, first, last string) string {
	return fmt.Sprintf("%s from %q to %q", plural.Of(n, "entry"), first, last)
}
