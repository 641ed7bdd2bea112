package sbomlist_test

import (
	"fmt"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// The subjects of the statement are the SBOMs, so that one bundle covers all.
func Example() {
	sbom := []byte(`{"spdxVersion": "SPDX-2.3"}`)
	s, err := sbomlist.Predicate{Name: "lantern", Version: "v0.1.0"}.Of([]intoto.Subject{{Name: "lantern.spdx.json", Digests: digest.SetOf(sbom)}})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := sbomlist.Parse(s)
	fmt.Println(p.Name, p.Version, err)
	fmt.Println("covers the SBOM:", s.Names("lantern.spdx.json", digest.SetOf(sbom)))
	fmt.Println("covers other bytes:", s.Names("lantern.spdx.json", digest.SetOf(nil)))
	// Output:
	// lantern v0.1.0 <nil>
	// covers the SBOM: true
	// covers other bytes: false
}
