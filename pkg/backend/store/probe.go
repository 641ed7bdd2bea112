package store

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
)

// ErrNotAsked is the answer of a place that has no way to check the write
// permission without a write.
var ErrNotAsked = errors.New("the permission can only be checked by a write")

// probePrefix begins the name of the object that [Prober.ProbeWrite] writes.
// One that could not be removed is listed like any other object, and is extra.
const probePrefix = ".waybill-probe-"

// Prober is a [Writer] that can check whether it may write.
type Prober interface {
	// MayWrite checks the permission and changes nothing. A place without such
	// a check answers [ErrNotAsked], a place that denies it [os.ErrPermission].
	// A service that cannot protect what was released is refused with code
	// NOT_WRITABLE.
	MayWrite(ctx context.Context) error
	// ProbeWrite writes a small object and removes it.
	ProbeWrite(ctx context.Context) error
}

// ProbeName returns an unused name.
func ProbeName() string { return probePrefix + rand.Text() }

// MayWrite implements [Prober]: it checks the directory, or the nearest
// existing one above it.
func (d *dir) MayWrite(context.Context) error {
	at := d.path
	for {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return d.unavailable("asking for permission", errors.New(at+" is not a directory"))
		case err == nil:
			return access(at)
		case !errors.Is(err, os.ErrNotExist) || filepath.Dir(at) == at:
			return d.unavailable("asking for permission", err)
		}
		at = filepath.Dir(at)
	}
}

// ProbeWrite implements [Prober]. A directory that had to be created remains.
func (d *dir) ProbeWrite(ctx context.Context) error {
	name, body := ProbeName(), []byte("waybill doctor was here\n")
	if err := d.Put(ctx, name, int64(len(body)), bytes.NewReader(body), PutOptions{IfAbsent: true}); err != nil {
		return err
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return d.unavailable("removing the probe", err)
	}
	defer root.Close()
	if err := root.Remove(name); err != nil {
		return d.unavailable("removing the probe", err)
	}
	return nil
}
