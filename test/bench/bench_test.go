package bench_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// TestMain lets the test binary be the command that is measured.
func TestMain(m *testing.M) {
	switch os.Getenv("BENCH_TEST_AS") {
	case "":
		os.Exit(m.Run())
	case "fails":
		os.Exit(7)
	}
	appendTo(os.Args[1], os.Args[2])
}

func appendTo(path, what string) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer f.Close()
	if _, err := f.WriteString(what); err != nil {
		panic(err)
	}
}

func TestAlternate(t *testing.T) {
	t.Setenv("BENCH_TEST_AS", "works")
	log := filepath.Join(t.TempDir(), "log")
	command := func(name string) bench.Command {
		return bench.Command{Name: name, Args: []string{os.Args[0], log, name}}
	}
	rows, err := bench.Alternate(t.Context(), []bench.Command{command("A"), command("B")}, 3, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if order, err := os.ReadFile(log); err != nil || string(order) != "ABABABAB" {
		t.Errorf("ran %q, %v, want a warm-up and three rounds in turn", order, err)
	}
	for _, r := range rows {
		if len(r.Samples) != 3 || r.Median.Wall <= 0 || r.Median.Peak <= 0 {
			t.Errorf("%s: %+v", r.Name, r)
		}
	}
}

func TestAlternateRunsFunctions(t *testing.T) {
	order := ""
	command := func(name string, wall time.Duration) bench.Command {
		return bench.Command{Name: name, Run: func(context.Context) (bench.Sample, error) {
			order += name
			return bench.Sample{Wall: wall, CPU: wall}, nil
		}}
	}
	rows, err := bench.Alternate(t.Context(), []bench.Command{command("A", 3*time.Second), command("B", time.Second)}, 2, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if ratio := rows[0].Over(rows[1]); order != "ABABAB" || ratio.Wall != 3 {
		t.Errorf("ran %q, with %+v", order, ratio)
	}
}

func TestAlternateStopsAtFailure(t *testing.T) {
	t.Setenv("BENCH_TEST_AS", "fails")
	_, err := bench.Alternate(context.Background(), []bench.Command{{Name: "A", Args: []string{os.Args[0]}}}, 1, func(string) {})
	if err == nil || !strings.Contains(err.Error(), "running A") {
		t.Errorf("got %v", err)
	}
}

func row(name string, seconds ...int) bench.Row {
	r := bench.Row{Command: bench.Command{Name: name}}
	for _, s := range seconds {
		d := time.Duration(s) * time.Second
		r.Samples = append(r.Samples, bench.Sample{Wall: d, CPU: 2 * d})
	}
	return r
}

// A disturbance of one round hits both sides of it, and leaves the ratio.
func TestRatiosArePairwise(t *testing.T) {
	a, b, c := row("a", 2, 20, 3), row("b", 1, 10, 3), row("c", 1, 10, 3)
	if r := a.Over(b); r.Wall != 2 || r.CPU != 2 || r.Name != "a / b" {
		t.Errorf("a / b is %+v", r)
	}
	if r := a.OverSum(b, c); r.Wall != 1 || r.Name != "a / b + c" {
		t.Errorf("a / (b + c) is %+v", r)
	}
}

func TestMedian(t *testing.T) {
	list := []time.Duration{9, 1, 4, 2}
	if m := bench.Median(list); m != 3 || list[0] != 9 {
		t.Errorf("median %d, list now %v", m, list)
	}
	if m := bench.Median([]float64{9, 1, 4}); m != 4 {
		t.Errorf("median %v", m)
	}
}

func TestHashTree(t *testing.T) {
	dir := t.TempDir()
	for name, size := range map[string]int{"a": 0, "b": 300_000, "d/c": 7} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, both := range []bool{false, true} {
		if n, err := bench.HashTree(dir, both); err != nil || n != 300_007 {
			t.Errorf("hashed %d bytes, %v", n, err)
		}
	}
	if _, err := bench.HashTree(filepath.Join(dir, "absent"), false); err == nil {
		t.Error("hashed what is not there")
	}
}

func TestRecord(t *testing.T) {
	a, b, many := row("one way", 2, 2), row("another", 1, 1), row("many", 1, 1)
	many.Units, many.Median = 10, many.Samples[0]
	r := bench.Record{Machine: bench.ThisMachine(), Sections: []bench.Section{
		{Name: "bytes", Bytes: 4e9, Rows: []bench.Row{a, b}, Ratios: []bench.Ratio{a.Over(b)}, Notes: []string{"a word"}},
		{Name: "things", Unit: "thing", Rows: []bench.Row{many}, Ratios: []bench.Ratio{many.Over(b)}},
		{Name: "nothing to count", Rows: []bench.Row{a}},
	}}
	var page bytes.Buffer
	if err := r.Print(&page); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"one way / another", "2.00x", "a word", "200000 us CPU", "things/s", "0.10x"} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	path := filepath.Join(t.TempDir(), "record.json")
	if err := r.Save(path); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var back bench.Record
	if err := json.Unmarshal(raw, &back); err != nil || back.Machine.Cores < 1 || back.Machine.Go == "" || len(back.Sections) != 3 {
		t.Errorf("%v: %s", err, raw)
	}
}

func TestGoals(t *testing.T) {
	slow, limit, peer := row("slow", 4, 4, 4), row("limit", 2, 2, 2), row("peer", 40, 40, 40)
	for _, r := range []*bench.Row{&slow, &limit, &peer} {
		r.Median = r.Samples[0]
	}
	was := bench.Summary{Lines: []bench.Line{bench.Wall.Limited("P10", "work", 4, slow, limit)}}
	was.Lines[0].Part = "other"
	now := bench.Summary{Lines: []bench.Line{
		bench.CPU.Limited("P10", "work", 1.5, peer, limit), bench.Wall.Beats("P2", "work", 10, slow, peer), bench.Wall.Beats("P2", "more", 11, slow, peer),
		bench.Counted("P3", "asking", "requests", 3, 3),
	}}
	for i, want := range []bool{false, true, false, true} {
		if now.Lines[i].Met() != want {
			t.Errorf("%+v: met %t", now.Lines[i], !want)
		}
	}
	var said bytes.Buffer
	if err := now.Print(&said, was); err != nil || !strings.Contains(said.String(), "10.00") || strings.Count(said.String(), "missed") != 2 {
		t.Errorf("%v:\n%s", err, said.String())
	}
	text, err := now.Kept(was).Page("before\n<!-- written by make bench -->\nold\n<!-- until here -->\nafter\n")
	if err != nil || strings.Contains(text, "old") || !strings.HasSuffix(text, "after\n") || strings.Index(text, "| P2 |") > strings.Index(text, "| P10 |") || !strings.Contains(text, "**20.0×**") {
		t.Errorf("%v:\n%s", err, text)
	}
	if strings.Count(text, "| P10 |") != 2 {
		t.Errorf("a part that was not measured again is gone:\n%s", text)
	}
	if _, err := now.Page("a page without the lines"); err == nil {
		t.Error("wrote into a page that has no place for it")
	}
}

func TestDraw(t *testing.T) {
	drawn := bench.Draw([]bench.Curve{{Title: "a < b", X: "x", Y: "y", Ways: []bench.OneWay{{Name: "one", Points: [][2]float64{{1, 0.1}, {100, 1000}}}}}})
	for _, want := range []string{`points="0.0,220.0 300.0,0.0"`, "a &lt; b", ">100<", ">1000<", ">0.1<"} {
		if !strings.Contains(drawn, want) {
			t.Errorf("the picture lacks %q:\n%s", want, drawn)
		}
	}
}
