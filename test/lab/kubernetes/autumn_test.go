package kubernetes_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

var autumn struct {
	once    sync.Once
	release *kubernetes.Release
	err     error
}

// theAutumn is the release of the world with all that Kubernetes publishes since
// autumn 2026. Nobody changes it.
func theAutumn(t testing.TB, w *world) *kubernetes.Release {
	t.Helper()
	autumn.once.Do(func() {
		autumn.release = w.release.Clone()
		autumn.err = autumn.release.Autumn(t.Context(), w.signer)
	})
	if autumn.err != nil {
		t.Fatal(autumn.err)
	}
	return autumn.release
}

// TestAutumn is the same release in both forms: the better one has no worse
// verdict, and the same counts.
func TestAutumn(t *testing.T) {
	w := theWorld(t)
	before := w.ask(t, nil)
	v := w.ask(t, func(q *question) { q.release = theAutumn(t, w).Clone() })
	if v.Outcome() != verdict.Accepted || v.Counts != before.Counts || said(v) != said(before) || len(v.Warnings) != len(before.Warnings) {
		t.Fatalf("%s, %s: %s; before %s: %v", v.Outcome(), v.Counts, said(v), before.Counts, v.Findings)
	}
	if len(v.Levels) != 1 || v.Levels[0].Level != 2 || before.Levels[0].Level != 1 {
		t.Errorf("levels %+v, before %+v", v.Levels, before.Levels)
	}
	notes := strings.Join(v.Notes, "\n")
	for _, want := range []string{
		"provenance.json is signed by krel-staging@k8s-releng-prod.iam.gserviceaccount.com and shows level 2 of SLSA build at most",
		"provenance.json (98, signed)",
		"provenance of images: signed by krel-staging@k8s-releng-prod.iam.gserviceaccount.com for 54 of 54 manifests",
		"summaries of images: PASSED, signed by promoter-summaries@k8s-releng-prod.iam.gserviceaccount.com for 54 of 54 manifests",
		"level for 48 of 54 manifests: SLSA_BUILD_LEVEL_2",
		"level for 6 of 54 manifests: SLSA_BUILD_LEVEL_UNEVALUATED",
		`level for 54 of 54 manifests: "K8S_PROMOTION_MANIFEST_REVIEWED", which is no SLSA level and does not count`,
		"48 of https://in-toto.io/attestation/vulns/v0.2 by krel-staging@", "48 of https://in-toto.io/attestation/build-env/v1", "48 of https://openvex.dev/ns",
		"54 of https://k8s.io/promo-tools/promotion/v1 by krel-trust@",
	} {
		if !strings.Contains(notes, want) {
			t.Errorf("it does not say %q:\n%s", want, notes)
		}
	}
	proofs := map[string]int{}
	for _, p := range v.Proofs {
		proofs[p.Role]++
	}
	if proofs[string(policy.Builder)] != 55 || proofs[string(policy.Verifier)] != 54 {
		t.Errorf("proofs %v", proofs)
	}
}
