package simulate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// Actor is a process of the product, with a disk. It can be killed at any request or
// sync, and started again.
type Actor struct {
	// Disk is its directory.
	Disk string
	// Clock is its time, which may be some seconds wrong.
	Clock func() time.Time
	// Transport is the product's own, over the network of the world.
	Transport *transport.Transport

	world *World
	name  string

	mu     sync.Mutex // guards the fields below
	life   int        // how often it was started
	steps  int        // requests and syncs since it was started
	last   int        // at which it is killed; 0 for never
	after  bool       // whether the server still acts on that one
	killed bool
	cancel context.CancelCauseFunc
	disk   disk // what of it is synced
	wakes  time.Time
}

// Actor makes an actor.
func (w *World) Actor(name string) *Actor {
	a := &Actor{world: w, name: name, Disk: filepath.Join(w.dir, name)}
	skew := time.Duration(w.dice(name+" clock").Int64N(int64(10*time.Second))) - 5*time.Second
	a.Clock = func() time.Time { return time.Now().Add(skew) }
	w.mu.Lock()
	defer w.mu.Unlock()
	w.disks = append(w.disks, a)
	return a
}

// owner is the actor on whose disk a path is; nil if it is on none.
func (w *World) owner(path string) *Actor {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.disks {
		if path == a.Disk || strings.HasPrefix(path, a.Disk+"/") {
			return a
		}
	}
	return nil
}

// Do starts the process, and returns what it ended with. If it is killed, it leaves the
// disk as it was in that moment, or as a power cut leaves it, and the error is
// [ErrKilled]. The power may also be cut after it ended.
func (a *Actor) Do(last int, run func(ctx context.Context) error) error {
	if err := os.MkdirAll(a.Disk, 0o700); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	a.mu.Lock()
	a.life++
	a.steps, a.last, a.killed, a.cancel, a.wakes = 0, last, false, cancel, time.Time{}
	a.after = last%2 == 0
	err := a.disk.keep(a.Disk)
	a.mu.Unlock()
	if err != nil {
		return err
	}
	a.Transport = transport.New(transport.Config{Plain: a, Offline: true}) // registries are asked by https first
	err = run(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.killed {
		err = ErrKilled
	} else if last == 0 || !a.leave(2) {
		return err
	}
	if err := errors.Join(os.RemoveAll(a.Disk), os.Rename(a.saved(), a.Disk)); err != nil {
		a.world.Wrongf("simulate: restoring a disk: %v", err)
	}
	return err
}

// Keep notes that all that the disk has is synced, for what the product does not write.
func (a *Actor) Keep() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.disk.keep(a.Disk)
}

func (a *Actor) saved() string { return a.Disk + ".saved" }

// leave saves what a power cut leaves of the disk, with a chance of one of so many, and
// reports whether there was one.
func (a *Actor) leave(of int) bool {
	dice := a.world.dice(fmt.Sprintf("%s power %d", a.name, a.life))
	if dice.IntN(of) > 0 {
		return false
	}
	a.world.count(PowerCut)
	if err := a.disk.cut(a.Disk, a.saved(), dice); err != nil {
		a.world.Wrongf("simulate: cutting the power: %v", err)
	}
	return true
}

// ErrKilled is how a process ends that was killed.
var ErrKilled = errors.New("simulate: killed")

// step counts a request at the server, or a sync of the disk, and reports whether the actor is killed before or
// after the server acts.
func (a *Actor) step() (before, after bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.steps++
	hit := a.last > 0 && a.steps == a.last
	return hit && !a.after, hit && a.after
}

// suspend stops the process for a while.
func (a *Actor) suspend(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wakes = time.Now().Add(d)
}

// asleep is how long the process is still suspended.
func (a *Actor) asleep() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return max(0, time.Until(a.wakes))
}

func (a *Actor) dead() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.killed
}

// kill ends the process: its disk stays as it is now, or as a power cut leaves it, and
// nothing that it does from now on reaches the network.
func (a *Actor) kill() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.killed {
		return errDead
	}
	if a.killed = true; !a.leave(2) {
		if err := os.CopyFS(a.saved(), os.DirFS(a.Disk)); err != nil {
			a.world.Wrongf("simulate: keeping a disk: %v", err)
		}
	}
	a.world.crashed(a.name)
	a.cancel(errDead)
	return errDead
}

func (w *World) crashed(name string) {
	w.note(name + " is killed")
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stats.Crashes++
}
