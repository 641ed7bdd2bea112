package stories

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// admin promotes the image that is staged to two regions.
type admin struct {
	*scene.Scene
	t     *testing.T
	image registry.Descriptor
}

// regions are where the image goes.
func regions() []string { return []string{"eu/lantern", "us/lantern"} }

// openAdmin stages the example, and plans to promote its image.
func openAdmin(t *testing.T) admin {
	t.Helper()
	a := admin{Scene: open(t), t: t}
	want(t, a.Stage(t.Context()), 0)
	bench{a.Scene}.policy(t, "profile.yaml", string(a.read("profile.yaml")),
		"places:\n", fmt.Sprintf("records: {verifier: %q, policy: %q}\nplaces:\n", verifierID, policyURI))
	var err error
	if a.image, err = a.at("staging/lantern").Resolve(t.Context(), "lantern", scene.Version); err != nil {
		t.Fatal(err)
	}
	a.plan(a.image.Digest)
	return a
}

func (a admin) read(name string) []byte {
	a.t.Helper()
	raw, err := os.ReadFile(a.Path(name))
	if err != nil {
		a.t.Fatal(err)
	}
	return raw
}

func (a admin) at(prefix string) *registry.Remote {
	a.t.Helper()
	r, err := registry.OpenRemote(a.Lab.Registry+"/"+prefix, http.DefaultTransport)
	if err != nil {
		a.t.Fatal(err)
	}
	return r
}

// plan plans the promotion of a digest of the staged repository.
func (a admin) plan(d digest.Digest) {
	a.t.Helper()
	manifest := fmt.Sprintf("registries:\n- {name: %[1]s/staging/lantern, src: true}\n- {name: %[1]s/eu/lantern}\n- {name: %[1]s/us/lantern}\nimages:\n- name: lantern\n  dmap: {%[2]q: [%[3]s]}\n",
		a.Lab.Registry, d.String(), scene.Version)
	if err := os.WriteFile(a.Path("m.yaml"), []byte(manifest), 0o644); err != nil {
		a.t.Fatal(err)
	}
	r := a.Run(a.t.Context(), "waybill", "promote", "plan", "m.yaml", "-o", "json")
	want(a.t, r, 0)
	if err := os.WriteFile(a.Path("plan.json"), []byte(r.Stdout), 0o644); err != nil {
		a.t.Fatal(err)
	}
}

// apply applies the plan, with a token of the verifier.
func (a admin) apply(flags ...string) scene.Result {
	a.t.Helper()
	if err := os.WriteFile(a.Path("verifier.token"), []byte(a.Lab.Token("verifier")), 0o600); err != nil {
		a.t.Fatal(err)
	}
	return a.Run(a.t.Context(), append([]string{"waybill", "promote", "apply", "plan.json", "--profile", "profile.yaml", "--state", "promotions",
		"--identity-token", "verifier=verifier.token", "--confirm"}, flags...)...)
}

// kinds are what the bundles say that refer to a manifest of a region.
func (a admin) kinds(region string, of digest.Digest) []string {
	a.t.Helper()
	list, err := a.at(region).Referrers(a.t.Context(), "lantern", of)
	if err != nil {
		a.t.Fatal(err)
	}
	var kinds []string
	for _, d := range list {
		kinds = append(kinds, d.Annotations["dev.sigstore.bundle.predicateType"])
	}
	return kinds
}

// summary is what the verifier's summary of the image says in a region.
func (a admin) summary(region string) string {
	a.t.Helper()
	bundles, err := registry.Bundles(a.t.Context(), a.at(region), "lantern", a.image.Digest)
	if err != nil {
		a.t.Fatal(err)
	}
	for _, raw := range bundles {
		var b struct{ DSSEEnvelope struct{ Payload []byte } }
		if err := json.Unmarshal(raw, &b); err != nil {
			a.t.Fatal(err)
		}
		if said := string(b.DSSEEnvelope.Payload); strings.Contains(said, vsa.PredicateType) {
			return said
		}
	}
	return "there is none"
}

