package attacks

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// spy counts requests and bytes by service, and can cut one service off.
type spy struct {
	http.RoundTripper
	cut string // host:port that does not answer

	mu    sync.Mutex // guards both
	calls map[string]int
	bytes int64
}

func newSpy() *spy {
	return &spy{RoundTripper: http.DefaultTransport, calls: map[string]int{}}
}

// RoundTrip counts the request, and makes it.
func (s *spy) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.calls[r.URL.Host]++
	s.bytes += r.ContentLength
	s.mu.Unlock()
	if r.URL.Host == s.cut {
		return nil, errors.New("connection refused")
	}
	return s.RoundTripper.RoundTrip(r)
}

// to is how many requests a service got.
func (s *spy) to(t testing.TB, service string) int {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[hostOf(t, service)]
}

func hostOf(t testing.TB, address string) string {
	t.Helper()
	return must[*url.URL](t)(url.Parse(address)).Host
}

// signer acts in one role with a token.
func (w *world) signer(t testing.TB, role policy.Role, token string, through *spy) *sign.Signer {
	t.Helper()
	return must[*sign.Signer](t)(sign.New(sign.Config{
		Role: role, Policy: w.profile.Policy, Verifier: w.verifier, Transport: through, Clock: time.Now,
		Services: must[sign.Services](t)(sign.ParseServices(w.Lab.SigningConfig, time.Now())),
		Token:    func(context.Context) (string, error) { return token, nil },
	}))
}

// said is a statement with a predicate type.
func said(t testing.TB, predicateType string) intoto.Statement {
	t.Helper()
	subject := intoto.Subject{Name: artifactName, Digests: digest.SetOf([]byte(artifact))}
	return must[intoto.Statement](t)(intoto.New(predicateType, []intoto.Subject{subject}, struct{}{}))
}

