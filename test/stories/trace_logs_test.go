package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/waybill-release/waybill/test/scene"
)

// with runs waybill with more in its environment, and reaches this machine only.
func (a *asker) with(env []string, args ...string) scene.Result {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), filepath.Join(bin, "waybill"), args...)
	cmd.Dir, cmd.Env = a.dir, append(append(os.Environ(), "XDG_CACHE_HOME="+a.dir, "WAYBILL_PATIENCE=100ms", "HTTPS_PROXY=http://127.0.0.1:1", "HTTP_PROXY=http://127.0.0.1:1", "GIT_TERMINAL_PROMPT=0"), env...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	_ = cmd.Run() // its status is asked below
	return scene.Result{Args: append([]string{"waybill"}, args...), Stdout: out.String(), Stderr: said.String(), Code: cmd.ProcessState.ExitCode()}
}

// logLine is a line of a log in JSON.
type logLine struct {
	Time, Level, Msg, Detail, Code string
	Exit                           int
	Trace                          string `json:"trace_id"`
	Span                           string `json:"span_id"`
	Initial                        string `json:"initial_trace_id"`
}

// logLines reads all that a command wrote to stderr: each line is one object
// with the ids of the run, and nothing in it moves a cursor.
func logLines(t *testing.T, r scene.Result) []logLine {
	t.Helper()
	var lines []logLine
	for text := range strings.Lines(r.Stderr) {
		text = strings.TrimSuffix(text, "\n")
		var l logLine
		if err := json.Unmarshal([]byte(text), &l); err != nil || l.Time == "" || l.Level == "" || l.Msg == "" || len(l.Trace) != 32 || len(l.Span) != 16 {
			t.Errorf("%s: a line is %q: %v", r, text, err)
		}
		if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%s: a line holds what a terminal obeys: %q", r, text)
		}
		lines = append(lines, l)
	}
	return lines
}

// TestT01OneTracePerRun: every line of one run has one trace id, another run
// another; and so has why it failed.
func TestT01OneTracePerRun(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	seen := map[string]bool{}
	for range 3 {
		r := a.with(nil, "stage", "v0.1.0", "--profile", "none.yaml", "--log-format", "json")
		lines := logLines(t, r)
		if len(lines) == 0 || seen[lines[0].Trace] {
			t.Fatalf("%s: %q", r, r.Stderr)
		}
		seen[lines[0].Trace] = true
		last := lines[len(lines)-1]
		if last.Level != "ERROR" || last.Exit != r.Code || last.Code == "" || last.Detail == "" || r.Code == 0 {
			t.Errorf("%s ended with %d and says %+v", r, r.Code, last)
		}
	}
	parent := []string{"TRACEPARENT=00-" + askingTrace + "-" + askingSpan + "-01", "BAGGAGE=user=alice,initial-trace-id=4bf92f3577b34da6a3ce929d0e0e4736"}
	for _, l := range logLines(t, a.with(parent, "stage", "v0.1.0", "--profile", "none.yaml", "--log-format", "json")) {
		if l.Trace != askingTrace || l.Span == askingSpan || l.Initial != "4bf92f3577b34da6a3ce929d0e0e4736" {
			t.Errorf("what goes on with a trace says %+v", l)
		}
	}
	for name, env := range map[string]string{
		"malformed": "TRACEPARENT=" + askingTrace, "zero": "TRACEPARENT=00-" + strings.Repeat("0", 32) + "-" + askingSpan + "-01",
	} {
		r := a.with([]string{env}, "stage", "v0.1.0", "--profile", "none.yaml", "--log-format", "json")
		if lines := logLines(t, r); len(lines) < 2 || lines[0].Trace == askingTrace || !strings.Contains(lines[0].Msg, "starts a new one") {
			t.Errorf("%s: %s", name, r.Stderr)
		}
	}
}

