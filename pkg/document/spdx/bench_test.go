package spdx_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
)

// large is a document of n packages, each of some 850 bytes as tools write them.
func large(n int) string {
	var b strings.Builder
	b.WriteString(`{"spdxVersion":"SPDX-2.3","dataLicense":"CC0-1.0","SPDXID":"SPDXRef-DOCUMENT","name":"large","documentNamespace":"https://example.org/large",
 "creationInfo":{"created":"2024-05-01T10:00:00Z","creators":["Tool: other-1.0"]},"packages":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `
 {"name":"example.org/module/number%d","SPDXID":"SPDXRef-Package-go-module-example.org-module-number%d-0123456789abcdef","versionInfo":"v1.%d.0",
  "supplier":"NOASSERTION","downloadLocation":"https://example.org/module/number%d/download","filesAnalyzed":false,
  "sourceInfo":"acquired package info from go module information: /usr/local/bin/some-program-of-the-image",
  "checksums":[{"algorithm":"SHA256","checksumValue":"%064x"}],
  "licenseConcluded":"NOASSERTION","licenseDeclared":"Apache-2.0","copyrightText":"NOASSERTION","description":"%s",
  "externalRefs":[{"referenceCategory":"SECURITY","referenceType":"cpe23Type","referenceLocator":"cpe:2.3:a:example:number%d:v1.%d.0:*:*:*:*:*:*:*"},
   {"referenceCategory":"PACKAGE-MANAGER","referenceType":"purl","referenceLocator":"pkg:golang/example.org/module/number%d@v1.%d.0"}]}`,
			i, i, i, i, i, strings.Repeat("words ", 8), i, i, i, i)
	}
	b.WriteString(`],"relationships":[{"spdxElementId":"SPDXRef-DOCUMENT","relationshipType":"DESCRIBES","relatedSpdxElement":"SPDXRef-Package-go-module-example.org-module-number0-0123456789abcdef"}`)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `,
 {"spdxElementId":"SPDXRef-Package-go-module-example.org-module-number0-0123456789abcdef","relationshipType":"DEPENDS_ON","relatedSpdxElement":"SPDXRef-Package-go-module-example.org-module-number%d-0123456789abcdef"}`, i)
	}
	b.WriteString("]}\n")
	return b.String()
}

// TestLarge: a document of 100,000 packages is read and judged without more
// memory than its own size once more.
func TestLarge(t *testing.T) {
	text := large(100_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	doc, report := spdx.Validate(text)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if doc.IsZero() || len(report.Faults) != 0 || report.Packages != 100_000 {
		t.Fatalf("%+v", report.Faults[:min(len(report.Faults), 3)])
	}
	allocated := (after.TotalAlloc - before.TotalAlloc) >> 20
	t.Logf("%d MB read and judged in %s, %d MB allocated", len(text)>>20, took, allocated)
	if allocated > 2*uint64(len(text)>>20) {
		t.Errorf("%d MB allocated for %d MB", allocated, len(text)>>20)
	}
}

func BenchmarkValidate(b *testing.B) {
	text := large(100_000)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		spdx.Validate(text)
	}
}
