package address_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/address"
)

// TestCanonical: each spelling of one place, and of others beside it.
func TestCanonical(t *testing.T) {
	for name, want := range map[string]string{
		"registry.example.test/prod":           "registry.example.test/prod",
		"registry.example.test/prod/":          "registry.example.test/prod",
		"REGISTRY.Example.test/prod":           "registry.example.test/prod",
		"registry.example.test./prod":          "registry.example.test/prod",
		"registry.example.test:443/prod":       "registry.example.test/prod",
		"registry.example.test.:443//prod/./a": "registry.example.test/prod/a",
		"registry.example.test:/prod":          "registry.example.test/prod",
		"registry.example.test:80/prod":        "registry.example.test:80/prod",
		"registry.example.test:5000":           "registry.example.test:5000",
		"registry.example.test":                "registry.example.test",
		"localhost:80/prod":                    "localhost/prod",
		"localhost:443/prod":                   "localhost:443/prod",
		"127.0.0.1:80/prod":                    "127.0.0.1/prod",
		"127.0.0.1:443/prod":                   "127.0.0.1:443/prod",
		"192.0.2.1:443/prod":                   "192.0.2.1/prod",
		"[::1]:80/prod":                        "[::1]/prod",
		"[0:0::1]/prod":                        "[::1]/prod",
		"[::ffff:127.0.0.1]:5000/prod":         "127.0.0.1:5000/prod",
		"[2001:DB8::1]:443/prod":               "[2001:db8::1]/prod",
		"docker.io/prod":                       "index.docker.io/prod",
		"registry-1.docker.io:443/prod":        "index.docker.io/prod",
		"index.docker.io/library/lantern":      "index.docker.io/library/lantern",
		"docker.io:5000/prod":                  "docker.io:5000/prod",
		"k8s.1and1.example/prod":               "k8s.1and1.example/prod",
		"bucket/prefix":                        "bucket/prefix",
		"gs://bucket/Prefix//v0.1.0/":          "bucket/Prefix/v0.1.0",
		"https://DL.example.test:443/a":        "dl.example.test/a",
		"https://dl.example.test:80/a":         "dl.example.test:80/a",
		"http://127.0.0.1:80/a":                "127.0.0.1/a",
		"https://127.0.0.1:443/a":              "127.0.0.1/a",
		"https://docker.io/a":                  "docker.io/a",
		"s3+http://127.0.0.1:80/bucket/a":      "127.0.0.1/bucket/a",
		"S3+https://s3.example.test:443/b/A":   "s3.example.test/b/A",
		"tar:///srv/release%20 a.tar":          "/srv/release%20 a.tar",
		"file:///srv//release/./v0.1.0/":       "/srv/release/v0.1.0",
	} {
		got, err := address.Canonical(name)
		if err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
			continue
		}
		again := got
		if scheme, _, files := strings.Cut(name, "://"); files {
			again = scheme + "://" + got
		}
		if twice, err := address.Canonical(again); err != nil || twice != got {
			t.Errorf("%s: canonical is %q, and of that %q, %v", name, got, twice, err)
		}
	}
}

// TestNoCanonical: what could be read in two ways has no canonical spelling.
func TestNoCanonical(t *testing.T) {
	for _, name := range []string{
		"", "/prod", "://prod", ":443/prod", "..", "registry..example.test/prod", "registry.example.test../prod",
		"registry.example.test:0443/prod", "registry.example.test:0/prod", "registry.example.test:65536/prod", "registry.example.test:x/prod",
		"registry.example.test:80:80/prod", "user@registry.example.test/prod", "registry.example.test/prod@sha256:00", "registry.example.test/prod:tag",
		"registry.example.test/../prod", "registry.example.test/Prod", "registry.example.test/%70rod", `registry.example.test\prod`, "registry.example.test/prod?x", "registry.example.test/pröd",
		"régistry.example.test/prod", "registry%2eexample.test/prod", "registry.example.test /prod", "-registry.example.test/prod",
		"127.1/prod", "127.0.0.01/prod", "0x7f.0.0.1/prod", "0x7f000001/prod", "2130706433/prod", "127.0.0.256/prod", "1.2.3.4.5/prod", "a.08/prod",
		"[::1/prod", "[::1]x/prod", "[127.0.0.1]/prod", "[fe80::1%25eth0]/prod", "::1/prod",
		"https://dl.example.test/../a", "https://dl.example.test/%70rod", "https://dl.example.test/a?b", "gs:///a", "file:///srv/../a", "registry.example.test/" + strings.Repeat("a", 3000),
	} {
		if got, err := address.Canonical(name); err == nil {
			t.Errorf("%q is read as %q", name, got)
		}
	}
}

// TestCovers: what lies in another place, spelled in each way, and what does
// not.
func TestCovers(t *testing.T) {
	for _, row := range []struct {
		outer, inner string
		want         bool
	}{
		{"registry.example.test/prod", "registry.example.test/prod", true},
		{"registry.example.test/prod", "registry.example.test/prod/lantern", true},
		{"registry.example.test/prod", "registry.example.test/production", false},
		{"registry.example.test/prod", "registry.example.test", false},
		{"registry.example.test/prod", "registry.example.test:443/prod/lantern", true},
		{"registry.example.test:443/prod", "registry.example.test/prod/lantern", true},
		{"registry.example.test/prod", "registry.example.test:5000/prod/lantern", false},
		{"registry.example.test/prod", "REGISTRY.example.test./prod//lantern", true},
		{"docker.io/prod", "index.docker.io/prod/lantern", true},
		{"docker.io", "registry-1.docker.io/prod/lantern", true},
		{"docker.io/lantern", "index.docker.io/library/lantern", true},
		{"docker.io/library/lantern", "docker.io/lantern", true},
		{"docker.io/library", "docker.io/lantern", true},
		{"docker.io/library/lantern", "docker.io/lantern/lantern", false},
		{"docker.io/lantern", "index.docker.io/library/wick", false},
		{"registry.example.test/prod", "registry.example.test/other/%70rod", true},
		{"registry.example.test/%70rod", "registry.example.test/other", false},
	} {
		if got := address.Covers(row.outer, row.inner); got != row.want {
			t.Errorf("%q covers %q: %t, want %t", row.outer, row.inner, got, row.want)
		}
	}
}
