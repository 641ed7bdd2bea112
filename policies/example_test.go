package policies_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/policies"
)

// A template is copied and edited; a program can also parse it as it is.
func ExampleRead() {
	raw, err := policies.Read("slsa-build-l3")
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := policy.Parse(raw, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Name())
	_, err = policies.Read("slsa-build-l9")
	fmt.Println(err)
	// Output:
	// slsa-build-l3
	// reading shipped policy "slsa-build-l9": open slsa-build-l9.yaml: file does not exist
}
