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

// Opener returns the bytes of a page, at most [MaxPage] of them, by its name
// beside the manifest. The error for a page that is not there says MISSING.
type Opener func(name string) ([]byte, error)

// Root is the signed statement of a manifest: all that it says but its list,
// and what binds the list. It is no manifest before the list was read.
type Root struct {
	head    Manifest
	entries []Artifact
	pages   []Page
}

// ParseRoot reads the signed statement of a manifest. Whether it lists its
// artifacts itself or on pages, [Root.Entries] reads them.
func ParseRoot(s intoto.Statement) (Root, error) {
	if s.PredicateType() != releasemanifest.PredicateType {
		return Root{}, verdict.Refuse(verdict.PredicateType, "manifest", "says %q, not a release manifest", s.PredicateType())
	}
	// A verifier reads statements as others may write them; ours is strict.
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
			return Root{}, verdict.Refuse(verdict.ManifestCrit, "manifest", "critical field %q is unknown here", name)
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
			r.head.Former, err = former(wire.Extensions[releasemanifest.FormerPages])
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
// them that leaves open which entries the release has.
func pagesOf(subjects []intoto.Subject, wire releasemanifest.Predicate) ([]Page, error) {
	if len(wire.Artifacts) > 0 || len(subjects) != len(wire.Pages) || len(wire.Pages) > MaxPages {
		return nil, verdict.Refuse(verdict.ManifestParse, "manifest", "%d pages, %d subjects and %d entries of its own; want a subject for each page, at most %d, and no other entry",
			len(wire.Pages), len(subjects), len(wire.Artifacts), MaxPages)
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
			return nil, verdict.Refuse(verdict.PageTwice, w.Name, "the manifest lists this page twice")
		case err != nil || !p.Digests.SHA256.Equal(sum) || p.Digests.SHA512.IsZero() || w.Name != PageName(sum):
			return nil, verdict.Refuse(verdict.ManifestParse, w.Name, "a page, but its name, digest and subject are not of the same bytes")
		case w.Count < 1 || w.Count > PageEntries || w.First > w.Last || w.Count == 1 != (w.First == w.Last):
			return nil, verdict.Refuse(verdict.ManifestParse, w.Name, "a page of %d entries from %q to %q; want 1 to %d, sorted", w.Count, w.First, w.Last, PageEntries)
		case i > 0 && w.First < pages[i-1].First:
			return nil, verdict.Refuse(verdict.PageOrder, w.Name, "this page begins before the one ahead of it")
		case i > 0 && w.First <= pages[i-1].Last:
			return nil, verdict.Refuse(verdict.PageOverlap, w.Name, "this page begins at %q, before the one ahead of it ends at %q", w.First, pages[i-1].Last)
		}
		seen[w.Name] = true
		pages = append(pages, p)
	}
	return pages, nil
}

// Head is what the manifest says beside its list.
func (r Root) Head() Manifest { return r.head }

// Entries reads the list, sorted by name and one page at a time. After an error
// there is nothing more, and what came before it is part of no list: a page
// that is missing, changed, out of order, or lists what is not its own.
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

// read reads one page and holds it against what the root says of it.
func (r Root) read(p *Page, open Opener, words map[string]string) ([]Artifact, error) {
	raw, err := open(p.Name)
	if err != nil && verdict.FindingOf(p.Name, err).Code == verdict.Missing {
		return nil, verdict.Refuse(verdict.PageMissing, p.Name, "a page of the manifest is not beside it; what it lists cannot be known")
	}
	if err != nil {
		return nil, err
	}
	if got := digest.SetOf(raw); len(raw) > MaxPage || !got.Equal(p.Digests) {
		return nil, &verdict.Error{Finding: verdict.Find(verdict.PageTampered, p.Name, "the page is not the one that was signed for").
			Differ(p.Digests.SHA256.String(), got.SHA256.String())}
	}
	entries, err := r.parsePage(p, raw, words)
	if err != nil {
		return nil, err
	}
	switch first, last := entries[0].Name, entries[len(entries)-1].Name; {
	case !slices.IsSortedFunc(entries, byName):
		return nil, verdict.Refuse(verdict.PageOrder, p.Name, "the entries of the page are not sorted by name")
	case first != p.First || last != p.Last || len(entries) != p.Count:
		return nil, &verdict.Error{Finding: verdict.Find(verdict.PageRange, p.Name, "the page lists other entries than the manifest says").
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
		return nil, verdict.Refuse(verdict.PredicateType, p.Name, "says %q, not a page of a manifest", s.PredicateType())
	}
	var wire releasemanifest.PagePredicate
	if err := strictjson.Unmarshal(s.Predicate(), &wire); err != nil {
		return nil, verdict.Wrap(verdict.ManifestParse, p.Name, err)
	}
	if wire.Name != r.head.Name || wire.Version != r.head.Version.String() {
		return nil, verdict.Refuse(verdict.Version, p.Name, "a page of %s %s, not of %s", wire.Name, wire.Version, r.head.title())
	}
	for i := range wire.Artifacts {
		share(words, &wire.Artifacts[i])
	}
	return r.head.bind(s.Subjects(), wire.Artifacts)
}

// share keeps words that stand in many entries once: a page's own would stay
// with each of its entries.
func share(words map[string]string, e *releasemanifest.Artifact) {
	for _, word := range []*string{&e.Class, &e.Place, &e.MediaType, &e.Platform, &e.Repository, &e.Step, &e.Provenance} {
		kept, known := words[*word]
		if !known {
			kept = strings.Clone(*word)
			words[kept] = kept
		}
		*word = kept
	}
}

// count is how many entries there are.
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
