package run

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// chain is a plan of four steps: b and c take what a makes, d takes both.
func chain() plan.Plan {
	return plan.Plan{Steps: []plan.Step{
		{Instance: "a", Outputs: []string{"a.out"}},
		{Instance: "b", Outputs: []string{"b.out"}, Take: []string{"a.out"}},
		{Instance: "c", Outputs: []string{"c.out"}, Take: []string{"a.out"}},
		{Instance: "d", Outputs: []string{"d.out"}, Checksums: &plan.ChecksumStep{Take: []string{"b.out", "c.out"}}},
	}}
}

// TestStepsRunBesideEachOther: b and c run at the same time, a before them and
// d after: each of the two waits for the other to have begun.
func TestStepsRunBesideEachOther(t *testing.T) {
	r := &run{Request: Request{Plan: chain(), Machine: Machine{Jobs: 2}}}
	var both sync.WaitGroup
	both.Add(2)
	var mu sync.Mutex
	var ended []string
	err := r.all(t.Context(), func(_ context.Context, _ int, s plan.Step) error {
		if s.Instance == "b" || s.Instance == "c" {
			both.Done()
			both.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		ended = append(ended, s.Instance)
		return nil
	})
	if err != nil || len(ended) != 4 || ended[0] != "a" || ended[3] != "d" {
		t.Errorf("ended %v, %v", ended, err)
	}
}

// TestStepsWithinTheMachine: never more at a time than the machine is to bear,
// and a step that was promised all of it runs alone.
func TestStepsWithinTheMachine(t *testing.T) {
	for _, row := range []struct {
		jobs int
		cpus int64
		most int
	}{{0, 0, 1}, {1, 8, 1}, {2, 0, 2}, {4, 2, 2}, {4, 4, 1}, {2, 64, 1}} {
		p := plan.Plan{}
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			p.Steps = append(p.Steps, plan.Step{Instance: name, Limits: &plan.Limits{CPUs: row.cpus}})
		}
		r := &run{Request: Request{Plan: p, Machine: Machine{Jobs: row.jobs}}}
		var mu sync.Mutex
		running, most, turns := 0, 0, []int{}
		full := make(chan struct{})
		err := r.all(t.Context(), func(_ context.Context, number int, _ plan.Step) error {
			mu.Lock()
			running++
			most = max(most, running)
			turns = append(turns, number)
			if running == row.most {
				select {
				case <-full:
				default:
					close(full)
				}
			}
			mu.Unlock()
			<-full // as many as may have begun: were there more, they would be seen
			mu.Lock()
			defer mu.Unlock()
			running--
			return nil
		})
		slices.Sort(turns)
		if err != nil || most != row.most || !slices.Equal(turns, []int{1, 2, 3, 4, 5, 6}) {
			t.Errorf("%d jobs of %d processors: %d at a time, want %d; turns %v, %v", row.jobs, row.cpus, most, row.most, turns, err)
		}
	}
}

// TestTheFirstFailureEndsAll: what waits for a step that failed never runs, and
// what runs beside it is told to stop.
func TestTheFirstFailureEndsAll(t *testing.T) {
	r := &run{Request: Request{Plan: chain(), Machine: Machine{Jobs: 2}}}
	broken := errors.New("b is broken")
	err := r.all(t.Context(), func(ctx context.Context, _ int, s plan.Step) error {
		switch s.Instance {
		case "b":
			return broken
		case "c":
			<-ctx.Done()
			return context.Cause(ctx)
		case "d":
			t.Error("d ran without b")
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v, want %v", err, broken)
	}
}
