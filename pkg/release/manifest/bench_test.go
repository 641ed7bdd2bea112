package manifest_test

import (
	"fmt"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// BenchmarkReadManifest reads the statement of a release of 400 files, and
// the manifest in it.
func BenchmarkReadManifest(b *testing.B) {
	m := lantern(b)
	for i := range 400 {
		m.Artifacts = append(m.Artifacts, file(fmt.Sprintf("bin/linux/amd64/tool-%06d", i), plan.Binary))
	}
	raw := statement(b, m).Raw()
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		s, err := intoto.Parse(raw)
		if err == nil {
			_, err = manifest.ReadManifest(s, nil)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
