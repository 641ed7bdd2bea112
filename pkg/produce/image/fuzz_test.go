package image_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// FuzzImport: what is imported is whole, the same the second time, and no
// input costs much.
func FuzzImport(f *testing.F) {
	img := docker(f, v1.Platform{OS: "linux", Architecture: "amd64"})
	dir, file := f.TempDir(), filepath.Join(f.TempDir(), "saved.tar")
	top, err := layout.Write(dir, empty.Index)
	if err != nil {
		f.Fatal(err)
	}
	tag, err := name.NewTag("registry.example.test/lantern:seed")
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(top.AppendImage(img), tarball.WriteToFile(file, tag, img)); err != nil {
		f.Fatal(err)
	}
	saved, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	for _, raw := range [][]byte{packed(f, dir, nil), saved, savedPlainly(f), nil} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var b *image.Built
		var err error
		bounds.Bounded(t, raw, func() {
			b, err = image.Import(t.Context(), bytes.NewReader(raw), int64(len(raw)), []string{"linux/amd64"})
		})
		if err != nil {
			return
		}
		if len(b.Children) != 1 || b.Children[0].Digest != digest.Of(digest.SHA256, b.Children[0].Raw) || b.Descriptor.Digest != digest.Of(digest.SHA256, b.Raw) {
			t.Errorf("imported %+v", b)
		}
		again, err := image.Import(t.Context(), bytes.NewReader(raw), int64(len(raw)), []string{"linux/amd64"})
		if err != nil || !bytes.Equal(again.Raw, b.Raw) {
			t.Errorf("the second time: %v", err)
		}
	})
}
