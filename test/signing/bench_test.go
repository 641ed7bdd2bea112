package signing

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/sign"
)

// BenchmarkEach signs 500 files in the lab: one log entry and one bundle each.
func BenchmarkEach(b *testing.B) {
	const files = 500
	w := newWorld(b)
	for name, edit := range map[string]func(*testing.B) func(*sign.Config){
		"kept nowhere": func(*testing.B) func(*sign.Config) { return func(*sign.Config) {} },
		"kept":         func(b *testing.B) func(*sign.Config) { return keeping(b, journalIn(b)) },
		"one by one":   func(*testing.B) func(*sign.Config) { return func(c *sign.Config) { c.Work.Workers = 1 } },
	} {
		b.Run(name, func(b *testing.B) {
			for round := range b.N {
				list := make([]sign.Order, files)
				for i := range list {
					list[i].Bytes = file(round*files + i)
				}
				all, keep := gather(b)
				if err := w.signer(b, w.honest(), edit(b)).Each(b.Context(), list, keep); err != nil || len(all) != files {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*files), "µs/signature")
		})
	}
}
