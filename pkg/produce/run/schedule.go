package run

import (
	"bytes"
	"context"
	"io"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// all runs every step, as many at a time as the machine allows, and each
// after the steps whose outputs it uses. The plan lists those earlier, so
// there are no deadlocks. The first failure cancels the rest.
func (r *run) all(ctx context.Context, turn func(context.Context, int, plan.Step) error) error {
	jobs := int64(max(r.Machine.Jobs, 1))
	slots := semaphore.NewWeighted(jobs)
	done := map[string]chan struct{}{} // by output, closed when it exists
	group, ctx := errgroup.WithContext(ctx)
	for i, step := range r.Plan.Steps {
		finished := make(chan struct{})
		var inputs []chan struct{}
		for _, name := range step.Inputs() {
			if c, ok := done[name]; ok {
				inputs = append(inputs, c)
			}
		}
		for _, name := range step.Outputs {
			done[name] = finished
		}
		group.Go(func() error {
			for _, c := range inputs {
				select {
				case <-c:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			weight := min(processors(step), jobs)
			if err := slots.Acquire(ctx, weight); err != nil {
				return context.Cause(ctx)
			}
			defer slots.Release(weight)
			if err := turn(ctx, i+1, step); err != nil {
				return err
			}
			close(finished)
			return nil
		})
	}
	return group.Wait()
}

// processors is how many processors a step was promised.
func processors(step plan.Step) int64 {
	if step.Limits == nil {
		return 1
	}
	return max(step.Limits.CPUs, 1)
}

// Progress shows the running steps. Several goroutines call it.
type Progress interface {
	// Began is called when a step starts.
	Began(step string)
	// Said is called with the newest line of a step's log, with control
	// characters escaped.
	Said(step, line string)
	// Ended is called when a step has ended, successfully or not.
	Ended(step string)
}

// silent is used if no Progress was given.
type silent struct{}

func (silent) Began(string)        {}
func (silent) Said(string, string) {}
func (silent) Ended(string)        {}

// listener reports the newest complete line that is written to a log.
type listener struct {
	log  io.Writer
	step string
	to   Progress
	rest []byte // the beginning of a line; short, because the log limits its lines
}

// Write implements [io.Writer].
func (l *listener) Write(p []byte) (int, error) {
	n, err := l.log.Write(p)
	l.rest = append(l.rest, p[:n]...)
	if end := bytes.LastIndexByte(l.rest, '\n'); end >= 0 {
		begin := bytes.LastIndexByte(l.rest[:end], '\n') + 1
		l.to.Said(l.step, string(l.rest[begin:end]))
		l.rest = append(l.rest[:0], l.rest[end+1:]...)
	}
	return n, err
}
