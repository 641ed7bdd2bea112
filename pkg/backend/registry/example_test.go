package registry_test

import (
	"context"
	"fmt"
	"os"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// A registry and an image layout are read the same way. A tag can move: resolve it
// once, and use the digest from there on.
func ExampleSource() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	images, err := registry.OpenLayout(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	raw := []byte(`{"schemaVersion":2,"mediaType":"` + registry.MediaTypeIndex + `","manifests":[]}`)
	index := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	fmt.Println(images.PushManifest(ctx, "hello", index, raw), images.Tag(ctx, "hello", "v1.2.3", index))

	var src registry.Source = images // or registry.OpenRemote("registry.example.test/project", transport)
	d, err := src.Resolve(ctx, "hello", "v1.2.3")
	fmt.Println(d.Digest == index.Digest, err)
	// Output:
	// <nil> <nil>
	// true <nil>
}
