package spdx_test

import (
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// SPDX 2.3 documents of other tools are read in the same way.
func ExampleParse() {
	raw, err := spdx.Encode(spdx.Draft{
		Name: "hello", Namespace: "https://example.test/sbom/hello", Created: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Tool: "example-1",
		Packages:      []spdx.Package{{ID: "SPDXRef-hello", Name: "hello", Version: "v1.2.3", Digests: digest.SetOf([]byte("hello"))}},
		Relationships: []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-hello"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := spdx.Parse(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	name, sha256 := d.Describes()
	fmt.Println(name, d.DescribedVersion(), sha256.Equal(digest.Of(digest.SHA256, []byte("hello"))))
	// Output: hello v1.2.3 true
}
