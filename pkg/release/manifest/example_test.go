package manifest_test

import (
	"fmt"
	"os"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
)

// The manifest is the closed list of a release: any other file is extra. Package
// gate also verifies who signed it.
func ExampleReadManifest() {
	raw, err := os.ReadFile("../../../attestations/release-manifest/v1/testdata/accept-minimal.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := intoto.Parse(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	m, err := manifest.ReadManifest(s, nil) // it has no pages to open
	if err != nil {
		fmt.Println(err)
		return
	}
	a, listed := m.Find("hello")
	fmt.Println(m.Name, m.Version, a.Class, a.Size, listed)
	_, listed = m.Find("goodbye")
	fmt.Println(listed)
	// Output:
	// hello v1.2.3 binary 5 true
	// false
}
