package build

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/bench"
	"github.com/waybill-release/waybill/test/scene"
)

// bare runs the commands that the plan says, each in a tree of its own with an
// empty home, as they run behind walls.
func bare(ctx context.Context, req Request) (took bench.Sample, err error) {
	s, err := open(ctx, req) // for its modules
	if err != nil {
		return bench.Sample{}, err
	}
	defer func() {
		if errClose := s.Close(); err == nil {
			err = errClose
		}
	}()
	project := filepath.Join(req.place(Bare), "project")
	steps, err := planned(project)
	if err != nil {
		return bench.Sample{}, err
	}
	var commands []*exec.Cmd
	for i, step := range steps {
		if len(step.Run) == 0 {
			continue // a built-in step, which has no command
		}
		c, err := bareStep(ctx, step, project, filepath.Join(req.place(Bare), fmt.Sprintf("step-%d", i)))
		if err != nil {
			return bench.Sample{}, err
		}
		c.Env = append(c.Env, "GOPROXY="+s.Lab.Modules, "GOSUMDB=off")
		commands = append(commands, c)
	}
	return measure(ctx, commands...)
}

// planned are the steps of a project.
func planned(dir string) ([]plan.Step, error) {
	raw, err := os.ReadFile(filepath.Join(dir, plan.ConfigName))
	if err != nil {
		return nil, err
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		return nil, err
	}
	v, err := version.Parse(scene.Version)
	if err != nil {
		return nil, err
	}
	p, err := config.Expand(v)
	return p.Steps, err
}

func bareStep(ctx context.Context, step plan.Step, project, dir string) (*exec.Cmd, error) {
	src, home := filepath.Join(dir, "src"), filepath.Join(dir, "home")
	for _, d := range []string{src, home, filepath.Join(src, "..", "out")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.CopyFS(src, os.DirFS(project)); err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, step.Run[0], step.Run[1:]...)
	c.Dir = src
	c.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8", "TZ=UTC",
		"GOTOOLCHAIN=local", "GOFLAGS=-mod=readonly -modcacherw",
	}, step.Env...)
	return c, nil
}

// inner measures a part of this process.
func inner(do func() error) (s bench.Sample, err error) {
	var said bytes.Buffer
	if err := bench.Measure(&said, do); err != nil {
		return bench.Sample{}, err
	}
	return s, json.Unmarshal(said.Bytes(), &s)
}

// syncEach brings file by file to the disk, as the product does.
func syncEach(_ context.Context, req Request) (bench.Sample, error) {
	return inner(func() error { return eachOutput(req, (*os.File).Sync) })
}

// hashEach hashes file by file, in one pass for both digests, as the product
// does.
func hashEach(_ context.Context, req Request) (bench.Sample, error) {
	return inner(func() error {
		return eachOutput(req, func(f *os.File) error {
			_, _, err := digest.Sum(f)
			return err
		})
	})
}

// hashAll is the limit: all processors, the largest file first.
func hashAll(_ context.Context, req Request) (bench.Sample, error) {
	return inner(func() error {
		dirs, err := outputs(req)
		for _, dir := range dirs {
			if _, err := bench.HashTree(dir, true); err != nil {
				return err
			}
		}
		return err
	})
}

// outputs are where the bare commands wrote.
func outputs(req Request) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(req.place(Bare), "step-*", "out"))
	if err == nil && len(dirs) == 0 {
		err = errors.New("nothing was built bare before")
	}
	return dirs, err
}

// eachOutput opens one file after another.
func eachOutput(req Request, do func(*os.File) error) error {
	dirs, err := outputs(req)
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			f, err := os.Open(path)
			if err != nil {
				return err
			}
			defer f.Close()
			return do(f)
		})
		if err != nil {
			return err
		}
	}
	return err
}
