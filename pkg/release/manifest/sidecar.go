package manifest

import (
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkSidecars refuses a checksum file that says another digest than the
// manifest does: users who check with it would be told another story. Its
// bytes are known without being read, for they are a digest and nothing else.
func (m *Manifest) checkSidecars() error {
	for _, a := range m.Artifacts {
		if a.Class != plan.Checksum {
			continue
		}
		algorithm := path.Ext(a.Name)
		of, listed := m.Find(strings.TrimSuffix(a.Name, algorithm))
		said, known := map[string]digest.Digest{".sha256": of.Digests.SHA256, ".sha512": of.Digests.SHA512}[algorithm]
		if !listed || !known || of.IsImage() {
			return verdict.Refuse(verdict.ManifestParse, a.Name, "it lies beside no file that is listed")
		}
		want := digest.Of(digest.SHA256, []byte(said.Hex()))
		if !a.Digests.SHA256.Equal(want) || a.Size != int64(len(said.Hex())) {
			return &verdict.Error{Finding: verdict.Find(verdict.ManifestParse, a.Name, "it says another digest than %s has", of.Name).
				Differ(want.String(), a.Digests.SHA256.String())}
		}
	}
	return nil
}
