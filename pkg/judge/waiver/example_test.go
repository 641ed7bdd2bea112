package waiver_test

import (
	"fmt"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// An unsigned list explains a finding, and sets nothing aside.
func ExampleApply() {
	raw, err := os.ReadFile("../../../attestations/known-defects/v1/testdata/list.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	list, err := waiver.UnsignedList(raw)
	if err != nil {
		fmt.Println(err)
		return
	}
	of, err := version.Parse("v0.1.0")
	if err != nil {
		fmt.Println(err)
		return
	}
	const name = "bin/linux/amd64/lantern"
	v := verdict.New("release lantern v0.1.0", time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC))
	v.Add(verdict.Find(verdict.Unsigned, name, "unsigned"))
	waiver.Apply(v, waiver.Case{Version: of, Lists: []waiver.List{list}, Subjects: []waiver.Subject{{Name: name, Digests: digest.SetOf([]byte("lantern"))}}})
	fmt.Println(v.Outcome(), v.Findings[0].Code, v.Findings[0].Known.ID)
	// Output: refused UNSIGNED late-signatures
}
