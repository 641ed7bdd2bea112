package store_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

func TestCheckName(t *testing.T) {
	for _, name := range []string{"a", "a/b", ".hidden", "a..b", "...a", "A-1_2.3+4@5~6", "console", "com", "comX", "com10", "xcon", "a.con", "auxiliary/nullable", strings.Repeat("n", 255)} {
		if err := store.CheckName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"", "/", "/a", "a/", "a//b", ".", "..", "../a", "a/..", "a/../b", "a/./b", "./a", "a.", "a../b", "a/...",
		"C:", "c:/a", `\a`, `a\b`, `..\a`, "a b", "a\n", "a\x00", "a\x7f", "a%2e", "a?b", "a#b", "a:b", "a*b",
		"CON", "con", "Con.txt", "a/aux", "nul.tar.gz/b", "com1", "LPT9.log", "prn",
		"ku\u212a", "e\u0301", "\u00e9", "\u202egpj", "\xff", strings.Repeat("n", 256), strings.Repeat("n/", 600) + "n",
	} {
		if err := store.CheckName(name); code(err) != "PATH" {
			t.Errorf("%q: %v, want PATH", name, err)
		}
	}
	if got := len(store.CheckName(strings.Repeat("\xff", 5000)).Error()); got > 1200 {
		t.Errorf("the message quotes %d bytes", got)
	}
}

// TestCheckNames: names that would be one, or in each other's way, on some
// system are refused on all of them.
func TestCheckNames(t *testing.T) {
	rows := map[string][]string{
		"nothing (twin)":                     {},
		"names apart (twin)":                 {"bin/linux/amd64/kubectl", "bin/linux/arm64/kubectl", "SHA256SUMS", "kubectl"},
		"the same capitals twice (twin)":     {"LICENSES/MIT", "LICENSES/BSD"},
		"a name that begins another (twin)":  {"a", "a-b", "ab/c"},
		"a bad name":                         {"a", `b\c`},
		"a device":                           {"a", "b/CON"},
		"two names in case alone":            {"README", "readme"},
		"two with capitals":                  {"README", "ReadMe"},
		"two directories in case alone":      {"Bin/a", "bin/b"},
		"two directories with capitals":      {"BIN/a", "Bin/b"},
		"a directory and a file in case":     {"Bin", "bin/b"},
		"a file that is another's directory": {"a", "a-b", "a/b"},
		"and further down":                   {"a/b/c", "a/b/c/d/e"},
	}
	for name, names := range rows {
		want := "PATH"
		if strings.HasSuffix(name, "(twin)") {
			want = ""
		}
		if err := store.CheckNames(names); code(err) != want {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	for uri, want := range map[string]string{
		"/tmp/x":                               "file:///tmp/x",
		"file:///tmp/x/":                       "file:///tmp/x",
		"FILE://localhost/tmp/x":               "file:///tmp/x",
		"https://dl.example/r":                 "https://dl.example/r/",
		"HtTp://dl.example/r/":                 "http://dl.example/r/",
		"gs://bucket":                          "gs://bucket/",
		"gs://bucket/a/b":                      "gs://bucket/a/b/",
		"gs+http://127.0.0.1:4443/bucket/a/b/": "gs+http://127.0.0.1:4443/bucket/a/b/",
		"gs+http://[::1]:4443/bucket":          "gs+http://[::1]:4443/bucket/",
		"tar:///tmp/x.tar":                     "tar:///tmp/x.tar",
		"s3://bucket/a/b":                      "s3://bucket/a/b/",
		"s3+http://127.0.0.1:9000/bucket/a":    "s3+http://127.0.0.1:9000/bucket/a/",
		"s3+https://s3.example.test/bucket":    "s3+https://s3.example.test/bucket/",
		"s3://":                                "",
		"s3+https:///bucket/":                  "",
		"s3+http://example.org/bucket/":        "",
		"s3+https://s3.example.test/":          "",
		"gs+https://example.org/bucket/":       "",
		"s3+ftp://example.org/bucket/":         "",
		"tar://host/tmp/x.tar":                 "",
		"":                                     "",
		"file://host/tmp":                      "",
		"ftp://dl.example/r":                   "",
		"https://user:secret@dl.example/r":     "",
		"https://dl.example/r?x=1":             "",
		"https://dl.example/r#f":               "",
		"gs://":                                "",
		"gs://bucket/../other/":                "",
		"gs://bucket/a//b/":                    "",
		"gs+http://example.org/bucket/":        "",
		"gs+http://10.0.0.1:80/bucket/":        "",
		"gs+http://127.0.0.1:4443/":            "",
	} {
		place, err := store.Open(uri, http.DefaultTransport)
		switch {
		case want == "" && err != nil && code(err) != "USAGE":
			t.Errorf("%q: %v, want USAGE", uri, err)
		case want == "" && err == nil:
			t.Errorf("%q was opened as %q", uri, place.URI())
		case want != "" && err != nil:
			t.Errorf("%q: %v", uri, err)
		case want != "" && place.URI() != want:
			t.Errorf("%q was opened as %q, want %q", uri, place.URI(), want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error repeats the password", uri)
		}
	}
	if _, err := store.Open("gs://bucket/", nil); err == nil {
		t.Error("a bucket was opened without a transport")
	}
	if _, err := store.OpenWriter("gs://bucket/"); err == nil {
		t.Error("a bucket was opened for writing by the wrong package")
	}
}
