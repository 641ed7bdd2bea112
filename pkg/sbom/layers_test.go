package sbom

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestLayersAreReadOnce describes two images that share a layer: the second one
// costs what is its own.
func TestLayersAreReadOnce(t *testing.T) {
	var mu sync.Mutex // guards opened
	opened := map[digest.Digest]int{}
	layer := func(name string) Layer {
		raw := packed(t, file(name, name))
		sum := digest.SetOf(raw).SHA256
		return Layer{Digest: sum, DiffID: sum, Open: func(context.Context) (io.ReadCloser, error) {
			mu.Lock()
			defer mu.Unlock()
			opened[sum]++
			return io.NopCloser(bytes.NewReader(raw)), nil
		}}
	}
	shared := layer("etc/shared")
	var layers Layers
	for i, n := range []int{1, 2, 3} {
		own := layer(fmt.Sprint("own", i))
		image := ImagePlatform{Platform: "linux/amd64", Digest: digest.SetOf([]byte{byte(n)}).SHA256, Layers: []Layer{shared, own}}
		c := ImageContent{Index: digest.SetOf([]byte{byte(n), 1}), Platforms: []ImagePlatform{image}, Layers: &layers}
		in := Input{Name: "x", Version: "v1", Created: time.Unix(1, 0), Namespace: "https://example.test/"}
		if _, err := Image(t.Context(), in, "x", c); err != nil {
			t.Fatal(err)
		}
		if opened[shared.Digest] != 1 || opened[own.Digest] != 1 {
			t.Errorf("image %d: the shared layer was read %d times, its own %d times", i, opened[shared.Digest], opened[own.Digest])
		}
	}
}
