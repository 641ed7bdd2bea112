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

// Record is one whole run, for people and for comparison with later ones.
type Record struct {
	Time    time.Time `json:"time"`
	Machine Machine   `json:"machine"`
	Tree    Tree      `json:"tree"`
	Rounds  int       `json:"rounds"`
	Rows    []Row     `json:"rows"`
	Ratios  []Ratio   `json:"ratios"`
	Start   Row       `json:"start"`
	Binary  int64     `json:"binary"` // size of the stripped verifier
	Notes   []string  `json:"notes"`
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
	fmt.Fprintf(w, "%d files, %.2f GB, %d of them signed one by one; warm cache; medians of %d rounds, taken in turn\n\n",
		r.Tree.Files, float64(r.Tree.Bytes)/1e9, r.Tree.Artifacts, r.Rounds)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "wall\tCPU\tGB/s wall\tpeak\t  \t")
	for _, row := range r.Rows {
		s := row.Median
		fmt.Fprintf(t, "%.3f s\t%.3f s\t%.2f\t%.0f MiB\t  %s\n",
			s.Wall.Seconds(), s.CPU.Seconds(), float64(r.Tree.Bytes)/1e9/s.Wall.Seconds(), float64(s.Peak)/(1<<20), row.Name)
	}
	fmt.Fprintln(t, "\t\t\t\t")
	fmt.Fprintln(t, "wall\tCPU\tgoal\t\t  ")
	for _, ratio := range r.Ratios {
		fmt.Fprintf(t, "%.2fx\t%.2fx\t%s\t\t  %s\n", ratio.Wall, ratio.CPU, ratio.Goal, ratio.Name)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nstart of the verifier (--version, median of %d): %.1f ms wall, %.1f ms CPU; %.1f MB stripped\n",
		len(r.Start.Samples), ms(r.Start.Median.Wall), ms(r.Start.Median.CPU), float64(r.Binary)/1e6)
	for _, n := range r.Notes {
		fmt.Fprintln(w, "note: "+n)
	}
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
