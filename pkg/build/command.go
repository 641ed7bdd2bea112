package build

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/vcs"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// command runs a step's command in a fresh tree of the source. The step
// writes to ../out, which {out} stands for in release.yaml.
func (r *run) command(ctx context.Context, step plan.Step, scratch string) (outputs, error) {
	step = step.At(r.Source.Commit.Commit, r.Source.Commit.Epoch())
	for _, dir := range []string{"src", "out", "home", "tmp"} {
		if err := os.Mkdir(filepath.Join(scratch, dir), 0o755); err != nil {
			return outputs{}, fmt.Errorf("making the step's directories: %w", err)
		}
	}
	if err := vcs.Checkout(ctx, r.Source.Commit, filepath.Join(scratch, "src")); err != nil {
		return outputs{}, err
	}
	env := r.environment(step, scratch)
	if err := r.execute(ctx, step, scratch, env); err != nil {
		return outputs{}, err
	}
	out, err := r.collect(step, filepath.Join(scratch, "out"))
	out.command, out.env = step.Run, step.Env
	return out, err
}

// environment is everything that a step sees of its surroundings. What the
// release's author set comes last and wins.
func (r *run) environment(step plan.Step, scratch string) []string {
	return append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + filepath.Join(scratch, "home"),
		"TMPDIR=" + filepath.Join(scratch, "tmp"),
		"LANG=C.UTF-8",
		"TZ=UTC",
		"GOTOOLCHAIN=local",
		"GOPROXY=off",
		"GOFLAGS=-mod=readonly",
		"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.Source.Commit.Time.Unix(), 10),
	}, step.Env...)
}

func (r *run) execute(ctx context.Context, step plan.Step, scratch string, env []string) error {
	path := r.Workspace.Log(step.Instance)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making the log: %w", err)
	}
	defer log.Close()
	err = sandbox.Run(ctx, r.Mode, sandbox.Step{
		Dir: filepath.Join(scratch, "src"), Command: step.Run, Env: env, Log: log,
	})
	if err != nil {
		return verdict.Wrap(verdict.StepFailed, step.Instance, fmt.Errorf("%w (log: %s)", err, path))
	}
	return nil
}

// collect hashes the declared outputs. Everything in the output directory
// must be declared and regular; everything declared must be there.
func (r *run) collect(step plan.Step, dir string) (outputs, error) {
	present, err := listRegular(dir)
	if err != nil {
		return outputs{}, err
	}
	for _, name := range present {
		if !slices.Contains(step.Outputs, name) {
			return outputs{}, verdict.Refuse(verdict.OutputExtra, name, "step %s wrote it without declaring it", step.Instance)
		}
	}
	var out outputs
	for _, name := range step.Outputs {
		if !slices.Contains(present, name) {
			return outputs{}, verdict.Refuse(verdict.OutputMissing, name, "step %s declared it and did not write it", step.Instance)
		}
		o, err := r.fileOutput(name, filepath.Join(dir, name))
		if err != nil {
			return outputs{}, err
		}
		out.list = append(out.list, o)
	}
	return out, nil
}

func listRegular(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		if !d.Type().IsRegular() {
			return verdict.Refuse(verdict.FileType, name, "an output must be a regular file, this is %s", kindOf(d.Type()))
		}
		names = append(names, filepath.ToSlash(name))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading outputs: %w", err)
	}
	return names, nil
}

// kindOf names what is no regular file.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// fileOutput hashes a file and prepares its release: the copy is checked
// against the digest that the provenance names, so what leaves is what was
// hashed.
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
	return output{name: name, digests: set, size: size, release: func(ctx context.Context) error {
		again, err := os.Open(path)
		if err != nil {
			return err
		}
		defer again.Close()
		body := digest.NewVerifyingReader(again, set.SHA256, size)
		return r.Workspace.Writer().Put(ctx, name, size, body, store.PutOptions{})
	}}, nil
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
