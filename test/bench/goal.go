package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Line is one line of the table of goals: what was measured, beside what the
// machine cannot do faster or beside a peer.
type Line struct {
	Goal  string  `json:"goal"` // P1 to P18
	Work  string  `json:"work"`
	Ours  string  `json:"ours"`
	Limit string  `json:"limit,omitempty"`
	Peer  string  `json:"peer,omitempty"`
	Value float64 `json:"value"` // what the goal is about
	Unit  string  `json:"unit"`
	Want  float64 `json:"want"`
	Least bool    `json:"least,omitempty"` // at least, not at most
	Part  string  `json:"part"`            // the part of the benchmark that says it
	Load  string  `json:"load,omitempty"`
}

// Part is which part of a sample is compared.
type Part string

// Wall is for work on several processors or over a network, CPU for all other.
const (
	Wall Part = "wall"
	CPU  Part = "CPU"
)

func (p Part) of(r Ratio) float64 {
	if p == CPU {
		return r.CPU
	}
	return r.Wall
}

// Says is the time of a row for one unit, in words.
func (p Part) Says(r Row) string {
	d := r.Median.Wall
	if p == CPU {
		d = r.Median.CPU
	}
	return show(time.Duration(float64(d)/r.units())) + " " + string(p)
}

// Limited compares a row with the least that the work takes on this machine.
func (p Part) Limited(goal, work string, most float64, ours, limit Row) Line {
	return Line{Goal: goal, Work: work, Ours: p.Says(ours), Limit: limit.Name + ": " + p.Says(limit), Value: p.of(ours.Over(limit)), Unit: "x", Want: most}
}

// Beats compares a row with a peer.
func (p Part) Beats(goal, work string, least float64, ours, peer Row) Line {
	return Line{Goal: goal, Work: work, Ours: p.Says(ours), Peer: peer.Name + ": " + p.Says(peer), Value: p.of(peer.Over(ours)), Unit: "x", Want: least, Least: true}
}

// Counted compares a number, such as requests or MiB, with the most that is wanted.
func Counted(goal, work, unit string, most, value float64) Line {
	return Line{Goal: goal, Work: work, Ours: number(value) + " " + unit, Value: value, Unit: unit, Want: most}
}

// MiB is the peak memory of a row.
func MiB(r Row) float64 { return float64(r.Median.Peak) / (1 << 20) }

// Met reports whether the goal is reached.
func (l Line) Met() bool {
	if l.Least {
		return l.Value >= l.Want
	}
	return l.Value <= l.Want
}

// number formats a value with three significant digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func (l Line) unit() string {
	if l.Unit == "x" {
		return "×"
	}
	return " " + l.Unit
}

func (l Line) value() string { return number(l.Value) + l.unit() }

func (l Line) want() string {
	if l.Least {
		return "≥ " + fmt.Sprint(l.Want) + l.unit()
	}
	return "≤ " + fmt.Sprint(l.Want) + l.unit()
}

// Summary is a run as it is recorded in the repository, to compare later runs with it.
type Summary struct {
	Time    time.Time `json:"time"`
	Machine Machine   `json:"machine"`
	Peers   []string  `json:"peers"`
	Lines   []Line    `json:"lines"`
	Curves  []Curve   `json:"curves"`
}

// ReadSummary reads a summary; one that is not there is empty.
func ReadSummary(path string) (s Summary, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Summary{}, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &s)
	}
	return s, err
}

// Save writes the summary as JSON.
func (s Summary) Save(path string) error {
	raw, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(raw, '\n'), 0o644)
}

// Kept is a summary with the parts of an earlier one that it did not measure.
func (s Summary) Kept(was Summary) Summary {
	measured := map[string]bool{}
	for _, l := range s.Lines {
		measured[l.Part] = true
	}
	for _, l := range was.Lines {
		if !measured[l.Part] {
			s.Lines = append(s.Lines, l)
		}
	}
	for _, c := range was.Curves {
		if !slices.ContainsFunc(s.Curves, func(own Curve) bool { return own.Title == c.Title }) {
			s.Curves = append(s.Curves, c)
		}
	}
	slices.SortFunc(s.Curves, func(a, b Curve) int { return strings.Compare(a.Title, b.Title) })
	slices.SortStableFunc(s.Lines, func(a, b Line) int { return order(a) - order(b) })
	return s
}

// order puts P2 before P10.
func order(l Line) (n int) {
	_, _ = fmt.Sscanf(l.Goal, "P%d", &n)
	return n
}

// Print writes the table of goals beside an earlier one: ratios and counts, for
// seconds of another hour or machine are not comparable.
func (s Summary) Print(w io.Writer, was Summary) error {
	fmt.Fprintf(w, "\ngoals, beside the recorded run of %s\n\n", was.Time.Format(time.DateOnly))
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "goal\twork\twanted\tthis run\trecorded\tratio\t")
	for _, l := range s.Lines {
		before, change, missed := "", "", ""
		if i := slices.IndexFunc(was.Lines, func(o Line) bool { return o.Goal == l.Goal && o.Work == l.Work }); i >= 0 && was.Lines[i].Value > 0 {
			before, change = was.Lines[i].value(), fmt.Sprintf("%.2f", l.Value/was.Lines[i].Value)
		}
		if !l.Met() {
			missed = "missed"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Goal, l.Work, l.want(), l.value(), before, change, missed)
	}
	return t.Flush()
}

// Table is the table of goals as Markdown.
func (s Summary) Table() string {
	var b strings.Builder
	b.WriteString("| goal | work | Waybill | limit | peer | value | wanted | part |\n|---|---|---|---|---|---|---|---|\n")
	for _, l := range s.Lines {
		value := l.value()
		if !l.Met() {
			value = "**" + value + "**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", l.Goal, l.Work, l.Ours, l.Limit, l.Peer, value, l.want(), l.Part)
	}
	return b.String()
}

// Where names the machine and the peers, as Markdown.
func (s Summary) Where() string {
	m := s.Machine
	loads := []string{}
	for _, l := range s.Lines {
		if l.Load != "" {
			loads = append(loads, l.Load)
		}
	}
	slices.SortFunc(loads, func(a, b string) int {
		var x, y float64
		_, _ = fmt.Sscan(a, &x)
		_, _ = fmt.Sscan(b, &y)
		return int(100 * (x - y))
	})
	openssl, _, _ := strings.Cut(m.OpenSSL, " (")
	said := fmt.Sprintf("%s: %s, %d cores (%s), %s, %s", s.Time.Format(time.DateOnly), m.CPU, m.Cores, strings.Join(m.Flags, " "), m.Go, openssl)
	for _, p := range s.Peers {
		said += "; " + p
	}
	if len(loads) > 0 {
		said += fmt.Sprintf(". The load average when a part began was %s to %s", loads[0], loads[len(loads)-1])
	}
	return said + ".\n"
}

// The table and what it was measured on stand in the page between these lines.
const begins, ends = "<!-- written by make bench -->\n", "<!-- until here -->\n"

// Page is a page with this summary instead of the one that it holds.
func (s Summary) Page(text string) (string, error) {
	before, rest, found := strings.Cut(text, begins)
	_, after, closed := strings.Cut(rest, ends)
	if !found || !closed {
		return "", fmt.Errorf("the page has no lines %q and %q", begins, ends)
	}
	return before + begins + s.Where() + "\n" + s.Table() + ends + after, nil
}
