package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
)

// exchange is a request that a client makes, and what it expects.
type exchange struct {
	method, path string
	header       map[string]string
	body         []byte
	status       []int
	// follow is a request to where the last answer led.
	follow bool
}

// dockerPushes replays the order of requests in which docker push of Docker 20.10
// pushes an image of one layer: with its own media types, layers before the
// configuration, blobs in one PATCH, and the manifest by its tag.
func (c clients) dockerPushes(t *testing.T) {
	config := []byte(`{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}`)
	layer := []byte("\x1f\x8b not a layer that anyone unpacks")
	to := repository{c.ours.prefix + "/docker", "pushed"}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest.Of(digest.SHA256, config).String()},
		"layers": []any{map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(layer), "digest": digest.Of(digest.SHA256, layer).String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	host, path, _ := strings.Cut(to.prefix, "/")
	base := "/v2/" + path + "/" + to.name
	transcript := []exchange{{method: http.MethodGet, path: "/v2/", status: []int{200}}}
	for _, blob := range [][]byte{layer, config} {
		sum := digest.Of(digest.SHA256, blob).String()
		transcript = append(transcript,
			exchange{method: http.MethodHead, path: base + "/blobs/" + sum, status: []int{404}},
			exchange{method: http.MethodPost, path: base + "/blobs/uploads/", status: []int{202}},
			exchange{method: http.MethodPatch, follow: true, body: blob, status: []int{202}, header: map[string]string{"Content-Type": "application/octet-stream"}},
			exchange{method: http.MethodPut, follow: true, path: "digest=" + sum, status: []int{201}},
			exchange{method: http.MethodHead, path: base + "/blobs/" + sum, status: []int{200}},
		)
	}
	transcript = append(transcript, exchange{method: http.MethodPut, path: base + "/manifests/v1", body: manifest, status: []int{201}, header: map[string]string{"Content-Type": "application/vnd.docker.distribution.manifest.v2+json"}})
	replay(t, "http://"+host, transcript)
	want(t, c.image(t, to.tagged("v1"), lab.RoleRelease), 1, "EVIDENCE_MISSING")
	c.cosign3.must(t, c.signs("sign", lab.RoleRelease, to.tagged("v1"))...)
	want(t, c.image(t, to.tagged("v1"), lab.RoleRelease), 0)
	promoted := repository{c.ours.prefix + "/docker-promoted", to.name}
	c.promote(t, to, promoted, to.resolve(t, "v1"))
	want(t, c.image(t, promoted.tagged("v1"), lab.RoleRelease), 0)
	if raw := c.crane.must(t, "manifest", "--insecure", promoted.tagged("v1")); raw != string(manifest) {
		t.Errorf("the promoted manifest is\n%s", raw)
	}
}

// replay makes requests one after another, each only after the expected answer.
func replay(t *testing.T, host string, transcript []exchange) {
	t.Helper()
	var led string
	for _, e := range transcript {
		address := host + e.path
		if e.follow {
			address = led
			if e.path != "" && strings.Contains(led, "?") {
				address += "&" + e.path
			} else if e.path != "" {
				address += "?" + e.path
			}
		}
		if err := e.make(t.Context(), address, &led); err != nil {
			t.Fatal(err)
		}
	}
}

func (e exchange) make(ctx context.Context, address string, led *string) error {
	request, err := http.NewRequestWithContext(ctx, e.method, address, bytes.NewReader(e.body))
	if err != nil {
		return err
	}
	request.Header.Set("User-Agent", "docker/20.10.24 go/go1.18 os/linux arch/amd64 UpstreamClient(Docker-Client/20.10.24)")
	for name, value := range e.header {
		request.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if !slices.Contains(e.status, response.StatusCode) {
		return fmt.Errorf("%s %s: %s, want %v", e.method, address, response.Status, e.status)
	}
	if to, err := response.Location(); err == nil {
		*led = to.String()
	}
	return nil
}
