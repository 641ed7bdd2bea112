package releasesignoff_test

import (
	"fmt"
	"os"
	"time"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// A sign-off is about one release.yaml, names the documents that were checked,
// and expires.
func ExampleParse() {
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
	signoff, err := releasesignoff.Parse(s)
	fmt.Println(signoff.Milestone, err)
	for _, d := range signoff.Documents {
		fmt.Println(d.Number, d.Title, d.Stage)
	}
	fmt.Println("ends", signoff.Ends().Format(time.DateOnly))
	// Output:
	// v1.37 <nil>
	// 7001 KEP-7001: Dim the lantern beta
	// ends 2026-05-11
}
