package intoto

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// sameAsWhole demands that a text that is read as plain is read by the whole
// rules, as the very same, by the open reader and by ours; and that one that is
// not plain ends as it ends there. It reports whether it was plain.
func sameAsWhole(t testing.TB, what string, raw []byte) bool {
	t.Helper()
	before := bytes.Clone(raw)
	fast, is := plainOpen(raw)
	whole, refused := parseOpen(raw)
	if at := regexp.MustCompile(`"digest"[ \t\r\n]*:`).FindIndex(raw); is { // the list is read by the whole rules, too
		list, err := parseOpen(slices.Insert(bytes.Clone(raw), at[0], []byte(`"mediaType":"",`)...))
		if err != nil || !reflect.DeepEqual(list.subjects, whole.subjects) {
			t.Errorf("%s: a list that is plain, and the whole rules say %v\n%.300s", what, err, raw)
		}
	}
	if is && (refused != nil || !alike(fast, whole)) {
		t.Errorf("%s: read as plain, and the whole rules say %v\n%.300s", what, refused, raw)
	}
	ours, err := Parse(raw)
	wholeOurs, refused := parse(raw)
	if fmt.Sprint(err) != fmt.Sprint(refused) || !alike(ours, wholeOurs) {
		t.Errorf("%s: Parse says %v, and the whole rules %v\n%.300s", what, err, refused, raw)
	}
	if open, err := ParseOpen(raw); err == nil {
		strict, err := open.Strict()
		if (err == nil) != (refused == nil) || !alike(strict, wholeOurs) {
			t.Errorf("%s: Strict says %v, and the whole rules %v\n%.300s", what, err, refused, raw)
		}
	}
	if !bytes.Equal(raw, before) {
		t.Errorf("%s: what was read was changed", what)
	}
	return is
}

// alike compares all that a statement says.
func alike(a, b Statement) bool {
	return bytes.Equal(a.raw, b.raw) && a.kind == b.kind && a.predicateType == b.predicateType && bytes.Equal(a.predicate, b.predicate) &&
		reflect.DeepEqual(a.subjects, b.subjects) && len(a.extra) == 0 == (len(b.extra) == 0) && (len(a.extra) == 0 || reflect.DeepEqual(a.extra, b.extra))
}

// plainSeeds are statements in the plain form: some of our own, and each of
// the vectors of our predicates, written anew.
func plainSeeds(t testing.TB) map[string][]byte {
	t.Helper()
	list := []Subject{
		{Name: "a", Digests: digest.SetOf([]byte("a"))}, {Name: "b/ä", Digests: digest.Set{SHA256: digest.Of(digest.SHA256, []byte("b"))}},
		{Digests: digest.SetOf([]byte("c"))}, {Digests: digest.SetOf([]byte("d"))},
	}
	seeds := map[string][]byte{}
	write := func(name, kind, predicateType string, list []Subject, predicate any) {
		raw, err := encode(kind, predicateType, list, predicate)
		if err != nil {
			t.Fatal(err)
		}
		seeds[name] = raw
	}
	deep := json.RawMessage(strings.Repeat(`{"a":`, 62) + `{}` + strings.Repeat(`}`, 62))
	write("four subjects", TypeV1, "https://example.test/p/v1", list, struct{}{})
	write("the older version", typeV01, "https://example.test/p/v1", list[:1], map[string]any{"ä": []any{1, "\n", nil}})
	write("a name twice", TypeV1, "x:y", append(list[:2:2], list[0]), struct{}{})
	write("as deep as can be", TypeV1, "x:y", list[:1], deep)
	write("one level too deep", TypeV1, "x:y", list[:1], json.RawMessage(`{"a":`+string(deep)+`}`))
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, seeds["four subjects"], " ", "\t"); err != nil {
		t.Fatal(err)
	}
	seeds["white space"] = append([]byte("\n"), append(spaced.Bytes(), "\r\n"...)...)
	seeds["predicate type first"] = []byte(`{"_type":"` + typeV01 + `","predicateType":"x:y","subject":[{"name":"\u0061\n","digest":{"sha256":"` +
		list[0].Digests.SHA256.Hex() + `"}}],"predicate":{}}`)
	vectors, err := filepath.Glob(filepath.Join("..", "..", "..", "attestations", "*", "*", "testdata", "*.json"))
	if err != nil || len(vectors) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, path := range vectors {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sameAsWhole(t, path, raw)
		if s, err := parseOpen(raw); err == nil {
			write(filepath.Base(path), s.kind, s.predicateType, s.subjects, s.predicate)
		}
	}
	return seeds
}

