package render_test

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// brief prints a line for each finding. What others wrote is quoted.
func brief(w io.Writer, v verdict.Verdict) error {
	for _, f := range v.Findings {
		if _, err := fmt.Fprintf(w, "%s %q: %q\n", f.Code, f.Subject, f.Message); err != nil {
			return err
		}
	}
	return nil
}

// A format is a function of a verdict; docs/architecture.md shows the one above.
func Example_howToAddFormat() {
	v := verdict.New("release hello v1.2.3", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	v.Add(verdict.Find(verdict.Missing, "bin/hello", "the place does not have it"))
	if err := brief(os.Stdout, *v); err != nil {
		fmt.Println(err)
	}
	// Output: MISSING "bin/hello": "the place does not have it"
}
