package bundles_test

import (
	"fmt"
	"testing"

	"github.com/waybill-release/waybill/test/bench/bundles"
	"github.com/waybill-release/waybill/test/bench/bundles/mint"
)

// BenchmarkBundles takes one bundle as its unit. For figures to quote, run
// `make bench`, which lets the ways take turns; this is for profiles.
func BenchmarkBundles(b *testing.B) {
	const n = 100
	dir := b.TempDir()
	if err := mint.Make(b.Context(), dir, n); err != nil {
		b.Fatal(err)
	}
	for _, set := range bundles.Sets() {
		list, root, err := set.Read(dir, n)
		if err != nil {
			b.Fatal(err)
		}
		for name, make := range map[string]func([]byte) (bundles.Way, error){"waybill": bundles.Ours, "sigstore-go": bundles.Library} {
			way, err := make(root)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprintf("%s/%s", set, name), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; i < b.N; i += n {
					if err := way(list[:min(n, b.N-i)]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
