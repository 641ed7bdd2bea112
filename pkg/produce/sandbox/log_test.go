package sandbox

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/redact"
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

// TestLogHidesKeysAlone: after the first line of a private key, only lines that
// can be a part of it are withheld, and counted; END ends it by its own label.
func TestLogHidesKeysAlone(t *testing.T) {
	const begin, end = "-----BEGIN EC PRIVATE KEY-----\n", "-----END EC PRIVATE KEY-----\n"
	part := strings.Repeat("MHcC", 16) + "\n"
	long := strings.Repeat("MHcC", 10<<10) + "\n"
	told := func(n string) string { return "[waybill] " + n }
	const one, more = "1 line withheld: it looks like a part of a private key\n", " lines withheld: they look like parts of a private key\n"
	for name, row := range map[string]struct{ in, want string }{
		"a key":                      {begin + part + part + "MHc=\n" + end + "on\n", "[redacted]\n" + told("3"+more) + end + "on\n"},
		"with headers":               {begin + "Proc-Type: 4,ENCRYPTED\n\n" + part + end, "[redacted]\nProc-Type: 4,ENCRYPTED\n\n" + told(one) + end},
		"of OpenPGP":                 {"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n" + part + "=MHcC\n-----END PGP PRIVATE KEY BLOCK-----\n", "[redacted]\n\n" + told("2"+more) + "-----END PGP PRIVATE KEY BLOCK-----\n"},
		"without an end":             {begin + part, "[redacted]\n" + told(one)},
		"of one long line":           {begin + long + end, "[redacted]\n" + told(one) + end},
		"with a time on each line":   {"12:00 " + begin + "12:00 " + part + "12:00 " + end, "12:00 [redacted]\n12:00 [redacted]\n12:00 " + end},
		"no key: a step that hides":  {"-----BEGIN EVIL PRIVATE KEY-----\nfetching evil.sh\ninstalling\n", "[redacted]\nfetching evil.sh\ninstalling\n"},
		"END of another":             {begin + part + "-----END EVIL PRIVATE KEY-----\n" + part + end, "[redacted]\n" + told(one) + "-----END EVIL PRIVATE KEY-----\n[redacted]\n" + end},
		"a second key in it":         {begin + "x y\n" + begin + part + end, "[redacted]\nx y\n[redacted]\n" + told(one) + end},
		"more lines than a key has":  {begin + strings.Repeat(part, longestKey+1), "[redacted]\n" + told("200"+more) + part},
		"a text like ours":           {begin + part + "[waybill] 9 lines withheld\n", "[redacted]\n" + told(one) + "> [waybill] 9 lines withheld\n"},
		"the twin: lines of a build": {part + "compiling\n" + end, part + "compiling\n" + end},
	} {
		if got := logged(nil, row.in); got != row.want {
			t.Errorf("%s: %.400q, want %.400q", name, got, row.want)
		}
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
	if b.Len() > maxLog+maxLine+maxTail+200 || !strings.Contains(b.String(), "omitted: the log is longer than") || !strings.HasSuffix(b.String(), "\ncompile: the error\n") {
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
