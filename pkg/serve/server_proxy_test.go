package serve

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestUploads: an upload goes on where the registry says, if that is on its own
// host; elsewhere it is not begun (UNAVAILABLE). The registry reads no form in it.
func TestUploads(t *testing.T) {
	const uploads = "/v2/" + repository + "/blobs/uploads/"
	f := openFront(t)
	location, kinds := "", map[string]string{}
	f.answer = func(w http.ResponseWriter, r *http.Request) bool {
		kinds[r.Method+" "+r.URL.Path] = r.Header.Get("Content-Type")
		if r.Method == http.MethodPost {
			w.Header().Set("Location", location)
		}
		return false
	}
	for _, row := range []struct {
		location, shown string // what the registry says, and the beginning of what the caller is told
		code            int
	}{
		{uploads + "1?state=x", uploads + "1?state=x", 202},
		{"http://" + f.host + uploads + "1", uploads + "1", 202},
		{"/elsewhere/1?session=a", uploads + "elsewhere?" + uploadParameter + "=", 202},
		{"http://evil.example.test" + uploads + "1", "", 503},
		{"/v2/gated/other/blobs/uploads/1", "", 503},
	} {
		location = row.location
		got := f.ask("pusher", http.MethodPost, uploads, "application/x-www-form-urlencoded")
		if shown := got.Header().Get("Location"); got.Code != row.code || !strings.HasPrefix(shown, row.shown) || (shown == "") != (row.shown == "") {
			t.Errorf("%s: %d to %q: %s", row.location, got.Code, shown, got.Body)
		}
		if kind := kinds["POST "+uploads]; kind != "application/octet-stream" {
			t.Errorf("the registry reads %q", kind)
		}
	}
	location = "/elsewhere/2?session=a"
	here := f.ask("pusher", http.MethodPost, uploads, "").Header().Get("Location")
	path, token, _ := strings.Cut(here, "=")
	for what, row := range map[string]struct {
		address string
		code    int
	}{
		"as it was told": {here, 202}, "altered": {path + "=B" + token[1:], 403}, "empty": {path + "=", 403},
		"another repository": {strings.Replace(here, repository, "gated/other", 1), 403},
	} {
		f.asked = nil
		got := f.ask("pusher", http.MethodPatch, row.address, "")
		if asked := slices.Contains(f.asked, "PATCH /elsewhere/2"); got.Code != row.code || asked != (row.code == 202) || !asked && !strings.Contains(got.Body.String(), string(verdict.NotGranted)) {
			t.Errorf("%s: %d, %q: %s", what, got.Code, f.asked, got.Body)
		}
	}
	manifest := "/v2/" + repository + "/manifests/" + f.image.Digest.String()
	if got := f.ask("pusher", http.MethodPut, manifest, typeOfImage); got.Code != 202 || kinds["PUT "+manifest] != typeOfImage {
		t.Errorf("a manifest: %d, the registry reads %q: %s", got.Code, kinds["PUT "+manifest], got.Body)
	}
}

// TestProxyKnowsItsCallers: a request without credentials, or with those of an unknown
// caller, is not passed on (401), nor one above the caller's rate (429).
func TestProxyKnowsItsCallers(t *testing.T) {
	f := openFront(t)
	const blobs = "/v2/" + repository + "/blobs/"
	for _, row := range []struct {
		who  string
		rate int
		code int
		says verdict.Code
	}{{"puller", 100, 200, ""}, {"unknown", 100, 401, verdict.TokenSub}, {"", 100, 401, verdict.TokenParse}, {"puller", 0, 429, verdict.Busy}} {
		f.admission.rates.perSecond, f.asked = row.rate, nil
		r := httptest.NewRequest(http.MethodGet, blobs+f.image.Digest.String(), nil)
		got := httptest.NewRecorder()
		if row.who == "" {
			f.ServeHTTP(got, r)
		} else {
			got = f.send(row.who, r)
		}
		if got.Code != row.code || len(f.asked) > 0 != (row.code == 200) || !strings.Contains(got.Body.String(), string(row.says)) {
			t.Errorf("%q: %d, %q: %s", row.who, got.Code, f.asked, got.Body)
		}
	}
}

// TestMountNeedsBoth: a blob is mounted from where the caller may read (else
// NOT_GRANTED), and from nowhere else.
func TestMountNeedsBoth(t *testing.T) {
	f := openFront(t)
	var query string
	f.answer = func(_ http.ResponseWriter, r *http.Request) bool { query = r.URL.RawQuery; return false }
	sum := f.image.Digest.String()
	for from, want := range map[string]struct {
		query string
		code  int
	}{"&from=gated/other": {"from=gated%2Fother&mount=" + strings.Replace(sum, ":", "%3A", 1), 202}, "&from=elsewhere": {"", 403}, "": {"", 202}} {
		query = ""
		got := f.ask("pusher", http.MethodPost, "/v2/"+repository+"/blobs/uploads/?mount="+sum+from, "")
		if got.Code != want.code || query != want.query || want.code == 403 && !strings.Contains(got.Body.String(), string(verdict.NotGranted)) {
			t.Errorf("%q: %d, %q: %s", from, got.Code, query, got.Body)
		}
	}
}

// TestTagNeedsTheImage: a tag is pushed for the bytes and the type that are there
// by digest, and only if the policy accepts them.
func TestTagNeedsTheImage(t *testing.T) {
	f := openFront(t)
	for what, row := range map[string]struct {
		of, kind string
		code     int
		says     verdict.Code
	}{
		"accepted":        {f.index.Digest.String(), typeOfIndex, 202, ""},
		"of another type": {f.index.Digest.String(), typeOfImage, 403, verdict.ManifestParse},
		"refused":         {f.image.Digest.String(), typeOfImage, 403, ""},
	} {
		f.asked = nil
		r := httptest.NewRequest(http.MethodPut, "/v2/"+repository+"/manifests/v2", strings.NewReader(string(f.stored[row.of])))
		r.Header.Set("Content-Type", row.kind)
		got := f.send("pusher", r)
		if tagged := slices.Contains(f.asked, "PUT "+r.URL.Path); got.Code != row.code || tagged != (row.code == 202) || !strings.Contains(got.Body.String(), string(row.says)) {
			t.Errorf("%s: %d, tagged %t: %s", what, got.Code, tagged, got.Body)
		}
	}
}
