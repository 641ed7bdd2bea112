package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Update says which directory's lock to update.
type Update struct {
	Dir          string
	Bases, Tools map[string]string // as in [Request]
	Platforms    []string
	Transport    http.RoundTripper
	// Verify verifies what the new lock pins; nil verifies nothing.
	Verify func(ctx context.Context, pins plan.Lock) error
}

// Change is a new lock, and its difference from the current one. Nothing is
// written before [Change.Write].
type Change struct {
	Lock  plan.Lock
	Lines []string // "+ …" and "- …", from [plan.Lock.Difference]
	path  string
	raw   []byte
	same  bool
}

// Find reads release.yaml and its lock in a directory, and finds the current
// digests.
func (u Update) Find(ctx context.Context) (Change, error) {
	config, err := u.config()
	if err != nil {
		return Change{}, err
	}
	c := Change{path: filepath.Join(u.Dir, plan.LockName)}
	held, was, err := c.held()
	if err != nil {
		return Change{}, err
	}
	c.Lock, err = Lock(ctx, Request{
		Config: config, Held: held, Bases: u.Bases, Tools: u.Tools, Platforms: u.Platforms, Source: os.DirFS(u.Dir), Transport: u.Transport, Program: openProgram,
	})
	if err != nil {
		return Change{}, err
	}
	if u.Verify != nil {
		if err := u.Verify(ctx, c.Lock); err != nil {
			return Change{}, err
		}
	}
	c.raw = c.Lock.Encode()
	if _, err := plan.ParseLock(c.raw); err != nil {
		return Change{}, fmt.Errorf("reading back the new lock: %w", err)
	}
	c.Lines, c.same = held.Difference(c.Lock), bytes.Equal(was, c.raw)
	return c, nil
}

func (u Update) config() (plan.Config, error) {
	raw, err := os.ReadFile(filepath.Join(u.Dir, plan.ConfigName))
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Config{}, verdict.Refuse(verdict.Usage, u.Dir, "no %s in this directory; write one with waybill init", plan.ConfigName)
	}
	if err != nil {
		return plan.Config{}, err
	}
	config, err := plan.ParseConfig(raw)
	if err == nil && !config.Locked() {
		err = verdict.Refuse(verdict.Usage, plan.ConfigName, "release.yaml has no lock; add \"lock: %s\"", plan.LockName)
	}
	return config, err
}

// Check compares the lock of the directory with release.yaml, with the module
// files, and with the programs of this machine, as a build does. It asks no
// registry, server or checksum database: what moved there is no fault of the
// lock. Each fault is an error of its own.
func (u Update) Check() (faults []error, err error) {
	config, err := u.config()
	if err != nil {
		return nil, err
	}
	held, was, err := Change{path: filepath.Join(u.Dir, plan.LockName)}.held()
	switch {
	case err != nil:
		return nil, err
	case was == nil:
		return []error{verdict.Refuse(verdict.LockStale, plan.LockName, "the file is missing")}, nil
	}
	source := os.DirFS(u.Dir)
	faults = append(faults, held.Covers(config), held.CheckModules(func(dir string) (plan.ModuleFiles, error) { return module(source, dir) }))
	for _, name := range slices.Sorted(maps.Keys(held.Tools)) {
		if pin := held.Tools[name]; pin.Program != "" {
			faults = append(faults, checkProgram(name, pin))
		}
	}
	return slices.DeleteFunc(faults, func(err error) bool { return err == nil }), nil
}

// Judge is what [Update.Check] finds, as a verdict.
func (u Update) Judge(now time.Time) (*verdict.Verdict, error) {
	faults, err := u.Check()
	if err != nil {
		return nil, err
	}
	v := verdict.NewCheck(plan.LockName, now)
	v.Scope.Checks = []string{"release.yaml, the module files and the programs of this machine"}
	v.Counts.Required = 1
	for _, fault := range faults {
		v.Add(verdict.FindingOf(plan.LockName, fault))
	}
	if len(faults) == 0 {
		v.Counts.Verified = 1
	}
	return v, nil
}

func checkProgram(name string, pin plan.ToolLock) error {
	f, err := openProgram(pin.Program)
	if err != nil {
		return verdict.Wrap(verdict.ToolMissing, name, err)
	}
	defer f.Close()
	sum, _, err := digest.SumSHA256(f)
	if err != nil {
		return err
	}
	return Check(name, pin, sum)
}

// held is the current lock; a missing one pins nothing.
func (c Change) held() (plan.Lock, []byte, error) {
	raw, err := os.ReadFile(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.Lock{}, nil, nil
	}
	if err != nil {
		return plan.Lock{}, nil, err
	}
	l, err := plan.ParseLock(raw)
	return l, raw, err
}

// IsEmpty reports whether the current file is equal, byte by byte.
func (c Change) IsEmpty() bool { return c.same }

// Write writes the lock atomically.
func (c Change) Write() error {
	f, err := os.CreateTemp(filepath.Dir(c.path), ".lock-*")
	if err != nil {
		return err
	}
	_, err = f.Write(c.raw)
	if err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("writing %s: %w", c.path, err)
	}
	return nil
}

func openProgram(name string) (fs.File, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}
