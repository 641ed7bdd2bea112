package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// command runs a step's command in a fresh tree of the source. The step
// writes to ../out, which {out} stands for in release.yaml.
func (r *run) command(ctx context.Context, step plan.Step, scratch string) (outputs, error) {
	step = step.At(r.Source.Commit.Commit, r.Source.Commit.Epoch())
	if err := sandbox.Prepare(scratch); err != nil {
		return outputs{}, err
	}
	if err := r.repo.Checkout(ctx, r.Source.Commit, filepath.Join(scratch, "src")); err != nil {
		return outputs{}, err
	}
	if err := r.execute(ctx, step, scratch); err != nil {
		return outputs{}, err
	}
	out, err := r.collect(step, filepath.Join(scratch, "out"))
	out.command, out.env = step.Run, step.Env
	return out, err
}

// environment is everything that a step sees of its surroundings. What the
// release's author set comes last and wins.
func (r *run) environment(step plan.Step, scratch, path string) []string {
	at := sandbox.Seen(r.Mode, scratch)
	return append([]string{
		"PATH=" + path,
		"HOME=" + at.Home,
		"TMPDIR=" + at.Temp,
		"LANG=C.UTF-8",
		"TZ=UTC",
		"GOTOOLCHAIN=local",
		"GOPROXY=off",
		"GOFLAGS=-mod=readonly",
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.Source.Commit.Time.Unix(), 10),
	}, step.Env...)
}

// execute runs the step's command where it reaches nothing but its own
// directories and tools, and closes the log with what it was kept from.
func (r *run) execute(ctx context.Context, step plan.Step, scratch string) error {
	path := r.Workspace.Log(step.Instance)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	defer log.Close()
	tools := step.Tools
	if tools == nil {
		tools = []string{"go"}
	}
	mounts, seen := sandbox.Toolchains(os.Getenv("PATH"), tools)
	if r.Mode == sandbox.Unisolated {
		mounts, seen = nil, os.Getenv("PATH")
	}
	report, err := sandbox.Run(ctx, r.Mode, sandbox.Step{
		Scratch: scratch, Command: step.Run, Env: r.environment(step, scratch, seen), Log: log,
		Mounts: mounts, Network: step.Network, Limits: limitsOf(step),
	})
	report.Print(log)
	for _, a := range report.Asked {
		if !a.Allowed {
			r.Report("step %s asked for %s and was refused: %s", step.Instance, a.Host, a.Reason)
		}
	}
	if err != nil {
		return verdict.Wrap(stepCode(err), step.Instance, fmt.Errorf("%w (log: %s)", err, path))
	}
	return nil
}

func limitsOf(step plan.Step) sandbox.Limits {
	if step.Limits == nil {
		return sandbox.Limits{}
	}
	l := *step.Limits
	return sandbox.Limits{Memory: l.Memory, Processes: l.Processes, CPUs: l.CPUs, Time: time.Duration(l.Seconds) * time.Second}
}

// stepCode is the reason that the sandbox names, or that the step failed.
func stepCode(err error) verdict.Code {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return verdict.Code(coded.Code())
	}
	return verdict.StepFailed
}

// collect hashes the declared outputs. Everything in the output directory
// must be declared and regular; everything declared must be there.
func (r *run) collect(step plan.Step, dir string) (outputs, error) {
	present, err := sandbox.Collect(dir, sandbox.OutputLimits{})
	if err != nil {
		return outputs{}, err
	}
	found := map[string]sandbox.Output{}
	for _, o := range present {
		if !slices.Contains(step.Outputs, o.Name) {
			return outputs{}, verdict.Refuse(verdict.OutputExtra, o.Name, "step %s wrote it without declaring it", step.Instance)
		}
		found[o.Name] = o
	}
	var out outputs
	for _, name := range step.Outputs {
		o, ok := found[name]
		if !ok {
			return outputs{}, verdict.Refuse(verdict.OutputMissing, name, "step %s declared it and did not write it", step.Instance)
		}
		out.list = append(out.list, r.released(o, filepath.Join(dir, name)))
	}
	return out, nil
}

// fileOutput hashes a file that the control plane itself has made.
func (r *run) fileOutput(name, path string) (output, error) {
	f, err := os.Open(path)
	if err != nil {
		return output{}, fmt.Errorf("reading output: %w", err)
	}
	defer f.Close()
	set, size, err := digest.Sum(f)
	if err != nil {
		return output{}, fmt.Errorf("hashing %q: %w", name, err)
	}
	return r.released(sandbox.Output{Name: name, Digests: set, Size: size}, path), nil
}

// released prepares the release of a hashed file: the copy is checked against
// the digest that the provenance names, so what leaves is what was hashed.
func (r *run) released(o sandbox.Output, path string) output {
	return output{name: o.Name, digests: o.Digests, size: o.Size, release: func(ctx context.Context) error {
		again, err := os.Open(path)
		if err != nil {
			return err
		}
		defer again.Close()
		body := digest.NewVerifyingReader(again, o.Digests.SHA256, o.Size)
		return r.Workspace.Writer().Put(ctx, o.Name, o.Size, body, store.PutOptions{})
	}}
}

// openMade opens an output of an earlier step and checks it while it is read.
func (r *run) openMade(ctx context.Context, name string) (io.ReadCloser, made, error) {
	m, ok := r.made[name]
	if !ok {
		return nil, made{}, fmt.Errorf("%q was not made by an earlier step of this run", name)
	}
	body, _, err := r.Workspace.Files().Open(ctx, name)
	if err != nil {
		return nil, made{}, err
	}
	return struct {
		io.Reader
		io.Closer
	}{digest.NewVerifyingReader(body, m.digests.SHA256, m.size), body}, m, nil
}

func (r *run) inputs(names []string) []provenance.Resource {
	var list []provenance.Resource
	for _, name := range names {
		list = append(list, provenance.File(name, r.made[name].digests))
	}
	return list
}
