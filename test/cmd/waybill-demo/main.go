// Command waybill-demo builds, signs, seals, stages, gates, promotes and
// verifies a real release on this machine, then attacks it in six ways.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-release/waybill/test/scene"
)

func main() {
	bin := flag.String("bin", "bin", "directory of the built commands")
	example := flag.String("example", "test/example", "the project to release")
	keep := flag.String("keep", "", "set the scene in this empty directory and leave it there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, os.Stdout, *bin, *example, *keep); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, w io.Writer, bin, example, keep string) error {
	dir, done, err := place(keep)
	if err != nil {
		return err
	}
	defer done()
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	d := &teller{w: w, start: time.Now()}
	d.say("A lab starts: an identity provider, Fulcio, a transparency log, a timestamp\nauthority, a registry and a bucket, all on loopback. Nothing else is dialled.")
	lower := scene.LowerLevel(ctx, bin)
	if lower == "" {
		d.say("With it starts a build service. It alone holds the builder's token, and its account is\nnot the one that types the commands below.")
	}
	s, err := scene.Open(ctx, scene.Options{Bin: bin, Dir: dir, Example: example, Service: lower == "", Watch: d.show})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := release(ctx, d, s, lower); err != nil {
		return err
	}
	if err := attacks(ctx, d, s); err != nil {
		return err
	}
	if err := levels(ctx, d, s, lower); err != nil {
		return err
	}
	return d.ending(keep)
}

// release takes the example the whole way.
func release(ctx context.Context, d *teller, s *scene.Scene, lower string) error {
	d.title("1. What will exist")
	d.say("release.yaml, as it is in the tagged commit, expands to a plan: every file to come,\nwith every signature, SBOM and provenance about it. Nothing is implicit.")
	planned := s.Run(ctx, "waybill", "plan", scene.Version, "--profile", "profile.yaml", "--source", s.Source())
	if err := accepted(planned); err != nil {
		return err
	}
	d.title("2. Build, describe, sign, seal, stage")
	d.say("Each step runs isolated; the builder identity signs its provenance before an output\nleaves. Then the release identity signs what was planned and proven, and seals the list.")
	if lower == "" {
		d.say("The release manager asks the service for the version. It fetches the tag from the\nsource's server, and its account runs:")
		if err := s.Build(ctx); err != nil {
			return err
		}
		d.say("The release manager has what was built, with its signed provenance, and no token of\nthe builder:")
	}
	if err := accepted(s.Stage(ctx)); err != nil {
		return err
	}
	d.title("3. Gate, promote, verify")
	d.say("The gate decides about what lies in staging; exactly that is copied, the manifest\nlast; then the release is verified where users will find it.")
	if err := accepted(s.Release(ctx)); err != nil {
		return err
	}
	d.title("4. What a downstream user types")
	return accepted(s.Verify(ctx))
}

// levels shows every requirement of KEP-3027's levels, and which one the machine
// cannot meet.
func levels(ctx context.Context, d *teller, s *scene.Scene, lower string) error {
	d.title("The levels of KEP-3027, requirement by requirement")
	d.whole = true
	if lower != "" {
		d.say("Level 3 needs a build service under an account of its own, and this machine has none:\n" + lower + ".")
		return accepted(s.Verify(ctx, "--report", "kep-3027"))
	}
	d.say("The lab's source verifier signs a summary of the revision, and the policy declares what\nno program can check. Both are facts of the lab, and are shown as what they are.")
	if err := s.VerifySource(ctx); err != nil {
		return err
	}
	return accepted(s.Verify(ctx, "--source-vsa", scene.SourceSummary, "--require-level", "kep-3027=3", "--report", "kep-3027"))
}

// attacks shows each attack refused, and the same release accepted once the
// attack is taken back.
func attacks(ctx context.Context, d *teller, s *scene.Scene) error {
	for i, a := range scene.Attacks() {
		d.title(fmt.Sprintf("Attack %d: %s", i+1, a.Name))
		d.say(a.Why)
		undo, err := a.Do(ctx, s)
		if err != nil {
			return fmt.Errorf("attack %q: %w", a.Name, err)
		}
		r := a.Check(ctx, s)
		if err := refused(r, a.Codes); err != nil {
			return fmt.Errorf("attack %q: %w", a.Name, err)
		}
		if err := undo(); err != nil {
			return fmt.Errorf("attack %q: taking it back: %w", a.Name, err)
		}
		d.quiet = true
		again := a.Check(ctx, s)
		d.quiet = false
		if err := accepted(again); err != nil {
			return fmt.Errorf("attack %q: after it was taken back: %w", a.Name, err)
		}
		d.say("Taken back, the same command accepts again: exit 0.")
	}
	return nil
}

func accepted(r scene.Result) error {
	if r.Code != 0 {
		return fmt.Errorf("%s ended with status %d:\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	return nil
}

func refused(r scene.Result, codes []string) error {
	if r.Code != 1 {
		return fmt.Errorf("%s ended with status %d, want 1:\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	for _, code := range codes {
		if !strings.Contains(r.Stdout+r.Stderr, code) {
			return fmt.Errorf("%s refused, but not for %s:\n%s%s", r, code, r.Stdout, r.Stderr)
		}
	}
	return nil
}

// place returns the directory of the scene and what cleans it up.
func place(keep string) (string, func(), error) {
	if keep != "" {
		dir, err := filepath.Abs(keep)
		if err != nil {
			return "", nil, err
		}
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			return "", nil, fmt.Errorf("%s is not empty", keep)
		}
		return dir, func() {}, os.MkdirAll(dir, 0o755)
	}
	dir, err := os.MkdirTemp("", "waybill-demo-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}
