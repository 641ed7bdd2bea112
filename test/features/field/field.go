// Package field is a place to use features of registries in: a lab that signs, a
// policy that knows who may, and registries of both kinds, with the interface
// for referrers and without. It is what a fixture of a feature needs:
//
//	f := field.New(t, field.Referrers)
//	image := f.Image(t, "prod/lantern", "v1")
//	bundle := f.Sign(t, lab.RoleRelease, field.Log2, field.About(t, image.Digest, kind, said))
//	f.Attach(t, "prod/lantern", image, field.Evidence{Kind: kind, Bundle: bundle, Hints: field.Hints()})
//	fixture := lifecycle.Fixture{Deeds: f.Sweeps(t, "prod/lantern").Deeds()[key], …}
package field

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature/cleanup"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/test/lab"
	labregistry "github.com/waybill-release/waybill/test/lab/registry"
)

// Kind is how a registry is.
type Kind int

// The kinds of registries.
const (
	Referrers Kind = iota // it lists referrers, and deletes
	Undeleted             // it lists referrers, and deletes nothing
	Listless              // it lists none: clients keep the list under a tag
)

// Kinds are all of them, by name.
func Kinds() map[string]Kind {
	return map[string]Kind{"with referrers": Referrers, "without deletion": Undeleted, "without referrers": Listless}
}

// Form is how a statement is signed.
type Form int

// The forms: a bundle with an entry of a log of version 2, or of version 1,
// which promises what older clients go by.
const (
	Log2 Form = iota
	Log1
)

// Field is a lab and one registry.
type Field struct {
	Lab      *lab.Lab
	Verifier *verify.Verifier
	Host     string
	Remote   *registry.Remote
}

// New starts a registry of a kind, and a lab for it.
func New(t testing.TB, kind Kind) *Field {
	t.Helper()
	return On(t, lab.New(t), kind)
}

// On starts a registry of a kind beside a lab.
func On(t testing.TB, l *lab.Lab, kind Kind) *Field {
	t.Helper()
	root, err := trust.Parse(l.TrustedRoot)
	must(t, err)
	f := &Field{Lab: l}
	f.Verifier, err = verify.New(root)
	must(t, err)
	srv := httptest.NewServer(handler(t, kind))
	t.Cleanup(srv.Close)
	f.Host = strings.TrimPrefix(srv.URL, "http://")
	f.Remote = f.Open(t, http.DefaultTransport)
	return f
}

func handler(t testing.TB, kind Kind) http.Handler {
	t.Helper()
	if kind == Listless {
		return ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	}
	r, err := labregistry.New(t.TempDir())
	must(t, err)
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if kind == Undeleted && req.Method == http.MethodDelete {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		r.ServeHTTP(w, req)
	})
}

// Open opens the registry by a way of one's own, as another program does.
func (f *Field) Open(t testing.TB, rt http.RoundTripper) *registry.Remote {
	t.Helper()
	r, err := registry.OpenRemote(f.Host, rt)
	must(t, err)
	return r
}

