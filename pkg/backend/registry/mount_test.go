package registry

import (
	"errors"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// TestCopyMounts: a blob that the registry holds in another repository is mounted,
// not sent; a registry that cannot mount is sent it.
func TestCopyMounts(t *testing.T) {
	for name, can := range map[string]bool{"a registry that mounts": true, "one that cannot": false} {
		var mu sync.Mutex // guards the fields below
		asked, sent, mounted := 0, 0, map[string]bool{}
		src := serve(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				mount := r.URL.Query().Get("mount")
				switch {
				case !strings.HasPrefix(r.URL.Path, "/v2/other/demo/blobs/"):
					next.ServeHTTP(w, r)
				case mount != "" && can && r.URL.Query().Get("from") == "team/demo":
					asked++
					mounted[mount] = true
					w.WriteHeader(http.StatusCreated)
				case r.Method == http.MethodHead && !mounted[path.Base(r.URL.Path)]:
					w.WriteHeader(http.StatusNotFound)
				default:
					if r.Method == http.MethodPut || r.Method == http.MethodPost && mount == "" {
						sent++
					}
					next.ServeHTTP(w, r)
				}
			})
		})
		d := image(t, src, "amd64")
		dst, err := OpenRemote(strings.TrimSuffix(src.Prefix(), "team")+"other", http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Copy(t.Context(), dst, src, "demo", d); err != nil {
			t.Fatal(err)
		}
		if want := map[bool]int{true: 2}[can]; asked != want || (sent > 0) == can {
			t.Errorf("%s: %d blobs mounted, want %d, and %d requests sent bytes", name, asked, want, sent)
		}
	}
}

// TestMountIsAskedOnce: two images that share a layer are copied at once. A
// registry that does not replace its files as a whole, such as distribution 2.8,
// is without the layer for a moment while it is mounted again, and would then
// refuse the manifest of the image that was ready first.
func TestMountIsAskedOnce(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // no credentials
	synctest.Test(t, func(t *testing.T) {
		asked, answered := 0, make(chan struct{})
		r, err := OpenRemote("127.0.0.1:5000/team", roundTripper(func(req *http.Request) (*http.Response, error) {
			status := http.StatusOK
			if req.Method == http.MethodPost {
				asked++
				<-answered
				status = http.StatusCreated
			}
			return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: req}, nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		layer := blobOf("application/vnd.oci.image.layer.v1.tar", []byte("layer")).Descriptor
		mounted := make(chan error, 2)
		for range cap(mounted) {
			go func() {
				err := r.mount(t.Context(), "demo", layer, r)
				mounted <- errors.Join(err, r.PushBlob(t.Context(), "demo", layer, func() (io.ReadCloser, error) {
					return nil, errors.New("the layer is not mounted, but pushed")
				}))
			}()
		}
		synctest.Wait() // one asks, the other one waits
		close(answered)
		for range cap(mounted) {
			if err := <-mounted; err != nil {
				t.Error(err)
			}
		}
		if asked != 1 {
			t.Errorf("the registry was asked to mount the layer %d times, want 1", asked)
		}
	})
}
