package manifest_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// fleet is a manifest of n files and two configuration files.
func fleet(t testing.TB, n int) manifest.Manifest {
	m := lantern(t)
	m.Artifacts = m.Artifacts[3:]
	for i := range n {
		m.Artifacts = append(m.Artifacts, file(fmt.Sprintf("bin/tool-%06d", i), plan.Binary))
	}
	return m
}

// paged is a sealed manifest with the pages beside it, to be changed.
type paged struct {
	root  intoto.Statement
	pages map[string][]byte
}

func seal(t testing.TB, m manifest.Manifest) paged {
	t.Helper()
	p := paged{pages: map[string][]byte{}}
	var err error
	p.root, err = m.Seal(func(page manifest.Page, raw []byte) error {
		if page.Size != int64(len(raw)) {
			return errors.New("another size")
		}
		p.pages[page.Name] = slices.Clone(raw)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p paged) read() (manifest.Manifest, error) {
	return manifest.ReadManifest(p.root, func(name string) ([]byte, error) {
		raw, there := p.pages[name]
		if !there {
			return nil, verdict.Refuse(verdict.Missing, name, "no such object")
		}
		return raw, nil
	})
}

func TestPagesRoundTrip(t *testing.T) {
	for n, pages := range map[int]int{0: 0, 998: 0, 999: 2, 1998: 2, 1999: 3} {
		m := fleet(t, n)
		p := seal(t, m)
		if len(p.pages) != pages || m.IsPaged() != (pages > 0) {
			t.Errorf("%d files: %d pages, want %d", n, len(p.pages), pages)
		}
		got, err := p.read()
		if err != nil {
			t.Fatalf("%d files: %v", n, err)
		}
		if len(got.Pages) != pages || len(got.Artifacts) != n+2 || !slices.IsSortedFunc(got.Artifacts, func(a, b manifest.Artifact) int { return strings.Compare(a.Name, b.Name) }) {
			t.Errorf("%d files: read as %d artifacts of %d pages", n, len(got.Artifacts), len(got.Pages))
		}
		for _, a := range m.Artifacts {
			if b, there := got.Find(a.Name); !there || !reflect.DeepEqual(a, b) {
				t.Fatalf("%d files: %s is read as %+v", n, a.Name, b)
			}
		}
		if again := seal(t, got); !reflect.DeepEqual(again.pages, p.pages) || string(again.root.Raw()) != string(p.root.Raw()) {
			t.Errorf("%d files: sealed otherwise the second time", n)
		}
	}
}

// What changes for one entry changes one page: the others stay where they are.
func TestRevisionsSharePages(t *testing.T) {
	m := fleet(t, 2500)
	first := seal(t, m)
	m.Artifacts[7].Signature = "bin/tool.sigstore.json"
	second := seal(t, m)
	shared := 0
	for name := range second.pages {
		if _, there := first.pages[name]; there {
			shared++
		}
	}
	if len(second.pages) != 3 || shared != 2 {
		t.Errorf("%d of %d pages are shared", shared, len(second.pages))
	}
}

// TestReaderWithoutPages is the promise of version 1: whoever does not read
// pages refuses, and never takes the rest for the whole.
func TestReaderWithoutPages(t *testing.T) {
	m, err := manifest.ReadManifest(seal(t, fleet(t, 1500)).root, nil)
	if f := verdict.FindingOf("", err); err == nil || f.Code != "MANIFEST_CRITICAL" || m.Name != "" {
		t.Errorf("%v, %v", m.Name, err)
	}
}

// list is the list of pages as the root has it.
type list struct {
	subjects []intoto.Subject
	wire     releasemanifest.Predicate
}

// relist changes the root, as a signer could.
func (p *paged) relist(t *testing.T, change func(*list)) {
	t.Helper()
	l := list{subjects: p.root.Subjects()}
	if err := json.Unmarshal(p.root.Predicate(), &l.wire); err != nil {
		t.Fatal(err)
	}
	change(&l)
	s, err := intoto.New(releasemanifest.PredicateType, l.subjects, l.wire)
	if err != nil {
		t.Fatal(err)
	}
	p.root = s
}

// rewrite changes the entries of a page and binds what comes out, as a signer
// could.
func (p *paged) rewrite(t *testing.T, i int, change func(subjects *[]intoto.Subject, said *releasemanifest.PagePredicate)) {
	t.Helper()
	p.relist(t, func(l *list) {
		s, err := intoto.Parse(p.pages[l.wire.Pages[i].Name])
		if err != nil {
			t.Fatal(err)
		}
		subjects, said := s.Subjects(), releasemanifest.PagePredicate{}
		if err := json.Unmarshal(s.Predicate(), &said); err != nil {
			t.Fatal(err)
		}
		change(&subjects, &said)
		s, err = intoto.New(s.PredicateType(), subjects, said)
		if err != nil {
			t.Fatal(err)
		}
		sum := digest.SetOf(s.Raw())
		name := manifest.PageName(sum.SHA256)
		p.pages[name] = s.Raw()
		l.wire.Pages[i].Name, l.wire.Pages[i].SHA256 = name, sum.SHA256.Hex()
		l.subjects[i] = intoto.Subject{Name: name, Digests: sum}
	})
}

// swap exchanges two pages of the list, with their subjects.
func swap(i, j int) func(*list) {
	return func(l *list) {
		l.subjects[i], l.subjects[j] = l.subjects[j], l.subjects[i]
		l.wire.Pages[i], l.wire.Pages[j] = l.wire.Pages[j], l.wire.Pages[i]
	}
}

// rename gives an entry of a page another name.
func rename(i int, name string) func(*[]intoto.Subject, *releasemanifest.PagePredicate) {
	return func(subjects *[]intoto.Subject, said *releasemanifest.PagePredicate) {
		(*subjects)[i].Name, said.Artifacts[i].Name = name, name
	}
}

func TestPagesRefused(t *testing.T) {
	page := func(p *paged, i int) string { return p.root.Subjects()[i].Name }
	rows := []struct {
		name   string
		code   verdict.Code // empty where it is read
		change func(t *testing.T, p *paged)
	}{
		{"as it is", "", func(*testing.T, *paged) {}},
		{"a file of no page beside them", "", func(_ *testing.T, p *paged) { p.pages[releasemanifest.PageDir+"other.json"] = []byte("{}") }},
		{"a page is gone", "PAGE_MISSING", func(_ *testing.T, p *paged) { delete(p.pages, page(p, 1)) }},
		{"a page is changed", "PAGE_TAMPERED", func(_ *testing.T, p *paged) { p.pages[page(p, 1)][100] ^= 1 }},
		{"a page is longer", "PAGE_TAMPERED", func(_ *testing.T, p *paged) { p.pages[page(p, 1)] = append(p.pages[page(p, 1)], ' ') }},
		{"two pages changed places", "PAGE_TAMPERED", func(_ *testing.T, p *paged) {
			p.pages[page(p, 0)], p.pages[page(p, 1)] = p.pages[page(p, 1)], p.pages[page(p, 0)]
		}},
		{"a page with another name for an entry, signed for", "", func(t *testing.T, p *paged) { p.rewrite(t, 1, rename(500, "bin/tool-001499x")) }},
		{"an entry before its page", "PAGE_RANGE", func(t *testing.T, p *paged) { p.rewrite(t, 1, rename(0, "bin/tool-000000x")) }},
		{"an entry after its page", "PAGE_RANGE", func(t *testing.T, p *paged) { p.rewrite(t, 1, rename(999, "bin/tool-9")) }},
		{"an entry of the page before", "PAGE_ORDER", func(t *testing.T, p *paged) { p.rewrite(t, 1, rename(500, "bin/tool-000001")) }},
		{"a page of less entries than the root counts", "PAGE_RANGE", func(t *testing.T, p *paged) {
			p.rewrite(t, 1, func(subjects *[]intoto.Subject, said *releasemanifest.PagePredicate) {
				*subjects, said.Artifacts = slices.Delete(*subjects, 3, 4), slices.Delete(said.Artifacts, 3, 4)
			})
		}},
		{"entries out of order", "PAGE_ORDER", func(t *testing.T, p *paged) {
			p.rewrite(t, 1, func(_ *[]intoto.Subject, said *releasemanifest.PagePredicate) { slices.Reverse(said.Artifacts) })
		}},
		{"an entry less than subjects", verdict.ManifestParse, func(t *testing.T, p *paged) {
			p.rewrite(t, 1, func(_ *[]intoto.Subject, said *releasemanifest.PagePredicate) { said.Artifacts = said.Artifacts[1:] })
		}},
		{"a page of another version", verdict.Version, func(t *testing.T, p *paged) {
			p.rewrite(t, 1, func(_ *[]intoto.Subject, said *releasemanifest.PagePredicate) { said.Version = "v0.1.1" })
		}},
		{"an entry under the name of a page", verdict.Path, func(t *testing.T, p *paged) { p.rewrite(t, 1, rename(500, releasemanifest.PageDir+"x")) }},
		{"pages out of order", "PAGE_ORDER", func(t *testing.T, p *paged) { p.relist(t, swap(0, 1)) }},
		{"a page listed twice", "PAGE_TWICE", func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) {
				l.wire.Pages[2] = l.wire.Pages[1]
			})
		}},
		{"two pages that overlap", "PAGE_OVERLAP", func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) { l.wire.Pages[1].First = l.wire.Pages[0].Last })
		}},
		{"a page that ends later than it does", "PAGE_RANGE", func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) { l.wire.Pages[1].Last += "x" })
		}},
		{"the list of a root and entries beside it", verdict.ManifestParse, func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) {
				l.wire.Artifacts = []releasemanifest.Artifact{{Name: "x", Class: "binary", Place: "files", MediaType: "x"}}
			})
		}},
		{"a page of no subject", verdict.ManifestParse, func(t *testing.T, p *paged) { p.relist(t, func(l *list) { l.subjects = l.subjects[1:] }) }},
		{"a subject of no page", verdict.ManifestParse, func(t *testing.T, p *paged) { p.relist(t, func(l *list) { l.wire.Pages = l.wire.Pages[1:] }) }},
		{"a page of another digest than its name", verdict.ManifestParse, func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) { l.wire.Pages[1].SHA256 = l.wire.Pages[0].SHA256 })
		}},
		{"a page without sha512", verdict.ManifestParse, func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) { l.subjects[1].Digests.SHA512 = digest.Digest{} })
		}},
		{"a page elsewhere", verdict.ManifestParse, func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) { l.wire.Pages[1].Name, l.subjects[1].Name = "elsewhere.json", "elsewhere.json" })
		}},
		{"a page of no entries", verdict.ManifestParse, func(t *testing.T, p *paged) { p.relist(t, func(l *list) { l.wire.Pages[1].Count = 0 }) }},
		{"a page of too many", verdict.ManifestParse, func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) { l.wire.Pages[1].Count = manifest.PageEntries + 1 })
		}},
		{"a critical field", "MANIFEST_CRITICAL", func(t *testing.T, p *paged) {
			p.relist(t, func(l *list) { l.wire.Critical = map[string]json.RawMessage{"x": []byte("1")} })
		}},
	}
	sealed := seal(t, fleet(t, 2500))
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p := paged{root: sealed.root, pages: map[string][]byte{}}
			for name, raw := range maps.All(sealed.pages) {
				p.pages[name] = slices.Clone(raw)
			}
			r.change(t, &p)
			m, err := p.read()
			switch {
			case r.code == "" && (err != nil || len(m.Artifacts) != 2502):
				t.Errorf("%d artifacts, %v", len(m.Artifacts), err)
			case r.code != "" && (err == nil || verdict.FindingOf("", err).Code != r.code || m.Name != ""):
				t.Errorf("%v, want %s", err, r.code)
			}
		})
	}
}

// A place that does not answer is no place without pages.
func TestPagesUnavailable(t *testing.T) {
	p := seal(t, fleet(t, 1500))
	_, err := manifest.ReadManifest(p.root, func(string) ([]byte, error) {
		return nil, verdict.Wrap(verdict.PlaceDown, "pages", errors.New("no answer"))
	})
	if verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("%v", err)
	}
}