// TestPromoteApply: what is accepted is copied with its evidence to every
// region, recorded once, and tagged; a second run has nothing to do.
func TestPromoteApply(t *testing.T) {
	a := openAdmin(t)
	want(t, a.Run(t.Context(), "waybill", "promote", "apply", "plan.json", "--profile", "profile.yaml"), 0, "add --confirm")
	want(t, a.Run(t.Context(), "waybill", "promote", "apply", "plan.json", "--profile", "policy.yaml"), 2, "CONFIG")
	logged := len(a.Lab.Logged())
	want(t, a.apply(), 0, "OK ", "verified=2 required=2")
	node, err := registry.Graph(t.Context(), a.at("staging/lantern"), "lantern", a.image)
	if err != nil {
		t.Fatal(err)
	}
	for _, region := range regions() {
		want(t, a.Run(t.Context(), "waybill", "gate", "image", a.Lab.Registry+"/"+region+"/lantern:"+scene.Version,
			"--policy", "policy.yaml", "--stage", "release", "--release-version", scene.Version, "--trusted-root", "trusted_root.json"), 0)
		_ = node.Walk(func(n *registry.Node) error {
			staged, there := a.kinds("staging/lantern", n.Descriptor.Digest), a.kinds(region, n.Descriptor.Digest)
			for _, kind := range staged {
				if !slices.Contains(there, kind) {
					t.Errorf("%s: %s of %s was left behind", region, kind, n.Descriptor.Platform)
				}
			}
			if !slices.Contains(there, vsa.PredicateType) || n == node && !slices.Contains(there, promotionrecord.PredicateType) {
				t.Errorf("%s: %s is not recorded: %v", region, n.Descriptor.Digest, there)
			}
			return nil
		})
	}
	if said := a.summary("eu/lantern"); !strings.Contains(said, `"SLSA_BUILD_LEVEL_1"`) && !strings.Contains(said, `"SLSA_BUILD_LEVEL_2"`) {
		t.Errorf("the summary does not say how it was built: %s", said)
	}
	// One summary for each manifest and one record, however many regions.
	if made := len(a.Lab.Logged()) - logged; made != len(node.Children)+2 {
		t.Errorf("%d entries in the log", made)
	}
	want(t, a.apply(), 0, "Copies that an earlier run had made, with their evidence: 2")
	if made := len(a.Lab.Logged()) - logged; made != len(node.Children)+2 {
		t.Errorf("the second run made entries: %d", made)
	}
	// Another machine remembers nothing, finds everything, and adds nothing.
	if err := os.Rename(a.Path("promotions"), a.Path("forgotten")); err != nil {
		t.Fatal(err)
	}
	want(t, a.apply(), 0, "verified=2")
	if made := len(a.Lab.Logged()) - logged; made != len(node.Children)+2 {
		t.Errorf("a run without memory made entries: %d", made)
	}
}

// TestPromoteApplyRefuses: what is not accepted is nowhere, and a tag that
// names another image is moved by nobody but the policy's officer.
func TestPromoteApplyRefuses(t *testing.T) {
	a := openAdmin(t)
	// An image without evidence.
	base := a.bare("staging/lantern")
	a.plan(base.Digest)
	want(t, a.apply(), 1, "REFUSED", "verified=0 required=2")
	for _, region := range regions() {
		if tags, err := a.at(region).Tags(t.Context(), "lantern"); err == nil && len(tags) > 0 {
			t.Errorf("%s has %v", region, tags)
		}
	}
	// A tag that is taken in one region.
	eu := a.at("eu/lantern")
	a.bare("eu/lantern")
	if err := eu.Tag(t.Context(), "lantern", scene.Version, base); err != nil {
		t.Fatal(err)
	}
	a.plan(a.image.Digest)
	want(t, a.apply(), 1, "TAG_CONFLICT", "verified=1 required=2")
	if d, err := eu.Resolve(t.Context(), "lantern", scene.Version); err != nil || !d.Digest.Equal(base.Digest) {
		t.Fatalf("the tag was moved: %v, %v", d, err)
	}
	name := a.Lab.Registry + "/eu/lantern/lantern"
	for _, c := range []struct {
		name string
		of   digest.Digest
		code int
	}{{"another image", base.Digest, 1}, {"this image", a.image.Digest, 0}} {
		r := a.except(name, c.of)
		want(t, a.apply("--exception", r), c.code)
		d, err := eu.Resolve(t.Context(), "lantern", scene.Version)
		if err != nil || d.Digest.Equal(a.image.Digest) != (c.code == 0) {
			t.Errorf("an exception for %s: the tag names %v, %v", c.name, d, err)
		}
	}
}

