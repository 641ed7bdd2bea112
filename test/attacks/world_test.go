package attacks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// world is one scene for the whole package: a lab, a small project, and the
// profile and policy that judge it. Nobody changes it; who attacks a release
// takes a copy of its workspace.
type world struct {
	*scene.Scene
	profile  profile.Profile
	verifier *verify.Verifier
	version  version.Version
	// sealed makes one sealed release, once, and returns its workspace.
	sealed func() (string, error)
}

// opened is the package's world while the tests run.
var opened struct {
	once  sync.Once
	world *world
	err   error
}

func theWorld(t testing.TB) *world {
	t.Helper()
	opened.once.Do(func() { opened.world, opened.err = openWorld(sceneDir) })
	if opened.err != nil {
		t.Fatal(opened.err)
	}
	return opened.world
}

func openWorld(dir string) (*world, error) {
	s, err := scene.Open(context.Background(), scene.Options{
		Verbose: true,
		Bin:     filepath.Join(dir, "bin"), Dir: filepath.Join(dir, "scene"), Example: filepath.Join("..", "scene", "shell"),
	})
	if err != nil {
		return nil, err
	}
	w := &world{Scene: s}
	for _, role := range lab.Roles() {
		token, err := s.Lab.Mint(role, map[string]any{"exp": time.Now().Add(time.Hour).Unix()}) // all the suite uses it, on machines that are slow
		if err != nil {
			return w, err
		}
		if err := os.WriteFile(s.Path(role+".token"), []byte(token), 0o600); err != nil {
			return w, err
		}
	}
	if w.profile, err = profile.Load(s.Path("profile.yaml"), profile.Reader{Now: time.Now()}); err != nil {
		return w, err
	}
	if w.verifier, err = verify.New(w.profile.TrustRoot); err != nil {
		return w, err
	}
	if w.version, err = version.Parse(scene.Version); err != nil {
		return w, err
	}
	w.sealed = sync.OnceValues(func() (string, error) { return w.seal(s.Path("sealed")) })
	return w, nil
}

// seal takes the project as far as the sealed manifest.
func (w *world) seal(state string) (string, error) {
	p, err := w.pipeline(state)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	for _, stage := range []func(context.Context) error{p.Build, p.SBOM, p.Sign, p.Seal} {
		if err := stage(ctx); err != nil {
			return "", err
		}
	}
	return state, nil
}

// under is the gate of a profile.
func (w *world) under(p profile.Profile) gate.Gate {
	return gate.Under(p, w.verifier, gate.Waivers{}, nil)
}

// pipeline is the product's own pipeline on a workspace, in this process.
func (w *world) pipeline(state string, edits ...func(*pipeline.Config)) (*pipeline.Pipeline, error) {
	c := pipeline.Config{
		Gate: w.under(w.profile), Version: w.version, RunState: pipeline.RunState{State: state}, Source: pipeline.Source{Repository: w.Path("lantern")},
		Signing: pipeline.Signing{Tokens: map[string]token.Source{}}, Report: func(context.Context, string, ...any) {},
		World: pipeline.World{Transport: http.DefaultTransport, OpenWriter: store.OpenWriter, Clock: time.Now},
	}
	for _, name := range pipeline.TokenNames() {
		c.Tokens[name] = token.File(w.Path(name + ".token"))
	}
	for _, edit := range edits {
		edit(&c)
	}
	return pipeline.New(c)
}

// copyOf is a copy of the sealed workspace that a test may attack.
func (w *world) copyOf(t testing.TB) string {
	t.Helper()
	state, err := w.sealed()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "state")
	if err := os.CopyFS(dir, os.DirFS(state)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// observed are the codes that tests saw the product refuse with, each with
// the tests that saw it.
var observed struct {
	sync.Mutex
	by map[verdict.Code][]string
}

func observe(t testing.TB, codes ...verdict.Code) {
	observed.Lock()
	defer observed.Unlock()
	if observed.by == nil {
		observed.by = map[verdict.Code][]string{}
	}
	for _, c := range codes {
		observed.by[c] = append(observed.by[c], t.Name())
	}
}

// codesOf are the codes that an error stands for, each once, sorted.
func codesOf(err error) []verdict.Code {
	var judged *verdict.NotAcceptedError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &judged):
		return []verdict.Code{verdict.FindingOf("", err).Code}
	case len(judged.Verdict.Findings) == 0:
		return []verdict.Code{"NO_FINDING"}
	}
	var codes []verdict.Code
	for _, f := range judged.Verdict.Findings {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// refused demands that err refuses with exactly these codes, and no code at
// all demands acceptance.
func refused(t testing.TB, err error, want ...verdict.Code) {
	t.Helper()
	slices.Sort(want)
	got := codesOf(err)
	if !slices.Equal(got, want) {
		t.Fatalf("codes %v, want %v:%s", got, want, explain(err))
	}
	observe(t, got...)
}

// accepted demands that there is no error: the twin of a refusal.
func accepted(t testing.TB, err error) {
	t.Helper()
	refused(t, err)
}

func explain(err error) string {
	var judged *verdict.NotAcceptedError
	if !errors.As(err, &judged) {
		return fmt.Sprintf("\n\t%v", err)
	}
	var text string
	for _, f := range judged.Verdict.Findings {
		text += fmt.Sprintf("\n\t%s %s: %s (want %s, got %s)", f.Code, f.Subject, f.Message, f.Want, f.Got)
	}
	return text
}

// must stops a test whose own preparation fails.
func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
