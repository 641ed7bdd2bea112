package signedpolicy_test

import (
	"fmt"

	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// The statement names exact bytes: any other file is not the policy.
func Example() {
	file := []byte("apiVersion: waybill/v1\nkind: Policy\n")
	s, err := signedpolicy.New("policy.yaml", digest.SetOf(file), signedpolicy.Predicate{Name: "hello", Sequence: 3})
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := signedpolicy.Parse(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(p.Name, p.Sequence, p.Names(file))
	fmt.Println("other bytes are refused:", p.Names([]byte("kind: Policy\n")) != nil)
	// Output:
	// hello 3 <nil>
	// other bytes are refused: true
}
