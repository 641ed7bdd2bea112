package gate

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// absent is a transport to a registry that has nothing. It counts requests.
type absent struct{ asked int }

func (a *absent) RoundTrip(r *http.Request) (*http.Response, error) {
	a.asked++
	answer := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{"Content-Type": {"application/json"}}, Request: r}
	if r.URL.Path == "/v2/" {
		answer.StatusCode = http.StatusOK
	}
	answer.Body = io.NopCloser(strings.NewReader(`{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`))
	return answer, nil
}

// TestRootNeedsCache: without a directory for the cache no trust root is fetched: a
// cache in the working directory could be anybody's.
func TestRootNeedsCache(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	t.Chdir(t.TempDir())
	var rt absent
	if _, err := publicGood(t.Context(), Opening{Transport: &rt}); err == nil || rt.asked > 0 {
		t.Errorf("%v, after %d requests", err, rt.asked)
	}
}

// TestNamedDefectsAreRead: a named list that cannot be read is refused.
func TestNamedDefectsAreRead(t *testing.T) {
	_, err := Named{Defects: []string{filepath.Join(t.TempDir(), "nowhere.yaml")}}.read(nil, profile.Profile{})
	if refusedAs(err) != verdict.Usage {
		t.Errorf("got %v, want %s", err, verdict.Usage)
	}
}

// TestPlacesOfImages: a profile that does not say where the images of a stage are is
// refused, and the release is not judged without them.
func TestPlacesOfImages(t *testing.T) {
	p, err := profile.Load(profile.KubernetesSealed, profile.Reader{Now: time.Now(), Trust: func() (trust.Root, error) { return trust.Embedded(), nil }})
	if err != nil {
		t.Fatal(err)
	}
	v, err := version.Parse("v1.31.2")
	if err != nil {
		t.Fatal(err)
	}
	g := Under(p, nil, Waivers{}, nil)
	for stage, code := range map[profile.Stage]verdict.Code{profile.Staging: verdict.ConfigParse, profile.Release: ""} {
		opened, _, err := g.Places(v, stage, Elsewhere{Files: t.TempDir()})
		if refusedAs(err) != code || (opened.Images == nil) != (code != "") {
			t.Errorf("%s: %+v, %v", stage, opened, err)
		}
	}
}

// TestSignerAdmits: evidence counts for the identity that made it, and for no other.
func TestSignerAdmits(t *testing.T) {
	e := signedBlob(t, "blob")
	other := e.Identity()
	other.Subject = "mallory@evil.example"
	for who, want := range map[identity.Identity]verdict.Code{e.Identity(): "", other: verdict.Identity} {
		m, err := identity.Exact(who)
		if err != nil {
			t.Fatal(err)
		}
		if got := refusedAs(SignedBy(&verify.Verifier{}, m).admit(e, "bin/a")); got != want {
			t.Errorf("%s: %q, want %q", who, got, want)
		}
	}
}

// TestLayoutNeedsLinks: a directory of links that does not exist is wrong use.
func TestLayoutNeedsLinks(t *testing.T) {
	layout := filepath.Join(place(t, map[string]string{"root.layout": "{}"}).URI(), "root.layout")
	v := Layout(t.Context(), LayoutRequest{Layout: strings.TrimPrefix(layout, "file:"), Links: filepath.Join(t.TempDir(), "nowhere"), Now: time.Unix(0, 0)})
	if len(v.Findings) != 1 || v.Findings[0].Code != verdict.Usage || !strings.Contains(v.Findings[0].Message, "links") {
		t.Errorf("%v", v.Findings)
	}
}

// TestInputsOfRows: a tool without a signature is unsigned, and an image that its
// registry no longer has is said to be missing there.
func TestInputsOfRows(t *testing.T) {
	const row = "signers: [{issuer: \"https://accounts.example.test\", subject: tools@example.test, type: email}], checks: {signature: require, provenance: \"off\"}}\n"
	sum := digest.Of(digest.SHA256, []byte("input"))
	for _, one := range []struct {
		in   input
		code verdict.Code
	}{
		{input{"tool go", "", sum}, verdict.Unsigned},
		{input{"base static", "oci://registry.example.test/static@" + sum.String(), sum}, verdict.FetchMissing},
	} {
		j := inputJudge{
			policy: validBut(t, "plan: require\n", "plan: require\ninputs:\n- {tool: go, "+row+"- {image: registry.example.test/static, "+row),
			root:   trust.Embedded(), now: time.Now(), world: &Opening{Transport: new(absent)},
		}
		answers, f := j.judge(t.Context(), []input{one.in, one.in})
		if len(answers) != 1 || len(f.differences) != 1 || f.differences[0].Code != one.code || f.differences[0].mode != policy.Require {
			t.Errorf("%s: %d answers, %+v, want %s", one.in.name, len(answers), f.differences, one.code)
		}
	}
}
