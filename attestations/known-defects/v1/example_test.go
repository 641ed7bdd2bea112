package knowndefects_test

import (
	"fmt"
	"os"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// People write a list as YAML; the officer signs the statement that is made of it.
func ExampleParseFile() {
	raw, err := os.ReadFile("testdata/list.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := knowndefects.ParseFile(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := version.Parse("v0.1.0")
	fmt.Println(list.Defects[0].ID, "is about v0.1.0:", list.Defects[0].Versions.Contains(v), err)

	s, err := knowndefects.New("list.yaml", digest.SetOf(raw), list)
	if err != nil {
		fmt.Println(err)
		return
	}
	signed, err := knowndefects.Parse(s)
	fmt.Println(signed.Name, "number", signed.Sequence, err)
	// Output:
	// late-signatures is about v0.1.0: true <nil>
	// lantern-known-defects number 7 <nil>
}
