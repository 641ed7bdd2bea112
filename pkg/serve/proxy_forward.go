package serve

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// forward passes a request on to the registry, with the service's own
// credentials, and its answer back. Neither body is held in memory.
func (s *Server) forward(w http.ResponseWriter, r *http.Request, p *passage) error {
	way, home, err := p.at.Through(r.Context(), p.repo, r.Method)
	if err != nil {
		return &verdict.UnavailableError{Place: p.place, Op: "opening the repository", Err: err}
	}
	control := http.NewResponseController(w)
	body := &pacedBody{ReadCloser: r.Body, control: control, window: s.proxying.window, left: s.proxying.window}
	r.Body = body
	proxy := httputil.ReverseProxy{
		Transport: way, BufferPool: &s.proxying.buffers,
		Rewrite: func(out *httputil.ProxyRequest) {
			if p.upload != nil {
				out.Out.URL = p.upload
			}
			out.SetURL(home)
			own := []string{"Authorization", "Cookie", "Upgrade", "Connection"} // and X-Http-Method-Override, X-Original-Url, …
			maps.DeleteFunc(out.Out.Header, func(name string, _ []string) bool { return name[0] == 'X' || slices.Contains(own, name) })
			if p.kind == "blobs/uploads" { // a form in the body could name what to mount
				out.Out.Header.Set("Content-Type", "application/octet-stream")
			}
		},
		ModifyResponse: func(a *http.Response) error { return p.translate(a, home, s.proxying.key) },
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, failed error) {
			err = &verdict.UnavailableError{Place: p.place, Op: "passing on the request", Err: failed}
		},
		ErrorLog: slog.NewLogLogger(s.world.Log.Handler(), slog.LevelDebug),
	}
	proxy.ServeHTTP(pacedAnswer{w, control}, r)
	_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // an answer without a body is written after this
	if err != nil && body.stalled.Load() {
		return verdict.Refuse("UPLOAD_STALLED", p.place, "less than %d bytes of the body came in %s", leastPart, body.window)
	}
	return err
}

// buffers are those through which bodies are copied: with larger ones than the
// library's, a large layer costs fewer system calls.
type buffers struct{ pool sync.Pool }

// Get implements [httputil.BufferPool].
func (b *buffers) Get() []byte {
	if one, is := b.pool.Get().(*[]byte); is {
		return *one
	}
	return make([]byte, 128<<10)
}

// Put implements [httputil.BufferPool].
func (b *buffers) Put(one []byte) { b.pool.Put(&one) }

// translate makes an answer of the registry one of the proxy: its addresses lead
// back to the proxy, and its demands for credentials are for the proxy alone.
func (p *passage) translate(a *http.Response, home *url.URL, key []byte) error {
	if a.StatusCode == http.StatusUnauthorized {
		return errors.New("the registry refuses the credentials of the gate")
	}
	for _, own := range []string{"Set-Cookie", "Www-Authenticate", "Cache-Control", "Docker-Distribution-Api-Version", "X-Content-Type-Options"} {
		a.Header.Del(own)
	}
	if link := a.Header.Get("Link"); link != "" {
		address, rest, _ := strings.Cut(strings.TrimPrefix(link, "<"), ">")
		here, inside := p.inside(a, address, home)
		if !inside {
			return fmt.Errorf("a list continues outside of the repository: %.300q", link)
		}
		a.Header.Set("Link", "<"+here+">"+rest)
	}
	location := a.Header.Get("Location")
	if location == "" {
		return nil
	}
	here, inside := p.inside(a, location, home)
	moved := a.StatusCode >= http.StatusMultipleChoices
	switch {
	case inside:
		a.Header.Set("Location", here)
	case !moved && p.kind == "blobs/uploads" && here != "":
		a.Header.Set("Location", "/v2/"+p.repo+"/blobs/uploads/elsewhere?"+url.Values{uploadParameter: {p.uploadToken(key, here)}}.Encode())
	case moved && p.kind == "blobs" && isRead(a.Request): // clients check the digest of a blob, wherever it is
	default:
		return fmt.Errorf("the registry leads outside of the repository: %.300q", location)
	}
	return nil
}