// TestSignersKeepToTheirRoles: what a role may not say is not even asked of
// anybody, and a token of somebody else leaves no trace in the log.
func TestSignersKeepToTheirRoles(t *testing.T) {
	w := theWorld(t)
	set := digest.SetOf([]byte(artifact))
	statement := func(predicateType string) func(*sign.Signer) error {
		return func(s *sign.Signer) error {
			_, _, err := s.Statement(t.Context(), said(t, predicateType))
			return err
		}
	}
	builds := func(builder string) func(*sign.Signer) error {
		predicate := map[string]any{"buildDefinition": map[string]any{"buildType": kind}, "runDetails": map[string]any{"builder": map[string]any{"id": builder}}}
		s := must[intoto.Statement](t)(intoto.New(provenance.PredicateType, []intoto.Subject{{Name: artifactName, Digests: set}}, predicate))
		return func(by *sign.Signer) error {
			_, _, err := by.Statement(t.Context(), s)
			return err
		}
	}
	bytes := func(s *sign.Signer) error {
		_, _, err := s.Blob(t.Context(), set)
		return err
	}
	expired, err := w.Lab.Mint(lab.RoleRelease, map[string]any{"exp": time.Now().Add(-time.Minute).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := w.Lab.Mint(lab.RoleRelease, map[string]any{"aud": "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	release, builder := w.Lab.Token(lab.RoleRelease), w.Lab.Token(lab.RoleBuilder)
	// It is seen when the signature is verified, which is then not handed out.
	refused(t, builds(provenance.BuilderIsolated)(w.signer(t, policy.Builder, w.Lab.Token(lab.RoleBuilderUnisolated), newSpy())), verdict.Builder)
	rows := []struct {
		name  string
		role  policy.Role
		token string
		act   func(*sign.Signer) error
		codes []verdict.Code
		asks  bool // the certificate authority is asked
	}{
		{"the builder signs provenance", policy.Builder, builder, builds(provenance.BuilderIsolated), nil, true},
		{"the unisolated builder signs provenance", policy.Builder, w.Lab.Token(lab.RoleBuilderUnisolated), builds(provenance.BuilderUnisolated), nil, true},
		{"the builder signs something else", policy.Builder, builder, statement(kind), codes(verdict.IdentityRole), false},
		{"the builder signs an image", policy.Builder, builder, statement(intoto.CosignSignature), codes(verdict.IdentityRole), false},
		{"the builder signs a file", policy.Builder, builder, bytes, codes(verdict.IdentityRole), false},
		{"the release role signs a file", policy.Release, release, bytes, nil, true},
		{"the release role signs a statement", policy.Release, release, statement(kind), nil, true},
		{"the release role signs provenance", policy.Release, release, statement(provenance.PredicateType), codes(verdict.IdentityRole), false},
		{"the verifier signs provenance", policy.Verifier, w.Lab.Token(lab.RoleVerifier), statement(provenance.PredicateType), codes(verdict.IdentityRole), false},
		{"C26 the builder's token in the release role", policy.Release, builder, bytes, codes(verdict.SignedAsElse), false},
		{"C26 the release role's token in the builder's", policy.Builder, release, statement(provenance.PredicateType), codes(verdict.SignedAsElse), false},
		{"C26 the verifier's token in the release role", policy.Release, w.Lab.Token(lab.RoleVerifier), statement(kind), codes(verdict.SignedAsElse), false},
		{"a stranger's token", policy.Release, w.Lab.Token("mallory@evil.example"), bytes, codes(verdict.SignedAsElse), false},
		{"a token for somebody else's authority", policy.Release, elsewhere, bytes, codes(verdict.TokenRefused), true},
		{"an expired token", policy.Release, expired, bytes, codes(verdict.TokenRefused), false},
		{"a token that is none", policy.Release, "token", bytes, codes(verdict.Usage), false},
		{"a token of two parts", policy.Release, release[:strings.LastIndex(release, ".")], bytes, codes(verdict.Usage), false},
		{"no token", policy.Release, "", bytes, codes(verdict.Usage), false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			through := newSpy()
			refused(t, r.act(w.signer(t, r.role, r.token, through)), r.codes...)
			if asked := through.to(t, w.Lab.Fulcio) > 0; asked != r.asks {
				t.Errorf("the certificate authority was asked: %t, want %t", asked, r.asks)
			}
			logged, stamped := through.to(t, w.Lab.Rekor), through.to(t, w.Lab.TSA)
			if r.codes != nil && (logged > 0 || stamped > 0) {
				t.Errorf("refused, after %d requests to the log and %d to the timestamp authority", logged, stamped)
			}
			if r.codes == nil && logged != 1 {
				t.Errorf("%d requests to the log for one signature", logged)
			}
		})
	}
}

// TestSigningServicesDown: each in turn, and the twin with all of them up.
func TestSigningServicesDown(t *testing.T) {
	w := theWorld(t)
	set := digest.SetOf([]byte(artifact))
	for _, service := range []string{"", w.Lab.Fulcio, w.Lab.TSA, w.Lab.Rekor} {
		through := newSpy()
		var want []verdict.Code
		if service != "" {
			through.cut, want = hostOf(t, service), codes(verdict.PlaceDown)
		}
		s := w.signer(t, policy.Release, w.Lab.Token(lab.RoleRelease), through)
		_, _, err := s.Blob(t.Context(), set)
		refused(t, err, want...)
		_, _, err = s.Statement(t.Context(), said(t, kind))
		refused(t, err, want...)
		if service == w.Lab.TSA && through.to(t, w.Lab.Rekor) > 0 {
			t.Error("logged without a timestamp")
		}
	}
}

// TestLargeBlob: a file of any size is signed by its digest, and only that
// leaves the machine.
func TestLargeBlob(t *testing.T) {
	w := theWorld(t)
	const size = 200 << 20
	sum, n, err := digest.SumSHA256(io.LimitReader(zeros{}, size))
	if err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	through := newSpy()
	s := w.signer(t, policy.Release, w.Lab.Token(lab.RoleRelease), through)
	bundle, e, err := s.Blob(t.Context(), digest.Set{SHA256: sum})
	accepted(t, err)
	if !e.Covers("any name", digest.Set{SHA256: sum}) {
		t.Error("the evidence is not of these bytes")
	}
	if through.bytes > 64<<10 || len(bundle) > 64<<10 {
		t.Errorf("%d bytes were sent and %d came back for a digest", through.bytes, len(bundle))
	}
	_, _, err = s.Blob(t.Context(), digest.Set{})
	if err == nil {
		t.Error("nothing was signed")
	}
}

type zeros struct{}

// Read gives as many zeros as there is room for.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
