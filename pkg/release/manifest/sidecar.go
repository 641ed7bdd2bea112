package manifest

import (
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkSidecars refuses a checksum file with another digest than the manifest:
// users who check with it would get another answer. Its contents follow from
// the digest, so it need not be read.
func (m *Manifest) checkSidecars() error {
	for _, a := range m.Artifacts {
		if a.Class != plan.Checksum {
			continue
		}
		algorithm := path.Ext(a.Name)
		of, listed := m.Find(strings.TrimSuffix(a.Name, algorithm))
		said, known := map[string]digest.Digest{".sha256": of.Digests.SHA256, ".sha512": of.Digests.SHA512}[algorithm]
		if !listed || !known || of.IsImage() {
			return verdict.Refuse(verdict.ManifestParse, a.Name, "the manifest lists no file for this checksum")
		}
		want := digest.Of(digest.SHA256, []byte(said.Hex()))
		if !a.Digests.SHA256.Equal(want) || a.Size != int64(len(said.Hex())) {
			return &verdict.Error{Finding: verdict.Find(verdict.ManifestParse, a.Name, "the checksum is not that of %s", of.Name).
				Differ(want.String(), a.Digests.SHA256.String())}
		}
	}
	return nil
}
