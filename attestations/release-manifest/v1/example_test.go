package releasemanifest_test

import (
	"encoding/json"
	"fmt"
	"os"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// The predicate as it is written. Package release/manifest reads it with every
// check of the specification: use that package to judge a manifest.
func ExamplePredicate() {
	raw, err := os.ReadFile("testdata/accept-minimal.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := intoto.Parse(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	var p releasemanifest.Predicate
	if err := json.Unmarshal(s.Predicate(), &p); err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range p.Artifacts {
		fmt.Println(a.Class, a.Name, releasemanifest.CheckName(a.Name))
	}
	// Output:
	// binary hello <nil>
	// config release.yaml <nil>
}
