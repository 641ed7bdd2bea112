package intoto

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/digest"
)

// lots are subjects of every kind of name, more than are read again.
func lots(edit func([]Subject) []Subject) []Subject {
	list := []Subject{
		{Name: `quoted "so" \ and <so> & so`}, {Name: "umlaut ä, line\nend, \u2028, \x7f"}, {Name: ""}, {Name: ""},
	}
	for i := range many {
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

// TestNewOfMany: what is written is what encoding/json writes, and a statement
// that was not read again is the one that is read, or is refused as that is.
func TestNewOfMany(t *testing.T) {
	same := func(list []Subject) []Subject { return list }
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
		"a name that is no text":    {"https://example.test/p/v1", name(9, "\xff"), struct{}{}},
		"no SHA-256":                {"https://example.test/p/v1", func(l []Subject) []Subject { l[3].Digests.SHA256 = digest.Digest{}; return l }, struct{}{}},
		"no digest":                 {"https://example.test/p/v1", func(l []Subject) []Subject { l[3].Digests = digest.Set{}; return l }, struct{}{}},
		"a key twice":               {"https://example.test/p/v1", same, json.RawMessage(`{"a":1,"a":2}`)},
		"a predicate of no members": {"https://example.test/p/v1", same, []int{1}},
		"no kind":                   {"", same, struct{}{}},
		"a kind that is no text":    {"\xff", same, struct{}{}},
	} {
		t.Run(what, func(t *testing.T) {
			list := lots(c.edit)
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
			if fmt.Sprint(err) != fmt.Sprint(refused) || !reflect.DeepEqual(got, want) {
				t.Fatalf("%v, want %v; %d and %d bytes", err, refused, len(got.raw), len(want.raw))
			}
			for i, s := range got.Subjects() {
				other := list[(i+1)%len(list)].Digests
				if !got.Names(s.Name, digest.SetOf(fmt.Append(nil, i))) || got.Names(s.Name, other) != (s.Name == "" && i == 2) || got.Names(s.Name+"x", s.Digests) {
					t.Errorf("subject %d, %q, is not found by name and digest alone", i, s.Name)
				}
			}
		})
	}
}

func BenchmarkNew(b *testing.B) {
	list := make([]Subject, MaxSubjects)
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
