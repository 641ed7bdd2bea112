package cli_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestImageReferences: nothing is assumed that was not written, and what was
// written has one meaning.
func TestImageReferences(t *testing.T) {
	const pin = "@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, row := range []struct{ reference, repository, tag string }{
		{"registry.example.test/team/demo:v1", "demo", "v1"},
		{"registry.example.test:5000/team/demo:v1", "demo", "v1"},
		{"registry.example.test/demo:v1", "demo", "v1"},
		{"registry.example.test/team/demo" + pin, "demo", ""},
		{"registry.example.test/team/demo:v1" + pin, "demo", "v1"}, // both must agree
		{"localhost/demo:v1", "demo", "v1"},
		{"localhost:5000/a/b/c/demo:v1", "demo", "v1"},
		{"127.0.0.1:5000/demo:v1", "demo", "v1"},
		{"[::1]:5000/demo:v1", "demo", "v1"},
		{"registry.example.test/demo:sha256-abc.sig", "demo", "sha256-abc.sig"},

		{"demo", "", ""},
		{"demo:v1", "", ""},
		{"team/demo:v1", "", ""}, // no host, and none is made up
		{"library/demo" + pin, "", ""},
		{"registry.example.test/team/demo", "", ""}, // no tag, and none is made up
		{"registry.example.test/team/demo:", "", ""},
		{"registry.example.test/team/demo@", "", ""},
		{"registry.example.test/team/demo@sha256:", "", ""},
		{"registry.example.test/team/demo@sha256:abc", "", ""},
		{"registry.example.test/team/demo" + strings.ToUpper(pin), "", ""},
		{"registry.example.test/team/demo@sha512:" + strings.Repeat("0", 128), "", ""},
		{"registry.example.test/team/demo@md5:" + strings.Repeat("0", 32), "", ""},
		{"registry.example.test/team/demo" + pin + pin, "", ""},
		{"registry.example.test/team/demo" + pin + ":v1", "", ""},
		{"https://registry.example.test/team/demo:v1", "", ""},
		{"docker://registry.example.test/team/demo:v1", "", ""},
		{"user@registry.example.test/team/demo:v1", "", ""},
		{"user:secret@registry.example.test/team/demo:v1", "", ""},
		{"/team/demo:v1", "", ""},
		{"", "", ""},
		{":v1", "", ""},
		{pin, "", ""},
	} {
		image, err := cli.Image(row.reference, http.DefaultTransport)
		switch code := verdict.FindingOf("", err).Code; {
		case row.repository == "" && (err == nil || code != verdict.Usage):
			t.Errorf("%s: %v, want USAGE", row.reference, err)
		case row.repository != "" && err != nil:
			t.Errorf("%s: %v", row.reference, err)
		case image.Repository != row.repository || image.Tag != row.tag || image.Digest.IsZero() == strings.Contains(row.reference, "@") && err == nil:
			t.Errorf("%s: repository %q, tag %q, digest %s", row.reference, image.Repository, image.Tag, image.Digest)
		}
	}
	// What cannot be a repository or a tag is refused when it is asked, before
	// anything is sent.
	for _, reference := range []string{
		"registry.example.test/team/Demo:v1", "registry.example.test/team/..:v1", "registry.example.test/team/demo:v1:v2",
		"registry.example.test/team/demo:v 1", "registry.example.test/team/demo:" + strings.Repeat("x", 200), "registry.example.test/team//demo:v1",
	} {
		image, err := cli.Image(reference, refuses{t})
		if err == nil {
			_, err = image.Source.Resolve(t.Context(), image.Repository, image.Tag)
		}
		if code := verdict.FindingOf("", err).Code; err == nil || code != verdict.Usage {
			t.Errorf("%s: %v, want USAGE", reference, err)
		}
	}
}

// refuses is a network that nothing may reach.
type refuses struct{ t *testing.T }

func (r refuses) RoundTrip(req *http.Request) (*http.Response, error) {
	r.t.Errorf("%s was asked", req.URL)
	return nil, http.ErrNotSupported
}
