package promote_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// counted accepts an image by one bundle.
type counted struct {
	yes
	kind   string // of the statement
	bundle digest.Digest
}

func (j *counted) Image(ctx context.Context, image gate.Image) *verdict.Verdict {
	v := j.yes.Image(ctx, image)
	v.Proofs = append(v.Proofs, verdict.Proof{Subject: image.Name, Statement: j.kind, Bundle: j.bundle})
	return v
}

// listening hears in which life records are made, and makes none.
type listening struct {
	mu sync.Mutex // owns in
	in trace.Context
}

func (l *listening) Image(ctx context.Context, _ attest.Promoted) ([]attest.Signed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.in = carry.From(ctx)
	return nil, nil
}

// provenBy is a bundle of provenance of a step that ran in a trace. Who signed
// it is for the judge to know.
func provenBy(t *testing.T, ids trace.IDs) []byte {
	t.Helper()
	p := provenance.Predicate{BuildDefinition: provenance.BuildDefinition{BuildType: provenance.BuildType}}
	p.RunDetails.Byproducts = []provenance.Resource{provenance.Traced(ids)}
	s, err := provenance.Encode([]intoto.Subject{{Name: "oci/demo", Digests: digest.SetOf([]byte("demo"))}}, p)
	if err != nil {
		t.Fatal(err)
	}
	return enveloped(s)
}

// vouchedFor is a bundle of a summary that a verifier made in a trace.
func vouchedFor(t *testing.T, ids trace.IDs) []byte {
	t.Helper()
	v := verdict.New("demo", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	v.Policy, v.Counts = digest.Of(digest.SHA256, []byte("policy")), verdict.Counts{Required: 1, Verified: 1}
	v.Proofs = []verdict.Proof{{Subject: "oci/demo", Bundle: digest.Of(digest.SHA256, []byte("bundle"))}}
	s, err := vsa.New(*v, vsa.Claim{
		Verifier: vsa.Verifier{ID: "https://verifier.example.test"}, Resource: "https://example.test/demo", Policy: "https://policy.example.test",
		Subjects: []intoto.Subject{{Name: "oci/demo", Digests: digest.SetOf([]byte("demo"))}}, Artifacts: 1, Trace: ids,
	})
	if err != nil {
		t.Fatal(err)
	}
	return enveloped(s)
}

func enveloped(s intoto.Statement) []byte {
	return fmt.Appendf(nil, `{"mediaType":%q,"verificationMaterial":{"publicKey":{"hint":"x"},"tlogEntries":[]},"dsseEnvelope":{"payload":%q,"payloadType":%q,"signatures":[{"sig":"AA=="}]}}`,
		"application/vnd.dev.sigstore.bundle.v0.3+json", base64.StdEncoding.EncodeToString(s.Raw()), intoto.PayloadType)
}

// TestT09 of images: the promoter acts in the life of the staged image. What
// evidence says by which it was accepted outweighs the annotations, which anybody
// may have written; without it they lead, and are put into nothing that is
// signed. What nobody counted says nothing.
func TestT09PromoterActsInTheLifeOfAnImage(t *testing.T) {
	id := func(n byte) trace.ID { return trace.ID{0: n} }
	signed := trace.IDs{Trace: id(1), Span: trace.SpanID{1}, Initial: id(1)}
	hinted := trace.IDs{Trace: id(2), Span: trace.SpanID{2}, Initial: id(2)}
	for name, row := range map[string]struct {
		hints       trace.IDs
		proven      bool // the bundle is one by which the image was accepted
		summary     bool // the bundle has a summary, and no provenance
		offered     trace.ID
		acts, signs trace.ID
		told        bool
	}{
		"signed":                         {proven: true, acts: id(1), signs: id(1)},
		"a summary":                      {proven: true, summary: true, acts: id(1), signs: id(1)},
		"a summary, not counted":         {summary: true},
		"signed, with another hint":      {hints: hinted, proven: true, acts: id(1), signs: id(1)},
		"a hint alone":                   {hints: hinted, acts: id(2)},
		"neither":                        {},
		"another came with the run":      {proven: true, offered: id(9), acts: id(1), signs: id(1), told: true},
		"neither, and one with the run":  {offered: id(9)},
		"a hint, and another of the run": {hints: hinted, offered: id(9), acts: id(2)},
	} {
		t.Run(name, func(t *testing.T) {
			m := twoPlatforms(t, 1)
			bundle, kind := provenBy(t, signed), provenance.PredicateType
			if row.summary {
				bundle, kind = vouchedFor(t, signed), vsa.PredicateType
			}
			hint(t, m, bundle, kind, row.hints)
			m.from.says(kinds)
			judge := &counted{kind: kind}
			if row.proven {
				judge.bundle = digest.Of(digest.SHA256, bundle)
			}
			m.Judge = func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error) { return judge, nil }
			records := &listening{}
			m.Records = records
			var acting trace.Context
			m.Rights.Exclusive = func(ctx context.Context) error { acting = carry.From(ctx); return nil }
			done := applyIn(t, m, row.offered)
			if !m.tagged(m.to[0]) {
				t.Fatalf("it was not promoted: %v", done.Verdict.Findings)
			}
			if acting.IsZero() || acting.Initial != row.acts {
				t.Errorf("it acts in the life of %s, want %s", acting.Initial, row.acts)
			}
			if records.in.IsZero() || records.in.Initial != row.signs {
				t.Errorf("it signs in the life of %s, want %s", records.in.Initial, row.signs)
			}
			if told := strings.Contains(strings.Join(done.Verdict.Notes, "\n"), id(9).String()); told != row.told {
				t.Errorf("that the run came with another beginning is told: %t, want %t: %q", told, row.told, done.Verdict.Notes)
			}
		})
	}
}

// hint makes a bundle refer to the image, with hints.
func hint(t *testing.T, m *moving, bundle []byte, kind string, ids trace.IDs) {
	t.Helper()
	src := m.open(m.from.name + "/staging")
	d, raw, blobs := registry.HintedManifest(m.image, bundle, kind, ids.Annotations())
	for _, b := range blobs {
		if err := src.PushBlob(t.Context(), "demo", b.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := src.PushManifest(t.Context(), "demo", d, raw); err != nil {
		t.Fatal(err)
	}
}

// kinds has a registry say of each referrer what it is, as the specification
// wants it, where this one says what its configuration is.
func kinds(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if !strings.Contains(r.URL.Path, "/referrers/") {
		next.ServeHTTP(w, r)
		return
	}
	said := httptest.NewRecorder()
	next.ServeHTTP(said, r)
	maps.Copy(w.Header(), said.Header())
	w.Header().Del("Content-Length")
	w.WriteHeader(said.Code)
	_, _ = w.Write(bytes.ReplaceAll(said.Body.Bytes(), []byte("application/vnd.oci.empty.v1+json"), []byte("application/vnd.dev.sigstore.bundle.v0.3+json")))
}

// applyIn applies the plan in a run that came with the beginning of something.
func applyIn(t *testing.T, m *moving, offered trace.ID) promote.Applied {
	t.Helper()
	ctx, _, err := span.Setup(t.Context(), span.Config{Service: "test", Silent: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := span.Start(carry.WithInitial(ctx, offered), span.Command("promote.apply"))
	defer end(nil)
	done, err := m.Apply(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return done
}
