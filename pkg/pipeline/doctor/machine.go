package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Disk is the directory in which a release comes into being.
type Disk struct {
	Dir string
	// Need is a rough estimate of the bytes that it takes; zero is none.
	Need int64
}

// least is what any build needs.
const least = 256 << 20

// Estimate is roughly what a plan takes on the disk: programs, archives and
// layers of tens of megabytes, evidence of kilobytes. It errs on the high
// side, so little room is a warning and only next to none is bad.
func Estimate(p plan.Plan) int64 {
	var need int64
	for _, a := range p.Artifacts {
		switch a.Class {
		case plan.Binary, plan.ImageChild:
			need += 64 << 20
		case plan.Archive:
			need += 128 << 20
		default:
			need += 256 << 10
		}
	}
	return need
}

// Ask looks at what is free, and whether the directory can be written.
func (d Disk) Ask() Ask {
	return func(ctx context.Context) []Check {
		checks := []Check{d.write(ctx)}
		free, err := freeBytes(existing(d.Dir))
		if err != nil {
			return append(checks, Doubt("disk", "look yourself", "not asked: %v", err))
		}
		return append(checks, space(free, d.Need))
	}
}

func (d Disk) write(ctx context.Context) Check {
	const name = "state directory"
	w, err := store.OpenWriter(d.Dir)
	if err != nil {
		return Fault(name, err)
	}
	prober, can := w.(store.Prober)
	if !can {
		return Doubt(name, "", "not asked: %s is no directory", d.Dir)
	}
	return permitted(name, "%s may be written", d.Dir, prober.MayWrite(ctx))
}

func space(free, need int64) Check {
	const mib = 1 << 20
	switch {
	case free < least:
		return Fault("disk", verdict.Refuse(verdict.DiskSpace, "disk", "%d MiB are free, and any release needs %d", free/mib, least/mib))
	case free < need:
		return Doubt("disk", verdict.DiskSpace.Fix(), "%d MiB are free; by a rough estimate the release takes %d", free/mib, need/mib)
	}
	if need == 0 {
		return Fine("disk", "%d MiB are free", free/mib)
	}
	return Fine("disk", "%d MiB are free; by a rough estimate the release takes %d", free/mib, need/mib)
}

// existing is the directory, or the nearest above it that is there.
func existing(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	for {
		if _, err := os.Stat(abs); !errors.Is(err, os.ErrNotExist) || filepath.Dir(abs) == abs {
			return abs
		}
		abs = filepath.Dir(abs)
	}
}

// Walls says behind which walls steps will run. Without all of them a build is
// another builder's, and needs that one's token: unisolated says that it is
// given.
func Walls(r sandbox.Report, unisolated bool) []Check {
	had := make([]string, len(r.Had))
	for i, g := range r.Had {
		had[i] = string(g)
	}
	var checks []Check
	switch {
	case r.Mode == sandbox.Isolated:
		checks = append(checks, Fine("isolation", "steps run isolated; had: %s", strings.Join(had, " ")))
	case unisolated:
		checks = append(checks, Doubt("isolation", "build where namespaces can be had, for level 3",
			"steps run %s (%s): the builder id is that of unisolated builds, and no level 3 can be claimed", r.Mode, r.Reason()))
	default:
		checks = append(checks, Fault("isolation", verdict.Refuse(verdict.NotIsolated, "build",
			"steps cannot be isolated here (%s), and no identity for an unisolated builder was given; use --identity-token builder-unisolated=FILE", r.Reason())))
	}
	for _, l := range r.Lacking {
		checks = append(checks, Doubt("isolation, "+string(l.Guarantee), "", "not had: %s", l.Reason))
	}
	return checks
}

// Tools are the programs that the steps of a plan name, by their pins where
// there are some.
func Tools(p plan.Plan, pins plan.Lock) Ask {
	return func(context.Context) []Check {
		var names []string
		for _, step := range p.Steps {
			names = append(names, step.Tools...)
		}
		for name := range pins.Tools {
			names = append(names, name)
		}
		slices.Sort(names)
		var checks []Check
		for _, name := range slices.Compact(names) {
			checks = append(checks, tool(name, pins.Tools[name]))
		}
		return checks
	}
}

func tool(name string, pin plan.ToolLock) Check {
	check := "tool " + name
	program := pin.Program
	switch {
	case pin.Image != "":
		return Fine(check, "the image %s@%s, fetched before the first step", pin.Image, pin.Digest)
	case program == "":
		program = name
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return Fault(check, verdict.Wrap(verdict.ToolMissing, name, err))
	}
	if pin.Program == "" {
		return Doubt(check, "pin it with waybill lock --tool "+name+"=PROGRAM", "%s; nothing pins it", path)
	}
	got, err := sum(path)
	if err != nil {
		return Fault(check, fmt.Errorf("reading %q: %w", path, err))
	}
	if !got.Equal(pin.Digest) {
		f := verdict.Find(verdict.LockStale, plan.LockName, "tool %q: the program in the PATH is not the one that is pinned", name)
		return Fault(check, &verdict.Error{Finding: f.Differ(pin.Digest.String(), got.String())})
	}
	return Fine(check, "%s is the one that is pinned", path)
}

func sum(path string) (digest.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return digest.Digest{}, err
	}
	defer f.Close()
	set, _, err := digest.Sum(f)
	return set.SHA256, err
}

// Program looks for a program that this one needs.
func Program(name string) Check {
	path, err := exec.LookPath(name)
	if err != nil {
		return Fault(name, verdict.Wrap(verdict.ToolMissing, name, err))
	}
	return Fine(name, "%s", path)
}
