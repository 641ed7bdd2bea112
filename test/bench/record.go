package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"
)

// Tree says what was verified.
type Tree struct {
	Files     int   `json:"files"` // with all evidence
	Bytes     int64 `json:"bytes"`
	Artifacts int   `json:"artifacts"` // signed one by one
}

// Section is one question: the ways to do one work, and how they compare.
type Section struct {
	Name string `json:"name"`
	// Bytes are those that every row reads, where speed is bytes over time.
	Bytes int64 `json:"bytes,omitempty"`
	// Unit names what rows count, where they do.
	Unit   string   `json:"unit,omitempty"`
	Rows   []Row    `json:"rows"`
	Ratios []Ratio  `json:"ratios"`
	Notes  []string `json:"notes"`
}

// Record is one whole run, for people and for comparison with later ones.
type Record struct {
	Time     time.Time `json:"time"`
	Machine  Machine   `json:"machine"`
	Tree     Tree      `json:"tree,omitzero"`
	Rounds   int       `json:"rounds"`
	Sections []Section `json:"sections"`
	Binary   int64     `json:"binary"` // size of the stripped verifier
}

// Save writes the record as JSON; durations are nanoseconds.
func (r Record) Save(path string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// Print writes the record as tables.
func (r Record) Print(w io.Writer) error {
	m := r.Machine
	fmt.Fprintf(w, "\n%s, %d cores, %s, %s %v, load %s\n", m.CPU, m.Cores, m.Go, m.OpenSSL, m.Flags, m.Load)
	fmt.Fprintf(w, "warm cache; medians of %d rounds, the rows of a table taken in turn\n", r.Rounds)
	for _, s := range r.Sections {
		if err := s.print(w); err != nil {
			return err
		}
	}
	return nil
}

func (s Section) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s\n\n", s.Name)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	speed := "per " + s.Unit + "\t" + s.Unit + "s/s"
	switch {
	case s.Bytes > 0:
		speed = "GB/s wall"
	case s.Unit == "":
		speed = ""
	}
	fmt.Fprintf(t, "wall\tCPU\tpeak\t%s\t  \t\n", speed)
	for _, row := range s.Rows {
		fmt.Fprintf(t, "%s\t%s\t%.0f MiB\t%s\t  %s\n", show(row.Median.Wall), show(row.Median.CPU), float64(row.Median.Peak)/(1<<20), s.speed(row), row.Name)
	}
	if len(s.Ratios) > 0 {
		fmt.Fprintln(t, "\t\t\t\t")
		fmt.Fprintln(t, "wall\tCPU\tgoal\t\t  ")
	}
	for _, ratio := range s.Ratios {
		fmt.Fprintf(t, "%s\t%s\t%s\t\t  %s\n", times(ratio.Wall), times(ratio.CPU), ratio.Goal, ratio.Name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, n := range s.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
	return nil
}

// speed is what a row does in a second, in the section's own measure.
func (s Section) speed(r Row) string {
	switch {
	case s.Bytes > 0:
		return fmt.Sprintf("%.2f", float64(s.Bytes)/1e9/r.Median.Wall.Seconds())
	case s.Unit == "":
		return ""
	}
	return fmt.Sprintf("%.0f us CPU\t%.0f", float64(r.Median.CPU)/float64(time.Microsecond)/r.units(), r.units()/r.Median.Wall.Seconds())
}

// times is a ratio: small ones as parts of a hundred.
func times(ratio float64) string {
	if ratio < 0.1 {
		return fmt.Sprintf("%.2f%%", 100*ratio)
	}
	return fmt.Sprintf("%.2fx", ratio)
}

// show is a time with the digits that mean something.
func show(d time.Duration) string {
	if d < 100*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.3f s", d.Seconds())
}
