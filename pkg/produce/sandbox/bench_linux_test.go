//go:build amd64 || arm64

package sandbox

import (
	"testing"
)

func BenchmarkTrivial(b *testing.B) {
	for _, mode := range []Mode{Unisolated, Contained, Isolated} {
		b.Run(string(mode), func(b *testing.B) {
			for b.Loop() {
				s := Step{Scratch: b.TempDir(), Command: []string{"/bin/true"}}
				if err := Prepare(s.Scratch); err != nil {
					b.Fatal(err)
				}
				if _, err := Run(b.Context(), mode, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
