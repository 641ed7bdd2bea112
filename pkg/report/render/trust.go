package render

import (
	"bytes"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TrustSchema names the JSON form of a [TrustRoot].
const TrustSchema = "waybill/trust-root/v1"

// TrustRoot is a trust root with its origin, for people.
type TrustRoot struct {
	Root     trust.Root
	Source   string    // a file, a repository, or a name for the embedded copy
	Date     time.Time // when it was current; zero if unknown
	Expires  time.Time // expiry of its metadata; zero if it has none
	Metadata string    // versions of its metadata; empty if it has none
	Now      time.Time // the time of judgement
}

// Write prints the root and every authority in it.
func (r TrustRoot) Write(w io.Writer, f Format) error {
	switch f {
	case JSON:
		return r.writeJSON(w)
	case Table:
		return r.writeTable(w)
	}
	return verdict.Refuse(verdict.Usage, "--output", "format %q: want table or json", string(f))
}

// Headline prints the name of the root and its age.
func (r TrustRoot) Headline(w io.Writer) error {
	var p bytes.Buffer
	fmt.Fprintf(&p, "trust root  %s\nsource      %s\n", r.Root.Digest(), Safe(r.Source))
	if !r.Date.IsZero() {
		fmt.Fprintf(&p, "current on  %s, %s ago\n", r.Date.UTC().Format(time.DateOnly), days(r.Now.Sub(r.Date)))
	}
	if r.Metadata != "" {
		fmt.Fprintf(&p, "metadata    %s; valid until %s\n", r.Metadata, r.Expires.UTC().Format(time.RFC3339))
	}
	if r.Root.IsLab() {
		fmt.Fprintf(&p, "%s  these keys are public: never trust this root outside a test\n", trust.LabMark)
	}
	_, err := p.WriteTo(w)
	return err
}

func (r TrustRoot) writeTable(w io.Writer) error {
	if err := r.Headline(w); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprint(t, "\nAUTHORITY\tBELIEVED\tNOW\tKEY\tWHO\n")
	for _, a := range r.Root.Authorities() {
		fmt.Fprintf(t, "%s\t%s\t%s\t%.16s\t%s\n", a.Kind, window(a), state(a, r.Now), a.KeyID, Safe(who(a)))
	}
	return t.Flush()
}

func who(a trust.Authority) string {
	if a.Subject == "" || a.URI == "" {
		return a.URI + a.Subject
	}
	return a.Subject + " " + a.URI
}

func window(a trust.Authority) string {
	from, to := "…", "…"
	if !a.From.IsZero() {
		from = a.From.Format(time.DateOnly)
	}
	if !a.To.IsZero() {
		to = a.To.Format(time.DateOnly)
	}
	return from + " – " + to
}

func state(a trust.Authority, now time.Time) string {
	switch {
	case a.ValidAt(now):
		return "yes"
	case now.Before(a.From):
		return "not yet"
	}
	return "no more"
}

func days(d time.Duration) string {
	switch n := int(d / (24 * time.Hour)); {
	case n == 1:
		return "1 day"
	case n > 1:
		return fmt.Sprintf("%d days", n)
	}
	return "less than a day"
}

func (r TrustRoot) writeJSON(w io.Writer) error {
	return WriteJSON(w, struct {
		Schema      string            `json:"schema"`
		Digest      string            `json:"digest"`
		Source      string            `json:"source"`
		Date        time.Time         `json:"date,omitzero"`
		Expires     time.Time         `json:"expires,omitzero"`
		Metadata    string            `json:"metadata,omitempty"`
		InsecureLab bool              `json:"insecureLab"`
		Authorities []trust.Authority `json:"authorities"`
	}{
		TrustSchema, r.Root.Digest().String(), r.Source, r.Date.UTC(), r.Expires.UTC(), r.Metadata,
		r.Root.IsLab(), r.Root.Authorities(),
	})
}
