package version_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/version"
)

func ExampleParse() {
	candidate, err := version.Parse("v1.31.0-rc.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	release, err := version.Parse("v1.31.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(candidate, candidate.Channel(), candidate.Less(release))
	_, err = version.Parse("1.31")
	fmt.Println(err != nil)
	// Output:
	// v1.31.0-rc.1 rc true
	// true
}