// TestT03OneInitialTracePerRelease: whoever acts on a release, and whenever, the
// trace in which it came to be stays; and text says what it always said.
func TestT03OneInitialTracePerRelease(t *testing.T) {
	t.Parallel()
	s := openProject(t, project(t, map[string]string{"release.yaml": scene.Quick})).Scene
	metrics := s.Path("stage.prom")
	staged := s.Stage(t.Context(), "--log-format", "json", "--metrics-file", metrics)
	want(t, staged, 0)
	var origin string
	for _, l := range logLines(t, staged) {
		if l.Initial != "" && l.Initial != l.Trace {
			t.Errorf("what stage made began in %s: %+v", l.Initial, l)
		}
		if l.Initial != "" {
			origin = l.Trace
		}
	}
	if origin == "" {
		t.Fatalf("no line of stage knows the life that it is about:\n%s", staged.Stderr)
	}
	measured(t, metrics, `waybill_run_outcome{command="stage",outcome="done"} 1`, `waybill_act_seconds_count{kind="build step",outcome="done"} 2`)
	released := s.Run(t.Context(), "waybill", "release", scene.Version, "--profile", "profile.yaml", "--state", "state", "--confirm", "--log-format", "json")
	want(t, released, 0)
	known := false
	for _, l := range logLines(t, released) {
		if l.Trace == origin || l.Initial != "" && l.Initial != origin {
			t.Errorf("the release began in %s, and a later run says %+v", origin, l)
		}
		known = known || l.Initial == origin
	}
	if !known {
		t.Errorf("no line of release knows where it began:\n%s", released.Stderr)
	}
	again := s.Release(t.Context()) // text
	want(t, again, 0)
	if strings.Contains(again.Stderr, origin) || strings.Contains(again.Stderr, `"trace_id"`) {
		t.Errorf("text has ids:\n%s", again.Stderr)
	}
	s.Env = []string{"TRACEPARENT=00-" + another + "-00f067aa0ba902b7-01", "BAGGAGE=initial-trace-id=" + another}
	stray := s.Run(t.Context(), append(again.Args, "--log-format", "json")...)
	s.Env = nil
	want(t, stray, 0)
	lines := logLines(t, stray)
	warned := slices.IndexFunc(lines, func(l logLine) bool {
		return l.Level == "WARN" && strings.HasPrefix(l.Msg, "WARNING: ") && strings.Contains(l.Msg, origin) && strings.Contains(l.Msg, another)
	})
	if warned < 0 || warned == len(lines)-1 {
		t.Fatalf("no line warns of another beginning, or none follows:\n%s", stray.Stderr)
	}
	for _, l := range lines[warned:] {
		if l.Initial != origin {
			t.Errorf("the release keeps %s, and is known: %+v", origin, l)
		}
	}
}

