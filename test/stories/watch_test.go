package stories

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// TestDocsWatch runs the commands of the page, then kills runs at many moments: a planted
// signature is an alarm in the run after them, once, and stays one.
func TestDocsWatch(t *testing.T) {
	s := published(t)
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "watch-the-log.md"))
	if err != nil {
		t.Fatal(err)
	}
	ran := 0
	for line := range strings.Lines(string(page)) {
		if command, is := strings.CutPrefix(line, "    waybill watch "); is {
			ran++
			want(t, s.Run(t.Context(), append([]string{"waybill", "watch"}, strings.Fields(strings.Replace(command, "https://log.example.test", s.Lab.Rekor, 1))...)...), 0)
		}
	}
	if ran != 2 {
		t.Errorf("%d commands on the page", ran)
	}
	if !bytes.Contains(sceneFile(t, s, "watch.prom"), []byte(`outcome="done"} 1`)) {
		t.Error("the metrics of an accepting run lack its outcome")
	}
	if _, err := s.Sign(t.Context(), lab.RoleRelease, sceneFile(t, s, "state", "plan.json")); err != nil {
		t.Fatal(err)
	}
	for wait := time.Millisecond; wait < 200*time.Millisecond; wait += 10 * time.Millisecond {
		ctx, kill := context.WithTimeout(t.Context(), wait)
		run := exec.CommandContext(ctx, filepath.Join(bin, "waybill"), "watch", "--profile", "profile.yaml", "--log", s.Lab.Rekor, "--state", "killed", "--from", "0", "--releases", "state")
		run.Dir = s.Dir
		_ = run.Run() // killed, or refused
		kill()
	}
	for _, state := range []string{"watch", "killed", "killed"} {
		r := s.Run(t.Context(), "waybill", "watch", "--profile", "profile.yaml", "--log", s.Lab.Rekor, "--state", state, "--releases", "state", "--from", "0", "--output", "json")
		want(t, r, 1)
		if v := parse(t, r); len(v.Findings) != 1 || v.Findings[0].Code != "LOG_UNEXPLAINED" {
			t.Errorf("%s: %+v", r, v.Findings)
		}
	}
	// A log that does not answer hides no alarm of the passes before.
	for state, code := range map[string]int{"watch": 1, "empty": 3} {
		r := s.Run(t.Context(), "waybill", "watch", "--profile", "profile.yaml", "--log", "http://127.0.0.1:1", "--state", state, "--output", "json")
		want(t, r, code)
		if alarmed := strings.Contains(r.Stdout, `"LOG_UNEXPLAINED"`); alarmed != (code == 1) {
			t.Errorf("without an answer, %s: %s", state, r.Stdout)
		}
	}
}

func sceneFile(t *testing.T, s *scene.Scene, path ...string) []byte {
	t.Helper()
	raw, err := os.ReadFile(s.Path(path...))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
