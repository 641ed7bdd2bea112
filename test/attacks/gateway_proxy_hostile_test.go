package attacks

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// hostile is a registry that answers as a test says, or as the lab's does.
type hostile struct {
	*httptest.Server
	answer atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	asked  sync.Map // headers that it was sent
}

func openHostile(t *testing.T, lab string) *hostile {
	t.Helper()
	h := &hostile{}
	none := func(http.ResponseWriter, *http.Request) bool { return false }
	h.answer.Store(&none)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name := range r.Header {
			h.asked.Store(name, r.Header.Get(name))
		}
		if (*h.answer.Load())(w, r) {
			return
		}
		passOn(t, lab, w, r)
	}))
	t.Cleanup(h.Close)
	return h
}

// passOn answers as the lab's registry does.
func passOn(t *testing.T, lab string, w http.ResponseWriter, r *http.Request) {
	on := must[*http.Request](t)(http.NewRequestWithContext(r.Context(), r.Method, "http://"+lab+r.URL.RequestURI(), r.Body))
	on.Header, on.ContentLength = r.Header.Clone(), r.ContentLength
	resp, err := http.DefaultTransport.RoundTrip(on)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// TestProxyOfAHostileRegistry: what the registry behind answers leads nobody
// astray, and it is told no token.
func TestProxyOfAHostileRegistry(t *testing.T) {
	lab := theWorld(t).Lab.Registry
	h := openHostile(t, lab)
	f := openFront(t, func(g *gatehouse) {
		g.open = func(string) (*registry.Remote, error) {
			return registry.OpenRemote(strings.TrimPrefix(h.URL, "http://"), http.DefaultTransport)
		}
	})
	base, version := "/v2/"+f.repo+"/", f.w.version.String()
	upload := call{"POST", base + "blobs/uploads/", f.pusher, nil, "", nil}
	blob := call{"GET", base + "blobs/" + digest.Of(digest.SHA256, []byte("x")).String(), f.puller, nil, "", nil}
	tag := call{"GET", base + "manifests/" + f.good.Digest.String(), f.puller, nil, "", nil}
	redirect := func(status int, to string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/v2/" {
				return false
			}
			w.Header().Set("Location", to)
			w.Header().Set("Set-Cookie", "a=b")
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://evil.example.test"`)
			w.WriteHeader(status)
			return true
		}
	}
	mounts := func(w http.ResponseWriter, r *http.Request) bool { // as the registry of Docker, which reads forms
		status := http.StatusAccepted
		if r.Method == "POST" && r.FormValue("mount") != "" {
			status = http.StatusCreated
		}
		return redirect(status, base+"blobs/uploads/1")(w, r)
	}
	form := []byte("mount=" + f.good.Digest.String() + "&from=elsewhere")
	forged := func(change func(*http.Request)) call { c := upload; c.change = change; return c }
	for _, c := range []struct {
		row, name string
		answer    func(http.ResponseWriter, *http.Request) bool
		call      call
		status    int
		code      verdict.Code
		location  string
	}{
		{"", "an upload of its own", redirect(202, base+"blobs/uploads/1?_state=x"), upload, 202, "", base + "blobs/uploads/1?_state=x"},
		{"", "an upload by its whole address", redirect(202, h.URL+base+"blobs/uploads/1"), upload, 202, "", base + "blobs/uploads/1"},
		{"Y11", "an upload that leads elsewhere", redirect(202, "http://evil.example.test"+base+"blobs/uploads/1"), upload, 503, verdict.PlaceDown, ""},
		{"Y11", "an upload into another repository", redirect(202, "/v2/open/x/blobs/uploads/1"), upload, 503, verdict.PlaceDown, ""},
		{"Y11", "an upload into another repository, spelled otherwise", redirect(202, "/uploads/..//v2/open/x/blobs/uploads/1"), upload, 503, verdict.PlaceDown, ""},
		{"Y11", "an upload on another port", redirect(202, "http://127.0.0.1:1/uploads/1"), upload, 503, verdict.PlaceDown, ""},
		{"Y11", "an upload that is redirected", redirect(307, "http://evil.example.test/"), upload, 503, verdict.PlaceDown, ""},
		{"", "a blob that is elsewhere", redirect(307, "https://cdn.example.test/blob?sig=1"), blob, 307, "", "https://cdn.example.test/blob?sig=1"},
		{"Y11", "a manifest that is elsewhere", redirect(307, "http://169.254.169.254/"), tag, 503, verdict.PlaceDown, ""},
		{"Y11", "a demand for a password", redirect(401, ""), blob, 503, verdict.PlaceDown, ""},
		{"Y12", "a forged host", redirect(202, base+"blobs/uploads/1"), forged(func(r *http.Request) {
			r.Host = "evil.example.test"
			for _, name := range []string{"X-Forwarded-Host", "X-Forwarded-Proto", "Forwarded", "Cookie", "X-Http-Method-Override", "X_original_url"} {
				r.Header.Set(name, "evil.example.test")
			}
		}), 202, "", base + "blobs/uploads/1"},
		{"", "a blob to mount", mounts, call{"POST", base + "blobs/uploads/?mount=" + f.good.Digest.String() + "&from=" + f.repo, f.pusher, nil, "", nil}, 201, "", base + "blobs/uploads/1"},
		{"Y18", "a blob to mount, in a form", mounts, call{"POST", upload.path, f.pusher, form, "application/x-www-form-urlencoded", nil}, 202, "", base + "blobs/uploads/1"},
		{"Y13", "a manifest of other bytes than its digest", func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != base+"manifests/"+f.good.Digest.String() {
				return false
			}
			w.Header().Set("Content-Type", f.good.MediaType)
			_, _ = w.Write(append(slices.Clone(f.raw), ' '))
			return true
		}, tag, 403, verdict.Tampered, ""},
		{"", "and as it is", func(http.ResponseWriter, *http.Request) bool { return false }, tag, 200, "", ""},
	} {
		t.Run(strings.TrimSpace(c.row+" "+c.name), func(t *testing.T) {
			h.answer.Store(&c.answer)
			got := f.send(c.call)
			if got.status != c.status || got.code != c.code || got.header.Get("Location") != c.location {
				t.Errorf("%d %s to %q, want %d %s to %q: %.300s", got.status, got.code, got.header.Get("Location"), c.status, c.code, c.location, got.body)
			}
			if got.header.Get("Set-Cookie") != "" || strings.Contains(got.header.Get("WWW-Authenticate"), "evil") || (got.status == 503) != (got.header.Get("Retry-After") != "") {
				t.Errorf("the answer has %v", got.header)
			}
		})
	}
	if _, sent := h.asked.Load("User-Agent"); !sent {
		t.Error("the registry was not sent who asks")
	}
	for _, name := range []string{"Authorization", "Cookie", "X-Forwarded-Host", "Forwarded", "X-Http-Method-Override", "X_original_url"} {
		if value, sent := h.asked.Load(name); sent {
			t.Errorf("the registry was sent %s: %v", name, value)
		}
	}
	t.Run("Y14 a tag that moves while it is judged", func(t *testing.T) {
		bad, raw := f.unsigned(f.repo)
		var turns atomic.Int64
		flips := func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != base+"manifests/"+version {
				return false
			}
			d, body := f.good, f.raw
			if turns.Add(1)%2 == 0 {
				d, body = bad, raw
			}
			w.Header().Set("Content-Type", d.MediaType)
			_, _ = w.Write(body)
			return true
		}
		h.answer.Store(&flips)
		for i := range 6 {
			got := f.send(call{"GET", base + "manifests/" + version, f.puller, nil, "", nil})
			if want := map[bool]int{true: 200, false: 403}[i%2 == 0]; got.status != want {
				t.Errorf("pull %d: %d, want %d: %.300s", i, got.status, want, got.body)
			}
			if got.status == 200 && !bytes.Equal(got.body, f.raw) {
				t.Errorf("it answers bytes that were not accepted: %s", got.body)
			}
		}
	})
	t.Run("Y15 no answer about the evidence", func(t *testing.T) {
		mute := func(w http.ResponseWriter, r *http.Request) bool {
			if strings.Contains(r.URL.Path, "/referrers/") || strings.Contains(r.URL.Path, "/manifests/sha256-") {
				w.WriteHeader(http.StatusInternalServerError)
				return true
			}
			return false
		}
		h.answer.Store(&mute)
		bad, raw := f.unsigned(f.repo)
		if err := f.behind.PushManifest(t.Context(), f.repo, bad, raw); err != nil {
			t.Fatal(err)
		}
		got := f.send(call{"GET", base + "manifests/" + bad.Digest.String(), f.puller, nil, "", nil})
		if got.status != 503 || got.code != verdict.PlaceDown || got.header.Get("Retry-After") == "" {
			t.Errorf("%d %s %v", got.status, got.code, got.header)
		}
	})
}

