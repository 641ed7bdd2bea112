package verify

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// sameAsRead demands that a bundle whose payload was taken out is read as the
// whole rules read it, and reports whether it was.
func sameAsRead(t testing.TB, what string, raw []byte) bool {
	t.Helper()
	before := bytes.Clone(raw)
	fast, is := readLarge(raw, 1)
	whole, err := readForm(raw)
	if is && (err != nil || !proto.Equal(fast, whole)) {
		t.Errorf("%s: read without its payload, and the whole rules say %v\n%.500s", what, err, raw)
	}
	if !bytes.Equal(raw, before) {
		t.Errorf("%s: what was read was changed", what)
	}
	return is
}

// TestLargePayload: a payload that is taken out makes no difference, whatever
// is changed in a bundle, and is taken out of every genuine one.
func TestLargePayload(t *testing.T) {
	taken, left := 0, 0
	compare := func(what string, raw []byte) {
		if sameAsRead(t, what, raw) {
			taken++
		} else {
			left++
		}
	}
	for _, name := range []string{"attestation", "attestation-sha512", "attestation-key", "attestation-key-id", "blob"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "genuine", name, "bundle.sigstore.json"))
		if err != nil {
			t.Fatal(err)
		}
		if name != "blob" && !sameAsRead(t, name, raw) {
			t.Errorf("%s: its payload is not taken out", name)
		}
		for i := 0; i < len(raw); i += 31 {
			for _, c := range []byte{raw[i] + 1, '"', '\\', '=', '-', 0, 0x80, '\n'} {
				changed := bytes.Clone(raw)
				changed[i] = c
				compare(fmt.Sprintf("%s: %q at %d", name, c, i), changed)
			}
			for _, more := range []string{`"`, `\r`, `"payload":"AAAA",`, `,"payload" : "AAAA"`, `\"payload`} {
				compare(fmt.Sprintf("%s: %s at %d", name, more, i), []byte(string(raw[:i])+more+string(raw[i:])))
			}
			compare(fmt.Sprintf("%s: only %d", name, i), raw[:i])
		}
	}
	if taken < 500 || left < 500 {
		t.Errorf("%d were taken out and %d were left: that proves little", taken, left)
	}
}

// TestPayloadElsewhere: what is called payload and is not the payload is never
// taken for it.
func TestPayloadElsewhere(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "genuine", "attestation", "bundle.sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	small, text, is := withoutPayload(raw, 1)
	if !is {
		t.Fatal("there is no payload")
	}
	long := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("no payload "), 3<<10))
	in := func(old, new string) string { return strings.Replace(string(raw), old, new, 1) }
	payload := `"` + string(text) + `"`
	for what, changed := range map[string]string{
		"the word itself":                    string(small),
		"the word, and the text beside it":   strings.Replace(string(small), `"dsseEnvelope":`, `"payload":"`+long+`","dsseEnvelope":`, 1),
		"the text under an unknown key":      strings.Replace(string(small), `"dsseEnvelope":`, `"x":{"payload":"`+long+`"},"dsseEnvelope":`, 1),
		"the text twice":                     in(`"payload":`, `"payload":"`+long+`","payload":`),
		"the text under a key of two words":  in(`"payload":`, `"x\"payload":`),
		"the text under a key with escapes":  in(`"payload":`, `"p\u0061yload":`),
		"a signature of the word, and twice": strings.Replace(string(small), `"sig":`, `"sig":"`+long+`","payload":`, 1),
		"the key in another case":            in(`"payload":`, `"Payload":`),
		"line ends in the text":              in(payload, payload[:41]+"\n"+payload[41:]),
		"escaped line ends in the text":      in(payload, payload[:41]+`\n`+payload[41:]),
		"escapes in the text":                in(payload, `"\u`+fmt.Sprintf("%04x", payload[1])+payload[2:]),
		"no padding":                         in(payload, strings.TrimRight(payload, `="`)+`"`),
		"one character less":                 in(payload, payload[:len(payload)-2]+`"`),
		"too much padding":                   in(payload, payload[:len(payload)-1]+`="`),
		"a space":                            in(payload, payload[:41]+" "+payload[41:]),
		"a text that is no text":             in(payload, payload[:41]+"\xff"+payload[41:]),
		"an empty text":                      in(payload, `""`),
		"a number":                           in(payload, `12345678`),
		"a list":                             in(payload, `[`+payload+`]`),
		"a payload among the log entries":    in(`"tlogEntries":[`, `"tlogEntries":[{"payload":"`+long+`"},`),
	} {
		if changed == string(raw) {
			t.Fatalf("%s: nothing was changed", what)
		}
		is := sameAsRead(t, what, []byte(changed))
		if _, err := readForm([]byte(changed)); is && err != nil {
			t.Errorf("%s: taken out of a bundle that is refused", what)
		}
	}
}

func FuzzLargePayload(f *testing.F) {
	for _, name := range []string{"attestation", "attestation-sha512", "attestation-key", "blob"} {
		raw, err := os.ReadFile(filepath.Join("testdata", "genuine", name, "bundle.sigstore.json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { sameAsRead(t, "fuzzed", raw) })
}
