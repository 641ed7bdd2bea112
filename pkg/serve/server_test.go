package serve

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/policy/cel"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

const (
	repository  = "gated/demo"
	typeOfImage = "application/vnd.oci.image.manifest.v1+json"
	typeOfIndex = "application/vnd.oci.image.index.v1+json"
	configured  = `{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}`
)

// front is a gate in front of a registry. Its policy accepts one index, with the
// image in it, and nothing else: not that image alone.
type front struct {
	*Server
	t            *testing.T
	host         string // of the registry
	image, index registry.Descriptor
	policy       policy.Policy
	fail         error // of the next reload
	log, record  bytes.Buffer

	mu     sync.Mutex // owns the rest
	answer func(http.ResponseWriter, *http.Request) bool
	asked  []string // of the registry
	stored map[string][]byte
}

func openFront(t *testing.T, edits ...func(*World)) *front {
	t.Helper()
	f := &front{t: t, stored: map[string][]byte{}}
	behind := httptest.NewServer(f.behind())
	t.Cleanup(behind.Close)
	f.host = strings.TrimPrefix(behind.URL, "http://")
	config := f.store("", []byte(configured))
	f.image = f.store(typeOfImage, fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[]}`, typeOfImage, config.Digest, config.Size))
	f.index = f.store(typeOfIndex, fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":"amd64"}}]}`, typeOfIndex, typeOfImage, f.image.Digest, f.image.Size))
	f.stored["v1"] = f.stored[f.index.Digest.String()]
	text, err := os.ReadFile("../judge/policy/testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := cel.New()
	if err != nil {
		t.Fatal(err)
	}
	f.policy, err = policy.Parse([]byte(strings.NewReplacer("{provenance: require, signature: require", `{provenance: "off", signature: "off"`, "sbom: require", `sbom: "off"`).Replace(string(text))+
		"insecureAcceptUnsigned: true\nrules: [{name: one, classes: [binary, archive, file, image, image-child], holds: 'artifact.class == \"image-child\" || artifact.sha256 == \""+f.index.Digest.Hex()+"\"'}]\n"), rules)
	if err != nil {
		t.Fatal(err)
	}
	book, err := caller.Parse(fmt.Appendf(nil, `callers:
- {name: pusher, certificate: {uri: "spiffe://example.test/pusher"}}
- {name: puller, certificate: {uri: "spiffe://example.test/puller"}}
grants:
- {caller: pusher, verbs: [push], from: [%[1]s/gated/], to: [%[1]s/gated/], channels: [none]}
- {caller: puller, verbs: [pull, verify], from: [%[1]s/gated/], to: [%[1]s/gated/], channels: [none]}
`, f.host))
	if err != nil {
		t.Fatal(err)
	}
	w := World{
		Load: func(context.Context) (Basis, error) {
			return Basis{PolicyRequest: gate.PolicyRequest{Policy: f.policy, Verifier: &verify.Verifier{}}, Callers: book}, f.fail
		},
		Open: func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, http.DefaultTransport) },
		Keys: func(context.Context, string) (caller.Keys, error) { return caller.Keys{}, errors.New("no keys") }, Clock: time.Now,
		Log: slog.New(slog.NewJSONHandler(&f.log, nil)), Record: &f.record, Proxy: &Proxy{Registry: f.host, Guarded: []string{f.host + "/gated/"}},
	}
	for _, edit := range edits {
		edit(&w)
	}
	if f.Server, err = New(t.Context(), w, Limits{}); err != nil {
		t.Fatal(err)
	}
	return f
}

// store puts a blob or manifest into the registry.
func (f *front) store(kind string, raw []byte) registry.Descriptor {
	d := registry.Descriptor{MediaType: kind, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	f.stored[d.Digest.String()] = raw
	return d
}

// behind is the registry, which takes all that is written, and keeps nothing.
func (f *front) behind() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.asked = append(f.asked, r.Method+" "+r.URL.Path)
		if f.answer != nil && f.answer(w, r) {
			return
		}
		raw, there := f.stored[r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]]
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			w.WriteHeader(http.StatusAccepted)
		case r.URL.Path == "/v2/":
		case !there:
			w.WriteHeader(http.StatusNotFound)
		default:
			var said struct{ MediaType string }
			_ = json.Unmarshal(raw, &said) // a blob is no manifest
			w.Header().Set("Content-Type", said.MediaType)
			w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
			_, _ = w.Write(raw)
		}
	})
}

// ask sends a request without a body.
func (f *front) ask(who, method, path, kind string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Header.Set("Content-Type", kind)
	return f.send(who, r)
}

// send sends a request to the gate, as a caller with a certificate.
func (f *front) send(who string, r *http.Request) *httptest.ResponseRecorder {
	leaf := &x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), URIs: []*url.URL{{Scheme: "spiffe", Host: "example.test", Path: "/" + who}}}
	r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}, VerifiedChains: [][]*x509.Certificate{{leaf}}}
	out := httptest.NewRecorder()
	f.ServeHTTP(out, r)
	return out
}

// admin asks for a page for operators.
func (f *front) admin(path string) *httptest.ResponseRecorder {
	out := httptest.NewRecorder()
	f.Admin().ServeHTTP(out, httptest.NewRequest(http.MethodGet, path, nil))
	return out
}

// TestPullOfAnIndex: what the policy accepts is pulled with the type that it was
// pushed with; the image in it after the index only, whose decision covers it.
func TestPullOfAnIndex(t *testing.T) {
	f := openFront(t)
	base := "/v2/" + repository + "/manifests/"
	for i, row := range []struct {
		ref, kind string
		code      int
	}{
		{f.image.Digest.String(), "", 403},
		{"v1", typeOfIndex, 200},
		{f.index.Digest.String(), typeOfIndex, 200},
		{f.image.Digest.String(), typeOfImage, 200},
		{"v2", "", 404},
	} {
		got := f.ask("puller", http.MethodGet, base+row.ref, "")
		if got.Code != row.code || row.code == 200 && (got.Header().Get("Content-Type") != row.kind || !bytes.Equal(got.Body.Bytes(), f.stored[row.ref])) {
			t.Errorf("%d, %s: %d, %v: %s", i, row.ref, got.Code, got.Header(), got.Body)
		}
	}
}

// TestDeleteUnknown: what may be evidence is not deleted while the registry does
// not say what it is, or what it lists (UNAVAILABLE). A tag, which is none, is.
func TestDeleteUnknown(t *testing.T) {
	f := openFront(t)
	base := "/v2/" + repository + "/manifests/"
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodDelete || r.URL.Path == "/v2/" || strings.HasSuffix(r.URL.Path, f.index.Digest.String()) {
			return false
		}
		w.WriteHeader(http.StatusForbidden)
		return true
	}
	for ref, code := range map[string]int{f.image.Digest.String(): 503, f.index.Digest.String(): 503, "v1": 202} {
		got := f.ask("pusher", http.MethodDelete, base+ref, "")
		if deleted := slices.Contains(f.asked, "DELETE "+base+ref); got.Code != code || deleted != (code == 202) {
			t.Errorf("%s: %d, deleted %t: %s", ref, got.Code, deleted, got.Body)
		}
	}
}
