package featuretransition_test

import (
	"fmt"
	"os"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// A transition says from which state to which a requirement went, and why.
func ExampleParse() {
	raw, err := os.ReadFile("testdata/accept-begun.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := intoto.Parse(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	t, err := featuretransition.Parse(s)
	fmt.Println(t.Subject(), t.From, "to", t.To, err)
	t.To = featuretransition.On
	fmt.Println("may turn on without preparation:", t.Validate() == nil)
	// Output:
	// waybill/RequireProvenance Off to TurningOn <nil>
	// may turn on without preparation: false
}
