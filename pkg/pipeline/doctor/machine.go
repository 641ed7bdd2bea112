package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Disk is the directory in which a release is prepared.
type Disk struct {
	Dir string
	// Need is a rough estimate of the bytes needed; zero means no estimate.
	Need int64
}

// minDisk is the minimum for any build.
const minDisk = 256 << 20

// Estimate is a rough estimate of the disk space of a plan: tens of megabytes
// for programs, archives and layers, kilobytes for evidence. It tends to be
// too high, so less free space is a warning, and only almost none is bad.
func Estimate(p plan.Plan) (need int64) {
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

// Ask checks the free space, and whether the directory is writable.
func (d Disk) Ask() Ask {
	return func(ctx context.Context) []Check {
		checks := []Check{d.write(ctx)}
		free, err := freeBytes(existing(d.Dir))
		if err != nil {
			return append(checks, Doubt("disk", "check the free disk space yourself", "not checked: %v", err))
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
		return Doubt(name, "", "not checked: %s is not a directory", d.Dir)
	}
	return permitted(name, "%s is writable", d.Dir, prober.MayWrite(ctx))
}

func space(free, need int64) Check {
	const mib = 1 << 20
	switch {
	case free < minDisk:
		return Fault("disk", verdict.Refuse("DISK_SPACE", "disk", "%d MiB are free, but any release needs %d MiB", free/mib, minDisk/mib))
	case free < need:
		return Doubt("disk", verdict.Code("DISK_SPACE").Fix(), "%d MiB are free; the release needs roughly %d MiB", free/mib, need/mib)
	}
	if need == 0 {
		return Fine("disk", "%d MiB are free", free/mib)
	}
	return Fine("disk", "%d MiB are free; the release needs roughly %d MiB", free/mib, need/mib)
}

// existing is the directory, or its nearest existing parent.
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

// rootAdvice says how to get all of the isolation.
const rootAdvice = "build as root, in a CI job with sudo, and each step gets namespaces and an account of its own"

// Isolation says how isolated steps will run. An unisolated build counts as
// another builder's, and needs the token of that builder: unisolated says
// that one was given.
func Isolation(r sandbox.Report, unisolated bool) (checks []Check) {
	had := slice.Map(r.Had, func(g sandbox.Guarantee) string { return string(g) })
	switch {
	case r.Mode == sandbox.Isolated:
		checks = append(checks, Fine("isolation", "steps run isolated, with: %s", strings.Join(had, " ")))
	case unisolated:
		checks = append(checks, Doubt("isolation", rootAdvice,
			"steps run %s (%s): the build uses the builder id of unisolated builds, at Build level 2 at most (1 if a person runs it), and cannot claim level 3", r.Mode, r.Reason()))
	default:
		checks = append(checks, Fault("isolation", verdict.Refuse(verdict.NotIsolated, "build",
			"steps would run %s on this machine (%s), and no token of an unisolated builder was given", r.Mode, r.Reason()).
			Advise(rootAdvice+"; or list an identity for the unisolated builder in the policy, at level 1, and give its token with --identity-token builder-unisolated=FILE")))
	}
	for _, l := range r.Lacking {
		checks = append(checks, Doubt("isolation, "+string(l.Guarantee), "", "missing: %s", l.Reason))
	}
	return checks
}

// Tools checks the programs that the steps of a plan name, and their pins.
func Tools(p plan.Plan, pins plan.Lock) Ask {
	return func(context.Context) []Check {
		var names []string
		for _, step := range p.Steps {
			names = append(names, step.Tools...)
		}
		names = slices.AppendSeq(names, maps.Keys(pins.Tools))
		return slice.Map(slice.Unique(names), func(name string) Check { return tool(name, pins.Tools[name]) })
	}
}

func tool(name string, pin plan.ToolLock) Check {
	check := "tool " + name
	program := pin.Program
	switch {
	case pin.Image != "":
		return Fine(check, "image %s@%s, fetched before the first step", pin.Image, pin.Digest)
	case program == "":
		program = name
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return Fault(check, verdict.Wrap(verdict.ToolMissing, name, err))
	}
	if pin.Program == "" {
		return Doubt(check, "pin it with waybill lock --tool "+name+"=PROGRAM", "%s, not pinned", path)
	}
	got, err := hashFile(path)
	if err != nil {
		return Fault(check, fmt.Errorf("reading %q: %w", path, err))
	}
	if err := lock.Check(name, pin, got); err != nil {
		return Fault(check, err)
	}
	if pin.Toolchain != "" {
		return Fine(check, "%s is of the pinned toolchain, %s", path, pin.Toolchain)
	}
	return Fine(check, "%s is the pinned program", path)
}

func hashFile(path string) (digest.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return digest.Digest{}, err
	}
	defer f.Close()
	set, _, err := digest.Sum(f)
	return set.SHA256, err
}

// Program checks that a program that waybill itself needs is installed.
func Program(name string) Check {
	path, err := exec.LookPath(name)
	if err != nil {
		return Fault(name, verdict.Wrap(verdict.ToolMissing, name, err))
	}
	return Fine(name, "%s", path)
}
