package registry

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
)

// TestMountIsAskedOnce: two images that share a layer are copied at once. A
// registry that does not replace its files as a whole, such as distribution 2.8,
// is without the layer for a moment while it is mounted again, and would then
// refuse the manifest of the image that was ready first.
func TestMountIsAskedOnce(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // nobody's credentials
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
				there, err := r.mount(t.Context(), "demo", layer, r)
				if !there {
					t.Error("the layer is not mounted")
				}
				mounted <- err
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
