package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/waybill-release/waybill/pkg/fuzztest"
)

// plainAsAny demands that a bundle which is read as a plain one is read the
// same by the readers of any, with the same findings, and reports whether it
// was.
func plainAsAny(t testing.TB, what string, raw []byte) bool {
	t.Helper()
	before := bytes.Clone(raw)
	plain, is := readPlain(raw)
	form, err := readForm(raw)
	whole, errAny := readAny(raw)
	switch {
	case (err == nil) != (errAny == nil) || codeIn(err) != codeIn(errAny):
		t.Errorf("%s: read plainly: %v; in any way: %v\n%.500s", what, err, errAny, raw)
	case err == nil && !proto.Equal(form, whole), is && err == nil && !proto.Equal(plain, whole):
		t.Errorf("%s: read plainly it is another bundle\n%.500s", what, raw)
	case !bytes.Equal(raw, before):
		t.Errorf("%s: what was read was changed", what)
	}
	return is
}

func genuineBundles(t testing.TB) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob("testdata/genuine/*/bundle.sigstore.json")
	if err != nil || len(paths) < 9 {
		t.Fatalf("%d genuine bundles: %v", len(paths), err)
	}
	all := map[string][]byte{}
	for _, path := range paths {
		if all[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestPlainBundle: every genuine bundle is plain, and whatever is changed in
// one makes the same difference to every reader.
func TestPlainBundle(t *testing.T) {
	plain, other := 0, 0
	compare := func(what string, raw []byte) {
		if plainAsAny(t, what, raw) {
			plain++
		} else {
			other++
		}
	}
	for name, raw := range genuineBundles(t) {
		if !plainAsAny(t, name, raw) {
			t.Errorf("%s: it is not read as a plain one", name)
		}
		for i := 0; i < len(raw); i += 151 {
			for _, c := range []byte{raw[i] + 1, '"', '\\', '=', '-', '0', ' ', 0, 0x80, '\n', ',', '}'} {
				changed := bytes.Clone(raw)
				changed[i] = c
				compare(fmt.Sprintf("%s: %q at %d", name, c, i), changed)
			}
			for _, more := range []string{`"`, `\n`, `\u0041`, ` `, `,`, `"keyid":"",`, `null`, `{}`, `[]`, `é`, "\xff", `0`, `-`} {
				compare(fmt.Sprintf("%s: %s at %d", name, more, i), []byte(string(raw[:i])+more+string(raw[i:])))
			}
			compare(fmt.Sprintf("%s: only %d", name, i), raw[:i])
		}
		// Every member once more, empty, and in the place of another.
		for _, value := range []string{`null`, `""`, `"A"`, `"AAAA"`, `"AA=="`, `"AB=="`, `"A-_A"`, `0`, `1`, `"1"`, `"01"`, `-1`, `1.5`, `1e2`,
			`"9223372036854775807"`, `"9223372036854775808"`, `[]`, `{}`, `[{}]`, `["AAAA"]`, `true`, `"SHA2_512"`, `"NONE"`} {
			for _, changed := range exchanged(t, raw, json.RawMessage(value)) {
				compare(name+": "+value, changed)
			}
		}
	}
	if plain < 500 || other < 500 {
		t.Errorf("%d plain bundles and %d others prove little", plain, other)
	}
}

// exchanged puts a value into the place of each value of a document in turn.
func exchanged(t testing.TB, doc []byte, value json.RawMessage) (all [][]byte) {
	t.Helper()
	var whole any
	if err := json.Unmarshal(doc, &whole); err != nil {
		t.Fatal(err)
	}
	add := func() {
		raw, err := json.Marshal(whole)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, raw)
	}
	var walk func(at any)
	walk = func(at any) {
		switch at := at.(type) {
		case map[string]any:
			for key, old := range at {
				at[key] = value
				add()
				at[key] = old
				walk(old)
			}
		case []any:
			for i, old := range at {
				at[i] = value
				add()
				at[i] = old
				walk(old)
			}
		}
	}
	walk(whole)
	return all
}

// TestPlainLists: what has too many elements is refused for the same reason.
func TestPlainLists(t *testing.T) {
	for _, n := range []int{1, 32, 33, maxPlain, maxPlain + 1, maxStructure} {
		for _, form := range []string{
			`{"verificationMaterial":{"tlogEntries":[%s]}}`,
			`{"verificationMaterial":{"timestampVerificationData":{"rfc3161Timestamps":[%s]}}}`,
			`{"dsseEnvelope":{"signatures":[%s]}}`,
		} {
			raw := fmt.Appendf(nil, form, bytes.TrimSuffix(bytes.Repeat([]byte("{},"), n), []byte(",")))
			if is := plainAsAny(t, fmt.Sprint(n, form), raw); is != (n <= maxPlain) {
				t.Errorf("%d in %s: plain %t", n, form, is)
			}
		}
	}
}

// FuzzPlainBundle: what is read plainly is what every reader reads.
func FuzzPlainBundle(f *testing.F) {
	for _, raw := range genuineBundles(f) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		fuzztest.Bounded(t, raw, func() { plainAsAny(t, "fuzzed", raw) })
	})
}