// measured checks a file of metrics, in the form of Prometheus.
func measured(t *testing.T, path string, wants ...string) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+\{([a-z]+="[a-z. ]+",?)+\} [0-9.e+-]+)$`)
	lines := strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")
	for _, l := range lines {
		if !form.MatchString(l) {
			t.Errorf("%s has the line %q", path, l)
		}
	}
	for _, w := range wants {
		if !slices.Contains(lines, w) {
			t.Errorf("%s does not say %s:\n%s", path, w, raw)
		}
	}
}

// TestMetricsOfAFailure: they are written however the run ends, in the place of
// what was there; and where they cannot be it does not begin.
func TestMetricsOfAFailure(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	a.write("old.prom", []byte("of before"))
	for _, command := range [][]string{{"stage", "v0.1.0"}, {"release", "v0.1.0"}, {"promote", "apply", "none.json"}} {
		args := append(slices.Clone(command), "--profile", "none.yaml", "--metrics-file", "old.prom")
		r := a.with(nil, args...)
		name := strings.Join(command[:len(command)-1], ".")
		if r.Code == 0 {
			t.Fatalf("%s was done", r)
		}
		measured(t, filepath.Join(a.dir, "old.prom"), fmt.Sprintf(`waybill_run_outcome{command=%q,outcome="done"} 0`, name), fmt.Sprintf(`waybill_run_outcome{command=%q,outcome="malformed"} 1`, name))
	}
	if r := a.with(nil, "stage", "v0.1.0", "--profile", "none.yaml", "--metrics-file", "none/x.prom"); r.Code != 2 || !strings.Contains(r.Stderr, "--metrics-file") {
		t.Errorf("into no directory: %d\n%s", r.Code, r.Stderr)
	} else if strings.Contains(r.Stderr, "the run is complete, but its metrics") {
		t.Errorf("a run that did not begin did something:\n%s", r.Stderr)
	}
}

// leaf is a command that does something, with its flags that take a text.
type leaf struct {
	path  []string
	flags []string
	json  bool // it has --log-format
}

var (
	subcommand = regexp.MustCompile(`(?m)^  ([a-z]+) {2,}\S`)
	textFlag   = regexp.MustCompile(`(?m)^ +(?:-[a-z], )?--([a-z-]+) string`)
)

// leaves lists the commands below one.
func leaves(a *asker, path ...string) []leaf {
	a.t.Helper()
	help := a.with(nil, append(slices.Clone(path), "--help")...).Stdout
	_, flags, _ := strings.Cut(help, "\nFlags:\n")
	_, below, has := strings.Cut(strings.Split(help, "\nFlags:\n")[0], "waybill "+strings.Join(append(slices.Clone(path), "[command]"), " "))
	if !has {
		l := leaf{path: path, json: strings.Count(flags, "--log-format") == 1}
		for _, f := range textFlag.FindAllStringSubmatch(flags, -1) {
			if !slices.Contains([]string{"output", "log-format", "now"}, f[1]) {
				l.flags = append(l.flags, f[1])
			}
		}
		return []leaf{l}
	}
	var all []leaf
	for _, c := range subcommand.FindAllStringSubmatch(below, -1) {
		if c[1] != "help" && c[1] != "completion" {
			all = append(all, leaves(a, append(slices.Clone(path), c[1])...)...)
		}
	}
	return all
}

// TestNoCommandTellsASecret: whatever command somebody gives an address with a
// password to, as an argument or in any flag, it is in nothing that people read
// and in no line of a log; and a token on the command line is not, either. Every
// command writes such a log, whatever it comes to.
func TestNoCommandTellsASecret(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	const password = "hunter2hunter2"
	address := "https://ci:" + password + "@127.0.0.1:1/x"
	token := "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + password
	all := leaves(a)
	if len(all) < 25 || !slices.ContainsFunc(all, func(l leaf) bool { return slices.Contains(l.flags, "profile") }) {
		t.Fatalf("only %d commands were found: %v", len(all), all)
	}
	for _, l := range all {
		if !l.json {
			t.Errorf("the help of %q does not list --log-format, once", l.path)
		}
		tries := [][]string{{address}, {address, address}, {token}}
		for _, f := range l.flags {
			tries = append(tries, []string{"v0.1.0", "--" + f, address})
		}
		for i, args := range tries {
			spoken := []string{"text", "json"}[i%2]
			r := a.with(nil, append(append(slices.Clone(l.path), "--log-format", spoken), args...)...)
			if spoken == "json" {
				if lines := logLines(t, r); r.Code != 0 && (len(lines) == 0 || lines[len(lines)-1].Exit != r.Code) {
					t.Errorf("%s ended with %d, and its log does not say so:\n%s", r, r.Code, r.Stderr)
				}
			}
			if strings.HasPrefix(r.Stdout, "{") { // a document is about what was named
				r.Stdout = ""
			}
			if strings.Contains(r.Stdout+r.Stderr, password) {
				t.Errorf("%s tells it:\n%s%s", r, r.Stdout, r.Stderr)
			}
		}
	}
}

// TestT08TheGateTrustsWhoItLetsIn: the decision stands in the caller's trace if
// the caller was authenticated and granted, and said it rightly; else in one of
// its own.
func TestT08TheGateTrustsWhoItLetsIn(t *testing.T) {
	t.Parallel()
	to := openReceiver(t)
	s := &gatehouse{admin: openAdmin(t)}
	s.Env = nil
	s.startWith([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + to.URL}, "")
	good := s.image.Digest.String()
	good = s.question("verify", good, "")
	parent := "00-" + askingTrace + "-" + askingSpan + "-01"
	for _, row := range []struct {
		name, token, body, parent string
		status                    int
		taken                     bool
	}{
		{"let in", s.token(nil), good, parent, 200, true},
		{"let in, malformed", s.token(nil), good, parent[1:], 200, false},
		{"let in, without", s.token(nil), good, "", 200, false},
		{"nobody", "", good, parent, 401, false},
		{"not granted", s.token(nil), strings.Replace(good, "/staging/", "/secret/", 1), parent, 403, false},
	} {
		before := len(s.log())
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.callers+"/v1/decisions", strings.NewReader(row.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Traceparent", row.parent)
		req.Header.Set("Baggage", "user=alice,initial-trace-id=4bf92f3577b34da6a3ce929d0e0e4736")
		if row.token != "" {
			req.Header.Set("Authorization", "Bearer "+row.token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != row.status || resp.Header.Get("Waybill-Request-Id") == "" {
			t.Errorf("%s: %d, %v", row.name, resp.StatusCode, resp.Header)
		}
		wrote := s.log()[before:]
		var l logLine
		if at := strings.LastIndex(strings.TrimSpace(wrote), "\n") + 1; json.Unmarshal([]byte(strings.TrimSpace(wrote)[at:]), &l) != nil || len(l.Trace) != 32 || len(l.Span) != 16 {
			t.Fatalf("%s: it wrote %s", row.name, wrote)
		}
		if (l.Trace == askingTrace) != row.taken || (l.Initial == "4bf92f3577b34da6a3ce929d0e0e4736") != row.taken || l.Span == askingSpan || strings.Contains(wrote, "alice") {
			t.Errorf("%s: it wrote %s", row.name, wrote)
		}
	}
}
