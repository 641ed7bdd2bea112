package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// validBut is the policy that the tests of pkg/judge/policy read, with changes.
func validBut(t *testing.T, changes ...string) policy.Policy {
	t.Helper()
	raw, err := os.ReadFile("../judge/policy/testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse([]byte(strings.NewReplacer(changes...).Replace(string(raw))), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestWithdrawnNamesAnother: a withdrawn release is refused with the reason, and
// names another version only if its manifest does.
func TestWithdrawnNamesAnother(t *testing.T) {
	for use, want := range map[string]string{"": "withdrawn: it leaks", "v1.2.4": "withdrawn: it leaks; use v1.2.4 instead"} {
		f := verdict.FindingOf("", withdrawn(manifest.Withdrawal{Reason: "it leaks", Use: use}))
		if f.Code != verdict.Withdrawn || f.Message != want {
			t.Errorf("%q: %s %q", use, f.Code, f.Message)
		}
	}
}

// TestSignoffAsStrictAsItsMode: a missing sign-off refuses a release, or warns
// where the feature that requires one is lowered, and then counts as nothing.
func TestSignoffAsStrictAsItsMode(t *testing.T) {
	const role = "  %s: [{issuer: \"https://accounts.example.test\", subject: %[1]s@example.test, type: email}]\n"
	p := validBut(t, "roles:\n", "roles:\n"+fmt.Sprintf(role, "signoff")+fmt.Sprintf(role, "reconciler"),
		"plan: require\n", "plan: require\nsignoff: {stages: [staging], maxAge: 720h}\nfeatures:\n  RequireSignoff: {floor: warn}\n")
	lowered, err := p.Under(verdict.Feature{Name: "waybill/RequireSignoff", State: "TurningOff", Number: 3, Mode: "warn"})
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		by      policy.Policy
		mode    policy.Mode
		counted int // also those that spoil
	}{{p, policy.Require, 1}, {lowered, policy.Warn, 0}} {
		f := checkSignoff(t.Context(), gathered{release: &sealed{Request: Request{Files: files, Policy: row.by, Stage: policy.Staging}}})
		if len(f.differences) != 1 || f.differences[0].Code != verdict.SignoffMissing || f.differences[0].mode != row.mode {
			t.Errorf("%s: %+v", row.mode, f.differences)
		}
		if len(f.counted) != row.counted || len(f.spoiled) != row.counted {
			t.Errorf("%s: counted %v, spoiled %v", row.mode, f.counted, f.spoiled)
		}
	}
}

// TestProvenanceAsStrictAsItsUse: a finding about a provenance is as strict as the
// strictest requirement of the artifacts that use it.
func TestProvenanceAsStrictAsItsUse(t *testing.T) {
	p := validBut(t, "  classes: [binary, archive, file, image]\n  checks: {provenance: require,", "  classes: [binary, file, image]\n  checks: {provenance: require,",
		"- {stages: [staging, release], classes: [sums]", "- {stages: [staging, release], classes: [archive], checks: {provenance: warn, signature: require, sbom: require}}\n- {stages: [staging, release], classes: [sums]")
	const by = "build.intoto.jsonl"
	for _, row := range []struct {
		uses    []plan.Class
		vouched bool
		want    policy.Mode
	}{
		{nil, false, policy.Require},
		{[]plan.Class{plan.Binary}, false, policy.Require},
		{[]plan.Class{plan.Binary}, true, policy.Off},
		{[]plan.Class{plan.Archive}, false, policy.Warn},
		{[]plan.Class{plan.Sums}, false, policy.Off},
		{[]plan.Class{plan.Sums, plan.Archive}, false, policy.Warn},
		{[]plan.Class{plan.Archive, plan.Sums}, false, policy.Warn},
		{[]plan.Class{plan.Archive, plan.Binary}, false, policy.Require},
		{[]plan.Class{plan.Binary, plan.Archive}, false, policy.Require},
	} {
		g := gathered{release: &sealed{Request: Request{Policy: p, Stage: policy.Staging}}, vouched: vouching{}}
		for i, class := range row.uses {
			a := manifest.Artifact{Artifact: plan.Artifact{Name: fmt.Sprint(i), Class: class}, Provenance: by}
			g.release.manifest.Artifacts = append(g.release.manifest.Artifacts, a)
			if row.vouched {
				g.vouched[a.Name] = vouched{}
			}
		}
		of := manifest.Artifact{Artifact: plan.Artifact{Name: by, Class: plan.Provenance}}
		if row.uses == nil {
			g.release.asked = map[string]bool{by: true}
		}
		if got := g.weightOf(of); got != row.want {
			t.Errorf("%+v: %s", row, got)
		}
	}
}

// TestKindOfImageSignature: cosign's signature of an image may be of either form,
// and each other kind only of the one that is asked for.
func TestKindOfImageSignature(t *testing.T) {
	var e verify.Evidence // of another kind than an image's older signature
	for _, kind := range []string{intoto.CosignSignature, provenance.PredicateType} {
		if got := (Ask{Type: kind}).kind(e); got != kind {
			t.Errorf("%s: %s", kind, got)
		}
	}
	if got := (Ask{}).kind(e); got != e.Kind() {
		t.Errorf("a signature: %s", got)
	}
}

// TestPolicyAloneLeaves: what the policy does not require of the class that is
// judged is left out by name, and what it does require is not.
func TestPolicyAloneLeaves(t *testing.T) {
	const sbom = "sbom of binary"
	for mode, left := range map[string]bool{"require": false, "warn": true, "off": true} {
		r := PolicyRequest{Policy: validBut(t, "sbom: require", "sbom: \""+mode+"\"", "files: require", "files: warn"), Verifier: &verify.Verifier{}, Stage: policy.Staging, Now: time.Unix(0, 0)}
		scope := r.begin("q", "", plan.Binary).v.Scope
		if slices.Contains(scope.Left, sbom) != left || slices.Contains(scope.NotRequired, sbom) != left {
			t.Errorf("%s: left %q, not required %q", mode, scope.Left, scope.NotRequired)
		}
		if slices.Contains(scope.Left, "closed files") || slices.Contains(scope.NotRequired, "closed files") {
			t.Errorf("%s: of the whole release: %q", mode, scope.Left)
		}
	}
}

// TestAttestsIsOfKind: evidence of another kind attests nothing.
func TestAttestsIsOfKind(t *testing.T) {
	r := PolicyRequest{Policy: validBut(t)}
	for _, kinds := range [][]string{nil, {provenance.PredicateType}, {intoto.CosignSignature, provenance.PredicateType}} {
		if r.attests(verify.Evidence{}, policy.Question{Stage: policy.Staging, Class: plan.Image}, policy.Release, kinds...) {
			t.Errorf("no evidence attests %q", kinds)
		}
	}
}

// TestSettle: an address is moved when it is the one named or below it, for the
// files and the images each.
func TestSettle(t *testing.T) {
	canon := Canonical{Files: "https://dl.example.test/lantern/v1.2.3/", Images: "registry.example.test/lantern"}
	for _, row := range []struct {
		instead       []string
		files, images string
		refused       bool
	}{
		{nil, "", "", false},
		{[]string{"https://dl.example.test/lantern/v1.2.3=./mirror"}, "./mirror", "", false},
		{[]string{"https://dl.example.test=./mirror"}, "./mirror/lantern/v1.2.3/", "", false},
		{[]string{"registry.example.test/lantern=localhost:5000/copy"}, "", "localhost:5000/copy", false},
		{[]string{"registry.example.test=localhost:5000"}, "", "localhost:5000/lantern", false},
		{[]string{"https://dl.example.test=./mirror", "registry.example.test=localhost:5000"}, "./mirror/lantern/v1.2.3/", "localhost:5000/lantern", false},
		{[]string{"registry.example.test/lantern/more=localhost:5000"}, "", "", true},
		{[]string{"registry.example=localhost:5000"}, "", "", true},
		{[]string{"registry.example.test="}, "", "", true},
		{[]string{"registry.example.test=localhost:5000", "registry.example.test=localhost:5001"}, "", "", true},
	} {
		at, _, err := Elsewhere{Instead: row.instead}.Settle(canon)
		if at.Files != row.files || at.Images != row.images || (err != nil) != row.refused || row.refused && verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("%q: %q, %q, %v", row.instead, at.Files, at.Images, err)
		}
	}
}

