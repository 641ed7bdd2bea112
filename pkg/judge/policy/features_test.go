package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	reconciler = "  reconciler:\n  - {issuer: \"https://accounts.example.test\", subject: reconciler@example.test, type: email}\n"
	switched   = "features:\n  RequireProvenance: {floor: \"off\"}\n  RequireSignoff: {floor: warn}\n"
)

// withFeatures is the valid policy, with a sign-off and with more.
func withFeatures(t testing.TB, roles, field string) string {
	t.Helper()
	return withSignoff(t, signer+roles, demanded+field)
}

func featured(t testing.TB) policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte(withFeatures(t, reconciler, switched)), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestFeaturesLoad: a policy says which requirements may be switched, by whose
// word, and how far; and something is always required.
func TestFeaturesLoad(t *testing.T) {
	p := featured(t)
	if floors := p.Floors(); len(floors) != 2 || floors["RequireProvenance"] != policy.Off || floors["RequireSignoff"] != policy.Warn {
		t.Errorf("floors %v", floors)
	}
	if err := p.CheckIdentity(who("reconciler"), policy.Reconciler, time.Now()); err != nil {
		t.Errorf("reconciler@: %v", err)
	}
	said := fmt.Sprint(policy.Explain(p))
	for _, words := range []string{"reconciler@example.test", "signs which requirements are switched on", "feature RequireProvenance switches the requirement of provenance; ", "a failure is not checked", "a failure is a warning"} {
		if !strings.Contains(said, words) {
			t.Errorf("explain does not say %q", words)
		}
	}
	if lint := fmt.Sprint(policy.Lint(p)); strings.Contains(lint, "switches no feature") {
		t.Errorf("lint: %s", lint)
	}
	if len(load(t).Floors()) != 0 || strings.Contains(fmt.Sprint(policy.Explain(load(t))), "switched") {
		t.Error("a policy without features speaks of some")
	}
	for _, r := range []struct{ roles, field, says string }{
		{"", switched, "the policy has no role reconciler"},
		{reconciler, "features: {}\n", "empty"},
		{reconciler, "features: {EmitVSA: {floor: warn}}\n", "want RequireProvenance or RequireSignoff"},
		{reconciler, "features: {RequireProvenance: {floor: require}}\n", "cannot be switched"},
		{reconciler, "features: {RequireProvenance: {}}\n", "want warn or off"},
		{reconciler, "features: {RequireProvenance: {floor: \"off\", until: tomorrow}}\n", "until"},
	} {
		refused(t, withFeatures(t, r.roles, r.field), r.says)
	}
	idle, err := policy.Parse([]byte(withFeatures(t, reconciler, "")), nil)
	if err != nil || !strings.Contains(fmt.Sprint(policy.Lint(idle)), "switches no feature") {
		t.Errorf("lint: a role without a word: %v", err)
	}
	refused(t, withSignoff(t, reconciler, "features: {RequireSignoff: {floor: \"off\"}}\n"), "requires no sign-off")
	bare := strings.ReplaceAll(withFeatures(t, reconciler, switched), "signature: require", "signature: warn")
	refused(t, bare, "unsigned artifacts would be accepted while the feature is off")
	refused(t, strings.ReplaceAll(bare, "sbom: require", "sbom: warn"), "everything would pass while the feature is off")
	refused(t, strings.Replace(withFeatures(t, reconciler, ""), "release@example.test", "reconciler@example.test", 1), "each needs its own identity")
}

// TestUnder: a state counts as far as the floor lets it; what no state is given
// of counts as it is written, and nothing else can be switched.
func TestUnder(t *testing.T) {
	p := featured(t)
	state := func(name, mode string) verdict.Feature {
		return verdict.Feature{Name: "waybill/" + name, State: "TurningOff", Number: 3, Mode: mode}
	}
	for _, r := range []struct {
		name                string
		states              []verdict.Feature
		provenance, signoff policy.Mode
	}{
		{"none", nil, policy.Require, policy.Require},
		{"provenance on", []verdict.Feature{state("RequireProvenance", "require")}, policy.Require, policy.Require},
		{"provenance warned", []verdict.Feature{state("RequireProvenance", "warn")}, policy.Warn, policy.Require},
		{"provenance off", []verdict.Feature{state("RequireProvenance", "off")}, policy.Off, policy.Require},
		{"sign-off off, and the floor is warn", []verdict.Feature{state("RequireSignoff", "off")}, policy.Require, policy.Warn},
		{"a word that is no mode", []verdict.Feature{state("RequireProvenance", "perhaps"), state("RequireSignoff", "")}, policy.Require, policy.Require},
		{"both", []verdict.Feature{state("RequireSignoff", "warn"), state("RequireProvenance", "off")}, policy.Off, policy.Warn},
	} {
		t.Run(r.name, func(t *testing.T) {
			got, err := p.Under(r.states...)
			if err != nil {
				t.Fatal(err)
			}
			if m := got.Asks(policy.Staging, plan.Binary, policy.Provenance); m != r.provenance {
				t.Errorf("provenance %s, want %s", m, r.provenance)
			}
			if m := got.Asks(policy.Staging, plan.Binary, policy.Signature); m != policy.Require {
				t.Errorf("signature %s", m)
			}
			if m := got.NeedsSignoff(policy.Staging); m != r.signoff {
				t.Errorf("sign-off %s, want %s", m, r.signoff)
			}
			lowered := r.provenance != policy.Require || r.signoff != policy.Require
			if same := verdict.InForce(got.Digest(), got.Features()).Equal(p.Digest()); same == lowered {
				t.Errorf("it goes by the name of the policy: %t", same)
			}
			if lacks := strings.Join(got.Lacks(policy.Staging, []plan.Class{plan.Binary}), ", "); lowered == (lacks == "") {
				t.Errorf("it lacks %q", lacks)
			}
			if got.Digest() != p.Digest() || p.Asks(policy.Staging, plan.Binary, policy.Provenance) != policy.Require || len(p.Features()) != 0 {
				t.Error("the policy itself changed")
			}
		})
	}
	for name, states := range map[string][]verdict.Feature{
		"somebody else's": {{Name: "example/RequireProvenance", Mode: "off"}},
		"nobody's":        {{Name: "RequireProvenance", Mode: "off"}},
		"in two states":   {state("RequireProvenance", "off"), state("RequireProvenance", "warn")},
	} {
		if _, err := p.Under(states...); err == nil {
			t.Errorf("a feature that is %s was taken", name)
		}
	}
	if _, err := load(t).Under(state("RequireProvenance", "off")); err == nil {
		t.Error("a policy that names no feature was switched")
	}
}

// TestUnderDecides: without provenance, an artifact is refused while that is
// required, accepted with a warning while it is turned, and accepted while it is
// off; without a signature it never is.
func TestUnderDecides(t *testing.T) {
	p := featured(t)
	for mode, warnings := range map[string]int{"require": 0, "warn": 1, "off": 0} {
		under, err := p.Under(verdict.Feature{Name: "waybill/RequireProvenance", State: "On", Number: 2, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		v := under.Decide([]verify.Evidence{}, question())
		codes := map[verdict.Code]int{}
		for _, f := range v.Findings {
			codes[f.Code]++
		}
		if (codes[verdict.NoProvenance] == 1) != (mode == "require") || codes[verdict.Unsigned] != 1 {
			t.Errorf("%s: findings %v", mode, v.Findings)
		}
		if len(v.Warnings) != warnings || len(v.Features) != 1 || v.Features[0].Mode != mode {
			t.Errorf("%s: warnings %v, features %v", mode, v.Warnings, v.Features)
		}
	}
}
