package image

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// plainLayer is a layer of these bytes, without compression.
func plainLayer(raw []byte) Layer {
	sum := digest.Of(digest.SHA256, raw)
	return Layer{
		Descriptor: registry.Descriptor{MediaType: string(types.OCIUncompressedLayer), Digest: sum, Size: int64(len(raw))}, DiffID: sum,
		open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil },
	}
}

// TestBoundsAreOfTheImage: what is bounded is all of an image, whatever its
// layers and platforms are.
func TestBoundsAreOfTheImage(t *testing.T) {
	many := func(n, size int) []Layer {
		var layers []Layer
		for i := range n {
			layers = append(layers, plainLayer(fmt.Appendf(nil, "%0*d", size, i)))
		}
		return layers
	}
	for name, row := range map[string]struct {
		children []Child
		most     int64
		good     bool
	}{
		"one layer":                   {[]Child{{Layers: many(1, 1000)}}, 1000, true},
		"one layer that is too large": {[]Child{{Layers: many(1, 1000)}}, 999, false},
		"two that are, together":      {[]Child{{Layers: many(2, 1000)}}, 1999, false},
		"two of two platforms":        {[]Child{{Layers: many(1, 1000)}, {Layers: many(2, 1000)[1:]}}, 1999, false},
		"one of two platforms":        {[]Child{{Layers: many(1, 1000)}, {Layers: many(1, 1000)}}, 1000, true},
		"many layers":                 {[]Child{{Layers: many(maxLayers, 10)}}, 1 << 20, true},
		"too many":                    {[]Child{{Layers: many(maxLayers+1, 10)}}, 1 << 20, false},
	} {
		err := verifyLayers(t.Context(), row.children, row.most)
		if (err == nil) != row.good || err != nil && verdict.FindingOf("", err).Code != verdict.Limit {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDeepEntries: directories lie in one another so far and no further, and
// their number is all that an entry costs.
func TestDeepEntries(t *testing.T) {
	for name, row := range map[string]struct {
		entries []tar.Header
		good    bool
	}{
		"as deep as may be": {[]tar.Header{{Name: strings.Repeat("a/", maxDepth) + "f", Typeflag: tar.TypeReg}}, true},
		"deeper":            {[]tar.Header{{Name: strings.Repeat("a/", maxDepth+1) + "f", Typeflag: tar.TypeReg}}, false},
		"by a link": {[]tar.Header{
			{Name: strings.Repeat("a/", maxDepth-1) + "f", Typeflag: tar.TypeReg}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("a/", maxDepth-1)},
			{Name: "l/b/f", Typeflag: tar.TypeReg},
		}, true},
		"deeper by a link": {[]tar.Header{
			{Name: strings.Repeat("a/", maxDepth-1) + "f", Typeflag: tar.TypeReg}, {Name: "l", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("a/", maxDepth-1)},
			{Name: "l/b/c/f", Typeflag: tar.TypeReg},
		}, false},
		"up and down again": {[]tar.Header{
			{Name: "l", Typeflag: tar.TypeSymlink, Linkname: strings.Repeat("../", 1000) + "/b"}, {Name: "b/", Typeflag: tar.TypeDir}, {Name: "l/f", Typeflag: tar.TypeReg},
		}, true},
	} {
		var raw bytes.Buffer
		w := tar.NewWriter(&raw)
		for _, h := range row.entries {
			h.Mode = 0o644
			if err := w.WriteHeader(&h); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		u, err := openTree(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		err = u.layer(t.Context(), plainLayer(raw.Bytes()))
		if (err == nil) != row.good || err != nil && verdict.FindingOf("", err).Code != verdict.Limit {
			t.Errorf("%s: %v", name, err)
		}
		if err := u.close(); err != nil {
			t.Error(err)
		}
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	u, err := openTree(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer u.close()
	if err := u.layer(stopped, plainLayer(nil)); err == nil {
		t.Error("it goes on after it was told to end")
	}
}
