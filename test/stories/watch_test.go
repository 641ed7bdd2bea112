package stories

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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
	ran, service := 0, []string(nil)
	for line := range strings.Lines(string(page)) {
		if command, is := strings.CutPrefix(line, "    waybill watch "); is {
			ran++
			args := strings.Fields(strings.Replace(command, "https://log.example.test", s.Lab.Rekor, 1))
			if strings.Contains(command, "--interval") {
				service = args
				continue
			}
			want(t, s.Run(t.Context(), append([]string{"waybill", "watch"}, args...)...), 0)
		}
	}
	if ran != 4 || service == nil {
		t.Errorf("%d commands on the page", ran)
	}
	checkReleaseChanged(t, s)
	if !bytes.Contains(sceneFile(t, s, "watch.prom"), []byte(`outcome="done"} 1`)) {
		t.Error("the metrics of an accepting run lack its outcome")
	}
	if _, err := s.Sign(t.Context(), lab.RoleRelease, sceneFile(t, s, "state", "plan.json")); err != nil {
		t.Fatal(err)
	}
	watchAsService(t, s, service)
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
	checkContradiction(t, s)
	for _, flags := range [][]string{{"--interval", "1ms"}, {"--metrics-address", "127.0.0.1:0"}, {"--reverify", "24h"}, {"--webhook", "alarms.example.test/a-secret"}} {
		r := s.Run(t.Context(), append([]string{"waybill", "watch", "--state", "watch"}, flags...)...)
		if want(t, r, 2, flags[0]); strings.Contains(r.Stderr, "a-secret") {
			t.Error(r.Stderr)
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

// checkReleaseChanged: a published release that is accepted, and is not what it was when it
// was verified last, is an alarm until that is handled.
func checkReleaseChanged(t *testing.T, s *scene.Scene) {
	t.Helper()
	raw := sceneFile(t, s, "watch", "v0.1.0.verdict.json")
	var last verdict.Verdict
	if err := json.Unmarshal(raw, &last); err != nil || len(last.Objects) == 0 || last.Least == nil {
		t.Fatal(err, len(last.Objects), last.Least)
	}
	again := func(code int, flags ...string) (found []verdict.Finding) {
		t.Helper()
		r := s.Run(t.Context(), append([]string{"waybill", "watch", "--profile", "profile.yaml", "--log", s.Lab.Rekor, "--state", "watch", "--releases", "state", "--release", "v0.1.0", "--output", "json"}, flags...)...)
		want(t, r, code)
		var v verdict.Verdict
		if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
			t.Fatal(err)
		}
		return v.Findings
	}
	for what, change := range map[string]func(v *verdict.Verdict){
		"other bytes":    func(v *verdict.Verdict) { v.Objects[0].Digest = v.Objects[1].Digest },
		"one file less":  func(v *verdict.Verdict) { v.Objects = v.Objects[1:] },
		"another level":  func(v *verdict.Verdict) { v.Least = &verdict.Least{Level: 3} },
		"another source": func(v *verdict.Verdict) { v.Source += "0" },
	} {
		other := last
		other.Objects = slices.Clone(last.Objects)
		change(&other)
		text, err := json.Marshal(other)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Path("watch", "v0.1.0.verdict.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		again(0, "--reverify", "24h") // not yet
		found := again(1)
		if len(found) != 1 || found[0].Code != "RELEASE_CHANGED" || found[0].Want == "" && found[0].Got == "" {
			t.Fatalf("%s: %+v", what, found)
		}
		_, name, _ := strings.Cut(found[0].Subject, ": ")
		again(1)
		again(0, "--handled", name)
		again(0)
	}
}

// checkContradiction: who has the trust root alone can verify that a log contradicted itself.
func checkContradiction(t *testing.T, s *scene.Scene) {
	t.Helper()
	signed := func(root byte) string {
		text, err := s.Lab.Checkpoint(7, bytes.Repeat([]byte{root}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	checkpoint := signed(1)
	id, _, _, err := func() (string, int64, []byte, error) {
		root, err := trust.Parse(s.Lab.TrustedRoot)
		if err != nil {
			return "", 0, nil, err
		}
		v, err := verify.New(root)
		if err != nil {
			return "", 0, nil, err
		}
		return v.Checkpoint([]byte(checkpoint))
	}()
	if err != nil {
		t.Fatal(err)
	}
	for name, row := range map[string]struct {
		second string
		code   int
		says   string
	}{
		"fork.json": {signed(2), 0, "VERIFIED: a log of the trust root signed both"},
		"same.json": {checkpoint, 1, "LOG_PROOF"},
		"bad.json":  {strings.Replace(signed(2), "7", "8", 1), 1, "CHECKPOINT_SIG"},
	} {
		raw, err := json.Marshal(watched.Contradiction{Code: "LOG_FORK", Log: id, First: checkpoint, Second: row.second})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Path(name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		want(t, s.Run(t.Context(), "waybill", "inspect", name), 0, "PARSED, NOT VERIFIED", "LOG_FORK", "tree size")
		want(t, s.Run(t.Context(), "waybill", "inspect", name, "--trusted-root", "trusted_root.json"), row.code, row.says)
	}
	want(t, s.Run(t.Context(), "waybill", "inspect", "policy.yaml", "--trusted-root", "trusted_root.json"), 2, "only the proof")
}

// watchAsService runs the service of the page until it posted the alarm of a planted
// signature to a webhook that did not answer well at first, and shows it in its metrics.
func watchAsService(t *testing.T, s *scene.Scene, args []string) {
	t.Helper()
	posted, calls := make(chan string, 10), atomic.Int32{}
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if raw, err := io.ReadAll(r.Body); err != nil || calls.Add(1) == 1 {
			w.WriteHeader(http.StatusBadRequest)
		} else {
			posted <- string(raw)
		}
	}))
	defer hook.Close()
	line := strings.NewReplacer("5m", "1s", "https://alarms.example.test", hook.URL+"/a-secret").Replace(strings.Join(args, " "))
	run := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), append([]string{"watch", "--log-format", "json"}, strings.Fields(line)...)...)
	var out, said bytes.Buffer
	stderr, err := run.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	run.Dir, run.Stdout = s.Dir, &out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(io.TeeReader(stderr, &said))
	address := ""
	for address == "" && lines.Scan() {
		address = regexp.MustCompile(`http://[0-9.:]+/metrics`).FindString(lines.Text())
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines.Scan() {
		}
	}()
	select {
	case body := <-posted:
		if !strings.Contains(body, `"LOG_UNEXPLAINED"`) || !strings.Contains(body, `"schema": "waybill/verdict/`) {
			t.Errorf("posted %s", body)
		}
	case <-drained:
		t.Fatalf("it ended before it posted: %v\n%s%s", run.Wait(), out.Bytes(), said.Bytes())
	}
	metrics := ""
	for !strings.Contains(metrics, "last_success_timestamp_seconds 1") { // after the pass with the failed post
		resp, err := http.Get(address)
		if err != nil {
			t.Fatalf("%v\n%s", err, said.Bytes())
		}
		raw, err := io.ReadAll(resp.Body)
		if err := errors.Join(err, resp.Body.Close()); err != nil {
			t.Fatal(err)
		}
		metrics = string(raw)
	}
	for _, has := range []string{`waybill_watch_alarms{code="LOG_UNEXPLAINED"} 1`, "waybill_watch_checkpoint_size{log=", "waybill_watch_entries_total{log=", "waybill_watch_next_entry{log=", "\ngo_goroutines "} {
		if !strings.Contains(metrics, has) {
			t.Errorf("the metrics lack %s:\n%s", has, metrics)
		}
	}
	if err := run.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-drained
	if err := run.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s%s", err, out.Bytes(), said.Bytes())
	}
	if strings.Contains(out.String()+said.String(), "a-secret") || !strings.Contains(out.String(), "webhook") || !strings.Contains(said.String(), `"code":"LOG_UNEXPLAINED"`) {
		t.Errorf("stdout: %s\nstderr: %s", out.Bytes(), said.Bytes())
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