// TestPlain: what is read as plain is read as the whole rules read it, and
// whatever one change makes of it ends as it does there.
func TestPlain(t *testing.T) {
	plain, other := 0, 0
	compare := func(what string, raw []byte) {
		if sameAsWhole(t, what, raw) {
			plain++
		} else {
			other++
		}
	}
	for name, raw := range plainSeeds(t) {
		if !sameAsWhole(t, name, raw) && !strings.HasSuffix(name, ".json") && name != "one level too deep" {
			t.Errorf("%s: not read as plain: %.300s", name, raw)
		}
		step := 3 // the texts differ in what follows what, so all kinds of bytes are hit
		if strings.HasSuffix(name, ".json") {
			step = 1 + len(raw)/2
		}
		for i := 0; i < len(raw); i += step {
			for _, c := range []byte{raw[i] + 1, raw[i] ^ 0x20, '"', '\\', ',', 0, 0x1f, 0x80, '\n'} {
				changed := bytes.Clone(raw)
				changed[i] = c
				compare(fmt.Sprintf("%s: %q at %d", name, c, i), changed)
			}
			compare(fmt.Sprintf("%s: without %d", name, i), append(bytes.Clone(raw[:i]), raw[i+1:]...))
			compare(fmt.Sprintf("%s: only %d", name, i), raw[:i])
			for _, more := range []string{" ", "{}", "]", "}", `"`, `,"digest":{}`, `"predicate":{},`, `"Subject":[],`, `\u0061`, "\xef\xbb\xbf"} {
				compare(fmt.Sprintf("%s: %s at %d", name, more, i), []byte(string(raw[:i])+more+string(raw[i:])))
			}
		}
	}
	seed := string(plainSeeds(t)["four subjects"])
	for old, more := range map[string]string{
		`"b/ä"`:               `"a"`,                    // a name twice
		`{"name":"a",`:        `{"name":"a","uri":"x",`, // one more field
		`,"predicateType":"`:  `,"predicateType":"x","predicateType":"`,
		`"predicate":{}`:      `"predicate":{"a":1,"a":1}`,
		`}}],"predicateType`:  `,"sha512":""}}],"predicateType`,
		`{"_type":"` + TypeV1: `{"_type":"` + typeV01,
		`"predicate":{}}`:     `"predicate":{"n":1e400}}`,
		`"predicate":{} }`:    `"predicate":{}} {}`,
		`https://example`:     "\xffhttps://example",
	} {
		compare(old, []byte(strings.Replace(seed, old, more, 1)))
	}
	if plain < 1000 || other < 5000 {
		t.Errorf("%d were plain and %d were not: that proves little", plain, other)
	}
}

// A statement that was adopted or read keeps no hold of what is not its own.
func TestPlainBytesAreKept(t *testing.T) {
	given := plainSeeds(t)["four subjects"]
	want := bytes.Clone(given)
	for name, read := range map[string]func([]byte) (Statement, error){"Parse": Parse, "ParseOpen": ParseOpen} {
		s, err := read(given)
		if err != nil {
			t.Fatal(err)
		}
		clear(given)
		if !bytes.Equal(s.Raw(), want) || string(s.Predicate()) != "{}" || s.Subjects()[0].Name != "a" {
			t.Errorf("%s: %s", name, s.Raw())
		}
		copy(given, want)
	}
}

func FuzzPlain(f *testing.F) {
	for _, raw := range plainSeeds(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() { plainStatement(raw) })
		sameAsWhole(t, "fuzzed", raw)
	})
}

// mostSubjects is a statement of as many subjects as there may be.
func mostSubjects(b *testing.B) []byte {
	list := make([]Subject, maxSubjects)
	for i := range list {
		list[i] = Subject{Name: fmt.Sprintf("bin/linux/amd64/tool-%06d", i), Digests: digest.Set{SHA256: digest.Of(digest.SHA256, fmt.Append(nil, i))}}
	}
	raw, err := encode(TypeV1, "https://example.test/p/v1", list, struct{}{})
	if err != nil {
		b.Fatal(err)
	}
	return raw
}

func BenchmarkAdopt(b *testing.B) {
	raw := mostSubjects(b)
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Adopt(raw); err != nil {
			b.Fatal(err)
		}
	}
}
