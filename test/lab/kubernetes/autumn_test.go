package kubernetes_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
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
	if len(v.Levels) != 3 || v.Levels[0].Track != "build" || v.Levels[0].Level != 2 || before.Levels[0].Track != "build" || before.Levels[0].Level != 1 {
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

// TestAutumnArtifact is a file promoted as an OCI artifact: it is judged like an
// image, and the verdict says which file each platform is. Each row changes one
// fact.
func TestAutumnArtifact(t *testing.T) {
	w := theWorld(t)
	verifier, err := verify.NewWith(w.profile.TrustRoot, w.profile.Policy.Verification())
	if err != nil {
		t.Fatal(err)
	}
	log, err := rekorv1.Open(w.lab.RekorV1, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	const path = "release/kubernetes/"
	for _, c := range []struct {
		name   string
		change func(t *testing.T, i *kubernetes.Image)
		want   string
	}{
		{"as it is", func(*testing.T, *kubernetes.Image) {}, ""},
		{"another file", func(t *testing.T, i *kubernetes.Image) {
			i.Platforms["linux/arm64"] = i.Platforms["linux/amd64"]
			i.Reindex()
		}, "UNSIGNED"},
		{"signed by the staging account alone", func(t *testing.T, i *kubernetes.Image) {
			if err := i.Resign(w.signer, kubernetes.Staging); err != nil {
				t.Fatal(err)
			}
		}, "IDENTITY_ROLE"},
		{"its summary FAILED", func(t *testing.T, i *kubernetes.Image) {
			s := kubernetes.NewSummary(i.Name, i.Index.Descriptor.Digest)
			s.Failed = true
			made, err := s.Sign(w.signer, kubernetes.Summaries)
			if err != nil {
				t.Fatal(err)
			}
			i.Index.Referring[i.Name] = []kubernetes.Referring{made}
		}, "VSA_RESULT"},
		{"its summary is of another file", func(t *testing.T, i *kubernetes.Image) {
			made, err := kubernetes.NewSummary("kubelet", i.Index.Descriptor.Digest).Sign(w.signer, kubernetes.Summaries)
			if err != nil {
				t.Fatal(err)
			}
			i.Index.Referring[i.Name] = []kubernetes.Referring{made}
		}, "VSA_RESOURCE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := theAutumn(t, w).Clone().Artifacts[0]
			c.change(t, i)
			m := kubernetes.NewMemory()
			if err := i.Push(t.Context(), m); err != nil {
				t.Fatal(err)
			}
			req := gate.PolicyRequest{
				Policy: w.profile.Policy, Verifier: verifier, Stage: policy.Published, Version: w.release.Version.String(), Now: time.Now(),
				Finder: rekorv1.Finder{Log: log, Evidence: w.kept},
			}
			v := req.Image(t.Context(), gate.Image{Source: m, Name: "mirror.example.test/" + path + i.Name + ":" + req.Version, Repository: i.Name, Tag: req.Version})
			if (v.Outcome() == verdict.Accepted) != (c.want == "") || !strings.HasPrefix(codes(v), c.want) {
				t.Fatalf("%s: %v", v.Outcome(), v.Findings)
			}
			body := digest.SetOf(w.release.Files["bin/linux/arm64/kubeadm"])
			if note := `the manifest holds the file "kubeadm": ` + body.SHA256.String() + ", by its annotation " + body.SHA512.String(); c.want == "" && !strings.Contains(strings.Join(v.Notes, "\n"), note) {
				t.Errorf("it does not say %q: %q", note, v.Notes)
			}
			if c.want == "" && v.Counts.Verified != 5 {
				t.Errorf("%s", v.Counts)
			}
		})
	}
}
