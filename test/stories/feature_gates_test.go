package stories

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/test/scene"
)

// site is where features are switched.
type site struct {
	dir      string
	features featurestore.Store
}

// openSite has every feature of Waybill announced, as a reconciler does it.
func openSite(t *testing.T) site {
	t.Helper()
	s := site{dir: t.TempDir()}
	if err := featurestore.MakeSite(s.dir); err != nil {
		t.Fatal(err)
	}
	at, err := featurestore.OpenSite(s.dir, func(uri string) (featurestore.Place, error) {
		from, err := store.Open(uri, nil)
		if err != nil {
			return featurestore.Place{}, err
		}
		to, err := store.OpenWriter(uri)
		return featurestore.Place{Place: from, Writer: to}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	s.features = at.Features
	for _, k := range known.Registry().Keys() {
		d, _ := known.Registry().Definition(k)
		f, err := feature.Announce(k, d, known.Newest())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.features.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// used is what is reported of a feature, for each value: who, and whether it
// was asked for.
func (s site) used(t *testing.T, name string) (uses []string) {
	t.Helper()
	f, err := s.features.Get(t.Context(), feature.Key{Namespace: feature.CoreNamespace, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range f.Status.Uses {
		said := u.Identity + " found it off"
		if u.Value {
			said = u.Identity + " found it on"
		}
		if u.Checked {
			said += " and asked"
		}
		uses = append(uses, said)
	}
	return uses
}

// refer is what refers to the images of the release, by kind, and how many of
// that name a run.
func (n night) refer(t *testing.T, place string) (kinds map[string]int, hinted int) {
	t.Helper()
	remote, err := registry.OpenRemote(n.Lab.Registry+"/"+place+"/lantern", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	kinds = map[string]int{}
	for _, a := range n.sealedNow(t).Images() {
		list, err := remote.Referrers(t.Context(), a.Repository, a.Digests.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			kinds[d.Annotations["dev.sigstore.bundle.predicateType"]]++
			if ids := trace.FromAnnotations(d.Annotations); ids != (trace.IDs{}) {
				hinted++
			}
		}
	}
	return kinds, hinted
}

// TestFeatureGatesRelease: without TraceAnnotations nothing that is attached
// names its run, and without EmitVSA nothing is vouched for; the release is
// accepted by whoever verifies it, and the site is told what each run found.
// With both on again the summary is made, and nothing is attached twice.
func TestFeatureGatesRelease(t *testing.T) {
	n, s := evening(t), openSite(t)
	want(t, n.Stage(t.Context(), "--feature-gates", "TraceAnnotations=false", "--features", s.dir, "--report-as", "builder"), 0, "OK ")
	staged, hinted := n.refer(t, "staging")
	if hinted != 0 || len(staged) < 3 {
		t.Errorf("in staging %v refer to the images, %d with hints", staged, hinted)
	}
	if got := s.used(t, known.TraceAnnotations); !slices.Equal(got, []string{"builder found it off and asked"}) {
		t.Errorf("of annotations: %q", got)
	}
	if got := s.used(t, known.EmitVSA); !slices.Equal(got, []string{"builder found it on"}) {
		t.Errorf("of summaries, which staging does not make: %q", got)
	}

	off := []string{"--feature-gates", "TraceAnnotations=false,EmitVSA=false", "--features", s.dir, "--report-as", "promoter"}
	want(t, n.releases(t, off...), 0, "the verifier would record the release, without a summary")
	want(t, n.releases(t, append(off, "--confirm")...), 0, "nothing extra", "recorded: the promotion of 1 image", "no summary was written: the feature EmitVSA is off")
	kinds, hinted := n.refer(t, "release")
	if hinted != 0 || kinds[vsa.PredicateType] != 0 || kinds[promotionrecord.PredicateType] != 1 {
		t.Errorf("%v refer to the images, %d with hints", kinds, hinted)
	}
	if n.object(t, "lantern/"+scene.Version+"/"+vsa.Name(1)) != "" {
		t.Error("there is a summary beside the manifest")
	}
	want(t, n.Verify(t.Context()), 0, "nothing extra")
	where := func(flags ...string) scene.Result {
		return n.Run(t.Context(), append([]string{"waybill", "status", scene.Version, "--profile", "profile.yaml"}, flags...)...)
	}
	want(t, where("--state", "state"), 0, "record", "not wanted", "the feature EmitVSA is off", "verify the release as users will")
	want(t, where("--state", "elsewhere"), 0, "0 of 1", "no summary by the verifier")
	want(t, where("--state", "elsewhere", "--feature-gates", "EmitVSA=false"), 0, "not wanted", "the feature EmitVSA is off")
	for name, use := range map[string]string{
		known.EmitVSA: "promoter found it off and asked", known.TraceAnnotations: "promoter found it off and asked", known.RequireProvenance: "promoter found it off",
	} {
		if got := s.used(t, name); !slices.Contains(got, use) {
			t.Errorf("of %s: %q", name, got)
		}
	}

	for range 2 { // the second run finds the summary
		want(t, n.releases(t, "--confirm"), 0, "nothing extra", vsa.Name(1))
	}
	want(t, where("--state", "state", "--feature-gates", "EmitVSA=false"), 0, "1 of 1") // it is there, whatever is wanted now
	kinds, hinted = n.refer(t, "release")
	if images := len(n.sealedNow(t).Images()); kinds[vsa.PredicateType] != images || kinds[promotionrecord.PredicateType] != 1 || hinted != images {
		t.Errorf("%v refer to the images, %d with hints", kinds, hinted)
	}
	want(t, n.releases(t, "--confirm", "--feature-gates", "TraceAnnotations=false"), 0, vsa.Name(1)+", which existed already")
	if again, _ := n.refer(t, "release"); again[vsa.PredicateType] != kinds[vsa.PredicateType] {
		t.Errorf("the summary is attached again without hints: %v", again)
	}
	want(t, n.Verify(t.Context()), 0, "nothing extra")
}

// TestFeatureGatesPromote: the same of a promotion of images by a plan. Who
// wants summaries later gets them by running it again.
func TestFeatureGatesPromote(t *testing.T) {
	a, s := openAdmin(t), openSite(t)
	want(t, a.apply("--feature-gates", "EmitVSA=false,TraceAnnotations=false", "--features", s.dir, "--report-as", "promoter"), 0, "OK ")
	for _, region := range regions() {
		if kinds := a.kinds(region, a.image.Digest); slices.Contains(kinds, vsa.PredicateType) || !slices.Contains(kinds, promotionrecord.PredicateType) {
			t.Errorf("%s: %q", region, kinds)
		}
		if a.hints(region) != 0 {
			t.Errorf("%s: the record of the promotion names its run in its annotations", region)
		}
	}
	if got := s.used(t, known.EmitVSA); !slices.Equal(got, []string{"promoter found it off and asked"}) {
		t.Errorf("of summaries: %q", got)
	}
	want(t, a.apply("--feature-gates", "EmitVSA=false"), 0, "Copies that an earlier run had made, with their evidence: 2")
	want(t, a.apply(), 0, "OK ")
	for _, region := range regions() {
		kinds := a.kinds(region, a.image.Digest)
		of := func(kind string) int { return strings.Count(strings.Join(kinds, "\n"), kind) }
		if of(vsa.PredicateType) != 1 || of(promotionrecord.PredicateType) != 1 || a.hints(region) != 1 {
			t.Errorf("%s: %q, %d with hints", region, kinds, a.hints(region))
		}
	}
	want(t, a.apply(), 0, "Copies that an earlier run had made, with their evidence: 2")
}

// hints is how many records of the image name, in their annotations, the run
// that made them.
func (a admin) hints(region string) (n int) {
	a.t.Helper()
	list, err := a.at(region).Referrers(a.t.Context(), "lantern", a.image.Digest)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, d := range list {
		kind := d.Annotations["dev.sigstore.bundle.predicateType"]
		if (kind == vsa.PredicateType || kind == promotionrecord.PredicateType) && trace.FromAnnotations(d.Annotations) != (trace.IDs{}) {
			n++
		}
	}
	return n
}

// TestFeatureGatesUse: what stands on the command line is judged before anything
// is done, and a site that does not answer costs the report and nothing else.
func TestFeatureGatesUse(t *testing.T) {
	n := openDesk(t)
	sign := func(flags ...string) scene.Result {
		return n.Run(t.Context(), append([]string{"waybill", "sign", scene.Version, "--profile", "profile.yaml", "--state", "state"}, flags...)...)
	}
	want(t, sign("--feature-gates", "RequireLantern=true"), 2, "unrecognized feature gate: RequireLantern", "known are BundleReferrers, ")
	want(t, sign("--report-as", "promoter"), 2, "needs --features, the site to report to")
	want(t, sign("--key", "release=awskms:///alias/lantern", "--feature-gates", "KMSSigning=false"), 2, "KMSSigning is off", "leave KMSSigning out of --feature-gates")
	n.write(t, "FEATURES.yaml", []byte("apiVersion: waybill/v1\nkind: Features\nsite: site\nprofile: profile.yaml\nidentity: reconciler-0\nreporters: [{identity: promoter, every: 1s}]\n"))
	want(t, n.Run(t.Context(), "waybill", "feature", "reconcile", "FEATURES.yaml", "--once", "--key", "reconciler=awskms:///alias/lantern", "--feature-gates", "KMSSigning=false"),
		2, "KMSSigning is off", "leave KMSSigning out of --feature-gates")
	// Evidence that is attached by tags, too, needs a log that older clients know,
	// as --legacy does; without either it is not asked for.
	stage := func(flags ...string) scene.Result {
		return n.Run(t.Context(), append([]string{"waybill", "stage", scene.Version, "--source", "lantern", "--profile", "profile.yaml", "--state", "state"}, flags...)...)
	}
	want(t, stage("--legacy"), 2, "LEGACY_NEEDS_REKOR_V1")
	want(t, stage("--feature-gates", "BundleReferrers=false"), 2, "LEGACY_NEEDS_REKOR_V1")
	want(t, stage("--feature-gates", "BundleReferrers=true"), 0, "--confirm")
	judged := []string{"waybill", "gate", "check", scene.Version, "--profile", "profile.yaml"}
	without := n.Run(t.Context(), judged...)
	with := n.Run(t.Context(), append(judged, "--report-as", "promoter", "--features", n.Path("absent"))...)
	if with.Code != without.Code || with.Stdout != without.Stdout || strings.Count(with.Stderr, "are not reported") != 1 {
		t.Errorf("with a site that is away: %d\n%s%s\nwithout: %d\n%s", with.Code, with.Stdout, with.Stderr, without.Code, without.Stdout)
	}
	// A policy that goes by the site is another thing: then nothing is decided,
	// and who comes to a decision by it has asked.
	issuer, subject := n.Lab.Identity("release")
	bench{n.Scene}.policy(t, "policy.yaml", string(n.read(t, "policy.yaml")), "roles:\n",
		fmt.Sprintf("features: {RequireProvenance: {floor: warn}}\nroles:\n  reconciler: [{issuer: %q, subject: %q, type: email}]\n", issuer, "reconciler-"+subject))
	want(t, n.Run(t.Context(), append(judged, "--features", n.Path("absent"))...), 3, "make the directory, or mount it")
	for _, args := range [][]string{
		{"waybill", "verify", "release", scene.Version, "--profile", "profile.yaml"},
		{"waybill", "gate", "image", n.Lab.Registry + "/lantern:v0.1.0", "--policy", "policy.yaml", "--trusted-root", "trusted_root.json"},
		{"waybill", "gate", "file", "policy.yaml", "--policy", "policy.yaml", "--trusted-root", "trusted_root.json"},
	} {
		want(t, n.Run(t.Context(), append(args, "--features", n.Path("absent"))...), 3, "make the directory, or mount it")
		want(t, n.Run(t.Context(), append(args, "--report-as", "promoter")...), 2, "needs --features, the site to report to")
	}
	s := openSite(t)
	n.Run(t.Context(), append(judged, "--features", s.dir, "--report-as", "promoter")...)
	if got := s.used(t, known.RequireProvenance); !slices.Equal(got, []string{"promoter found it off and asked"}) {
		t.Errorf("of provenance: %q", got)
	}
	if got := s.used(t, known.RequireSignoff); !slices.Equal(got, []string{"promoter found it off"}) {
		t.Errorf("of sign-offs, which the policy does not leave to the site: %q", got)
	}
}
