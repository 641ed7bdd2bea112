package attacks

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestGatePlaces: not there, not answered and not to be listed are three
// different answers, and none of them is fine.
func TestGatePlaces(t *testing.T) {
	r := theWorld(t).attacked(t)
	web := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(r.dir, "files"))))
	defer web.Close()
	tampered := theWorld(t).attacked(t)
	tampered.flip(t, binary)
	tamperedWeb := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(tampered.dir, "files"))))
	defer tamperedWeb.Close()
	rows := []struct {
		name, uri string
		outcome   verdict.Outcome
		codes     []verdict.Code
	}{
		{"the directory", filepath.Join(r.dir, "files"), verdict.Accepted, nil},
		{"a place that cannot be listed", web.URL + "/", verdict.Unavailable, codes(verdict.NotListable)},
		{"one that cannot be listed, and is tampered with", tamperedWeb.URL + "/", verdict.Refused, codes(verdict.NotListable, verdict.Tampered)},
		{"a web server that is away", "http://127.0.0.1:1/", verdict.Unavailable, codes(verdict.PlaceDown)},
		{"a bucket that is away", "gs+http://127.0.0.1:1/release/lantern/", verdict.Unavailable, codes(verdict.PlaceDown)},
		{"an empty directory", t.TempDir(), verdict.Refused, codes(verdict.EvidenceMissing)},
		{"an empty bucket", strings.Replace(r.Lab.Bucket, "http", "gs+http", 1) + "/mirror/", verdict.Refused, codes(verdict.EvidenceMissing)},
		{"a web server with nothing", web.URL + "/nothing/", verdict.Refused, codes(verdict.EvidenceMissing)},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			place := must[store.Place](t)(store.Open(row.uri, http.DefaultTransport))
			v := r.gate(t, func(q *gate.Request) { q.Files = place })
			refused(t, v.Err(), row.codes...)
			if v.Outcome() != row.outcome {
				t.Errorf("outcome %s, want %s", v.Outcome(), row.outcome)
			}
		})
	}
	// Who does not ask for a closed place is told that nobody looked.
	place := must[store.Place](t)(store.Open(web.URL+"/", http.DefaultTransport))
	v := r.gate(t, func(q *gate.Request) {
		q.Files, q.Policy = place, r.policy(t, "{files: require", "{files: \"off\"")
	})
	accepted(t, v.Err())
	if v.Complete() {
		t.Errorf("complete without a listing: %s", v.Headline())
	}
}

// TestCommandAnswers: the statuses of the command, and its verdict file, which
// is written for refusals as well.
func TestCommandAnswers(t *testing.T) {
	w := theWorld(t)
	build := exec.Command("go", "build", "-o", w.Path("..", "bin")+"/", "./cmd/k8s-verify-release")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	good, bad := w.attacked(t), w.attacked(t)
	bad.remove(t, binary)
	web := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(good.dir, "files"))))
	defer web.Close()
	files := func(r *attacked) string { return filepath.Join(r.dir, "files") }
	rows := []struct {
		name, files string
		flags       []string
		status      int
		outcome     string
		code        verdict.Code
	}{
		{"accepted", files(good), nil, 0, "accepted", ""},
		{"accepted offline", files(good), []string{"--offline"}, 0, "accepted", ""},
		{"refused", files(bad), nil, 1, "refused", verdict.Missing},
		{"nothing there", t.TempDir(), nil, 1, "refused", verdict.EvidenceMissing},
		{"not to be listed", web.URL + "/", nil, 3, "unavailable", verdict.NotListable},
		{"away", "http://127.0.0.1:1/", nil, 3, "unavailable", verdict.PlaceDown},
		{"offline, and elsewhere", web.URL + "/", []string{"--offline"}, 3, "unavailable", verdict.PlaceDown},
		{"wrong use", "ftp://127.0.0.1/", nil, 2, "malformed", verdict.Usage},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			kept := filepath.Join(t.TempDir(), "verdict.json")
			args := []string{"k8s-verify-release", w.version.String(), "--profile", "profile.yaml", "--files", row.files,
				"--images", filepath.Join(good.dir, "images"), "--output", "table", "--output", "json=" + kept}
			r := w.Run(t.Context(), append(args, row.flags...)...)
			if r.Code != row.status {
				t.Fatalf("status %d, want %d\n%s%s", r.Code, row.status, r.Stdout, r.Stderr)
			}
			if row.code != "" {
				if !strings.Contains(r.Stdout+r.Stderr, string(row.code)) {
					t.Errorf("it did not say %s:\n%s%s", row.code, r.Stdout, r.Stderr)
				}
				observe(t, row.code)
			}
			var v struct{ Outcome string }
			body, err := os.ReadFile(kept)
			if err != nil || json.Unmarshal(body, &v) != nil || v.Outcome != row.outcome {
				t.Errorf("the verdict file says %q, %v", v.Outcome, err)
			}
		})
	}
}

// push writes a referrer into a layout or a registry.
func push(t testing.TB, to registry.Sink, d registry.Descriptor, manifest []byte, blobs []registry.Blob) {
	t.Helper()
	for _, b := range blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		accepted(t, to.PushBlob(t.Context(), repository, b.Descriptor, open))
	}
	accepted(t, to.PushManifest(t.Context(), repository, d, manifest))
}

func replaceOne(t testing.TB, body []byte, old, with string) []byte {
	t.Helper()
	if !bytes.Contains(body, []byte(old)) {
		t.Fatalf("%q is not in:\n%s", old, body)
	}
	return bytes.Replace(body, []byte(old), []byte(with), 1)
}