// inside returns an address as one of the proxy, and whether it is below the same
// repository. It is empty if it is on another host, or of another repository.
func (p *passage) inside(a *http.Response, address string, home *url.URL) (string, bool) {
	to, err := a.Request.URL.Parse(address)
	if err != nil || to.Host != home.Host || to.Scheme != home.Scheme {
		return "", false
	}
	inside := strings.HasPrefix(to.Path, "/v2/"+p.repo+"/")
	if !inside && strings.HasPrefix(path.Clean(to.Path)+"/", "/v2/") {
		return "", false
	}
	return to.RequestURI(), inside
}

// uploadParameter has the token of an upload that the registry continues at an
// address outside of /v2/, as Artifact Registry does.
const uploadParameter = "waybill-upload"

// uploadToken is an address of the registry, proven to be for this repository.
func (p *passage) uploadToken(key []byte, address string) string {
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%q %q", p.repo, address)
	return base64.RawURLEncoding.EncodeToString(mac.Sum([]byte(address)))
}

// continueUpload reads where the registry continues an upload.
func (p *passage) continueUpload(key []byte, q url.Values) (err error) {
	token := q.Get(uploadParameter)
	q.Del(uploadParameter)
	raw, err := base64.RawURLEncoding.DecodeString(token)
	address := string(raw[:max(0, len(raw)-sha256.Size)])
	if err == nil {
		p.upload, err = url.ParseRequestURI(address)
	}
	if err != nil || !hmac.Equal([]byte(p.uploadToken(key, address)), []byte(token)) {
		return verdict.Refuse(verdict.NotGranted, p.place, "the address of the upload is not one that this service named for this repository").
			Advise("begin the upload again; if several replicas serve the registry, send the requests of a client to one of them")
	}
	p.upload.RawQuery = strings.Trim(p.upload.RawQuery+"&"+url.Values{"digest": q["digest"]}.Encode(), "&") // others could name another upload
	return nil
}

// registryErrors is a finding as the distribution specification wants it.
func registryErrors(status int, f verdict.Finding) any {
	code := map[int]string{
		http.StatusUnauthorized: "UNAUTHORIZED", http.StatusForbidden: "DENIED", http.StatusNotFound: "MANIFEST_UNKNOWN",
		http.StatusTooManyRequests: "TOOMANYREQUESTS", http.StatusServiceUnavailable: "UNAVAILABLE",
	}[status]
	text := (&verdict.Error{Finding: f}).Error()
	if f.Fix != "" {
		text += "; " + f.Fix
	}
	return map[string]any{"errors": []map[string]string{{"code": cmp.Or(code, "UNSUPPORTED"), "message": text}}}
}

// leastPart is how much of a body must come in the time that others have for a
// whole request, without the time that the registry takes.
const leastPart = 64 << 10

type pacedBody struct {
	io.ReadCloser
	control      *http.ResponseController
	window, left time.Duration // for each part, and for the rest of this one
	came         int           // of this part
	ended        bool
	stalled      atomic.Bool
}

// Read implements [io.Reader].
func (b *pacedBody) Read(part []byte) (int, error) {
	if b.ended { // a deadline now would cut the wait for the registry
		return 0, io.EOF
	}
	begun := time.Now()
	_ = b.control.SetReadDeadline(begun.Add(b.left)) // a connection without deadlines is one of a test
	n, err := b.ReadCloser.Read(part)
	if b.came, b.left = b.came+n, b.left-time.Since(begun); b.came >= leastPart {
		b.came, b.left = 0, b.window
	}
	b.ended = err == io.EOF
	b.stalled.Store(errors.Is(err, os.ErrDeadlineExceeded))
	return n, err
}

// pacedAnswer gives each part of a large body such a time.
type pacedAnswer struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write implements [io.Writer].
func (a pacedAnswer) Write(part []byte) (int, error) {
	_ = a.control.SetWriteDeadline(time.Now().Add(writeTime))
	return a.ResponseWriter.Write(part)
}

// Unwrap is for [http.ResponseController].
func (a pacedAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
