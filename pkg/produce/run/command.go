package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// stand is where a command runs: its own directories, what it is shown of the
// fetched and of earlier outputs, and the programs that it may use.
type stand struct {
	scratch string
	source  string   // the tree of all steps; empty where a step has its own
	root    string   // the file system of a tool image; empty for the machine's
	env     []string // what a tool image sets, before what we do
	path    string
	mounts  []sandbox.Mount
	inputs  []provenance.Resource
	modules string // the address of the fetched modules; empty without any
	bare    bool   // no program of the machine is there
	pinned  bool   // every tool is
}

// command runs a step's command on the source. It writes to ../out, which
// {out} stands for in release.yaml, and finds what it takes in ../in, {in}.
func (r *run) command(ctx context.Context, step plan.Step, scratch string) (outputs, error) {
	step = step.At(r.Source.Commit.Commit, r.Source.Commit.Epoch())
	if err := sandbox.Prepare(scratch); err != nil {
		return outputs{}, err
	}
	at, err := r.stand(ctx, step, scratch)
	if err != nil {
		return outputs{}, err
	}
	report, log, err := r.execute(ctx, step, at)
	if err != nil {
		return outputs{}, err
	}
	list, err := r.collect(ctx, step, filepath.Join(scratch, "out"))
	if err != nil {
		return outputs{}, err
	}
	tools, err := r.fetched.toolsOf(step)
	if err != nil {
		return outputs{}, err
	}
	return outputs{list: list, inputs: append(tools, at.inputs...), log: log, inside: r.inside(step, at, report)}, nil
}

// stand prepares the place of a command.
func (r *run) stand(ctx context.Context, step plan.Step, scratch string) (stand, error) {
	at := stand{scratch: scratch}
	if r.Machine.Mode == sandbox.Unisolated {
		if err := checkout.Checkout(ctx, r.Machine.Mode, r.repo, r.Source.Commit, filepath.Join(scratch, "src")); err != nil {
			return stand{}, err
		}
	} else {
		var err error
		if at.source, err = r.tree(ctx); err != nil {
			return stand{}, err
		}
	}
	if err := r.equip(step, &at); err != nil {
		return stand{}, err
	}
	r.supply(&at)
	return at, r.hand(ctx, step, &at)
}

// environment is everything that a step sees of its surroundings. What the
// release's author set comes last and wins.
func (r *run) environment(step plan.Step, at stand) []string {
	seen := sandbox.Seen(r.Machine.Mode, at.scratch)
	env := append(slices.Clone(at.env),
		"PATH="+at.path,
		"HOME="+seen.Home,
		"TMPDIR="+seen.Temp,
		"LANG=C.UTF-8",
		"TZ=UTC",
		"GOTOOLCHAIN=local",
		"SOURCE_DATE_EPOCH="+strconv.FormatInt(r.Source.Commit.Time.Unix(), 10),
	)
	if at.modules != "" {
		// go.sum still says which module is which; no other database is asked.
		env = append(env, "GOPROXY="+at.modules, "GONOSUMDB=*", "GOSUMDB=off", "GOVCS=*:off")
	} else {
		env = append(env, "GOPROXY=off")
	}
	return lastOf(append(env, step.Env...))
}

// lastOf keeps the last of several values of a variable: which of them a
// program would take depends on its language.
func lastOf(env []string) (list []string) {
	at := map[string]int{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if i, seen := at[name]; seen {
			list[i] = v
			continue
		}
		at[name] = len(list)
		list = append(list, v)
	}
	return list
}

// execute runs the step's command where it reaches nothing but its own
// directories and tools, and closes the log with what it was kept from.
func (r *run) execute(ctx context.Context, step plan.Step, at stand) (sandbox.Report, *provenance.Resource, error) {
	log, err := r.openLog(step)
	if err != nil {
		return sandbox.Report{}, nil, err
	}
	defer log.Close()
	report, err := sandbox.Run(ctx, r.Machine.Mode, sandbox.Step{
		Scratch: at.scratch, Source: at.source, Root: at.root, Command: step.Run, Env: r.environment(step, at),
		Log:    &listener{log: log, step: step.Instance, to: r.Progress},
		Mounts: at.mounts, Network: step.Network, Limits: limitsOf(step), Secrets: r.Machine.Secrets,
	})
	report.Print(log)
	for _, a := range report.Asked {
		if !a.Allowed {
			r.Report(ctx, "step %s asked for %s and was refused: %s", step.Instance, a.Host, a.Reason)
		}
	}
	if err != nil {
		return sandbox.Report{}, nil, verdict.Wrap(stepCode(err), step.Instance, fmt.Errorf("%w (log: %s)", err, log.Name()))
	}
	sum, err := sumLog(log)
	return report, sum, err
}

// sumLog names a log by what is in it now.
func sumLog(log *os.File) (*provenance.Resource, error) {
	if err := log.Sync(); err != nil { // its digest is signed
		return nil, fmt.Errorf("keeping the log: %w", err)
	}
	if _, err := log.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	set, _, err := digest.Sum(log)
	if err != nil {
		return nil, fmt.Errorf("reading the log: %w", err)
	}
	named := provenance.File("log", set)
	return &named, nil
}

func limitsOf(step plan.Step) sandbox.Limits {
	if step.Limits == nil {
		return sandbox.Limits{}
	}
	l := *step.Limits
	return sandbox.Limits{Memory: l.Memory, Disk: l.Disk, Processes: l.Processes, CPUs: l.CPUs, Time: time.Duration(l.Seconds) * time.Second}
}

// stepCode is the reason that the sandbox names, or that the step failed.
func stepCode(err error) verdict.Code {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return verdict.Code(coded.Code())
	}
	return verdict.StepFailed
}

// inside is what the control plane chose for a command and saw of it.
func (r *run) inside(step plan.Step, at stand, report sandbox.Report) provenance.InternalParameters {
	walls := &provenance.Walls{Network: step.Network, Machine: !at.bare}
	for _, g := range report.Had {
		walls.Had = append(walls.Had, string(g))
	}
	for _, l := range report.Lacking {
		walls.Lacking = append(walls.Lacking, string(l.Guarantee))
	}
	walls.RefusedMore = report.RefusedMore
	for _, a := range report.Asked {
		if !a.Allowed {
			walls.Refused = append(walls.Refused, a.Host+": "+a.Reason)
		}
	}
	return provenance.InternalParameters{
		Isolation: string(r.Machine.Mode), Command: step.Run, Env: step.Env, Walls: walls,
		Hermetic: r.Machine.Mode == sandbox.Isolated && report.Has(sandbox.NetworkClosed) && report.Has(sandbox.FilesHidden) &&
			len(step.Network) == 0 && at.bare && at.pinned,
	}
}
