package github_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestParse(t *testing.T) {
	for uri, want := range map[string]string{
		"github://example/lantern/v1.0.0/":                       "github://example/lantern/v1.0.0/",
		"github://example/lantern/cli/v1.0.0+1":                  "github://example/lantern/cli/v1.0.0+1/",
		"github+https://GitHub.example.test/o/r/v1":              "github+https://github.example.test/o/r/v1/",
		"github+https://github.com/o/r/v1":                       "github://o/r/v1/",
		"github+http://127.0.0.1:80/o/r/v1":                      "github+http://127.0.0.1:80/o/r/v1/",
		"github+http://github.example.test/o/r/v1":               "",
		"github://example/lantern":                               "",
		"github://example/../v1":                                 "",
		"github://user:secret@example/lantern/v1":                "",
		"github://example/lantern/v1?x":                          "",
		"github://example/lan%2Ftern%20x/v1":                     "",
		"https://github.com/example/lantern/releases/tag/v1.0.0": "",
	} {
		a, err := github.Parse(uri)
		if want == "" {
			if verdict.OutcomeOf(err) != verdict.Malformed || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: %v", uri, err)
			}
			continue
		}
		if err != nil || a.URI() != want {
			t.Errorf("%s: %q, %v, want %q", uri, a.URI(), err, want)
		}
	}
}

// TestNames: the planned name is read back from what is stored.
func TestNames(t *testing.T) {
	for planned, flat := range map[string]string{
		"bin/linux/amd64/tool": "bin_linux_amd64_tool",
		"tool_1.0+a@b-c":       "tool_1.0+a@b-c",
		".hidden":              "_hidden",
		"a..b~c":               "a._b_c",
	} {
		a := github.AssetOf(planned)
		if a.Name != flat || a.Planned() != planned {
			t.Errorf("%q is stored as %+v", planned, a)
		}
	}
	for _, a := range []github.Asset{{Name: "tool", Label: "The tool"}, {Name: "bin_tool", Label: "sbin/tool"}} {
		if a.Planned() != a.Name {
			t.Errorf("%+v is %q", a, a.Planned())
		}
	}
}

func TestCheckNames(t *testing.T) {
	many := make([]string, github.MaxAssets+1)
	for i := range many {
		many[i] = strings.Repeat("x", i/200+1) + "-" + strings.Repeat("y", i%200)
	}
	for _, c := range []struct {
		name  string
		names []string
		want  verdict.Code
	}{
		{"different", []string{"bin/tool", "bin-tool"}, ""},
		{"one asset", []string{"bin/tool", "bin_tool"}, verdict.Path},
		{"one asset but for the case", []string{"bin/tool", "BIN_tool"}, verdict.Path},
		{"long", []string{strings.Repeat("d/", 127) + "f"}, ""},
		{"too long", []string{strings.Repeat("d/", 128) + "f"}, verdict.Path},
		{"many", many[1:], ""},
		{"too many", many, verdict.Limit},
	} {
		err := github.CheckNames(c.names)
		got := verdict.Code("")
		if err != nil {
			got = verdict.FindingOf("", err).Code
		}
		if got != c.want {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if c.name == "one asset" && (!strings.Contains(err.Error(), "bin/tool") || !strings.Contains(err.Error(), "bin_tool")) {
			t.Errorf("%v does not name both", err)
		}
	}
}

// TestIndex: an asset that should have replaced another one counts as that one only
// if it is whole and the other is gone.
func TestIndex(t *testing.T) {
	sum := digest.Of(digest.SHA256, []byte("new"))
	later := github.Replacing("bin/tool", sum)
	later.State, later.Digest = "uploaded", sum
	half, other, unlabelled := later, later, later
	half.State, other.Digest, unlabelled.Label = "starter", digest.Of(digest.SHA256, []byte("other")), ""
	tool := github.AssetOf("bin/tool")
	for _, c := range []struct {
		name   string
		assets []github.Asset
		want   string
	}{
		{"the old one is gone", []github.Asset{later}, "bin/tool"},
		{"the old one is there", []github.Asset{later, tool}, later.Name + " bin/tool"},
		{"half uploaded", []github.Asset{half}, later.Name},
		{"of other bytes", []github.Asset{other}, later.Name},
		{"without a label", []github.Asset{unlabelled}, later.Name},
		{"twice", []github.Asset{tool, tool}, ""},
		{"a name and a label", []github.Asset{tool, {Name: "bin/tool"}}, ""},
		{"a negative size", []github.Asset{{Name: "tool", Size: -1}}, ""},
	} {
		l, err := github.Index("github://o/r/v1/", c.assets)
		if got := strings.Join(l.Sorted(), " "); got != c.want || (err != nil) != (c.want == "") || err != nil && verdict.OutcomeOf(err) != verdict.Unavailable {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
	}
}
