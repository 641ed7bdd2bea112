package intoto

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// BenchmarkParseOpen reads a statement of 1,000 subjects: as encoders of Go
// write it, with white space as other tools do, and with a digest of another
// kind in each subject, which is kept beside it.
func BenchmarkParseOpen(b *testing.B) {
	list := make([]Subject, 1000)
	for i := range list {
		list[i] = Subject{Name: fmt.Sprintf("bin/linux/amd64/tool-%06d", i), Digests: digest.SetOf(fmt.Append(nil, i))}
	}
	plain, err := encode(TypeV1, "https://example.test/p/v1", list, map[string]any{"builder": map[string]any{"id": "https://example.test/b"}})
	if err != nil {
		b.Fatal(err)
	}
	var spaced bytes.Buffer
	if err := json.Indent(&spaced, plain, "", "  "); err != nil {
		b.Fatal(err)
	}
	for name, raw := range map[string][]byte{
		"plain": plain, "spaced": spaced.Bytes(),
		"other": bytes.ReplaceAll(plain, []byte(`"digest":{`), []byte(`"digest":{"gitCommit":"e6b4b0d3255bfef95601890afd80709da39a3ee5",`)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseOpen(raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
