//go:build linux && (amd64 || arm64)

package attack

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestMain(m *testing.M) {
	for _, serve := range []func() (int, bool){sandbox.Serve, Serve} {
		if code, ok := serve(); ok {
			os.Exit(code)
		}
	}
	os.Exit(m.Run())
}

// host is this machine, whose isolation is demanded in CI.
func host(t *testing.T) Builder {
	t.Helper()
	b := Builder{Isolation: sandbox.Examine(t.Context()), Run: sandbox.Run}
	if b.Isolation.Mode == sandbox.Isolated {
		return b
	}
	if os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_ISOLATION") != "" {
		t.Fatal(b.Isolation.Reason())
	}
	t.Skip(b.Isolation.Reason())
	return b
}

// through tries rows, all if none is named, and returns those that got through;
// all others must have been stopped.
func through(t *testing.T, b Builder, only ...string) (acts []string) {
	t.Helper()
	for _, r := range Rows() {
		if len(only) > 0 && !slices.Contains(only, r.Act) {
			continue
		}
		switch c := b.try(t.Context(), r); {
		case c.State == doctor.Bad && c.Code == verdict.NotIsolated:
			acts = append(acts, r.Act)
		case c.State != doctor.OK || !strings.HasPrefix(c.Says, "it "+r.Tries+": stopped by "):
			t.Errorf("%s %s: %s", c.State, c.Name, c.Says)
		}
	}
	return acts
}

// nothingLeft demands that the machine is as before.
func nothingLeft(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "attack") // short: a socket goes below it
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	before, _ := filepath.Glob("/tmp/waybill-attack-*")
	t.Cleanup(func() {
		left, _ := filepath.Glob("/tmp/waybill-attack-*")
		processes, _ := sandbox.Below(os.Getpid())
		if err := os.Remove(dir); err != nil || len(left) > len(before) || len(processes) > 0 {
			t.Errorf("left behind: %v %v, processes %v", err, left, processes)
		}
	})
}

func TestIsolated(t *testing.T) {
	b := host(t)
	nothingLeft(t)
	if acts := through(t, b); len(acts) > 0 {
		t.Errorf("got through: %v", acts)
	}
	b.Network = []string{"declared.example.test:443"} // as a release may declare
	if acts := through(t, b, "dial-signer", "dial-abstract", "use-proxy", "new-namespaces"); len(acts) > 0 {
		t.Errorf("got through with a network: %v", acts)
	}
}

// TestUnisolated: on a host without namespaces every row gets through.
func TestUnisolated(t *testing.T) {
	nothingLeft(t)
	b := Builder{Run: sandbox.Run}
	b.Isolation.Mode = sandbox.Unisolated
	if acts := through(t, b); len(acts) != len(Rows()) {
		t.Errorf("got through: %v, want every row", acts)
	}
}

// TestWeakened: an isolation with one fault lets the rows of that fault through,
// and no other.
func TestWeakened(t *testing.T) {
	own := func(s sandbox.Step) string { return filepath.Join(filepath.Dir(s.Scratch), "own") }
	for name, row := range map[string]struct {
		weaken func(*sandbox.Step) sandbox.Mode
		want   []string
	}{
		"a mount of what is not the step's": {func(s *sandbox.Step) sandbox.Mode {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: own(*s), Target: own(*s)})
			return sandbox.Isolated
		}, []string{"read-token", "read-log", "through-proc", "dial-socket"}},
		"no limits": {func(s *sandbox.Step) sandbox.Mode {
			s.Limits = sandbox.Limits{}
			return sandbox.Isolated
		}, []string{"fork-bomb", "fill-disk", "eat-memory"}},
		"ordinary processes for those who attack others": {func(s *sandbox.Step) sandbox.Mode {
			if !slices.ContainsFunc(s.Env, func(v string) bool { return strings.HasPrefix(v, stepEnv+"=dial-") || v == stepEnv+"=signal" }) {
				return sandbox.Isolated
			}
			s.Command[0], _ = os.Executable()
			return sandbox.Unisolated
		}, []string{"signal", "dial-signer", "dial-log", "dial-socket", "dial-abstract"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := host(t)
			nothingLeft(t)
			b.Run = func(ctx context.Context, _ sandbox.Mode, s sandbox.Step) (sandbox.Report, error) {
				return sandbox.Run(ctx, row.weaken(&s), s)
			}
			if acts := through(t, b, append(row.want, "read-descriptors", "forge-log", "use-proxy")...); !slices.Equal(acts, row.want) {
				t.Errorf("got through: %v, want %v", acts, row.want)
			}
		})
	}
}

// TestUndecided: a step that does not run, and a row whose control does not
// succeed, are neither stopped nor through.
func TestUndecided(t *testing.T) {
	nothingLeft(t)
	ran := 0
	b := Builder{Run: func(context.Context, sandbox.Mode, sandbox.Step) (sandbox.Report, error) {
		ran++
		return sandbox.Report{}, errors.New("no runner")
	}}
	b.Isolation.Mode = sandbox.Isolated
	for name, alter := range map[string]func(*Row){
		"the step does not run":        func(*Row) {},
		"the control does not succeed": func(r *Row) { r.harm = "none that is seen" },
	} {
		r := Rows()[0]
		alter(&r)
		c := b.try(t.Context(), r)
		if c.State != doctor.Bad || c.Code != verdict.PlaceDown {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if ran != 1 {
		t.Errorf("ran %d steps, want only the one whose control succeeded", ran)
	}
}

// TestInterrupted: what was begun is ended and removed.
func TestInterrupted(t *testing.T) {
	nothingLeft(t)
	ctx, cancel := context.WithCancel(t.Context())
	b := Builder{Run: func(context.Context, sandbox.Mode, sandbox.Step) (sandbox.Report, error) {
		cancel()
		<-ctx.Done()
		return sandbox.Report{}, ctx.Err()
	}}
	b.Isolation.Mode = sandbox.Isolated
	if checks := b.Try(ctx); len(checks) != 1 || checks[0].State != doctor.Bad || checks[0].Code != verdict.PlaceDown {
		t.Errorf("%+v", checks)
	}
}
