package lock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Update says which directory's lock to update.
type Update struct {
	Dir          string
	Bases, Tools map[string]string // as in [Request]
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
	raw, err := os.ReadFile(filepath.Join(u.Dir, plan.ConfigName))
	if errors.Is(err, fs.ErrNotExist) {
		return Change{}, verdict.Refuse(verdict.Usage, u.Dir, "no %s in this directory; write one with waybill init", plan.ConfigName)
	}
	if err != nil {
		return Change{}, err
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		return Change{}, err
	}
	if !config.Locked() {
		return Change{}, verdict.Refuse(verdict.Usage, plan.ConfigName, "release.yaml has no lock; add \"lock: %s\"", plan.LockName)
	}
	c := Change{path: filepath.Join(u.Dir, plan.LockName)}
	held, was, err := c.held()
	if err != nil {
		return Change{}, err
	}
	c.Lock, err = Lock(ctx, Request{
		Config: config, Held: held, Bases: u.Bases, Tools: u.Tools, Source: os.DirFS(u.Dir), Transport: u.Transport, Program: openProgram,
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
