package intoto

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/waybill-release/waybill/pkg/digest"
)

// TestPlain: a plain list is read as the whole rules read it, and whatever one
// byte makes of it ends as it does there. A space before the list is what has
// the whole rules read it.
func TestPlain(t *testing.T) {
	list := []Subject{
		{Name: "a", Digests: digest.SetOf([]byte("a"))}, {Name: "b/ä", Digests: digest.Set{SHA256: digest.Of(digest.SHA256, []byte("b"))}},
		{Digests: digest.SetOf([]byte("c"))}, {Digests: digest.SetOf([]byte("d"))},
	}
	raw, _, err := encode(TypeV1, "https://example.test/p/v1", list, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	if s, is := plainStatement(raw); !is || !reflect.DeepEqual(s.subjects, list) {
		t.Fatalf("not read as a plain one: %v", s.subjects)
	}
	at := bytes.IndexByte(raw, '[')
	whole := func(raw []byte) []byte { return append(append(bytes.Clone(raw[:at]), "[ "...), raw[at+1:]...) }
	readers := map[string]func([]byte) (Statement, error){"Parse": Parse, "ParseOpen": ParseOpen}
	compare := func(what string, raw []byte) {
		for name, read := range readers {
			got, err := read(raw)
			want, refused := read(whole(raw))
			if (err == nil) != (refused == nil) || !reflect.DeepEqual(got.subjects, want.subjects) || len(got.extra) != len(want.extra) {
				t.Errorf("%s, %s: %v, want %v", name, what, err, refused)
			}
		}
	}
	compare("as it is", raw)
	for i := at + 1; i < len(raw); i++ {
		for _, c := range []byte{raw[i] + 1, raw[i] ^ 0x20, '"', '\\', ','} {
			changed := bytes.Clone(raw)
			changed[i] = c
			compare(fmt.Sprintf("%q at %d", c, i), changed)
		}
		compare(fmt.Sprintf("without %d", i), append(bytes.Clone(raw[:i]), raw[i+1:]...))
	}
	compare("a name twice", bytes.Replace(raw, []byte(`"b/ä"`), []byte(`"a"`), 1))
	compare("one more field", bytes.Replace(raw, []byte(`{"name":"a"`), []byte(`{"name":"a","uri":"x"`), 1))
}
