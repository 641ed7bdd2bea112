package render

import (
	"fmt"
	"io"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// oneLine prints the answer alone, in one line of any length. The line of a saved
// verdict says that nothing was verified, that of a lab says so.
func (p Printer) oneLine(w io.Writer, v verdict.Verdict) error {
	word, rest := headline(v)
	if p.Saved {
		word = "SAVED, NOT VERIFIED NOW: " + word
	}
	if v.Lab() != "" {
		rest += " (" + trust.LabMark + ")"
	}
	_, err := fmt.Fprintf(w, "%s%s\n", word, printable(rest))
	return err
}
