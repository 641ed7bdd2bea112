package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestArchive: files are read through links, of both kinds, and never from outside.
func TestArchive(t *testing.T) {
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, h := range []tar.Header{
		{Name: "one/layer.tar", Typeflag: tar.TypeReg, Size: 5, Mode: 0o644},
		{Name: "two/layer.tar", Typeflag: tar.TypeSymlink, Linkname: "../one/layer.tar"},
		{Name: "three/layer.tar", Typeflag: tar.TypeLink, Linkname: "one/layer.tar"},
		{Name: "four/layer.tar", Typeflag: tar.TypeSymlink, Linkname: "../missing"},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, "layer"); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := OpenArchive(bytes.NewReader(raw.Bytes()), int64(raw.Len()))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]verdict.Code{
		"one/layer.tar": "", "two/layer.tar": "", "three/layer.tar": "", "four/layer.tar": verdict.Missing, "layer.tar": verdict.Missing, "../one/layer.tar": verdict.Path,
	} {
		body, err := a.Layer(t.Context(), name)
		if a.Holds(name) != (want == "") {
			t.Errorf("%s: held %t", name, a.Holds(name))
		}
		if err != nil || want != "" {
			if err == nil || verdict.FindingOf("", err).Code != want {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
			continue
		}
		if text, err := fetchAll(body); err != nil || string(text) != "layer" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}

// TestDocumentsOfALayout: a document is read whole, up to a limit, and verified.
func TestDocumentsOfALayout(t *testing.T) {
	l, err := OpenLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]string{100: "", MaxManifest: "", MaxManifest + 1: "LIMIT"} {
		b := blobOf("text/plain", bytes.Repeat([]byte("x"), size))
		push(t, l, b)
		if raw, err := l.Document(t.Context(), b.Descriptor.Digest); code(err) != want || err == nil && !bytes.Equal(raw, b.Bytes) {
			t.Errorf("%d bytes: read %d, %v, want %q", size, len(raw), err, want)
		}
	}
}

// TestEvidenceByDigest: a list of bundles is evidence, an index of images is not.
func TestEvidenceByDigest(t *testing.T) {
	l := places(t)["layout"]
	images, _ := index(t, l, "v1")
	one := attach(t, l, images, "one")
	bundles := pushManifest(t, l, MediaTypeIndex, map[string]any{"schemaVersion": 2, "mediaType": MediaTypeIndex, "manifests": []any{mustWire(one)}})
	for name, row := range map[string]struct {
		d        Descriptor
		evidence bool
	}{"a bundle": {one, true}, "a list of bundles": {bundles, true}, "an index of images": {images, false}} {
		raw, err := read(t.Context(), l, row.d)
		if err != nil {
			t.Fatal(err)
		}
		err = row.d.CheckEvidence(t.Context(), l, "demo", []byte(raw))
		if (err == nil) != row.evidence || err != nil && !errors.As(err, new(*NoEvidenceError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
