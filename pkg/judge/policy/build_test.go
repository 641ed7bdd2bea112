package policy

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestAllowsSource: a build of the policy's repository is allowed, written either
// way, and of no other.
func TestAllowsSource(t *testing.T) {
	p, err := Parse([]byte(court(t, -1, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for repository, want := range map[string]verdict.Code{
		"https://example.test/lantern": "", "git+https://example.test/lantern": "",
		"https://example.test/lantern-fork": verdict.SourceRepo, "git+https://example.test/torch": verdict.SourceRepo, "": verdict.SourceRepo,
	} {
		if err := p.NewSession().AllowsSource(repository); (err == nil) != (want == "") || err != nil && verdict.FindingOf("", err).Code != want {
			t.Errorf("%q: %v, want %q", repository, err, want)
		}
	}
}

// TestVouching: where the user accepts summaries, one of the verifier replaces
// provenance, and nothing that is required of classes without provenance.
func TestVouching(t *testing.T) {
	p, err := Parse([]byte(court(t, -1, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	vouching, err := p.Vouching()
	if err != nil {
		t.Fatal(err)
	}
	q := asking(t, plan.Archive)
	for _, row := range []struct {
		name string
		p    *Policy
		by   string
		want verdict.Code
	}{
		{"the verifier", &vouching, "verifier", ""},
		{"the verifier, unasked", &p, "verifier", verdict.NoProvenance},
		{"the release identity", &vouching, "release", verdict.IdentityRole},
	} {
		if got := answerTo(t, row.p, saidBy(t, q, person(row.by), vsa.PredicateType, summaryOfTest)); got != row.want {
			t.Errorf("a summary by %s: %q, want %q", row.name, got, row.want)
		}
	}
	sums := asking(t, plan.Sums)
	for by, want := range map[string]bool{"release": true, "verifier": false} {
		m := &judgement{policy: &vouching, q: sums, facts: []*fact{saidBy(t, sums, person(by), kindBlob, "")}}
		if got := m.decide()[0].met; got != want {
			t.Errorf("sums signed by the %s identity: accepted is %t, want %t", by, got, want)
		}
	}
}

// TestRebuiltFromProvenance: a rebuild counts that names provenance of the builder,
// not one that names a statement that another identity signed.
func TestRebuiltFromProvenance(t *testing.T) {
	p, err := Parse([]byte(court(t, -1, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	q := asking(t, plan.Archive)
	q.Stage = Staging
	for by, want := range map[string]verdict.Code{"builder": "", "release": verdict.NotBound, "mallory": verdict.NotBound} {
		built := saidBy(t, q, person(by), "https://slsa.dev/provenance/v1", buildOf("https://example.test/builder"))
		again := saidBy(t, q, person("rebuilder"), rebuildrecord.PredicateType, strings.Replace(rebuildOfTest, strings.Repeat("0", 63)+"1", built.bundle.Hex(), 1))
		asked := 0
		for _, r := range (&judgement{policy: &p, q: q, facts: []*fact{built, again}}).decide() {
			if r.name != "rebuilt" {
				continue
			}
			asked++
			if r.met != (want == "") || !r.met && verdict.FindingOf("", r.err).Code != want {
				t.Errorf("provenance by %s: %v, want %q", by, r.err, want)
			}
		}
		if want != "" && asked != 1 {
			t.Errorf("provenance by %s: rebuilders were asked for %d times", by, asked)
		}
	}
}
