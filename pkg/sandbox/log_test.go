package sandbox

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/redact"
)

func logged(secrets []string, parts ...string) string {
	var b bytes.Buffer
	l := NewLog(&b, secrets)
	for _, p := range parts {
		if _, err := l.Write([]byte(p)); err != nil {
			return err.Error()
		}
	}
	l.flush()
	return b.String()
}

func TestLogIsHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":            "plain\ttext\n",
		"schön 日本\n":               "schön 日本\n",
		"dos\r\n":                  "dos\n",
		"\x1b[2J\x1b]0;x\a\n":      `\x1b[2J\x1b]0;x\x07` + "\n",
		"progress\rover\n":         `progress\x0dover` + "\n",
		"\u009b31m\n":              `\u009b31m` + "\n",
		"\x9b31m\xff\n":            `\x9b31m\xff` + "\n",
		"a\u202egpj.exe\u200b\n":   `a\u202egpj.exe\u200b` + "\n",
		"back\b\b\x7f\n":           `back\x08\x08\x7f` + "\n",
		"no end":                   "no end",
		"\x00":                     `\x00`,
		"\U000e0041 tags are seen": `\ue0041 tags are seen`,
	} {
		if got := logged(nil, in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func TestLogHidesSecrets(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJidWlsZGVyIn0.c2lnbmF0dXJl"
	for name, parts := range map[string][]string{
		"by value":          {"it is hunter22!\n"},
		"in two writes":     {"it is hun", "ter22!\n"},
		"byte by byte":      strings.Split("it is hunter22!\n", ""),
		"a token":           {"token " + jwt + "\n"},
		"a host's token":    {"ghp_0123456789abcdefghij0123456789abcdef\n"},
		"a cloud's key":     {"AKIAIOSFODNN7EXAMPLE\n"},
		"a header":          {"Authorization: Bearer abcdefgh12345678\n"},
		"a private key":     {"-----BEGIN EC PRIVATE KEY-----MHcCAQEE\n"},
		"a key of lines":    {"-----BEGIN PRIVATE KEY-----\nMHcCAQEE\nMHcCAQEF\n-----END PRIVATE KEY-----\n"},
		"an address":        {"fetching https://user:MHcCpass@host.example.test/x\n"},
		"a variable":        {"+ DB_PASSWORD=MHcCpass deploy\n"},
		"in a line so long": {strings.Repeat("x", maxLine-8), "hunter22!", strings.Repeat("y", 2*maxLine), "\n"},
	} {
		got := logged([]string{"hunter22!", "no"}, parts...)
		if !strings.Contains(got, redact.Mark) {
			t.Errorf("%s: nothing was taken out of %.80q", name, got)
		}
		for _, secret := range []string{"hunter22!", jwt[5:], "AKIAIOSF", "ghp_0", "abcdefgh1", "MHcC"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %q got through", name, secret)
			}
		}
	}
	if got := logged(nil, "-----BEGIN PRIVATE KEY-----\nMHcC\n-----END PRIVATE KEY-----\nand on\n"); !strings.HasSuffix(got, "\nand on\n") {
		t.Errorf("what follows a key: %q", got)
	}
	for _, text := range []string{"unexpected token: EOF\n", "see https://host.example.test/a@b\n", "-----BEGIN CERTIFICATE-----\nMIIB\n"} {
		if got := logged(nil, text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := logged([]string{"no"}, "nothing to hide, no more\n"); got != "nothing to hide, no more\n" {
		t.Errorf("the twin: %q", got)
	}
}

func TestLogIsBounded(t *testing.T) {
	var b bytes.Buffer
	l := NewLog(&b, nil)
	line := []byte(strings.Repeat("z", 1<<20-1) + "\n")
	for range 80 {
		if n, err := l.Write(line); err != nil || n != len(line) {
			t.Fatal("the step noticed", n, err)
		}
	}
	if _, err := l.Write([]byte("compile: the error\n")); err != nil {
		t.Fatal(err)
	}
	l.flush()
	if b.Len() > maxLog+maxLine+maxTail+200 || !strings.Contains(b.String(), "what follows is left out, but for the end") || !strings.HasSuffix(b.String(), "\ncompile: the error\n") {
		t.Errorf("%d bytes, ending %q", b.Len(), b.String()[b.Len()-100:])
	}
	if tail := l.Tail(); len(tail) > maxTail || !strings.Contains(tail, "compile: the error") {
		t.Errorf("a tail of %d bytes, %.100q", len(tail), tail)
	}
}

// TestLogSpeaksForNobodyElse: a step cannot write a line of the control plane.
func TestLogSpeaksForNobodyElse(t *testing.T) {
	for in, want := range map[string]string{
		"[waybill] the step ran isolated\n":         "> [waybill] the step ran isolated\n",
		"say [waybill] in the middle\n":             "say [waybill] in the middle\n",
		strings.Repeat("x", 40<<10) + "[waybill]\n": strings.Repeat("x", 40<<10) + "[waybill]\n",
	} {
		if got := logged(nil, in); got != want {
			t.Errorf("%.80q became %.80q, want %.80q", in, got, want)
		}
	}
}
