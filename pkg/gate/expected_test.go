package gate

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/policies"
)

// TestExpectedIsInput: a verdict names the file of a list, and its digest.
func TestExpectedIsInput(t *testing.T) {
	raw, err := policies.Read("kubernetes/expected/1.31")
	if err != nil {
		t.Fatal(err)
	}
	u := unsealed{}
	if u.List, err = k8slayout.ParseList(raw); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{"": false, "list.yaml": true} {
		u.Options.Expected = path
		f := u.limits(k8slayout.Set{}, collected{})
		if got := slices.Contains(f.inputs, verdict.Input{Name: "list of 1.31", Place: "list.yaml", Digest: digest.Of(digest.SHA256, raw)}); got != want {
			t.Errorf("%q: %v", path, f.inputs)
		}
		if slices.Contains(f.left, "other addresses of the images") {
			t.Errorf("a release without images leaves out %q", f.left)
		}
	}
}

// TestImagesHaveOtherAddresses: a release with images says that it was not looked
// for them elsewhere.
func TestImagesHaveOtherAddresses(t *testing.T) {
	f := (&unsealed{}).limits(k8slayout.Set{}, collected{images: make([]pulled, 1)})
	if !slices.Contains(f.left, "other addresses of the images") {
		t.Errorf("it leaves out %q", f.left)
	}
}

// TestExpectedNamed: a list that the user names counts for its minor version; where
// the policy names who signs lists, only with a signature.
func TestExpectedNamed(t *testing.T) {
	read := func(name string) []byte {
		raw, err := policies.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	list := filepath.Join(t.TempDir(), "list.yaml")
	if err := os.WriteFile(list, read("kubernetes/expected/1.31"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, r := range []struct {
		name, policy, version string
		sealed                bool
		code                  verdict.Code
	}{
		{"its minor version", "kubernetes-today", "v1.31.2", false, ""},
		{"another minor version", "kubernetes-today", "v1.32.0", false, verdict.Version},
		{"unsigned, and the policy names who signs", "kubernetes-release", "v1.31.2", false, verdict.Unsigned},
		{"a release with a manifest", "kubernetes-release", "v1.31.2", true, verdict.Usage},
	} {
		t.Run(r.name, func(t *testing.T) {
			p, err := policy.Parse(read(r.policy), nil)
			if err != nil {
				t.Fatal(err)
			}
			v, err := version.Parse(r.version)
			if err != nil {
				t.Fatal(err)
			}
			g := Gate{profile: profile.Profile{Policy: p, Unsealed: &profile.Unsealed{}}}
			if r.sealed {
				g.profile.Unsealed = nil
			}
			if r.code == "" { // judging it would need a place
				l, err := g.expected(list)
				if err != nil || l.Minor() != "1.31" {
					t.Errorf("%q, %v", l.Minor(), err)
				}
				return
			}
			_, err = g.Decide(t.Context(), Request{Version: v, Options: Options{Expected: list}})
			var refused *verdict.Error
			if !errors.As(err, &refused) || refused.Finding.Code != r.code {
				t.Errorf("got %v, want %s", err, r.code)
			}
		})
	}
}

// TestOfflineOpensNoLog: offline, no log is asked for the proof of older signatures,
// so its address is not looked at, and the list is the first that is wrong.
func TestOfflineOpensNoLog(t *testing.T) {
	list := filepath.Join(t.TempDir(), "list.yaml")
	for offline, want := range map[bool]string{false: "not an address", true: list} {
		g := Gate{profile: profile.Profile{Unsealed: &profile.Unsealed{Log: "not an address"}}, opening: Opening{Offline: offline}}
		_, err := g.Decide(t.Context(), Request{Version: versionOf(t, "v1.31.2"), Options: Options{Expected: list}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("offline is %t: %v, want %s", offline, err, want)
		}
	}
}
