package sweeps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/govern/feature/cleanup"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/features/field"
	"github.com/waybill-release/waybill/test/lab"
)

const verifier = field.Verifier

// summary is a verifier's word about an image.
func summary(t *testing.T, f *field.Field, image registry.Descriptor, at time.Time) registry.Descriptor {
	t.Helper()
	return summaryBy(t, f, image, lab.RoleVerifier, at)
}

func summaryBy(t *testing.T, f *field.Field, image registry.Descriptor, as string, at time.Time) registry.Descriptor {
	t.Helper()
	return f.Attach(t, repo, image, field.Evidence{Kind: vsa.PredicateType, Bundle: f.Sign(t, as, field.Log2, field.Summary(t, image.Digest, at))})
}

// TestSummaries: summaries hold while they are not too old, or while the policy
// names their verifier; then they are counted as left. Nothing is removed, and a
// stranger's is nobody's.
func TestSummaries(t *testing.T) {
	f := field.New(t, field.Referrers)
	image := f.Image(t, repo, "v1")
	now := time.Now()
	young := summary(t, f, image, now)
	summary(t, f, image, now.Add(-48*time.Hour))
	summaryBy(t, f, image, stranger, now)
	f.Attach(t, repo, image, field.Evidence{Kind: provenance.PredicateType, Bundle: f.Sign(t, lab.RoleRelease, field.Log2, field.About(t, image.Digest, provenance.PredicateType, map[string]int{}))})
	before, err := f.Snapshot(t.Context(), repo)
	must(t, err)
	with := func(edit func(*cleanup.Config)) *cleanup.Sweeps {
		c := f.Config(t, repo)
		c.Validity = 24 * time.Hour
		edit(&c)
		s, err := cleanup.New(c)
		must(t, err)
		return s
	}
	for _, c := range []struct {
		name        string
		edit        func(*cleanup.Config)
		holds, left int
		says        string
	}{
		{"one is young", func(*cleanup.Config) {}, 1, 1, "valid until"},
		{"a day later none is", func(c *cleanup.Config) { c.Clock = func() time.Time { return now.Add(25 * time.Hour) } }, 0, 2, ""},
		{"both are, for longer", func(c *cleanup.Config) { c.Validity = 72 * time.Hour }, 2, 0, "valid until"},
		{"ninety days, if nobody says", func(c *cleanup.Config) { c.Validity = 0 }, 2, 0, "valid until"},
		{"the policy names their verifier", func(c *cleanup.Config) {
			c.Clock = func() time.Time { return now.Add(25 * time.Hour) }
			c.Policy = f.Policy(t, asks(verifier))
		}, 2, 0, "the policy accepts summaries of " + verifier},
		{"the policy names another", func(c *cleanup.Config) { c.Policy = f.Policy(t, asks("https://other.example.test")) }, 1, 1, "valid until"},
		{"as old as the policy lets others be", func(c *cleanup.Config) {
			c.Validity, c.Policy = 0, f.Policy(t, asks("https://other.example.test"))
		}, 1, 1, "valid until"},
	} {
		s := with(c.edit)
		t.Log(c.name)
		counts(t, s.VSAsInForce(), c.holds, c.says)
		counts(t, s.VSAsLeft(), c.left, "")
	}
	after, err := f.Snapshot(t.Context(), repo)
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Error("counting wrote something")
	}
	// People delete them, and the hold ends.
	must(t, f.Remote.Delete(t.Context(), repo, young.Digest))
	counts(t, with(func(*cleanup.Config) {}).VSAsInForce(), 0, "")
}

func asks(verifier string) string {
	return fmt.Sprintf("summaries: [{verifier: %q, resource: \"pkg:oci/lantern\", maxAge: 24h, levels: {BUILD: 1}, policy: {uri: \"https://example.test/policy\", sha256: %q}}]\n",
		verifier, digest.Of(digest.SHA256, nil).Hex())
}

// TestBroken: what points at nothing is counted, each with what it points at.
// The twin points at what is there.
func TestBroken(t *testing.T) {
	l := lab.New(t)
	f := field.On(t, l, field.Listless)
	image, gone := f.Image(t, repo, "v1"), f.Image(t, repo, "v2")
	layer := field.Layer(t, "application/vnd.dsse.envelope.v1+json", "{}")
	f.AttachTag(t, repo, image.Digest, registry.SuffixAttestations, layer)
	f.Attach(t, repo, image, field.Evidence{Kind: provenance.PredicateType, Bundle: []byte("a stranger's")})
	s := f.Sweeps(t, repo)
	counts(t, s.ReferrersLeft(), 0, "")

	f.AttachTag(t, repo, gone.Digest, registry.SuffixSignatures, layer)
	lost := f.Attach(t, repo, gone, field.Evidence{Kind: provenance.PredicateType, Bundle: []byte("another")})
	counts(t, s.ReferrersLeft(), 0, "")
	deleted(t, f, gone.Digest.String())
	deleted(t, f, "v2")
	counts(t, s.ReferrersLeft(), 2, gone.Digest.String())
	counts(t, s.ReferrersLeft(), 2, registry.AttachedTag(gone.Digest, registry.SuffixSignatures))
	deleted(t, f, lost.Digest.String())
	counts(t, s.ReferrersLeft(), 3, "which lists "+lost.Digest.String())

	down := f.Config(t, repo)
	down.Open = field.Through(http.NewFileTransport(http.Dir(t.TempDir())))
	away, err := cleanup.New(down)
	must(t, err)
	if found, err := away.ReferrersLeft().Count(t.Context(), everywhere); err == nil {
		t.Errorf("a registry that is away has %+v", found)
	}
}

// deleted has somebody delete a manifest, whatever refers to it.
func deleted(t *testing.T, f *field.Field, reference string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+f.Host+"/v2/"+repo+"/manifests/"+reference, nil)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	var why json.RawMessage
	_ = json.NewDecoder(resp.Body).Decode(&why) // there is a body where it fails
	if resp.StatusCode/100 != 2 {
		t.Fatalf("deleting %s: %s %s", reference, resp.Status, why)
	}
}
