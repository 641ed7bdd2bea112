package run

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/checkout"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// surroundings are what a command sees: its own directories, mounted
// downloads and earlier outputs, and its programs.
type surroundings struct {
	scratch string
	source  string   // the shared source of all steps; empty if a step has its own
	root    string   // the root file system of a tool image; empty for the machine's
	env     []string // variables of a tool image, which ours override
	path    string
	mounts  []sandbox.Mount
	inputs  []provenance.Resource
	modules string // the address of the downloaded modules; empty if there are none
	bare    bool   // no program of the machine is visible
	pinned  bool   // every tool is pinned
}

// command runs a step's command on the source. It writes to ../out, the value
// of {out} in release.yaml, and reads its inputs from ../in, {in}.
func (r *run) command(ctx context.Context, step plan.Step, scratch string) (outputs, error) {
	step = step.At(r.Source.Commit.Commit, r.Source.Commit.Epoch())
	if err := sandbox.Prepare(scratch); err != nil {
		return outputs{}, err
	}
	at, err := r.prepare(ctx, step, scratch)
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

// prepare prepares the surroundings of a command.
func (r *run) prepare(ctx context.Context, step plan.Step, scratch string) (surroundings, error) {
	at := surroundings{scratch: scratch}
	if r.Machine.Mode == sandbox.Unisolated {
		if err := checkout.Checkout(ctx, r.Machine.Mode, r.repo, r.Source.Commit, filepath.Join(scratch, "src")); err != nil {
			return surroundings{}, err
		}
	} else {
		var err error
		if at.source, err = r.tree(ctx); err != nil {
			return surroundings{}, err
		}
	}
	if err := r.addTools(step, &at); err != nil {
		return surroundings{}, err
	}
	r.addModules(&at)
	return at, r.addInputs(ctx, step, &at)
}

// environment is the complete environment of a step. Variables set by the
// release's author come last and win.
func (r *run) environment(step plan.Step, at surroundings) []string {
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
		// go.sum authenticates the modules; no other database is used.
		env = append(env, "GOPROXY="+at.modules, "GONOSUMDB=*", "GOSUMDB=off", "GOVCS=*:off")
	} else {
		env = append(env, "GOPROXY=off")
	}
	return lastOf(append(env, step.Env...))
}

// lastOf keeps the last of several values of a variable, because programs
// differ in which of them they use.
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

// execute runs the step's command in the sandbox, and ends its log with a
// report of the isolation.
func (r *run) execute(ctx context.Context, step plan.Step, at surroundings) (sandbox.Report, *provenance.Resource, error) {
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
			r.Report(ctx, "step %s was refused a connection to %s: %s", step.Instance, a.Host, a.Reason)
		}
	}
	if err != nil {
		return sandbox.Report{}, nil, verdict.Wrap(stepCode(err), step.Instance, fmt.Errorf("%w (log: %s)", err, log.Name()))
	}
	sum, err := sumLog(log)
	return report, sum, err
}

// sumLog is the resource of a log with its current content.
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

// stepCode is the code of the sandbox's error, or that the step failed.
func stepCode(err error) verdict.Code {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return verdict.Code(coded.Code())
	}
	return verdict.StepFailed
}

// inside is what the control plane chose for a command, and observed.
func (r *run) inside(step plan.Step, at surroundings, report sandbox.Report) provenance.InternalParameters {
	walls := &provenance.Walls{Network: step.Network, Machine: !at.bare, Processors: runtime.NumCPU()}
	if raw, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil { // of Linux
		walls.Kernel = strings.TrimSpace(string(raw))
	}
	walls.Had = slice.Map(report.Had, func(g sandbox.Guarantee) string { return string(g) })
	walls.Lacking = slice.Map(report.Lacking, func(l sandbox.Lack) string { return string(l.Guarantee) })
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
