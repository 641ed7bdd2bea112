// Package watching holds waybill watch to what it promises while a log forks, goes
// back, serves other tiles than it signed, stops or does not answer, and while the
// watcher itself is killed. The log is the lab's; between it and the watcher stands a
// server that changes answers.
package watching

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline/watch"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// world is a lab with a watcher of its log.
type world struct {
	*lab.Lab
	watch.Config
	answer atomic.Value // func(http.ResponseWriter, *http.Request) bool: true if it answered
	now    time.Time
	real   http.Handler
	v1     bool // the log is the one of Rekor v1
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return worldOf(t, lab.New(t), false)
}

func worldOf(t testing.TB, l *lab.Lab, v1 bool) *world {
	t.Helper()
	w := &world{Lab: l, now: time.Now(), v1: v1}
	w.answer.Store(func(http.ResponseWriter, *http.Request) bool { return false })
	p, err := policy.Parse([]byte(policyText(l)), nil)
	if err != nil {
		t.Fatal(err)
	}
	root, err := trust.Parse(l.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(root)
	if err != nil {
		t.Fatal(err)
	}
	address, _ := w.log()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	w.real = httputil.NewSingleHostReverseProxy(u)
	between := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.answer.Load().(func(http.ResponseWriter, *http.Request) bool)(rw, r) {
			w.real.ServeHTTP(rw, r)
		}
	}))
	t.Cleanup(between.Close)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "releases"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.Config = watch.Config{
		Gate: gate.Under(profile.Profile{Policy: p, TrustRoot: root}, v, gate.Waivers{}, nil), Logs: []string{between.URL},
		State: filepath.Join(dir, "state"), Explained: watch.Sources{Dirs: []string{filepath.Join(dir, "releases")}},
		Transport: transport.New(transport.Config{Attempts: 1, Patience: 20 * time.Second}),
	}
	return w
}

// log is the address of the log, and its version.
func (w *world) log() (address string, version uint32) {
	if w.v1 {
		return w.RekorV1, 1
	}
	return w.Rekor, 2
}

func policyText(l *lab.Lab) string {
	issuer, release := l.Identity(lab.RoleRelease)
	_, builder := l.Identity(lab.RoleBuilder)
	return fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: watched
roles:
  release: [{issuer: %[1]q, subject: %[2]q, type: email}]
builders:
- id: https://example.test/builder
  level: 1
  signers: [{issuer: %[1]q, subject: %[3]q, type: email}]
source: {repository: "git+https://example.test/source"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`, issuer, release, builder)
}

// sign signs text as a role, which the log then has, and returns the bundle.
func (w *world) sign(t testing.TB, role, text string) []byte {
	t.Helper()
	return w.signAs(t, role, &sign.PlainData{Data: []byte(text)})
}

func (w *world) signAs(t testing.TB, role string, content sign.Content) []byte {
	t.Helper()
	address, version := w.log()
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sign.Bundle(content, pair, sign.BundleOptions{
		Context:                    t.Context(),
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: w.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: w.Token(role)},
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: w.TSA})},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: address, Version: version})},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// release signs text as a release does, and keeps the evidence.
func (w *world) release(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.Explained.Dirs[0], name+".sigstore.json"), w.sign(t, lab.RoleRelease, text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pass makes one pass, and expects findings with exactly these codes.
func (w *world) pass(t testing.TB, codes ...verdict.Code) *verdict.Verdict {
	t.Helper()
	return w.passWithin(t.Context(), t, codes...)
}

func (w *world) passWithin(ctx context.Context, t testing.TB, codes ...verdict.Code) *verdict.Verdict {
	t.Helper()
	w.now = w.now.Add(time.Minute)
	v := w.Once(ctx, w.now)
	var got, want []string
	for _, f := range v.Findings {
		got = append(got, string(f.Code))
	}
	for _, c := range codes {
		want = append(want, string(c))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Fatalf("got %q, want %q: %+v", got, want, v.Findings)
	}
	if accepted := v.Outcome() == verdict.Accepted; accepted != (len(codes) == 0) {
		t.Fatalf("%v with %q: %+v", v.Outcome(), got, v)
	}
	return v
}
