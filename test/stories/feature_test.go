package stories

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/component-base/featuregate"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/scene"
)

// switcher reconciles features in these stories.
const switcher = "reconciler@lab.invalid"

// switchroom is a site of features with its reconciler.
type switchroom struct {
	*desk
	t *testing.T
}

func openSwitchroom(t *testing.T) switchroom {
	t.Helper()
	s := switchroom{openDesk(t), t}
	issuer, _ := s.Lab.Identity("release")
	bench{s.Scene}.policy(t, "policy.yaml", string(s.read(t, "policy.yaml")),
		"roles:\n", fmt.Sprintf("roles:\n  reconciler: [{issuer: %q, subject: %q, type: email}]\n", issuer, switcher))
	s.token("reconciler.token", switcher)
	s.file("FEATURES.yaml", "dynamic: [StatusPage]\n")
	return s
}

// token writes a fresh token of somebody.
func (s switchroom) token(name, as string) {
	s.t.Helper()
	text, err := s.Lab.Mint(as, map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
	if err != nil {
		s.t.Fatal(err)
	}
	s.write(s.t, name, []byte(text))
}

// file writes what a reconciler is told.
func (s switchroom) file(name, more string) {
	s.t.Helper()
	s.write(s.t, name, []byte(`apiVersion: waybill/v1
kind: Features
site: site
profile: profile.yaml
identity: reconciler-0
every: 1s
reporters: [{identity: promoter, every: 1s}]
`+more))
}

// feature runs a command about features.
func (s switchroom) feature(args ...string) scene.Result {
	s.t.Helper()
	return s.Run(s.t.Context(), append([]string{"waybill", "feature"}, args...)...)
}

// pass makes one pass of the reconciler.
func (s switchroom) pass(flags ...string) scene.Result {
	s.t.Helper()
	args := []string{"reconcile", "FEATURES.yaml", "--once", "--identity-token", "reconciler=reconciler.token", "--confirm"}
	return s.feature(append(args, flags...)...)
}

// get reads one feature, as the command prints it.
func (s switchroom) get(name string) feature.Feature {
	s.t.Helper()
	r := s.feature("get", name, "--features", "site", "--output", "json")
	want(s.t, r, 0)
	f, err := feature.Parse([]byte(r.Stdout))
	if err != nil {
		s.t.Fatal(err)
	}
	return f
}

// report says what a program found that follows the store in what is dynamic.
func (s switchroom) report() {
	s.t.Helper()
	site, err := featurestore.OpenSite(s.Path("site"), func(uri string) (featurestore.Place, error) {
		at, err := store.Open(uri, nil)
		if err != nil {
			return featurestore.Place{}, err
		}
		w, err := store.OpenWriter(uri)
		return featurestore.Place{Place: at, Writer: w}, err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	running := must(version.Parse(s.get(known.StatusPage).Status.LastKnownVersion))(s.t)
	g := must(componentbase.At(running.Major(), running.Minor()))(s.t)
	for _, err := range []error{
		componentbase.Add(g, known.Registry(), feature.CoreNamespace),
		g.InitReporter(componentbase.Reporter{Store: site.Features, Namespace: feature.CoreNamespace, Identity: "promoter", Version: running}),
		g.Follow(s.t.Context(), featuregate.Feature(known.StatusPage)),
		g.Report(s.t.Context()),
	} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// until makes passes, and reports, until a feature is in a state.
func (s switchroom) until(name string, state feature.State) {
	s.t.Helper()
	var last scene.Result
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		last = s.pass()
		want(s.t, last, 0)
		if s.get(name).Status.State == state {
			return
		}
		s.report()
	}
	s.t.Fatalf("%s does not become %s:\n%s", name, state, last.Stdout)
}

// TestFeatureCommands: features are announced and switched, each step is signed,
// and what is left to do is said.
func TestFeatureCommands(t *testing.T) {
	s := openSwitchroom(t)
	s.begins()

	want(t, s.pass(), 0, "waybill/StatusPage  TurningOn: Off to TurningOn", "left WaitForUses")
	want(t, s.pass(), 0, "no report yet from: promoter")
	want(t, s.feature("preflight", "FEATURES.yaml", "--to", "v0.3"), 1, "FEATURE_UNSAFE", "waybill/StatusPage", "the feature is TurningOn")
	s.until(known.StatusPage, feature.On)
	s.people()
	s.until(known.StatusPage, feature.Off)
	want(t, s.feature("set", "StatusPage", "On", "--features", "site", "--confirm"), 0, "StatusPage is Off; desired state On at everything")
	s.until(known.StatusPage, feature.On)

	f := s.get(known.StatusPage)
	var went []string
	for i, e := range f.Status.History {
		went = append(went, e.Transition.To)
		if e.Statement != fmt.Sprintf("waybill/StatusPage/%d.sigstore.json", i+1) {
			t.Errorf("the statement about transition %d is %q", i+1, e.Statement)
		}
		s.says(e)
	}
	if !slices.Equal(went, []string{"TurningOn", "On", "TurningOff", "Off", "TurningOn", "On"}) {
		t.Errorf("it went %v", went)
	}
	want(t, s.feature("get", "StatusPage", "--config", "FEATURES.yaml"), 0,
		"On since transition 6", "promoter", "Off to TurningOn", "all tasks are done", "waybill/StatusPage/6.sigstore.json", "SafeToUpgrade")
	s.ahead()
}

// begins: nothing is done that is not confirmed, by who may not, or where the
// site is not mounted.
func (s switchroom) begins() {
	t := s.t
	t.Helper()
	want(t, s.pass(), 3, "make the directory, or mount it")
	if err := os.Mkdir(s.Path("site"), 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, s.feature("reconcile", "FEATURES.yaml", "--once"), 0, "waybill/StatusPage  Off: announced", "nothing was done", "--confirm")
	want(t, s.feature("reconcile", "FEATURES.yaml", "--once", "--confirm"), 2, "reconciler=FILE")
	if left := must(os.ReadDir(s.Path("site", "features")))(t); len(left) > 0 {
		t.Errorf("something was written: %v", left)
	}
	want(t, s.feature("preflight", "--features", "site", "--to", "v0.3"), 1, "FEATURE_UNSAFE", "nothing was checked")
	want(t, s.feature("list", "--features", "site"), 0, "no features yet")

	// Who may not sign is told so once, before anything is written.
	s.token("reconciler.token", "release")
	r := s.pass()
	want(t, r, 1, "SIGNED_AS_ELSE", "nothing was written", "release@lab.invalid")
	if n := strings.Count(r.Stdout+r.Stderr, "SIGNED_AS_ELSE"); n != 1 {
		t.Errorf("it is said %d times:\n%s%s", n, r.Stdout, r.Stderr)
	}
	for _, part := range []string{"features", "statements", "members"} {
		if left := must(os.ReadDir(s.Path("site", part)))(t); len(left) > 0 {
			t.Errorf("something was written: %v", left)
		}
	}
	s.token("reconciler.token", switcher)
	want(t, s.pass(), 0, "announced")
	want(t, s.feature("reconcile", "FEATURES.yaml", "--once"), 0, "Off to TurningOn", "nothing was done")
}

// people: what the store decides is set there, and nothing else.
func (s switchroom) people() {
	t := s.t
	t.Helper()
	set := func(args ...string) scene.Result { return s.feature(append([]string{"set"}, args...)...) }
	want(t, set("StatusPage", "Off", "--features", "site"), 0, "StatusPage is On", "then desired state Off", "nothing was written")
	if f := s.get(known.StatusPage); f.Spec.Desired == feature.Off {
		t.Error("it was written without being confirmed")
	}
	for _, confirm := range [][]string{nil, {"--confirm"}} {
		r := set(append([]string{"RequireProvenance", "On", "--features", "site"}, confirm...)...)
		want(t, r, 2, "not dynamic: ", `RequireProvenance: {state: "On"}`, "FEATURES.yaml")
	}
	want(t, set("Nonsense", "On", "--features", "site", "--confirm"), 1, "MISSING", "waybill/Nonsense")
	want(t, set("nonsense", "On", "--features", "site"), 2, "NAMESPACE/Name")
	want(t, set("StatusPage", "on", "--features", "site"), 2, "want On or Off")
	want(t, set("StatusPage", "--features", "site"), 2, "no change given")
	want(t, set("StatusPage", "Off", "--scope", "registry.example.test/prod", "--features", "site"), 2, "a scope is only for On")
	want(t, set("StatusPage", "On"), 2, "--features")
	want(t, set("StatusPage", "On", "--scope", "https://registry.example.test", "--features", "site"), 1, "want host/path")
	want(t, set("StatusPage", "Off", "--features", "site", "--confirm"), 0, "StatusPage is On; desired state Off")
}

// ahead: the versions that can be started, and the one that cannot before the
// data are ready.
func (s switchroom) ahead() {
	t := s.t
	t.Helper()
	s.until(known.BundleReferrers, feature.On)
	for _, name := range []string{known.EmitVSA, known.KMSSigning, known.TraceAnnotations} {
		s.until(name, feature.On)
	}
	want(t, s.pass(), 0, "nothing to do")
	want(t, s.feature("preflight", "--features", "site", "--to", "v0.3"), 0, "OK ")
	r := s.feature("preflight", "FEATURES.yaml", "--to", "v0.3.1", "--output", "json")
	want(t, r, 0)
	if a := parse(t, r); a.Outcome != "accepted" || a.Counts.Verified != len(known.Namespace().Features) {
		t.Errorf("%+v", a)
	}
	want(t, s.feature("preflight", "FEATURES.yaml", "--features", "site", "--to", "v0.3"), 2, "give one of the two")
	want(t, s.feature("preflight", "FEATURES.yaml"), 2, "--to")
	want(t, s.feature("preflight", "FEATURES.yaml", "--to", "next"), 2, "--to", "v0.2")
	if s.get(known.BundleReferrers).Status.Schema == 2 {
		want(t, s.feature("preflight", "FEATURES.yaml", "--to", "v0.1"), 1, "FEATURE_UNSAFE", "waybill/BundleReferrers", "reads schema 1")
		want(t, s.feature("set", "BundleReferrers", "--prepare-for", "v0.1", "--features", "site", "--confirm"), 0, "data prepared for v0.1.0")
		if f := s.get(known.BundleReferrers); f.Spec.PrepareFor != "v0.1.0" {
			t.Errorf("it is prepared for %q", f.Spec.PrepareFor)
		}
	}
	s.lists()
}

// lists: the list has all features, for people and for programs.
func (s switchroom) lists() {
	t := s.t
	t.Helper()
	r := s.feature("list", "--config", "FEATURES.yaml", "--output", "json")
	want(t, r, 0)
	var list struct {
		Kind  string
		Items []feature.Feature
	}
	if err := json.Unmarshal([]byte(r.Stdout), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != len(known.Namespace().Features) {
		t.Errorf("%d features", len(list.Items))
	}
	want(t, s.feature("list", "--features", "site"), 0, "waybill/RequireProvenance  Off", "on at everything")
	want(t, s.feature("list", "--features", "site", "--output", "poem"), 2, "table or json")
	want(t, s.feature("list", "--features", "nowhere"), 3, "nowhere")
	want(t, s.feature(), 2)
}

// says holds what was signed against the transition.
func (s switchroom) says(e feature.Entry) {
	s.t.Helper()
	name := filepath.Join("site", "statements", filepath.FromSlash(e.Statement))
	evidence := s.evidence(s.t, name)
	said, err := featuretransition.Parse(evidence.Statement())
	if err != nil {
		s.t.Fatal(err)
	}
	if said.Number != e.Transition.Number || said.To != e.Transition.To || said.Trace == nil {
		s.t.Errorf("%s says %+v", name, said)
	}
	ask := policy.Ask{Role: policy.Reconciler, Kind: featuretransition.PredicateType, Subject: name, Whole: true}
	if _, err := s.policy(s.t).Judge(evidence, ask); err != nil {
		s.t.Error(err)
	}
}

// TestFeatureReconcileLoop: without --once it goes on by itself, tells what is new
// and by whom it was signed, and ends when it is told to.
func TestFeatureReconcileLoop(t *testing.T) {
	s := openSwitchroom(t)
	if err := os.Mkdir(s.Path("site"), 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, s.feature("reconcile", "FEATURES.yaml", "--output", "json"), 2, "--once")
	s.file("bad.yaml", "window: 1ms\n")
	want(t, s.feature("reconcile", "bad.yaml"), 2, "bad.yaml", "8:9")
	s.file("wanted.yaml", `desired: {RequireProvenance: {state: "On"}}`+"\n")
	want(t, s.feature("reconcile", "wanted.yaml", "--once"), 0, "WARNING: RequireProvenance is listed under desired", "the policy does not name it")

	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), "feature", "reconcile", "FEATURES.yaml",
		"--identity-token", "reconciler=reconciler.token", "--log-format", "json", "--confirm")
	cmd.Dir = s.Path(".")
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	traces := map[string]bool{}
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		var line struct {
			Msg   string `json:"msg"`
			Trace string `json:"trace_id"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		traces[line.Trace] = true
		if strings.Contains(line.Msg, "no report yet from: promoter") {
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what is left is told, and the pipe closed
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if len(traces) < 3 || traces[""] {
		t.Errorf("%d traces: each pass is a run of its own, and so is the command", len(traces))
	}
	if f := s.get(known.StatusPage); f.Status.State != feature.TurningOn || f.Status.History[0].Statement == "" {
		t.Errorf("it is %s, %+v", f.Status.State, f.Status.History)
	}
}

// TestFeatureBucket: a site can be a bucket, which needs no preparing, and has
// the history of every feature.
func TestFeatureBucket(t *testing.T) {
	s := openSwitchroom(t)
	site := strings.Replace(s.Lab.Bucket, "http://", "gs+http://", 1) + "/staging/features"
	bench{s.Scene}.policy(t, "FEATURES.yaml", string(s.read(t, "FEATURES.yaml")), "site: site", fmt.Sprintf("site: %q", site))
	want(t, s.feature("reconcile", "FEATURES.yaml", "--once"), 0, "waybill/StatusPage  Off: announced", "nothing was done")
	want(t, s.feature("preflight", "FEATURES.yaml", "--to", "v0.3"), 1, "nothing was checked")
	want(t, s.pass(), 0, "waybill/StatusPage  Off: announced")
	want(t, s.pass(), 0, "waybill/StatusPage  TurningOn: Off to TurningOn")
	want(t, s.feature("get", "StatusPage", "--features", site), 0, "TurningOn since transition 1", "waybill/StatusPage/1.sigstore.json")
	want(t, s.feature("set", "StatusPage", "Off", "--features", site, "--confirm"), 0, "desired state Off")
	want(t, s.pass(), 0, "waybill/StatusPage  TurningOff: TurningOn to TurningOff")
	if err := s.Lab.Stop("bucket"); err != nil {
		t.Fatal(err)
	}
	s.Env = append(s.Env, "WAYBILL_PATIENCE=1s")
	want(t, s.pass(), 3, "UNAVAILABLE")
	want(t, s.feature("list", "--config", "FEATURES.yaml"), 3, "UNAVAILABLE")
	want(t, s.feature("preflight", "FEATURES.yaml", "--to", "v0.3"), 3, "UNAVAILABLE")
}

// TestFeatureHelp: every command explains itself, and the file that the help
// shows is one.
func TestFeatureHelp(t *testing.T) {
	s := newBench(t)
	for _, command := range []string{"list", "get", "set", "reconcile", "preflight"} {
		want(t, s.Run(t.Context(), "waybill", "feature", command, "--help"), 0, "EXIT STATUS", "Examples:")
	}
	help := s.Run(t.Context(), "waybill", "feature", "reconcile", "--help").Stdout
	_, shown, _ := strings.Cut(help, "\n\n  apiVersion:")
	shown, _, _ = strings.Cut(shown, "\n\n")
	if _, err := config.ParseConfig([]byte(strings.ReplaceAll("apiVersion:"+shown, "\n  ", "\n")), ".", known.Registry()); err != nil {
		t.Errorf("%v\n%s", err, shown)
	}
}
