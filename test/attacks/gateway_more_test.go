package attacks

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// claimed pushes an image that nobody signed, and that says itself that it was
// verified.
func (g *gatehouse) claimed() registry.Descriptor {
	g.t.Helper()
	at := must[*registry.Remote](g.t)(registry.OpenRemote(g.w.Lab.Registry+"/gated", http.DefaultTransport))
	blob := func(kind, text string) string {
		d := registry.Descriptor{MediaType: kind, Digest: digest.Of(digest.SHA256, []byte(text)), Size: int64(len(text))}
		accepted(g.t, at.PushBlob(g.t.Context(), repository, d, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }))
		return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, kind, d.Digest, d.Size)
	}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[%s],"annotations":{"waybill.dev/verified":"true","kyverno.io/verify-images":"pass"}}`,
		registry.MediaTypeManifest, blob("application/vnd.oci.image.config.v1+json", `{"os":"linux","architecture":"amd64"}`), blob("application/vnd.oci.image.layer.v1.tar", "claimed"))
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	accepted(g.t, at.PushManifest(g.t.Context(), repository, d, raw))
	return d
}

// vouch attaches a summary to it that says PASSED, signed by a role.
func (g *gatehouse) vouch(d registry.Descriptor, role string) {
	g.t.Helper()
	name := g.w.Lab.Registry + "/gated/" + repository
	said := map[string]any{
		"verifier": map[string]string{"id": "https://verifier.example.test/v1"}, "timeVerified": time.Now().UTC().Format(time.RFC3339), "resourceUri": name,
		"policy":             map[string]any{"uri": "https://example.test/policy.yaml", "digest": map[string]string{"sha256": g.policy.Load().Digest().Hex()}},
		"verificationResult": "PASSED", "verifiedLevels": []string{"SLSA_BUILD_LEVEL_3"},
	}
	s := must[intoto.Statement](g.t)(intoto.New(vsa.PredicateType, []intoto.Subject{{Name: name, Digests: digest.Set{SHA256: d.Digest}}}, said))
	at := must[*registry.Remote](g.t)(registry.OpenRemote(g.w.Lab.Registry+"/gated", http.DefaultTransport))
	_, raw, blobs := registry.BundleManifest(d, must[[]byte](g.t)(g.w.Sign(g.t.Context(), role, s.Raw())), vsa.PredicateType)
	for _, b := range blobs {
		accepted(g.t, at.PushBlob(g.t.Context(), repository, b.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }))
	}
	m := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	accepted(g.t, at.PushManifest(g.t.Context(), repository, m, raw))
}

// TestGatewaySelfAttested: nothing that a request, or an image, says of having
// been verified counts, and no summary that somebody made of it in advance, the
// verifier itself included (H09). The same request about the image that was
// released is accepted.
func TestGatewaySelfAttested(t *testing.T) {
	g := openGatehouse(t, func(g *gatehouse) { g.limits.Remember = time.Nanosecond })
	mine := g.claimed()
	name := g.w.Lab.Registry + "/gated/" + repository + "@" + mine.Digest.String()
	claims := http.Header{
		"X-Waybill-Verified": {"true"}, "X-Verified-By": {"waybill"}, "X-Forwarded-Client-Cert": {"By=spiffe://example.test/registry"}, "X-Forwarded-User": {"promoter"},
		"Waybill-Request-Id": {"accepted"}, "X-Http-Method-Override": {"GET"},
	}
	ask := func(image string) (int, []verdict.Code, string) {
		req := g.request()
		for key, values := range claims {
			req.Header[key] = values
		}
		body(req, g.body(image))
		return g.do(req)
	}
	none := func(when string) {
		t.Helper()
		status, codes, raw := ask(name)
		if status != http.StatusForbidden || len(codes) == 0 {
			t.Errorf("%s: %d %v: %s", when, status, codes, raw)
		}
		for _, c := range codes {
			if c != verdict.Unsigned && c != verdict.NoProvenance && c != verdict.NoSBOM {
				t.Errorf("%s: refused for %s", when, c)
			}
		}
	}
	none("an image that says so")
	for _, role := range []string{"release", "verifier", "eve@lab.invalid"} {
		g.vouch(mine, role)
		none("vouched for by " + role)
	}
	if status, _, raw := ask(g.image); status != http.StatusOK {
		t.Errorf("the released image: %d %s", status, raw)
	}
	req := g.request()
	req.Header.Del("Authorization")
	for key, values := range claims {
		req.Header[key] = values
	}
	if status, codes, _ := g.do(req); status != http.StatusUnauthorized || codes[0] != verdict.TokenParse {
		t.Errorf("who says who it is: %d %v", status, codes)
	}
}

// sent sends bytes over one connection, and returns the statuses of all that is
// answered on it.
func (g *gatehouse) sent(text string) (statuses []int) {
	g.t.Helper()
	c := must[net.Conn](g.t)(net.Dial("tcp", g.host))
	defer c.Close()
	_, _ = io.WriteString(c, text) // who has heard enough closes
	_ = c.SetReadDeadline(time.Now().Add(3 * time.Second))
	for r := bufio.NewReader(c); ; {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return statuses
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			g.t.Error(err)
		}
		statuses = append(statuses, resp.StatusCode)
	}
}

// TestGatewaySmuggling: a request ends where it says by its one length. What
// two readers could see two ends of is not decided about, and nothing that
// follows it on the connection is read (H13). Two requests in one piece, each
// with its length, are two.
func TestGatewaySmuggling(t *testing.T) {
	g := openGatehouse(t)
	question := g.body(g.image)
	head := "POST /v1/decisions HTTP/1.1\r\nHost: gate\r\nAuthorization: Bearer " + g.token(nil) + "\r\n"
	length := fmt.Sprintf("Content-Length: %d\r\n", len(question))
	one := head + length + "\r\n" + question
	last := "GET /livez HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n"
	chunk := func(end string) string { return fmt.Sprintf("%x%s%s\r\n0\r\n\r\n", len(question), end, question) }
	for _, c := range []struct {
		name, text string
		want       []int
	}{
		{"one", one + last, []int{200, 200}},
		{"in chunks", head + "Transfer-Encoding: chunked\r\n\r\n" + chunk("\r\n") + last, []int{422}},
		{"chunks that end in a bare line feed", head + "Transfer-Encoding: chunked\r\n\r\n" + chunk(";x\n") + last, []int{422}},
		{"a length, and chunks", head + length + "Transfer-Encoding: chunked\r\n\r\n" + "0\r\n\r\n" + last, []int{422}},
		{"a length, and chunks that a proxy does not see", head + length + "Transfer-Encoding: xchunked\r\n\r\n" + question + last, []int{501}},
		{"chunks behind a space", head + length + "Transfer-Encoding : chunked\r\n\r\n" + question + last, []int{400}},
		{"chunks twice", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("\r\n") + last, []int{501}},
		{"two lengths", head + "Content-Length: 0\r\n" + length + "\r\n" + question + last, []int{400}},
		{"a length with a sign", head + strings.Replace(length, ": ", ": +", 1) + "\r\n" + question + last, []int{400}},
		{"a length that is shorter", head + "Content-Length: 4\r\n\r\n" + question[:4] + "GET /livez HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n", []int{422, 200}},
		{"a bare carriage return in a header", head + "X: a\rContent-Length: 0\r\n" + length + "\r\n" + question + last, []int{400}},
		{"a header that goes on", head + "X: a\r\n Content-Length: 0\r\n" + length + "\r\n" + question + last, []int{200, 200}},
		{"bytes after a GET", "GET /livez HTTP/1.1\r\nHost: gate\r\nTransfer-Encoding: chunked\r\n\r\n" + chunk("\r\n") + last, []int{200}},
	} {
		if got := g.sent(c.text); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: answered %v, want %v", c.name, got, c.want)
		}
	}
}

// TestGatewayLongTokens: what is long, or has many parts, costs about what
// reading it costs (H16).
func TestGatewayLongTokens(t *testing.T) {
	g := openGatehouse(t)
	costs := func(token string, want int) uint64 {
		t.Helper()
		const times = 200
		requests := make([]*http.Request, times)
		for i := range requests {
			requests[i] = httptest.NewRequest(http.MethodPost, "/v1/decisions", strings.NewReader(g.body(g.image)))
			requests[i].Header.Set("Authorization", "Bearer "+token)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, r := range requests {
			w := httptest.NewRecorder()
			if g.server.ServeHTTP(w, r); w.Code != want {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / times
	}
	good := g.token(nil)
	costs(good, http.StatusOK)
	header, rest, _ := strings.Cut(good, ".")
	for name, token := range map[string]string{
		"dots":            strings.Repeat(".", 15<<10),
		"dots in a token": header + strings.Repeat(".", 14<<10) + rest,
		"a long header":   strings.Repeat("A", 15<<10) + "." + rest,
	} {
		if got := costs(token, http.StatusUnauthorized); got > 96<<10 {
			t.Errorf("%s: %d bytes for a request", name, got)
		}
	}
	if status, _, _ := g.do(g.request()); status != http.StatusOK {
		t.Errorf("after all that: %d", status)
	}
}

// TestGatewayCanaries plants secrets wherever a request, or the service itself,
// can have one, and looks for them in whatever leaves the service (H21).
func TestGatewayCanaries(t *testing.T) {
	const canary = "canary-5f0c1d"
	secret := base64.StdEncoding.EncodeToString([]byte("robot:" + canary))
	var shown atomic.Bool
	echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Basic "+secret {
			shown.Store(true)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		if r.Header.Get("Authorization") != "" {
			w.WriteHeader(http.StatusForbidden)
		} else {
			w.WriteHeader(http.StatusUnauthorized)
		}
		fmt.Fprintf(w, `{"errors":[{"code":"DENIED","message":"not with %s"}]}`, r.Header.Get("Authorization"))
	}))
	defer echo.Close()
	host := strings.TrimPrefix(echo.URL, "http://")
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	config := fmt.Sprintf(`{"auths":{%q:{"auth":%q}}}`, host, secret)
	accepted(t, os.WriteFile(filepath.Join(os.Getenv("DOCKER_CONFIG"), "config.json"), []byte(config), 0o600))
	g := openGatehouse(t)
	token := g.token(map[string]any{"nonce": canary})
	header := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	said := func(old, replaced string) func(*http.Request) {
		return func(r *http.Request) { body(r, strings.Replace(g.body(g.image), old, replaced, 1)) }
	}
	var left []string
	for _, c := range []struct {
		name   string
		change func(*http.Request)
		status int
	}{
		{"a good token", header("Authorization", "Bearer "+token), 200},
		{"one without its end", header("Authorization", "Bearer "+token[:len(token)-9]), 401},
		{"one that is none", header("Authorization", "Bearer "+canary), 401},
		{"a password", header("Authorization", "Basic "+secret), 401},
		{"a scheme of its own", header("Authorization", canary+" "+canary), 401},
		{"a cookie", header("Cookie", "session="+canary), 200},
		{"a key", header("X-Api-Key", canary), 200},
		{"a word in the address", func(r *http.Request) { r.URL.RawQuery = "access_token=" + canary }, 200},
		{"a password before the host", said(g.w.Lab.Registry, "robot:"+canary+"@"+g.w.Lab.Registry), 422},
		{"an address with a password", said(g.w.Lab.Registry, "https://robot:"+canary+"@"+g.w.Lab.Registry), 422},
		{"a password before the destination", said(`"verb":"verify"`, `"verb":"promote","to":"robot:`+canary+`@prod.example.test/lantern"`), 422},
	} {
		req := g.request()
		c.change(req)
		status, answer := g.answer(req)
		left = append(left, answer)
		if status != c.status {
			t.Errorf("%s: %d, want %d: %s", c.name, status, c.status, answer)
		}
	}
	// The service's own password, and a registry that repeats what it is shown.
	theirs := openGatehouse(t, func(g *gatehouse) {
		g.open = func(string) (*registry.Remote, error) { return registry.OpenRemote(host, http.DefaultTransport) }
	})
	if status, answer := theirs.answer(theirs.request()); status == http.StatusOK || !shown.Load() {
		t.Errorf("by a registry that denies it: %d, shown: %v: %s", status, shown.Load(), answer)
	} else {
		left = append(left, answer, theirs.log.String())
	}
	for _, path := range []string{"/statusz", "/metrics", "/readyz"} {
		for _, one := range []*gatehouse{g, theirs} {
			page := httptest.NewRecorder()
			one.server.Admin().ServeHTTP(page, httptest.NewRequest(http.MethodGet, path, nil))
			left = append(left, page.Body.String())
		}
	}
	log := g.log.String()
	if !strings.Contains(log, g.image) || strings.Count(log, "not let in") < 4 { // those of unknown callers are one line a second
		t.Errorf("the log does not say what was asked:\n%s", log)
	}
	for _, text := range append(left, log) {
		for _, form := range []string{canary, secret, base64.RawURLEncoding.EncodeToString([]byte(canary))[:16], token[strings.LastIndexByte(token, '.')+1:]} {
			if strings.Contains(text, form) {
				t.Errorf("%q is in %s", form, text)
			}
		}
	}
}

// answer sends a request to the service in this process, and returns all that
// comes back.
func (g *gatehouse) answer(req *http.Request) (int, string) {
	g.t.Helper()
	w := httptest.NewRecorder()
	g.server.ServeHTTP(w, req)
	var all bytes.Buffer
	_ = w.Result().Header.Write(&all)
	return w.Code, all.String() + w.Body.String()
}

// TestGatewayConnections: who sends what is no request, or never ends one, is
// not waited for, and keeps nobody else out (H13, H14).
func TestGatewayConnections(t *testing.T) {
	g := openGatehouse(t)
	var army []net.Conn
	for range 500 {
		c := must[net.Conn](t)(net.Dial("tcp", g.host))
		army = append(army, c)
		_, _ = io.WriteString(c, "POST /v1/decisions HTTP/1.1\r\nHost: gate\r\nX-Slow: ")
	}
	defer func() {
		for _, c := range army {
			_ = c.Close()
		}
	}()
	if status, _, raw := g.do(g.request()); status != 200 {
		t.Errorf("with 500 who never end a request: %d %s", status, raw)
	}
	for name, text := range map[string]string{
		"two lengths":         "POST /v1/decisions HTTP/1.1\r\nHost: gate\r\nContent-Length: 3\r\nContent-Length: 30\r\n\r\nabc",
		"length and chunks":   "POST /v1/decisions HTTP/1.1\r\nHost: gate\r\nContent-Length: 3\r\nTransfer-Encoding: chunked, identity\r\n\r\nabc",
		"a space in a header": "POST /v1/decisions HTTP/1.1\r\nHost : gate\r\n\r\n",
		"no host":             "POST /v1/decisions HTTP/1.1\r\n\r\n",
		"a control character": "POST /v1/decisions HTTP/1.1\r\nHost: gate\r\nX: a\x00b\r\n\r\n",
		"an endless header":   "POST /v1/decisions HTTP/1.1\r\nHost: gate\r\nX: " + strings.Repeat("a", 64<<10) + "\r\n\r\n",
	} {
		c := must[net.Conn](t)(net.Dial("tcp", g.host))
		_, _ = io.WriteString(c, text)
		_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err == nil && resp.StatusCode < 400 {
			t.Errorf("%s: answered %d", name, resp.StatusCode)
		}
		_ = c.Close()
	}
	if status, _, raw := g.do(g.request()); status != 200 {
		t.Errorf("after all that: %d %s", status, raw)
	}
}

// TestGatewayBatchOfACaller: a request that asks for more at once than its
// caller ever may is malformed, not to be asked again; one that asks for just
// as much is answered.
func TestGatewayBatchOfACaller(t *testing.T) {
	g := openGatehouse(t, func(g *gatehouse) { g.limits.PerCaller = 1 })
	batch := func(n int) (int, []verdict.Code) {
		questions := slices.Repeat([]api.Question{{Verb: api.Verify, Image: g.image, Version: g.w.version.String()}}, n)
		body := must[[]byte](t)(json.Marshal(api.Request{Schema: api.SchemaRequest, Decisions: questions}))
		req := g.request()
		req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		status, codes, _ := g.do(req)
		return status, codes
	}
	if status, codes := batch(11); status != http.StatusUnprocessableEntity || !slices.Equal(codes, []verdict.Code{verdict.Usage}) {
		t.Errorf("eleven at once of one a second: %d %v", status, codes)
	}
	if status, codes := batch(10); status != http.StatusOK {
		t.Errorf("ten at once: %d %v", status, codes)
	}
}
