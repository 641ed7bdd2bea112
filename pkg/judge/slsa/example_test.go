package slsa_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/judge/slsa"
)

// An archive that a good builder packed has no higher level than the binary in
// it.
func ExampleMinimum() {
	limit, err := slsa.Minimum("lantern.tar.gz", []slsa.Step{
		{ID: "lantern.tar.gz", Level: 3, Inputs: []string{"bin/lantern"}},
		{ID: "bin/lantern", Level: 1},
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(limit)
	// Output: level 1, limited by "lantern.tar.gz" made of "bin/lantern"
}
