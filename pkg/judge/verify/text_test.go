package verify

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestBytesInOneForm: bytes that the library reads from more than one text are
// refused, however their key is written.
func TestBytesInOneForm(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("testdata", "genuine", "attestation", "bundle.sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ key, written string }{
		{"sig", "sig"}, {"sig", `s\u0069g`}, {"canonicalizedBody", "canonicalizedBody"},
		{"canonicalizedBody", "canonicalized_body"}, {"canonicalizedBody", `canonicalized\u005fbody`}, {"rootHash", "root_hash"},
	} {
		old := `"` + row.key + `":"`
		at := strings.Index(string(raw), old)
		if at < 0 {
			t.Fatalf("there is no %s", row.key)
		}
		value := at + len(old)
		renamed := string(raw[:at]) + `"` + row.written + `":"` + string(raw[value:])
		if _, err := readForm([]byte(renamed)); err != nil {
			t.Errorf("%s: the twin is refused: %v", row.written, err)
		}
		value += len(row.written) - len(row.key)
		for what, changed := range map[string]string{
			"line ends":         renamed[:value+8] + `\n\n\n\n` + renamed[value+8:],
			"escaped line ends": renamed[:value+8] + strings.Repeat(`\u000a`, 4) + renamed[value+8:],
		} {
			_, err := readForm([]byte(changed))
			if f := verdict.FindingOf("", err); err == nil || f.Code != verdict.Encoding {
				t.Errorf("%s: %s: %v", row.written, what, err)
			}
		}
		escaped := renamed[:value] + `\u00` + string("0123456789abcdef"[renamed[value]>>4]) + string("0123456789abcdef"[renamed[value]&15]) + renamed[value+1:]
		if _, err := readForm([]byte(escaped)); err != nil {
			t.Errorf("%s: a character that is escaped: %v", row.written, err)
		}
	}
}

// TestLongBytes: text that is decoded in several pieces is held to the same
// form in each of them.
func TestLongBytes(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(make([]byte, 10_000))
	with := func(at int, text string) string { return good[:at] + text + good[at+len(text):] }
	for text, want := range map[string]bool{
		good: true, with(100, "!"): false, with(5000, "!"): false, with(len(good)-8, "!"): false, with(4092, "AA=="): false, with(8190, "=="): false, with(100, "\n"): false,
	} {
		if got := canonical([]byte(text)); got != want {
			t.Errorf("%.10s… of %d bytes: %t, want %t", text, len(text), got, want)
		}
	}
}
