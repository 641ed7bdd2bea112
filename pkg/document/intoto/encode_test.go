package intoto

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// lots are subjects of every kind of name.
func lots(edit func([]Subject) []Subject) []Subject {
	list := []Subject{
		{Name: `quoted "so" \ and <so> & so`}, {Name: "umlaut ä, line\nend, \u2028, \x7f"}, {Name: ""}, {Name: ""},
	}
	for i := range 64 {
		list = append(list, Subject{Name: fmt.Sprint("file-", i)})
	}
	for i := range list {
		list[i].Digests = digest.SetOf(fmt.Append(nil, i))
		if i%2 == 0 {
			list[i].Digests.SHA512 = digest.Digest{}
		}
	}
	return edit(list)
}

// TestNewOfMany: what is written is what encoding/json writes of the form that is
// read, and the statement is the one that is read, or is refused as that is.
func TestNewOfMany(t *testing.T) {
	same := func(list []Subject) []Subject { return list }
	plainly := func(list []Subject) []Subject {
		for i := range list {
			list[i].Name = fmt.Sprintf("file-%03d", i)
		}
		return list
	}
	name := func(i int, name string) func([]Subject) []Subject {
		return func(list []Subject) []Subject { list[i].Name = name; return list }
	}
	for what, c := range map[string]struct {
		kind      string
		edit      func([]Subject) []Subject
		predicate any
	}{
		"as it is":                  {"https://example.test/p/v1", same, map[string]any{"a": 1, "b": "<x>"}},
		"a name twice":              {"https://example.test/p/v1", name(9, "file-1"), struct{}{}},
		"a plain name twice":        {"https://example.test/p/v1", name(9, "file-008"), struct{}{}},
		"a name of one sign":        {"https://example.test/p/v1", name(9, "<"), struct{}{}},
		"names out of order":        {"https://example.test/p/v1", name(9, "a"), struct{}{}},
		"no name":                   {"https://example.test/p/v1", name(0, ""), struct{}{}},
		"deep":                      {"https://example.test/p/v1", same, json.RawMessage(strings.Repeat(`{"a":`, 63) + `{}` + strings.Repeat(`}`, 63))},
		"a name that is no text":    {"https://example.test/p/v1", name(9, "\xff"), struct{}{}},
		"no SHA-256":                {"https://example.test/p/v1", func(l []Subject) []Subject { l[3].Digests.SHA256 = digest.Digest{}; return l }, struct{}{}},
		"no digest":                 {"https://example.test/p/v1", func(l []Subject) []Subject { l[3].Digests = digest.Set{}; return l }, struct{}{}},
		"a key twice":               {"https://example.test/p/v1", same, json.RawMessage(`{"a":1,"a":2}`)},
		"a predicate of no members": {"https://example.test/p/v1", same, []int{1}},
		"no kind":                   {"", same, struct{}{}},
		"a kind that is no text":    {"\xff", same, struct{}{}},
	} {
		for _, names := range []func([]Subject) []Subject{same, plainly} {
			list := c.edit(lots(names))
			wire := wireStatement{Type: TypeV1, PredicateType: c.kind}
			for _, s := range list {
				wire.Subject = append(wire.Subject, wireSubject{Name: s.Name, Digest: s.Digests.Map()})
			}
			var err error
			if wire.Predicate, err = json.Marshal(c.predicate); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(wire)
			if err != nil {
				t.Fatal(err)
			}
			want, refused := Parse(raw)
			got, err := New(c.kind, list, c.predicate)
			if fmt.Sprint(err) != fmt.Sprint(refused) || !alike(got, want) {
				t.Fatalf("%s: %v, want %v; %d and %d bytes", what, err, refused, len(got.raw), len(want.raw))
			}
			if encoding, err := io.ReadAll(got.PAE()); err != nil || string(encoding) != string(Envelope{PayloadType: PayloadType, Payload: got.raw}.PAE()) {
				t.Errorf("%s: DSSE's encoding is %.100q, %v", what, encoding, err)
			}
			for i, s := range got.Subjects() {
				other := list[(i+1)%len(list)].Digests
				if !got.Names(s.Name, digest.SetOf(fmt.Append(nil, i))) || got.Names(s.Name, other) != (s.Name == "" && i == 2) || got.Names(s.Name+"x", s.Digests) {
					t.Errorf("%s: subject %d, %q, is not found by name and digest alone", what, i, s.Name)
				}
			}
		}
	}
}

// TestWrittenIsApart: what a caller does to the subjects that it gave reaches
// no statement.
func TestWrittenIsApart(t *testing.T) {
	list := lots(func(l []Subject) []Subject { return l[4:] })
	s, err := New("https://example.test/p/v1", list, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	first := list[0]
	clear(list)
	if got := s.Subjects(); got[0] != first || len(got) != len(list) || !s.Names(first.Name, first.Digests) || !s.Binds(first.Digests) {
		t.Errorf("it speaks of %v, want %v", got[0], first)
	}
	if r := s.Resources(); r[0].Name != first.Name || len(r) != len(list) {
		t.Errorf("it speaks of %v", r[0])
	}
}

func BenchmarkNew(b *testing.B) {
	list := make([]Subject, maxSubjects)
	for i := range list {
		list[i] = Subject{Name: fmt.Sprintf("bin/linux/amd64/tool-%06d", i), Digests: digest.Set{SHA256: digest.Of(digest.SHA256, fmt.Append(nil, i))}}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := New("https://example.test/p/v1", list, struct{}{}); err != nil {
			b.Fatal(err)
		}
	}
}
