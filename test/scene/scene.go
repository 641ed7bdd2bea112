// Package scene sets the stage for the demo and the stories: a lab, the
// example project in a git repository of its own, a policy, a profile, and the
// built commands, run as a user runs them.
//
//	s, err := scene.Open(ctx, scene.Options{Bin: bin, Dir: dir, Source: "../example"})
//	defer s.Close()
//	out := s.Run("waybill", "stage", s.Version, …)
package scene

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/test/lab"
)

// Version is the release that the scene makes.
const Version = "v0.1.0"

// Options say where things are and who watches.
type Options struct {
	Bin     string // directory of the built commands
	Dir     string // where the scene is set; must be empty
	Example string // the example project
	// Service starts a build service under an account of its own, if
	// [LowerLevel] has no objection.
	Service bool
	// Verbose asks every command that prints a verdict for all of it, with
	// --verbose, unless it is run with --verbose, --quiet or --output.
	Verbose bool
	// Elsewhere changes where the release is staged and published: [Scene.Places],
	// which are the lab's if it is nil. It may add to [Scene.Env], too.
	Elsewhere func(*Scene)
	// Issuers are other issuers that the lab's Fulcio accepts: [lab.Options].
	Issuers []string
	// Watch sees every command before it runs, and its output after.
	Watch func(Result)
}

// Scene is a lab with a project that can be released in it.
type Scene struct {
	Options
	Lab *lab.Lab
	// Places are where the release is staged and published.
	Places Places
	// Env is added to the environment of the commands that are run.
	Env []string

	service *buildService // nil if there is none
	first   *Scene        // whose lab and repository a copy uses; nil in the first
}

// Result is how one command ended.
type Result struct {
	Args   []string
	Stdout string
	Stderr string
	Code   int
}

