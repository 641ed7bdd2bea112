package registry

import (
	"bytes"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// FuzzManifest: no bytes are an image and an index at once, everything that an
// accepted one names has a digest and a size, and no input costs much.
func FuzzManifest(f *testing.F) {
	element := `{"mediaType":"application/octet-stream","digest":"` + digest.Of(digest.SHA256, []byte("x")).String() + `","size":1}`
	for _, raw := range []string{
		`{"schemaVersion":2,"config":` + element + `,"layers":[` + element + `]}`,
		`{"schemaVersion":2,"manifests":[` + element + `],"annotations":{"a":"b"}}`,
		`{"schemaVersion":2,"config":` + element + `,"layers":[` + element + `],"subject":` + element + `,"artifactType":"a/b"}`,
		`{"schemaVersion":2,"config":` + element + `,"manifests":[]}`, `{"schemaVersion":2,"config":null,"layers":null}`,
		`{"schemaVersion":2,"manifests":[{"digest":"sha256:","size":-1,"platform":{"os":"linux","architecture":"arm","variant":"v7"}}]}`,
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		accepted := map[bool]bool{}
		bounds.Bounded(t, raw, func() {
			for _, mediaType := range manifestTypes() {
				d := Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
				if readManifest(t, d, raw) {
					accepted[d.IsIndex()] = true
				}
			}
		})
		if accepted[true] && accepted[false] {
			t.Errorf("an image and an index at once: %q", raw)
		}
	})
}

// readManifest reports whether raw is a manifest of the kind of d.
func readManifest(t *testing.T, d Descriptor, raw []byte) bool {
	doc, err := parse(d, raw)
	if err != nil {
		return false
	}
	n := &Node{Descriptor: d, Raw: raw}
	children, err := n.fill(doc)
	if err != nil {
		return false
	}
	for _, named := range append(children, n.Blobs()...) {
		if named.Digest.IsZero() || named.Size < 0 {
			t.Errorf("accepted %q, which names %+v", raw, named)
		}
	}
	if !bytes.Contains(raw, []byte("2")) {
		t.Errorf("accepted %q, which has no version", raw)
	}
	return true
}