// TestLayersOf: an image whose configuration the registry lacks is refused as
// incomplete, and one that has it is read.
func TestLayersOf(t *testing.T) {
	layout, err := registry.OpenLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	layer := digest.Of(digest.SHA256, []byte("layer"))
	config := fmt.Appendf(nil, `{"rootfs":{"type":"layers","diff_ids":[%q]}}`, layer)
	p := pulled{name: "demo", repository: "demo", node: &registry.Node{}}
	if _, err = layersOf(t.Context(), layout, p); err == nil || verdict.FindingOf("", err).Code != verdict.FileType {
		t.Errorf("a manifest that names no configuration: %v", err)
	}
	p.node.Config = registry.Descriptor{Digest: digest.Of(digest.SHA256, config), Size: int64(len(config))}
	_, err = layersOf(t.Context(), layout, p)
	if f := verdict.FindingOf("", err); err == nil || f.Code != verdict.Missing || f.Subject != "demo" || f.Message != "the configuration is not in the registry" {
		t.Errorf("without a configuration: %+v", f)
	}
	if err := layout.PushBlob(t.Context(), "demo", p.node.Config, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(config)), nil }); err != nil {
		t.Fatal(err)
	}
	if got, err := layersOf(t.Context(), layout, p); err != nil || !slices.Equal(got, []digest.Digest{layer}) {
		t.Errorf("with it: %v, %v", got, err)
	}
}

