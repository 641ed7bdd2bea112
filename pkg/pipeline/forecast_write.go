package pipeline

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
)

// Write prints a forecast for people.
func (f Forecast) Write(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "%s %s", render.Safe(f.Name), f.Version)
	if f.Commit != "" {
		fmt.Fprintf(t, " of commit %.12s", f.Commit)
	}
	fmt.Fprintf(t, ": what would be signed\n")
	for _, s := range f.Signatures {
		s.write(t)
	}
	fmt.Fprintf(t, "\nwith\n")
	if f.Services.Authority != "" {
		fmt.Fprintf(t, "  certificate authority\t%s\n", render.Safe(f.Services.Authority))
	}
	for _, address := range f.Services.Stamps {
		fmt.Fprintf(t, "  timestamp authority\t%s\n", render.Safe(address))
	}
	for _, address := range f.Services.Logs {
		fmt.Fprintf(t, "  transparency log\t%s\n", render.Safe(address))
	}
	if f.Services.Legacy != "" {
		fmt.Fprintf(t, "  log of the legacy forms\t%s\n", render.Safe(f.Services.Legacy))
	}
	if len(f.Against) > 0 {
		fmt.Fprintf(t, "\nproblems\n")
	}
	for _, g := range f.Against {
		fmt.Fprintf(t, "  %s  %s: %s\n    → %s\n", g.Code, render.Safe(g.Subject), render.Safe(g.Message), render.Safe(g.Fix))
	}
	asked := f.Asked
	if f.State != "" {
		asked = append([]string{"the state directory " + f.State}, asked...)
	}
	fmt.Fprintf(t, "\nconsulted: %s; no signing service was contacted\n", render.Safe(strings.Join(asked, ", ")))
	return t.Flush()
}

// write prints what one act would sign.
func (s Signatures) write(w io.Writer) {
	fmt.Fprintf(w, "\n%s, in the role %s\n", s.Act, s.Role)
	switch {
	case s.From == "":
		fmt.Fprintf(w, "  as\tunknown: no token was given; use --identity-token %s=FILE\n", s.Token)
	case s.As == "":
		fmt.Fprintf(w, "  as\tknown once there is a certificate: %s was not read, or does not name an identity\n", render.Safe(s.From))
	default:
		fmt.Fprintf(w, "  as\t%s, permitted by the policy\n", render.Safe(s.As))
	}
	fmt.Fprintf(w, "  may sign\t%s\n", render.Safe(strings.Join(s.Expected, " or ")))
	for _, h := range s.What {
		fmt.Fprintf(w, "  %s\t%d to sign%s\n", h.Kind, h.Due, already(h.Signed))
	}
	fmt.Fprintf(w, "  takes\t%s, %s, %s%s\n", plural.Of(s.Certificates, "certificate"),
		plural.Of(s.Timestamps, "timestamp"), plural.Of(s.Entries, "log entry"), s.resumed())
}

// resumed says what is reused from an earlier run.
func (s Signatures) resumed() (text string) {
	if s.Unfinished > 0 {
		text += fmt.Sprintf("; %d begun by an earlier run will be finished", s.Unfinished)
	}
	if s.Kept > 0 {
		text += fmt.Sprintf("; %d made by an earlier run will be reused", s.Kept)
	}
	return text
}

func already(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d signed already", n)
}