// bare pushes an image that nobody says anything about.
func (a admin) bare(prefix string) registry.Descriptor {
	a.t.Helper()
	to := a.at(prefix)
	blob := func(kind, text string) string {
		d := registry.Descriptor{MediaType: kind, Digest: digest.Of(digest.SHA256, []byte(text)), Size: int64(len(text))}
		if err := to.PushBlob(a.t.Context(), "lantern", d, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }); err != nil {
			a.t.Fatal(err)
		}
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, kind, d.Digest, d.Size)
	}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[%s]}`, registry.MediaTypeManifest,
		blob("application/vnd.oci.image.config.v1+json", `{"os":"linux","architecture":"amd64"}`), blob("application/vnd.oci.image.layer.v1.tar", "nothing"))
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := to.PushManifest(a.t.Context(), "lantern", d, raw); err != nil {
		a.t.Fatal(err)
	}
	return d
}

// except signs an exception that lets the tag of a repository go to an image.
func (a admin) except(repository string, d digest.Digest) string {
	a.t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	policy := digest.Of(digest.SHA256, a.read("policy.yaml"))
	s, err := waiver.NewException(intoto.Subject{Name: "eu/lantern/lantern@" + scene.Version, Digests: digest.Set{SHA256: d}}, exception.Predicate{
		Code: "TAG_CONFLICT", Reason: "the first one was broken", Destination: repository, Policy: policy, Issued: now, Expires: now.Add(time.Hour),
	})
	if err != nil {
		a.t.Fatal(err)
	}
	bundle, err := a.Sign(a.t.Context(), "policy", s.Raw())
	if err != nil {
		a.t.Fatal(err)
	}
	path := filepath.Join(a.t.TempDir(), "exception.sigstore.json")
	if err := os.WriteFile(path, bundle, 0o644); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// TestPromoteApplyUnderAnotherPolicy: a plan that was made for a policy is
// applied under that one, and under no other.
func TestPromoteApplyUnderAnotherPolicy(t *testing.T) {
	a := openAdmin(t)
	policy := string(a.read("policy.yaml"))
	tied := a.Run(t.Context(), "waybill", "promote", "plan", "m.yaml", "--policy", "policy.yaml", "-o", "json")
	want(t, tied, 0)
	if err := os.WriteFile(a.Path("plan.json"), []byte(tied.Stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	bench{a.Scene}.policy(t, "policy.yaml", policy, "name: lantern-release", "name: changed-since")
	want(t, a.apply(), 1, "PLAN_STALE", "verified=0 required=2")
	bench{a.Scene}.policy(t, "policy.yaml", policy)
	want(t, a.apply(), 0, "verified=2 required=2")
	want(t, a.Run(t.Context(), "waybill", "promote", "plan", scene.Version, "--policy", "policy.yaml", "--profile", "profile.yaml", "--to", "release"), 2, "--policy")
	want(t, a.Run(t.Context(), "waybill", "promote", "plan", "m.yaml", "--policy", "m.yaml"), 2)
}

// TestPromoteApplyMisuse: what is no plan, or none any more, promotes nothing.
func TestPromoteApplyMisuse(t *testing.T) {
	a := openAdmin(t)
	plan := string(a.read("plan.json"))
	for _, c := range []struct {
		name, plan string
		said       string
	}{
		{"by hand", strings.Replace(plan, scene.Version, "v9.9.9", 1) + " ", "do not edit it"},
		{"none", "{}", "plan"},
		{"of nothing", `{"schema":"waybill/promotion-plan/v1","routes":[],"edges":[]}` + "\n", "do not edit it"},
	} {
		if err := os.WriteFile(a.Path("plan.json"), []byte(c.plan), 0o644); err != nil {
			t.Fatal(err)
		}
		want(t, a.apply(), 2, c.said)
	}
	for _, region := range regions() {
		if tags, err := a.at(region).Tags(t.Context(), "lantern"); err == nil && len(tags) > 0 {
			t.Errorf("%s has %v", region, tags)
		}
	}
}