// TestSummaryReplacesProvenance: an image for which a summary counts is judged by
// what the verifiers say of it, and its provenance is not asked for.
func TestSummaryReplacesProvenance(t *testing.T) {
	layout, err := registry.OpenLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a := manifest.Artifact{Artifact: plan.Artifact{Name: "oci/demo/linux/amd64", Class: plan.ImageChild, Repository: "demo"}, Digests: digest.SetOf([]byte("image"))}
	for _, row := range []struct {
		by      vouching
		said    int
		missing bool
	}{
		{vouching{a.Name: {more: make([]verify.Evidence, 2)}}, 2, false},
		{vouching{"oci/other": {more: make([]verify.Evidence, 2)}}, 0, true},
		{nil, 0, true},
	} {
		g := gathered{vouched: row.by, release: &sealed{
			Request: Request{Policy: validBut(t), Stage: policy.Staging}, reader: &imageReader{source: layout, verifier: &verify.Verifier{}},
		}}
		i := g.item(t.Context(), a)
		if len(i.evidence) != row.said || (i.question.Why[policy.Provenance] != nil) != row.missing {
			t.Errorf("%v: %d statements, %v", row.by, len(i.evidence), i.question.Why)
		}
	}
}

// downPlace is a place that lists, and answers no question for a file.
type downPlace struct{ store.Place }

func (downPlace) Open(context.Context, string) (io.ReadCloser, int64, error) {
	return nil, 0, &verdict.UnavailableError{Place: "files", Op: "reading", Err: errors.New("no answer")}
}

// TestListedIsNotLate: only what the manifest does not list is read as evidence
// that came later; the rest is read by the checks that need it.
func TestListedIsNotLate(t *testing.T) {
	const name = "build" + BundleSuffix
	for is, want := range map[bool]int{true: 0, false: 1} {
		var f facts
		s := &sealed{Request: Request{Files: downPlace{}}}
		left, _ := s.withoutLate(t.Context(), []store.Object{{Name: name, Size: 10}}, map[string]bool{name: is}, &f)
		if len(f.spoiled) != want || len(left) != 1 {
			t.Errorf("listed is %t: %v, %v", is, f.spoiled, left)
		}
	}
}
