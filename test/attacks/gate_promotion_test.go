package attacks

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/lab"
)

const yardBuilder = "https://builder.example.test/hosted"

// yard is a registry of small images, seen through a proxy that counts and can
// lie, and the manifest under which they are to be promoted.
type yard struct {
	*world
	proxy  *faults.Proxy
	direct *registry.Remote
	policy *promoterfile.Policy
	prefix string
}

func (w *world) yard(t *testing.T, prefix string) *yard {
	t.Helper()
	issuer, subject := w.Lab.Identity(lab.RoleBuilder)
	return &yard{
		world: w, prefix: prefix, proxy: faults.Before(t, "http://"+w.Lab.Registry),
		direct: must[*registry.Remote](t)(registry.OpenRemote(w.Lab.Registry+"/"+prefix, http.DefaultTransport)),
		policy: &promoterfile.Policy{
			Mode: promoterfile.ModeRequire, Signers: []string{"sigstore::" + issuer + "::" + subject},
			Builders: []promoterfile.Builder{{ID: yardBuilder, Level: 3}}, Sources: []string{"example.test/lantern"},
		},
	}
}

// image pushes an image of one platform.
func (y *yard) image(t *testing.T, repo string) registry.Descriptor {
	t.Helper()
	config := fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","config":{"Labels":{"of":%q}}}`, y.prefix+repo)
	c := registry.Blob{Bytes: config, Descriptor: registry.Descriptor{MediaType: "application/vnd.oci.image.config.v1+json", Digest: digest.Of(digest.SHA256, config), Size: int64(len(config))}}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[]}`,
		registry.MediaTypeManifest, c.Descriptor.MediaType, c.Descriptor.Digest, len(config))
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	y.push(t, repo, d, raw, c)
	return d
}

func (y *yard) push(t *testing.T, repo string, d registry.Descriptor, raw []byte, blobs ...registry.Blob) {
	t.Helper()
	for _, b := range blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		accepted(t, y.direct.PushBlob(t.Context(), repo, b.Descriptor, open))
	}
	accepted(t, y.direct.PushManifest(t.Context(), repo, d, raw))
}

// built is provenance of bytes, signed by a role or an address.
func (y *yard) built(t *testing.T, as author, of digest.Digest, source string) []byte {
	t.Helper()
	said := must[[]byte](t)(json.Marshal(map[string]any{
		"_type": intoto.TypeV1, "predicateType": provenance.PredicateType,
		"subject": []any{map[string]any{"name": "demo", "digest": map[string]string{"sha256": of.Hex()}}},
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType": "https://example.test/script", "externalParameters": map[string]any{"version": "v1"},
				"resolvedDependencies": []any{map[string]any{"uri": source, "digest": map[string]string{"gitCommit": strings.Repeat("a", 40)}}},
			},
			"runDetails": map[string]any{"builder": map[string]any{"id": yardBuilder}},
		},
	}))
	return encode(t, as.sign(t, &sign.DSSEData{PayloadType: intoto.PayloadType, Data: said}))
}

// attach has a bundle refer to an image. It returns the referrer.
func (y *yard) attach(t *testing.T, repo string, image registry.Descriptor, bundle []byte) registry.Descriptor {
	t.Helper()
	d, raw, blobs := registry.BundleManifest(image, bundle, provenance.PredicateType)
	y.push(t, repo, d, raw, blobs...)
	return d
}

// gate asks about images, each a repository and its digest, that go to so many
// mirrors. It returns how many requests that took.
func (y *yard) gate(t *testing.T, images map[string]digest.Digest, mirrors int) (*verdict.Verdict, int) {
	t.Helper()
	m := promoterfile.Manifest{Name: "team", Source: promoterfile.Place{Name: y.proxy.Host + "/" + y.prefix}, Policy: y.policy}
	for i := range mirrors {
		m.Destinations = append(m.Destinations, promoterfile.Place{Name: fmt.Sprintf("mirror-%d.example.test/prod", i)})
	}
	for repo, d := range images {
		m.Images = append(m.Images, promoterfile.Image{Name: repo, Digests: []promoterfile.Pinned{{Digest: d, Tags: []string{"v1"}}}})
	}
	p := must[promotionplan.Plan](t)(promotionplan.Make([]promoterfile.Manifest{m}))
	before := len(y.proxy.Seen())
	rt := transport.New(transport.Config{Patience: 3 * time.Second})
	v := gate.Plan(t.Context(), gate.PlanRequest{
		Plan: p, Now: time.Now(), Open: func(prefix string) (registry.Source, error) { return registry.OpenRemote(prefix, rt) },
		Judge: func(r promotionplan.Route, _ promotionplan.Edge) (gate.ImageJudge, error) {
			return gate.ManifestRequest{Manifest: r.Manifest, Policy: r.Policy, Verifier: y.verifier, Now: time.Now()}.Judge()
		},
	})
	return v, len(y.proxy.Seen()) - before
}

const yardSource = "git+https://example.test/lantern@refs/tags/v1"

// TestGateAsksEachThingOnce counts the requests of a gate: three for an image
// whatever the mirrors, and one for the registry.
func TestGateAsksEachThingOnce(t *testing.T) {
	const images = 40
	y := theWorld(t).yard(t, "counted")
	builder := y.author(t, lab.RoleBuilder)
	all := map[string]digest.Digest{}
	for i := range images {
		repo := fmt.Sprintf("demo-%d", i)
		image := y.image(t, repo)
		y.attach(t, repo, image, y.built(t, builder, image.Digest, yardSource))
		all[repo] = image.Digest
	}
	for _, mirrors := range []int{1, 21} {
		v, requests := y.gate(t, all, mirrors)
		accepted(t, v.Err())
		if v.Counts.Verified != images || requests != 1+3*images {
			t.Errorf("%d mirrors: %s, %d requests", mirrors, v.Counts, requests)
		}
	}
	seen := map[string]int{}
	for _, r := range y.proxy.Seen() {
		seen[r.Path]++
	}
	for path, n := range seen {
		if n != 2 { // the gate was asked twice
			t.Errorf("%s: %d times", path, n)
		}
	}
	// What others wrote does not say where the bundle is: one request more.
	y.proxy.Spoil(faults.Fault{Path: "/referrers/", Do: instead(func(_ http.Header, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte("dev.waybill.bundle.layer"), []byte("org.example.nothing"))
	})})
	v, requests := y.gate(t, all, 21)
	accepted(t, v.Err())
	if requests != 1+4*images {
		t.Errorf("without the annotation: %d requests", requests)
	}
}

// TestGateInAFlood: strangers who attach as much as they can hide nothing, and
// cost nothing.
func TestGateInAFlood(t *testing.T) {
	y := theWorld(t).yard(t, "flooded")
	image := y.image(t, "demo")
	builder, stranger := y.author(t, lab.RoleBuilder), y.author(t, "mallory@evil.example")
	ours := y.attach(t, "demo", image, y.built(t, builder, image.Digest, yardSource))
	of := map[string]digest.Digest{"demo": image.Digest}
	many := func(n int, kind string) faults.Act {
		var list bytes.Buffer
		for i := range n {
			fmt.Fprintf(&list, `{"mediaType":%q,"digest":%q,"size":7,"artifactType":%q,"annotations":{"org.example.note":"a note, as tools write them"}},`,
				registry.MediaTypeManifest, digest.Of(digest.SHA256, fmt.Append(nil, i)), kind)
		}
		return instead(func(_ http.Header, body []byte) []byte {
			return bytes.Replace(body, []byte(`"manifests":[`), append([]byte(`"manifests":[`), list.Bytes()...), 1)
		})
	}
	const foreign, listed = "application/vnd.example.foreign", "/referrers/"
	unfiltered := listed + image.Digest.String() + "$"
	for _, row := range []struct {
		name     string
		fault    faults.Fault
		requests int
		want     []verdict.Code
	}{
		{"the twin", faults.Fault{Path: "nobody asks this"}, 4, nil},
		{"G10 10 000 referrers of other kinds", faults.Fault{Path: listed, Do: many(10_000, foreign)}, 4, nil},
		{"G10 more than a list may have, and a registry that filters", faults.Fault{Path: unfiltered, Do: many(40_000, foreign)}, 5, nil},
		{"G10 more than a list may have, filtered or not", faults.Fault{Path: listed, Do: many(40_000, foreign)}, 4, codes(verdict.Limit)},
		{"G10 500 bundles that are not there", faults.Fault{Path: listed, Do: many(500, "application/vnd.dev.sigstore.bundle.v0.3+json")}, 504, nil},
		{"G10 more bundles than are read", faults.Fault{Path: listed, Do: many(1001, "application/vnd.dev.sigstore.bundle.v0.3+json")}, 0, codes(verdict.Limit)},
	} {
		t.Run(row.name, func(t *testing.T) {
			y.proxy.Spoil(row.fault)
			v, requests := y.gate(t, of, 1)
			refused(t, v.Err(), row.want...)
			if row.requests > 0 && requests != row.requests || requests > 1100 {
				t.Errorf("%d requests", requests)
			}
		})
	}
	y.proxy.Heal()
	for range 20 { // genuine, and of somebody else
		y.attach(t, "demo", image, y.built(t, stranger, image.Digest, yardSource))
	}
	v, _ := y.gate(t, of, 1)
	accepted(t, v.Err())
	if !strings.Contains(strings.Join(v.Notes, "\n"), "ignored 20 attached bundles") {
		t.Errorf("notes %q", v.Notes)
	}
	y.proxy.Spoil(faults.Fault{Path: listed, Do: instead(func(_ http.Header, body []byte) []byte {
		return bytes.ReplaceAll(body, []byte(ours.Digest.String()), []byte(digest.Of(digest.SHA256, nil).String()))
	})})
	v, _ = y.gate(t, of, 1)
	accepted(t, v.Err()) // the annotation still leads to ours
}

// TestGateOfPromotersManifest: with evidence that is stripped, foreign or of
// something else, and the twin with ours beside it.
func TestGateOfPromotersManifest(t *testing.T) {
	y := theWorld(t).yard(t, "attacked")
	builder, release, stranger := y.author(t, lab.RoleBuilder), y.author(t, lab.RoleRelease), y.author(t, "mallory@evil.example")
	none := instead(func(http.Header, []byte) []byte {
		return []byte(`{"schemaVersion":2,"mediaType":"` + registry.MediaTypeIndex + `","manifests":[]}`)
	})
	for i, row := range []struct {
		name  string
		as    author // nobody: the zero author
		of    func(digest.Digest) digest.Digest
		from  string
		want  verdict.Code
		fault faults.Fault
	}{
		{name: "G08 nothing", want: verdict.NoProvenance},
		{name: "G08 ours, stripped by the registry", as: builder, from: yardSource, want: verdict.NoProvenance, fault: faults.Fault{Path: "/referrers/", Do: none}},
		{name: "G08 ours, and no answer", as: builder, from: yardSource, want: verdict.PlaceDown, fault: faults.Fault{Path: "/referrers/", Do: faults.Status(500)}},
		{name: "G09 a stranger's", as: stranger, from: yardSource, want: verdict.Identity},
		{name: "another role's", as: release, from: yardSource, want: verdict.Identity},
		{name: "G07 of another image", as: builder, from: yardSource, want: verdict.NotBound, of: func(digest.Digest) digest.Digest { return digest.Of(digest.SHA256, nil) }},
		{name: "of another source", as: builder, from: "git+https://example.test/lantern2@refs/tags/v1", want: verdict.SourceRepo},
		{name: "of a source inside another", as: builder, from: "git+https://evil.example/example.test/lantern@refs/tags/v1", want: verdict.SourceRepo},
	} {
		t.Run(row.name, func(t *testing.T) {
			repo := fmt.Sprintf("demo-%d", i)
			image := y.image(t, repo)
			if row.as.lab != nil {
				of := image.Digest
				if row.of != nil {
					of = row.of(of)
				}
				y.attach(t, repo, image, y.built(t, row.as, of, row.from))
			}
			all := map[string]digest.Digest{repo: image.Digest}
			if row.fault.Do != nil {
				y.proxy.Spoil(row.fault)
			}
			v, _ := y.gate(t, all, 2)
			refused(t, v.Err(), row.want)
			if !strings.Contains(v.Findings[0].Message, "blocks mirror-0.example.test/prod/"+repo+":v1, mirror-1.") {
				t.Errorf("%s", v.Findings[0].Message)
			}
			y.proxy.Heal()
			if row.fault.Do == nil {
				y.attach(t, repo, image, y.built(t, builder, image.Digest, yardSource))
			}
			v, _ = y.gate(t, all, 2)
			accepted(t, v.Err())
		})
	}
}

// TestGateWithPatterns: a signer of the manifest may be a pattern, which matches
// whole identities only. Who matches several signers is believed as far as the
// least of their builders.
func TestGateWithPatterns(t *testing.T) {
	y := theWorld(t).yard(t, "patterns")
	image := y.image(t, "demo")
	y.attach(t, "demo", image, y.built(t, y.author(t, lab.RoleBuilder), image.Digest, yardSource))
	issuer, subject := y.Lab.Identity(lab.RoleBuilder)
	user, host, _ := strings.Cut(subject, "@")
	exact, name := "sigstore::"+issuer+"::"+subject, regexp.QuoteMeta(subject)
	pattern := func(p string) string { return "sigstore(identityMatch=regex)::" + issuer + "::" + p }
	other := promoterfile.Builder{ID: "https://other.example.test", Level: 1}
	for _, row := range []struct {
		name    string
		signers []string
		named   []string // the signers that a second builder, of level 1, names
		want    verdict.Code
	}{
		{"the whole identity", []string{pattern(name)}, nil, ""},
		{"one of several", []string{pattern("(nobody|" + regexp.QuoteMeta(user) + ")@" + regexp.QuoteMeta(host))}, nil, ""},
		{"the end of the identity", []string{pattern(name[1:])}, nil, verdict.Identity},
		{"another issuer", []string{strings.Replace(pattern(name), issuer, "https://issuer.example.test", 1)}, nil, verdict.Identity},
		{"anybody", []string{pattern(".*")}, nil, verdict.PolicyWeak},
		{"exact, and by a pattern", []string{exact, pattern(name)}, nil, ""},
		{"for another builder, too", []string{exact, pattern(name)}, []string{pattern(name)}, verdict.Builder},
	} {
		y.policy.Signers = row.signers
		y.policy.Builders = y.policy.Builders[:1:1]
		if row.named != nil {
			other.Signers = row.named
			y.policy.Builders = append(y.policy.Builders, other)
		}
		t.Run(row.name, func(t *testing.T) {
			v, _ := y.gate(t, map[string]digest.Digest{"demo": image.Digest}, 1)
			if row.want == "" {
				accepted(t, v.Err())
				return
			}
			refused(t, v.Err(), row.want)
		})
	}
}

// TestGateWithoutAPolicy: what nobody demands anything of is not let through.
func TestGateWithoutAPolicy(t *testing.T) {
	y := theWorld(t).yard(t, "lawless")
	image := y.image(t, "demo")
	y.attach(t, "demo", image, y.built(t, y.author(t, lab.RoleBuilder), image.Digest, yardSource))
	of := map[string]digest.Digest{"demo": image.Digest}
	v, _ := y.gate(t, of, 1)
	accepted(t, v.Err())
	for _, policy := range []*promoterfile.Policy{nil, {}, {Mode: promoterfile.ModeOff, Signers: y.policy.Signers}} {
		y.policy = policy
		v, requests := y.gate(t, of, 1)
		refused(t, v.Err(), verdict.PolicyEmpty)
		if requests != 0 {
			t.Errorf("%d requests", requests)
		}
	}
}
