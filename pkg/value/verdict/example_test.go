package verdict_test

import (
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// A verdict starts undecided; findings refuse, and each says what to do next.
func ExampleVerdict() {
	v := verdict.New("file hello", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	v.Counts.Required = 1
	fmt.Println(v.Outcome())
	v.Add(verdict.Find(verdict.Tampered, "hello", "the bytes are not those that were signed").Differ("sha256:2cf2…", "sha256:9b71…"))
	fmt.Println(v.Outcome(), verdict.ExitCode(v.Outcome()))
	for _, f := range v.Findings {
		fmt.Printf("%s %s: want %s, got %s\n", f.Code, f.Subject, f.Want, f.Got)
	}
	// Output:
	// undecided
	// refused 1
	// TAMPERED hello: want sha256:2cf2…, got sha256:9b71…
}
