package main

import (
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/bench"
)

// TestWithout: what is left out is left out of each round.
func TestWithout(t *testing.T) {
	row := func(name string, seconds ...int) bench.Row {
		r := bench.Row{Command: bench.Command{Name: name}}
		for _, s := range seconds {
			r.Samples = append(r.Samples, bench.Sample{Wall: time.Duration(s) * time.Second, CPU: time.Duration(2*s) * time.Second})
		}
		return r
	}
	base, all, part := row("base", 2, 20, 4), row("all", 5, 50, 10), row("part", 1, 10, 2)
	if r := without(all, part).Over(base); r.Wall != 2 || r.CPU != 2 || r.Name != "(all - part) / base" {
		t.Errorf("%+v", r)
	}
	if r := without(all, part, part, base); r.Median.Wall != 2*time.Second || len(r.Samples) != 3 || all.Samples[0].Wall != 5*time.Second {
		t.Errorf("%+v of %+v", r, all)
	}
}