// TestProxyUploadsElsewhere: a registry continues uploads outside of /v2/REPO, as
// Artifact Registry does. The proxy names an address of its own with a token; an
// altered one, or that of another repository, is refused (NOT_GRANTED).
func TestProxyUploadsElsewhere(t *testing.T) {
	lab := theWorld(t).Lab.Registry
	h := openHostile(t, lab)
	const outside, inside = "/artifacts-uploads/", "/blobs/uploads/"
	moved := func(w http.ResponseWriter, r *http.Request) bool {
		if address, is := strings.CutPrefix(r.URL.Path, outside); is {
			if !slices.Equal(r.URL.Query()["session"], []string{"a b"}) {
				w.WriteHeader(http.StatusBadRequest)
				return true
			}
			repo, id, _ := strings.Cut(address, ":")
			r.URL.Path = "/v2/" + repo + inside + id
		} else if r.URL.Path != "/v2/" && r.Method != http.MethodPost {
			return false
		}
		answer := httptest.NewRecorder()
		passOn(t, lab, answer, r)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		if to := must[*url.URL](t)(url.Parse(answer.Header().Get("Location"))).Path; strings.Contains(to, inside) {
			w.Header().Set("Location", outside+strings.Replace(strings.TrimPrefix(to, "/v2/"), inside, ":", 1)+"?session=a%20b")
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes())
		return true
	}
	h.answer.Store(&moved)
	f := openFront(t, func(g *gatehouse) {
		g.open = func(string) (*registry.Remote, error) {
			return registry.OpenRemote(strings.TrimPrefix(h.URL, "http://"), http.DefaultTransport)
		}
	})
	blob := []byte("a layer that is uploaded in two parts")
	d := digest.Of(digest.SHA256, blob)
	begun := f.send(call{"POST", "/v2/open/elsewhere/blobs/uploads/", f.pusher, nil, "", nil})
	at := begun.header.Get("Location")
	if begun.status != http.StatusAccepted || !strings.HasPrefix(at, "/v2/open/elsewhere/blobs/uploads/") || strings.Contains(at, "artifacts") {
		t.Fatalf("%d, %q: %s", begun.status, at, begun.body)
	}
	path, token, _ := strings.Cut(at, "=")
	forged := base64.RawURLEncoding.EncodeToString(append([]byte("/v2/gated/x/manifests/v1"), make([]byte, 32)...))
	for what, address := range map[string]string{
		"altered":            path + "=B" + token[1:],
		"forged":             path + "=" + forged,
		"cut":                path + "=" + token[:20],
		"empty":              path + "=",
		"another repository": strings.Replace(at, "open/elsewhere", "open/other", 1),
	} {
		if got := f.send(call{"PATCH", address, f.pusher, blob[:9], "application/octet-stream", nil}); got.status != http.StatusForbidden || got.code != verdict.NotGranted {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	part := f.send(call{"PATCH", at, f.pusher, blob[:9], "application/octet-stream", nil})
	if part.status != http.StatusAccepted {
		t.Fatalf("%d: %s", part.status, part.body)
	}
	done := f.send(call{"PUT", part.header.Get("Location") + "&session=another&digest=" + d.String(), f.pusher, blob[9:], "application/octet-stream", nil})
	if got := f.send(call{"GET", "/v2/open/elsewhere/blobs/" + d.String(), f.pusher, nil, "", nil}); done.status != http.StatusCreated || got.status != http.StatusOK || !bytes.Equal(got.body, blob) {
		t.Errorf("%d %s; %d %s", done.status, done.body, got.status, got.body)
	}
}
