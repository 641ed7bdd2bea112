package sign

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-release/waybill/test/lab"
)

// Names of what a world has in its directory, for signers of any kind.
const (
	rootName    = "trusted_root.json"
	configName  = "signing_config.json"
	policyName  = "policy.yaml"
	tokenName   = "token"
	rekorKey    = "rekor.pub"
	ctKey       = "ct.pub"
	filesDir    = "files"
	bundlesDir  = "bundles"
	bundleExt   = ".sigstore.json"
	lifeOfToken = 2 * time.Hour
)

// world is a lab that counts what it is asked, with a log that may answer as
// slowly as a public one does.
type world struct {
	*lab.Lab
	dir      string
	registry string // host and port, through the counter

	requests, entries atomic.Int64
	doors             map[string]*httptest.Server
	log               pace
}

// pace is how a log takes entries. With a batch it answers when the next of its
// batches is through: all that wait at once, one batch after another. With a
// rate it takes so many a second, and tells the others to come again.
type pace struct {
	batch time.Duration
	rate  int

	mu               sync.Mutex // guards what follows
	began, second    time.Time
	taken, came      int // in this second
	refused, busiest int // of all, and in the busiest second
}

// take reports whether the log takes one more entry in this second.
func (p *pace) take(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.second) >= time.Second {
		p.second, p.taken, p.came = now, 0, 0
	}
	p.came++
	p.busiest = max(p.busiest, p.came)
	if p.rate > 0 && p.taken >= p.rate {
		p.refused++
		return false
	}
	p.taken++
	return true
}

// openWorld starts a lab.
func openWorld(ctx context.Context, dir string, batch time.Duration, rate int) (*world, error) {
	l, err := lab.Start(ctx, lab.Options{Dir: filepath.Join(dir, "lab")})
	if err != nil {
		return nil, err
	}
	w := &world{Lab: l, dir: dir, doors: map[string]*httptest.Server{}, log: pace{batch: batch, rate: rate, began: time.Now()}}
	tsa := strings.TrimSuffix(l.TSA, "/api/v1/timestamp")
	for _, target := range []string{l.Fulcio, tsa, l.Rekor, l.RekorV1, "http://" + l.Registry} {
		if err := w.door(target); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	w.registry = strings.TrimPrefix(w.at("http://"+l.Registry), "http://")
	config := strings.NewReplacer(l.Fulcio, w.at(l.Fulcio), tsa, w.at(tsa), l.Rekor, w.at(l.Rekor)).Replace(string(l.SigningConfig))
	token, err := l.Mint(lab.RoleRelease, map[string]any{"exp": time.Now().Add(lifeOfToken).Unix()})
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	for name, text := range map[string]string{rootName: string(l.TrustedRoot), configName: config, policyName: w.policy(), tokenName: token} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

// door puts a counter before a service.
func (w *world) door(target string) error {
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true},
	}
	w.doors[target] = httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		w.requests.Add(1)
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/log/entries") {
			if !w.log.take(time.Now()) {
				out.Header().Set("Retry-After", "1")
				out.WriteHeader(http.StatusTooManyRequests)
				return
			}
			w.entries.Add(1)
			if batch := w.log.batch; batch > 0 {
				time.Sleep(batch - time.Since(w.log.began)%batch)
			}
		}
		proxy.ServeHTTP(out, r)
	}))
	return nil
}

// at is where a service is, through its counter.
func (w *world) at(target string) string { return w.doors[target].URL }

func (w *world) path(elem ...string) string {
	return filepath.Join(append([]string{w.dir}, elem...)...)
}

func (w *world) close() error {
	for _, d := range w.doors {
		d.Close()
	}
	return w.Close()
}

// policy lets the lab's release identity release.
func (w *world) policy() string {
	role := func(as string) string {
		issuer, subject := w.Identity(as)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	return fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: bench
roles:
  release: [%s]
  policy: [%s]
builders:
- {id: "https://example.test/builder", level: 1, signers: [%s]}
source: {repository: "git+https://example.test/source"}
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {provenance: require, signature: require, sbom: require}}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`, role(lab.RoleRelease), role("policy"), role(lab.RoleBuilder))
}
