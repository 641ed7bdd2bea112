package trust_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/judge/trust"
)

// A root is immutable, and has a digest by which every verdict names it.
func ExampleParse() {
	raw := trust.Embedded().Raw() // or a trusted_root.json of yours
	root, err := trust.Parse(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("same bytes, same digest:", root.Digest() == trust.Embedded().Digest())
	fmt.Println("of a lab:", root.IsLab())
	_, err = trust.Parse([]byte(`{}`))
	fmt.Println("an empty root is refused:", err != nil)
	// Output:
	// same bytes, same digest: true
	// of a lab: false
	// an empty root is refused: true
}
