package tuf

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/filelock"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The files of a cache.
const (
	sourceFile = "source.json" // the source given to trust init; absent means the public-good instance
	stateFile  = "state.json"  // metadata and targets; used only after they are verified again
	floorFile  = "floor.json"  // the highest versions seen
	lockFile   = "lock"        // locked while the others are replaced
)

// maxState bounds the files read from a cache.
const maxState = 64 << 20

// A state is what the last refreshes verified. It is one file, so that it is
// always consistent.
type state struct {
	Roots     map[int64][]byte  `json:"roots"`
	Timestamp []byte            `json:"timestamp"`
	Snapshot  []byte            `json:"snapshot"`
	Roles     map[string][]byte `json:"roles"`
	Files     map[string][]byte `json:"files"`
}

func newState() state {
	return state{Roots: map[int64][]byte{}, Roles: map[string][]byte{}}
}

// A cache is a directory; without a name nothing is stored.
type cache struct {
	dir  string
	anew bool // ignore the stored state
}

// read returns the content of the cache. Damage is noted, and the damaged file
// is ignored.
func (c cache) read(url string) (s state, f floor, notes []string, err error) {
	s, f = newState(), newFloor(url)
	if c.dir == "" || c.anew {
		return s, f, nil, nil
	}
	note := func(name string, err error) bool {
		if _, is := errors.AsType[*strictjson.Error](err); !is {
			return false
		}
		notes = append(notes, fmt.Sprintf("%s is damaged: %v", filepath.Join(c.dir, name), err))
		return true
	}
	if err := c.unmarshal(stateFile, &s); note(stateFile, err) {
		s = newState()
	} else if err != nil {
		return state{}, floor{}, nil, err
	}
	if err := c.unmarshal(floorFile, &f); note(floorFile, err) {
		f = newFloor(url)
	} else if err != nil {
		return state{}, floor{}, nil, err
	}
	if s.Roots == nil || s.Roles == nil {
		s = newState()
	}
	if f.URL != url || f.Roles == nil {
		f = newFloor(url)
	}
	return s, f, notes, nil
}

// unmarshal reads one file of the cache into v, which is unchanged if the file
// is missing.
func (c cache) unmarshal(name string, v any) error {
	raw, err := c.readFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return verdict.Wrap(verdict.TrustDown, subject, fmt.Errorf("reading the cache: %w", err))
	}
	return strictjson.Unmarshal(raw, v, strictjson.MaxSize(maxState))
}

func (c cache) readFile(name string) ([]byte, error) {
	root, err := os.OpenRoot(c.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	info, err := root.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxState {
		return nil, fmt.Errorf("%q is not a regular file of at most %d bytes", name, maxState)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxState))
}

// write replaces state and floor, unless another process meanwhile saw more.
// The floor is written last: it must never be ahead of a lost state.
func (c cache) write(ctx context.Context, s state, f floor) error {
	if c.dir == "" {
		return nil
	}
	return c.locked(ctx, func(w store.Writer) error {
		stored := newFloor(f.URL)
		if !c.anew {
			var bad *strictjson.Error
			if err := c.unmarshal(floorFile, &stored); err != nil && !errors.As(err, &bad) {
				return err
			}
		}
		if stored.ahead(f) {
			return nil
		}
		if stored.URL == f.URL {
			f.Proven = later(f.Proven, stored.Proven)
		}
		if err := put(ctx, w, stateFile, s); err != nil {
			return err
		}
		return put(ctx, w, floorFile, f)
	})
}

// locked replaces files while holding the lock.
func (c cache) locked(ctx context.Context, act func(store.Writer) error) error {
	err := func() error {
		if err := os.MkdirAll(c.dir, 0o700); err != nil {
			return err
		}
		f, err := os.OpenFile(filepath.Join(c.dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := waitForLock(ctx, f); err != nil {
			return err
		}
		w, err := store.OpenWriter(c.dir)
		if err != nil {
			return err
		}
		return act(w)
	}()
	if err != nil {
		return verdict.Wrap(verdict.TrustDown, subject, fmt.Errorf("storing the verified state in %q: %w", c.dir, err))
	}
	return nil
}

// waitForLock takes the lock as soon as it is free.
func waitForLock(ctx context.Context, f *os.File) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		free, err := filelock.Try(f)
		if err != nil || free {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func put(ctx context.Context, w store.Writer, name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encoding %q: %w", name, err)
	}
	return w.Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