// Open sets the scene.
func Open(ctx context.Context, o Options) (*Scene, error) {
	l, err := lab.Start(ctx, lab.Options{Dir: filepath.Join(o.Dir, "lab"), Issuers: o.Issuers})
	if err != nil {
		return nil, err
	}
	s := &Scene{Options: o, Lab: l, Places: labPlaces(l)}
	if o.Elsewhere != nil {
		o.Elsewhere(s)
	}
	set := []func(context.Context) error{s.writeTrust, s.pushBase, s.writeProject, s.writePolicy, s.writeProfile}
	if o.Service {
		set = append(append([]func(context.Context) error{s.openService}, set...), s.handOver)
	}
	for _, set := range set {
		if err := set(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// Close ends the lab, and takes back what another account was given. Closing a
// copy does nothing.
func (s *Scene) Close() error {
	var err error
	if s.first != nil {
		return nil
	}
	if s.service != nil {
		s.service.server.Close()
		err = s.give(s.Dir, os.Geteuid())
	}
	return errors.Join(err, s.Lab.Close())
}

// Path is a file of the scene.
func (s *Scene) Path(elem ...string) string {
	return filepath.Join(append([]string{s.Dir}, elem...)...)
}

// Run runs one of the built commands in the scene's directory.
func (s *Scene) Run(ctx context.Context, args ...string) Result {
	account := -1
	if s.service != nil {
		account = s.service.user
	}
	return s.runAs(ctx, account, args...)
}

// Whole adds --verbose to a command that prints a verdict.
func Whole(args []string) []string {
	if !shortens(args) {
		return args
	}
	return append(slices.Clone(args), "--verbose")
}

// shortens reports whether a command prints a verdict that is not whole.
func shortens(args []string) bool {
	for _, flag := range args {
		name, _, _ := strings.Cut(flag, "=")
		if slices.Contains([]string{"--verbose", "--quiet", "--output", "-o", "--report", "--help", "--"}, name) {
			return false
		}
	}
	words := strings.Join(args, " ") + " "
	return slices.ContainsFunc([]string{
		"k8s-verify-release ", "waybill verify release ", "waybill verify file ", "waybill verify image ", "waybill verify bundle ", "waybill verify layout ",
		"waybill gate check ", "waybill gate file ", "waybill gate image ", "waybill gate audit ",
		"waybill stage ", "waybill release ", "waybill promote apply ", "waybill promote merge ", "waybill sbom check ", "waybill sbom validate ",
		"waybill signoff check ", "waybill feature preflight ",
	}, func(command string) bool { return strings.HasPrefix(words, command) })
}

// runAs runs a command under an account; -1 is that of this process.
func (s *Scene) runAs(ctx context.Context, account int, args ...string) Result {
	r := Result{Args: args}
	if s.Verbose {
		args = Whole(args)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(s.Bin, args[0]), args[1:]...)
	cmd.Dir = s.Dir
	cmd.Env = append(append(os.Environ(), "XDG_CACHE_HOME="+s.Path("cache")), s.Env...) // nobody's trust but the scene's
	if account >= 0 {
		runUnder(cmd, account)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		r.Code = -1
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			r.Code = exit.ExitCode()
		} else {
			fmt.Fprintln(&stderr, err)
		}
	}
	r.Stdout, r.Stderr = stdout.String(), stderr.String()
	if s.Watch != nil {
		s.Watch(r)
	}
	return r
}

// Stage builds and stages the release.
func (s *Scene) Stage(ctx context.Context, flags ...string) Result {
	roles := []string{"builder", "builder-unisolated", "release"}
	if s.service != nil {
		roles = []string{"release"} // only the service has the builder's token
	}
	args := []string{"waybill", "stage", Version, "--profile", "profile.yaml", "--state", "state", "--source", s.Source()}
	args = append(append(args, s.tokenFlags(roles...)...), flags...)
	return s.Run(ctx, append(args, "--confirm")...)
}

// BuildAndSeal makes the release as Stage does, and copies it to no place. It
// ends with the first command that fails.
func (s *Scene) BuildAndSeal(ctx context.Context) (last Result) {
	for _, command := range []struct {
		args  []string
		roles []string
	}{
		{[]string{"build", "--source", s.Source()}, []string{"builder", "builder-unisolated"}},
		{[]string{"sbom"}, nil},
		{[]string{"sign", "--confirm"}, []string{"release"}},
		{[]string{"seal", "--confirm"}, []string{"release"}},
	} {
		args := append([]string{"waybill", command.args[0], Version, "--profile", "profile.yaml", "--state", "state"}, command.args[1:]...)
		if last = s.Run(ctx, append(args, s.tokenFlags(command.roles...)...)...); last.Code != 0 {
			return last
		}
	}
	return last
}

// Release publishes what is staged.
func (s *Scene) Release(ctx context.Context) Result {
	return s.Run(ctx, "waybill", "release", Version, "--profile", "profile.yaml", "--state", "state", "--confirm")
}

// Verify verifies the published release as a user does.
func (s *Scene) Verify(ctx context.Context, flags ...string) Result {
	return s.Run(ctx, append([]string{"k8s-verify-release", Version, "--profile", "profile.yaml"}, flags...)...)
}

// Seal seals again what is in the state directory.
func (s *Scene) Seal(ctx context.Context) Result {
	args := []string{"waybill", "seal", Version, "--profile", "profile.yaml", "--state", "state", "--confirm"}
	return s.Run(ctx, append(args, s.tokenFlags("release")...)...)
}

// tokenFlags mints fresh tokens and returns the flags that name them.
func (s *Scene) tokenFlags(roles ...string) []string {
	var flags []string
	for _, role := range roles {
		name := role + ".token"
		err := os.WriteFile(s.Path(name), []byte(s.Lab.Token(role)), 0o600)
		if s.service != nil {
			err = errors.Join(err, os.Chown(s.Path(name), s.service.user, s.service.user))
		}
		if err != nil {
			panic("scene: writing a token: " + err.Error())
		}
		flags = append(flags, "--identity-token", role+"="+name)
	}
	return flags
}

// String is the command as it can be typed.
func (r Result) String() string {
	quoted := make([]string, len(r.Args))
	for i, a := range r.Args {
		if strings.ContainsAny(a, " {}$\"") {
			a = "'" + a + "'"
		}
		quoted[i] = a
	}
	return strings.Join(quoted, " ")
}

// writeFile writes a file of the scene.
func (s *Scene) writeFile(name string, body []byte) error {
	path := s.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, body, 0o644)
}
