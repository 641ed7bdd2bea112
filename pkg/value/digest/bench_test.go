package digest

import (
	"bytes"
	"fmt"
	"io"
	"testing"
)

// BenchmarkSum measures both digests in one pass against SHA-256 alone.
func BenchmarkSum(b *testing.B) {
	for _, size := range []int{4 << 10, 300 << 10, 64 << 20} {
		data := make([]byte, size)
		run := func(name string, sum func(r io.Reader) error) {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					if err := sum(bytes.NewReader(data)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		run("both", func(r io.Reader) error { _, _, err := Sum(r); return err })
		run("sha256", func(r io.Reader) error { _, _, err := SumSHA256(r); return err })
	}
}
