// Package signing holds signers to what they promise while services are away,
// lie, or answer when nobody listens any more, and while the signer itself is
// killed. The services are the lab's; between them and the signer stands a
// meddler.
package signing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// world is a lab with a policy, and a clock that moves when a signer waits.
type world struct {
	*lab.Lab
	policy   policy.Policy
	verifier *verify.Verifier
	services sign.Services
	token    string

	mu      sync.Mutex // guards what follows
	ahead   time.Duration
	reports []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := worldOf(t, lab.New(t))
	w.token = w.lasting(t, lab.RoleRelease)
	return w
}

func worldOf(t testing.TB, l *lab.Lab) *world {
	t.Helper()
	w := &world{Lab: l}
	var err error
	if w.policy, err = policy.Parse([]byte(policyText(l.Issuer)), nil); err != nil {
		t.Fatal(err)
	}
	w.verifier = verifierOf(t, l.TrustedRoot)
	if w.services, err = sign.ParseServices(l.SigningConfig, time.Now()); err != nil {
		t.Fatal(err)
	}
	return w
}

// lasting is a token that outlives every wait of these tests.
func (w *world) lasting(t testing.TB, role string) string {
	t.Helper()
	token, err := w.Mint(role, map[string]any{"exp": time.Now().Add(24 * time.Hour).Unix()})
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func verifierOf(t testing.TB, trustedRoot []byte) *verify.Verifier {
	t.Helper()
	r, err := trust.Parse(trustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(r)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// policyText lets the lab's release identity release, and a workflow too.
func policyText(issuer string) string {
	return fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: signing
roles:
  release:
  - {issuer: %[1]q, subject: release@lab.invalid, type: email}
  - {issuer: %[1]q, subject: "https://github.com/o/r/.github/workflows/release.yml@refs/heads/main", type: uri}
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
`, issuer)
}

// now is the time by the world's clock.
func (w *world) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Add(w.ahead)
}

// pause moves the clock.
func (w *world) pause(ctx context.Context, d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ahead += d
	return ctx.Err()
}

func (w *world) report(_ context.Context, format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reports = append(w.reports, fmt.Sprintf(format, args...))
}

// told is what was reported until now.
func (w *world) told() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.reports, "\n")
}

// signer signs for the release, through a meddler.
func (w *world) signer(t testing.TB, through http.RoundTripper, edits ...func(*sign.Config)) *sign.Signer {
	t.Helper()
	c := sign.Config{
		Role: policy.Release, Policy: w.policy, Verifier: w.verifier, Services: w.services, Transport: through, Clock: w.now,
		Token: func(context.Context) (string, error) { return w.token, nil },
		Work:  sign.Work{Report: w.report, Pause: w.pause},
	}
	for _, edit := range edits {
		edit(&c)
	}
	s, err := sign.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keeping has a signer keep what it makes in a journal.
func keeping(t testing.TB, path string) func(*sign.Config) {
	t.Helper()
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	kept, err := sign.Keep(j)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *sign.Config) { c.Work.Kept = kept }
}

// patient has a signer wait for an hour.
func patient(c *sign.Config) { c.Work.Patience = time.Hour }

// meddler counts requests, and does with each what it is told.
type meddler struct {
	w *world
	// meddle answers in place of a service, or hands on; nil hands on.
	meddle func(call call) (*http.Response, error)

	mu            sync.Mutex // guards what follows
	calls         map[string]int
	all           int
	abreast, most int
}

// call is one request on its way.
type call struct {
	number  int    // of all, from 1
	service string // fulcio, tsa or rekor
	request *http.Request
	// pass has the service answer.
	pass func() (*http.Response, error)
}

func (w *world) meddler(meddle func(call) (*http.Response, error)) *meddler {
	return &meddler{w: w, meddle: meddle, calls: map[string]int{}}
}

// honest hands everything on.
func (w *world) honest() *meddler { return w.meddler(nil) }

// RoundTrip sees to it that all goes wrong that should.
func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	c := call{service: m.w.service(r.URL), request: r, pass: func() (*http.Response, error) { return oneWay.RoundTrip(r) }}
	m.mu.Lock()
	m.all++
	m.calls[c.service]++
	m.abreast++
	m.most = max(m.most, m.abreast)
	c.number = m.all
	m.mu.Unlock()
	defer func() { m.mu.Lock(); m.abreast--; m.mu.Unlock() }()
	if m.meddle == nil {
		return c.pass()
	}
	return m.meddle(c)
}

// oneWay is the product's transport, without its own patience.
var oneWay = transport.New(transport.Config{Attempts: 1})

func (w *world) service(u *url.URL) string {
	for name, address := range map[string]string{
		"fulcio": w.Fulcio, "tsa": w.TSA, "rekor": w.Rekor, "rekorV1": w.RekorV1, "rekor2": w.Rekor2, "tsa2": w.TSA2,
	} {
		if address == "" {
			continue
		}
		if at, err := url.Parse(address); err == nil && at.Host == u.Host {
			return name
		}
	}
	return u.Host
}

func (m *meddler) to(service string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls[service]
}

// says is an answer that no service gave.
func says(status int, body string) (*http.Response, error) {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)),
	}, nil
}

// text reads an answer and puts it back.
func text(t testing.TB, r *http.Response) string {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Body.Close()
	r.Body = io.NopCloser(bytes.NewReader(raw))
	return string(raw)
}

// file is the digests of a small file that is called n.
func file(n int) digest.Set { return digest.SetOf(fmt.Appendf(nil, "file %d", n)) }

// said is a statement about such a file.
func said(t testing.TB, n int) intoto.Statement {
	t.Helper()
	st, err := intoto.New("https://example.test/said/v1", []intoto.Subject{{Name: fmt.Sprint(n), Digests: file(n)}}, struct{}{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// orders are a statement and files, n in all.
func orders(t testing.TB, n int) []sign.Order {
	t.Helper()
	list := []sign.Order{{Statement: said(t, 0)}}
	for i := range n - 1 {
		list = append(list, sign.Order{Bytes: file(i)})
	}
	return list
}

// refused demands a code, or none.
func refused(t testing.TB, err error, want verdict.Code) {
	t.Helper()
	switch {
	case err == nil && want != "":
		t.Errorf("passed, want %s", want)
	case err != nil && verdict.FindingOf("", err).Code != want:
		t.Errorf("%v, want %s", err, want)
	}
}

// gather hands bundles to a map, and demands that each is handed over once.
func gather(t testing.TB) (map[int]verify.Evidence, func(int, []byte, verify.Evidence) error) {
	t.Helper()
	all := map[int]verify.Evidence{}
	return all, func(i int, bundle []byte, e verify.Evidence) error {
		if !all[i].IsZero() || e.IsZero() || len(bundle) == 0 {
			return errors.New("handed over twice, or without evidence")
		}
		all[i] = e
		return nil
	}
}

// twins are the entries that a log has more than once, by what was signed.
func (w *world) twins() int {
	seen, twice := map[string]bool{}, 0
	for _, body := range w.Logged() {
		_, rest, _ := strings.Cut(body, `"digest":"`)
		sum, _, _ := strings.Cut(rest, `"`)
		if seen[sum] {
			twice++
		}
		seen[sum] = true
	}
	return twice
}

func journalIn(t testing.TB) string { return filepath.Join(t.TempDir(), "signatures.jsonl") }

func TestMain(m *testing.M) {
	if os.Getenv(childOf) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}