// Policy knows the lab's release identity and its verifier. More is added to
// its text.
func (f *Field) Policy(t testing.TB, more string) policy.Policy {
	t.Helper()
	p, err := policy.Parse(fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Policy
name: field
roles:
  release: [{issuer: %[1]q, subject: release@lab.invalid, type: email}]
  verifier: [{issuer: %[1]q, subject: verifier@lab.invalid, type: email}]
  policy: [{issuer: %[1]q, subject: policy@lab.invalid, type: email}]
builders:
- id: https://example.test/builder
  level: 1
  signers: [{issuer: %[1]q, subject: builder@lab.invalid, type: email}]
source: {repository: "git+https://example.test/source"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
%[2]s`, f.Lab.Issuer, more), nil)
	must(t, err)
	return p
}

// Config is that of sweeps over repositories of the registry.
func (f *Field) Config(t testing.TB, repositories ...string) cleanup.Config {
	t.Helper()
	c := cleanup.Config{Verifier: f.Verifier, Policy: f.Policy(t, ""), Open: Through(http.DefaultTransport)}
	for _, r := range repositories {
		c.Repositories = append(c.Repositories, f.Host+"/"+r)
	}
	return c
}

// Through opens registries by a way.
func Through(rt http.RoundTripper) func(host string) (*registry.Remote, error) {
	return func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, rt) }
}

// Sweeps are those over repositories of the registry.
func (f *Field) Sweeps(t testing.TB, repositories ...string) *cleanup.Sweeps {
	t.Helper()
	s, err := cleanup.New(f.Config(t, repositories...))
	must(t, err)
	return s
}

// Image pushes an image of one platform, and has a tag name it.
func (f *Field) Image(t testing.TB, repo, tag string) registry.Descriptor {
	t.Helper()
	config := fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]},"config":{"Labels":{"of":%q}}}`, repo+":"+tag)
	c := registry.Blob{Bytes: config, Descriptor: registry.Descriptor{MediaType: "application/vnd.oci.image.config.v1+json", Digest: digest.Of(digest.SHA256, config), Size: int64(len(config))}}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[]}`,
		registry.MediaTypeManifest, c.Descriptor.MediaType, c.Descriptor.Digest, len(config))
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	must(t, registry.Parcel{Descriptor: d, Raw: raw, Blobs: []registry.Blob{c}}.PushTo(t.Context(), f.Remote, repo))
	must(t, f.Remote.Tag(t.Context(), repo, tag, d))
	return d
}

// About is a statement about an image.
func About(t testing.TB, image digest.Digest, kind string, predicate any) intoto.Statement {
	t.Helper()
	s, err := intoto.New(kind, []intoto.Subject{{Digests: digest.Set{SHA256: image}}}, predicate)
	must(t, err)
	return s
}

// Sign signs a statement as a role of the lab, or as anybody by an address.
func (f *Field) Sign(t testing.TB, as string, form Form, s intoto.Statement) []byte {
	t.Helper()
	key, err := sign.NewEphemeralKeypair(nil)
	must(t, err)
	o := sign.BundleOptions{
		Context:                    t.Context(),
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: f.Lab.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: f.Lab.Token(as)},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: f.Lab.Rekor, Version: 2})},
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: f.Lab.TSA})},
	}
	if form == Log1 {
		o.TransparencyLogs = []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: f.Lab.RekorV1, Version: 1})}
	}
	b, err := sign.Bundle(&sign.DSSEData{PayloadType: intoto.PayloadType, Data: s.Raw()}, key, o)
	must(t, err)
	raw, err := protojson.Marshal(b)
	must(t, err)
	var out bytes.Buffer // protojson varies its white space
	must(t, json.Compact(&out, raw))
	return out.Bytes()
}

// Hints are annotations of some run.
func Hints() map[string]string {
	return map[string]string{
		trace.AnnotationTrace: strings.Repeat("a1", 16), trace.AnnotationSpan: strings.Repeat("b2", 8), trace.AnnotationInitial: strings.Repeat("c3", 16),
	}
}

// Evidence is a bundle as it is attached: what its referrer says of its kind,
// and perhaps of a run.
type Evidence struct {
	Kind   string
	Bundle []byte
	Hints  map[string]string
}

// Attach has a bundle refer to an image.
func (f *Field) Attach(t testing.TB, repo string, image registry.Descriptor, e Evidence) registry.Descriptor {
	t.Helper()
	d, raw, blobs := registry.HintedManifest(image, e.Bundle, e.Kind, e.Hints)
	must(t, registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}.PushTo(t.Context(), f.Remote, repo))
	return d
}

// AttachTag has a tag attach layers to an image.
func (f *Field) AttachTag(t testing.TB, repo string, of digest.Digest, suffix string, layers ...oci.Signature) {
	t.Helper()
	parcel, err := registry.AttachedManifest(layers)
	must(t, err)
	must(t, parcel.PushTo(t.Context(), f.Remote, repo))
	must(t, f.Remote.TagManifest(t.Context(), repo, registry.AttachedTag(of, suffix), parcel.Descriptor, parcel.Raw))
}

// Layer is one of a tag, without a signature.
func Layer(t testing.TB, mediaType types.MediaType, payload string) oci.Signature {
	t.Helper()
	l, err := static.NewSignature([]byte(payload), "", static.WithLayerMediaType(mediaType))
	must(t, err)
	return l
}

// Snapshot is all that can be reached in repositories, as a client that knows
// nothing but their names sees it: tags, manifests, and what refers to them.
// What nothing names is no part of it; registries collect it.
func (f *Field) Snapshot(ctx context.Context, repositories ...string) ([]byte, error) {
	remote, err := registry.OpenRemote(f.Host, http.DefaultTransport)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, repo := range repositories {
		tags, err := remote.Tags(ctx, repo)
		if err != nil {
			return nil, err
		}
		for _, tag := range tags {
			d, raw, err := remote.Manifest(ctx, repo, tag)
			if err != nil {
				return nil, err
			}
			all[repo+":"+tag] = string(raw)
			referrers, err := remote.Referrers(ctx, repo, d.Digest)
			if err != nil {
				return nil, err
			}
			for _, r := range referrers {
				if _, raw, err = remote.Manifest(ctx, repo, r.Digest.String()); err != nil {
					return nil, err
				}
				all[repo+":"+tag+" "+r.Digest.String()] = string(raw)
			}
		}
	}
	return json.MarshalIndent(all, "", " ")
}

// Mortal is the way of a program that ends when it has made so many writes:
// after that nothing of it reaches anybody.
type Mortal struct {
	mu     sync.Mutex // owns the rest
	left   int
	died   bool
	Writes []string
}

// NewMortal lives for so many writes.
func NewMortal(writes int) *Mortal { return &Mortal{left: writes} }

// errDead is no reason to try again.
var errDead = fmt.Errorf("the program has ended: %w", context.Canceled)

// RoundTrip implements [http.RoundTripper].
func (m *Mortal) RoundTrip(req *http.Request) (*http.Response, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if req.Method != http.MethodGet && req.Method != http.MethodHead && !m.died {
		if m.died = m.left == 0; !m.died {
			m.left--
			m.Writes = append(m.Writes, req.Method+" "+req.URL.Path)
		}
	}
	if m.died {
		return nil, errDead
	}
	return http.DefaultTransport.RoundTrip(req)
}

// Died reports whether the program ended before its work did.
func (m *Mortal) Died() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.died
}

// Sorted are the keys of a map, for tests that go through one.
func Sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
