package stories

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/test/scene"
)

// keeper is somebody at a terminal who types what status tells.
type keeper struct{ *desk }

func (k keeper) status(t *testing.T, version string) pipeline.Status {
	t.Helper()
	r := k.Run(t.Context(), "waybill", "status", version, "--profile", "profile.yaml", "--state", "state "+version, "--output", "json")
	want(t, r, 0)
	var s pipeline.Status
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// types has a shell read a line, as if it was pasted.
func (k keeper) types(t *testing.T, line string) scene.Result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = k.Dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+k.Path("cache"))
	var out, said strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	r := scene.Result{Args: []string{line}, Stdout: out.String(), Stderr: said.String(), Code: cmd.ProcessState.ExitCode()}
	if err != nil && r.Code == 0 {
		t.Fatal(err)
	}
	return r
}

// tokens writes fresh tokens, as somebody does who fetches them anew.
func (k keeper) tokens(t *testing.T) (flags []string) {
	t.Helper()
	for _, role := range []string{"builder", "builder-unisolated", "release"} {
		k.write(t, role+".token", []byte(k.Lab.Token(role)))
		flags = append(flags, "--identity-token", role+"="+role+".token")
	}
	return flags
}

// killed starts to stage a version and kills that as soon as something is
// seen in the state directory.
func (k keeper) killed(t *testing.T, version string, seen func(state string) bool) {
	t.Helper()
	state := "state " + version
	args := append([]string{"stage", version, "--profile", "profile.yaml", "--state", state, "--source", "lantern", "--confirm"}, k.tokens(t)...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), args...)
	cmd.Dir = k.Dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	watch := time.NewTicker(time.Millisecond)
	defer watch.Stop()
	for !seen(k.Path(state)) {
		select {
		case <-watch.C:
		case <-ended:
			return // too late: then status must say so, too
		}
	}
	_ = cmd.Process.Kill()
	<-ended
}

// TestLongStatusAfterSIGKILL: wherever a run is killed, status says what is true,
// and what it says to type, typed as it is, leads to a public release.
func TestLongStatusAfterSIGKILL(t *testing.T) {
	k := keeper{&desk{&workshop{Scene: openProject(t, project(t, map[string]string{"release.yaml": scene.Quick})).Scene}}}
	has := func(text string) func(string) bool {
		return func(state string) bool {
			entries, err := journal.Read(filepath.Join(state, "journal.jsonl"))
			return err == nil && slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Act+" "+e.Subject == text })
		}
	}
	exists := func(name ...string) func(string) bool {
		return func(state string) bool {
			_, err := os.Lstat(filepath.Join(append([]string{state}, name...)...))
			return err == nil
		}
	}
	moments := map[string]func(string) bool{
		"v0.2.0": has("begin build"),
		"v0.2.1": exists("files", "provenance", "draw.sigstore.json"),
		"v0.2.2": has("begin sign"),
		"v0.2.3": exists("files", "lot.sigstore.json"),
		"v0.2.4": has("begin seal"),
		"v0.2.5": exists("drafts"),
		"v0.2.6": has("begin promote to staging"),
	}
	for version, seen := range moments {
		k.tag(t, version)
		before := k.status(t, version)
		if before.Public != pipeline.NotPublic || before.Busy || !strings.Contains(before.Next, "doctor") {
			t.Errorf("before anything: %+v", before)
		}
		k.killed(t, version, seen)
		s := k.status(t, version)
		between := s.Broken == "" && strings.Contains(s.Next, " stage "+version) // it died after one act and before the next
		if s.Busy || s.Failed != "" || s.Public != pipeline.NotPublic || s.Broken == "" && !between && !strings.Contains(s.Next, " release ") {
			t.Errorf("%s, killed: %+v", version, s)
		}
		if between {
			want(t, k.types(t, s.Next), 0, "nothing was done")
			want(t, k.types(t, s.Next+" "+strings.Join(append(k.tokens(t), "--confirm"), " ")), 0, "nothing extra")
			s = k.status(t, version)
		}
		if s.Broken != "" {
			k.tokens(t)
			if !strings.Contains(s.Next, "--confirm") || !strings.Contains(s.Next, "'state "+version+"'") {
				t.Errorf("%s: next: %s", version, s.Next)
			}
			want(t, k.types(t, s.Next), 0, "nothing extra")
			s = k.status(t, version)
		}
		if s.Broken != "" || s.Public != pipeline.NotPublic || !strings.Contains(s.Next, " release "+version) {
			t.Fatalf("%s, staged: %+v", version, s)
		}
		want(t, k.types(t, s.Next), 0, "nothing extra")
		s = k.status(t, version)
		if s.Public != pipeline.IsPublic || !strings.HasPrefix(s.Next, "k8s-verify-release "+version) {
			t.Fatalf("%s, released: %+v", version, s)
		}
		want(t, k.types(t, s.Next), 0, "nothing extra")
	}
}

// TestStatusOfWhatFailed: a run that failed is told with the reason; what can
// be typed again as it is, is, and what cannot is not. One at work is left alone.
func TestStatusOfWhatFailed(t *testing.T) {
	k := keeper{&desk{&workshop{Scene: openProject(t, project(t, map[string]string{"release.yaml": scene.Quick})).Scene}}}
	version, state := scene.Version, "state "+scene.Version
	at := []string{version, "--profile", "profile.yaml", "--state", state}
	k.tokens(t)
	build := append(append([]string{"waybill", "build"}, at...), "--source", "lantern")
	want(t, k.Run(t.Context(), append(build, k.tokens(t)...)...), 0)
	want(t, k.Run(t.Context(), append([]string{"waybill", "sbom"}, at...)...), 0)

	want(t, k.Run(t.Context(), append(append([]string{"waybill", "sign"}, at...), "--confirm")...), 2, "--identity-token release=FILE")
	s := k.status(t, version)
	if s.Broken != "sign" || s.Failed != "USAGE" || strings.Contains(s.Next, " sign ") || !strings.Contains(s.Why, "sign failed with USAGE") {
		t.Errorf("%+v", s)
	}
	want(t, k.types(t, s.Next), 0, "what would be signed", "2 signed already", "nothing was done")

	if err := k.Lab.Stop("rekor"); err != nil {
		t.Fatal(err)
	}
	sign := append(append([]string{"waybill", "sign"}, at...), "--confirm", "--patience", "1ms", "--identity-token", "release=release.token")
	want(t, k.Run(t.Context(), sign...), 3, "UNAVAILABLE", "sign: signed 0, reused 0", "→")
	s = k.status(t, version)
	if s.Broken != "sign" || s.Failed != "UNAVAILABLE" || !strings.Contains(s.Next, " sign "+version) || !strings.Contains(s.Next, "--patience 1ms") {
		t.Errorf("%+v", s)
	}
	want(t, k.types(t, s.Next), 3, "UNAVAILABLE")

	held, err := journal.Open(k.Path(state, "journal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	want(t, k.Run(t.Context(), sign...), 3, "BUSY", "in use by another run", "wait until the other run has ended")
	if s = k.status(t, version); !s.Busy || !strings.Contains(s.Next, " status ") {
		t.Errorf("%+v", s)
	}
	want(t, k.types(t, s.Next), 0, "another run is using ")
}

// tag names the commit once more.
func (k keeper) tag(t *testing.T, version string) {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", "tag", version)
	cmd.Dir = k.Path("lantern")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
