package render

import (
	"fmt"
	"io"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// oneLine prints the answer alone, in one line of any length. The line of a saved
// verdict says that nothing was verified.
func (p Printer) oneLine(w io.Writer, v verdict.Verdict) error {
	word, rest := headline(v)
	if p.Saved {
		word = "SAVED, NOT VERIFIED NOW: " + word
	}
	_, err := fmt.Fprintf(w, "%s%s\n", word, printable(rest))
	return err
}
