package doctor

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func at() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

// TestReportDecides: nothing bad, and something looked at, is the only way to
// no error; a fault that nobody explained is a bug, never fine.
func TestReportDecides(t *testing.T) {
	stale := verdict.Refuse(verdict.LockStale, "release.lock.yaml", "stale")
	down := &verdict.UnavailableError{Place: "log", Op: "asking", Err: errors.New("no route")}
	for _, c := range []struct {
		name   string
		checks []Check
		want   verdict.Outcome
		codes  []verdict.Code
	}{
		{"nothing was looked at", nil, verdict.Undecided, nil},
		{"all is well", []Check{Fine("a", "x"), Doubt("b", "act", "y")}, verdict.Accepted, nil},
		{"one fault", []Check{Fine("a", "x"), Fault("b", stale)}, verdict.Refused, []verdict.Code{verdict.LockStale}},
		{"no answer", []Check{Fault("b", down)}, verdict.Unavailable, []verdict.Code{verdict.PlaceDown}},
		{"both", []Check{Fault("a", down), Fault("b", stale)}, verdict.Refused, []verdict.Code{verdict.PlaceDown, verdict.LockStale}},
		{"bad without a reason", []Check{{Name: "a", State: Bad}}, verdict.Internal, []verdict.Code{verdict.InternalBug}},
		{"no state", []Check{{Name: "a"}}, verdict.Internal, []verdict.Code{verdict.InternalBug}},
	} {
		v := Report{For: Stage, Time: at(), Checks: c.checks}.Verdict()
		if v.Outcome() != c.want || len(v.Findings) != len(c.codes) {
			t.Errorf("%s: %s, %v", c.name, v.Outcome(), v.Findings)
			continue
		}
		for i, code := range c.codes {
			if v.Findings[i].Code != code || v.Findings[i].Subject == "" {
				t.Errorf("%s: %+v, want %s", c.name, v.Findings[i], code)
			}
		}
	}
}

// TestReportIsForPeople: every fault has its code and its next act, and what a
// service says moves no cursor.
func TestReportIsForPeople(t *testing.T) {
	ask := func(c Check) Ask { return func(context.Context) []Check { return []Check{c} } }
	r := Examine(t.Context(), Stage, at(), ask(Fine("first", "well")), ask(Fault("second", verdict.Refuse(verdict.LockStale, "x", "evil \x1b[2J text"))))
	var page strings.Builder
	if err := r.Write(&page); err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"ok ", "first", "LOCK_STALE: evil", "→ run waybill lock", "for stage: 1 ok, 0 warnings, 1 bad"} {
		if !strings.Contains(page.String(), said) {
			t.Errorf("%q is not said:\n%s", said, page.String())
		}
	}
	if strings.Contains(page.String(), "\x1b") {
		t.Errorf("an escape sequence is printed: %q", page.String())
	}
}

func TestClockDifferenceIsCertain(t *testing.T) {
	date := at()
	for _, c := range []struct {
		name          string
		before, after time.Duration
		want          time.Duration
	}{
		{"the same", 0, 0, 0},
		{"within the second of the date", 900 * time.Millisecond, time.Second, 0},
		{"around it", -time.Minute, time.Minute, 0},
		{"ahead", 61 * time.Second, 62 * time.Second, time.Minute},
		{"behind", -62 * time.Second, -60 * time.Second, -time.Minute},
	} {
		if got := difference(date.Add(c.before), date.Add(c.after), date); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		skews []skew
		want  State
		code  verdict.Code
	}{
		{nil, Warn, ""},
		{[]skew{{service: "a"}}, Warn, ""}, // it said nothing
		{[]skew{{"a", 5 * time.Second, true}}, OK, ""},
		{[]skew{{"a", 0, true}, {"b", -time.Minute, true}}, Warn, ""},
		{[]skew{{"a", 0, true}, {"b", -time.Hour, true}}, Bad, verdict.Clock},
		{[]skew{{"a", time.Hour, true}, {"b", 0, true}}, Bad, verdict.Clock},
	} {
		if got := clock(c.skews); got.State != c.want || got.Code != c.code {
			t.Errorf("%v: %+v", c.skews, got)
		}
	}
}

func TestDisk(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		free, need int64
		want       State
		code       verdict.Code
	}{
		{minDisk - 1, 0, Bad, "DISK_SPACE"}, {minDisk, 0, OK, ""}, {gib, 2 * gib, Warn, ""}, {2 * gib, 2 * gib, OK, ""},
	} {
		if got := space(c.free, c.need); got.State != c.want || got.Code != c.code {
			t.Errorf("%d of %d: %+v", c.free, c.need, got)
		}
	}
	p := plan.Plan{Artifacts: []plan.Artifact{{Class: plan.Binary}, {Class: plan.Archive}, {Class: plan.Signature}}}
	if Estimate(p) <= Estimate(plan.Plan{Artifacts: p.Artifacts[:1]}) || Estimate(plan.Plan{}) != 0 {
		t.Error("more artifacts do not take more")
	}
	dir := t.TempDir()
	checks := Disk{Dir: filepath.Join(dir, "a", "b")}.Ask()(t.Context())
	if len(checks) != 2 || checks[0].State != OK {
		t.Errorf("a directory that is yet to be made: %+v", checks)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c := (Disk{Dir: filepath.Join(file, "a")}).Ask()(t.Context())[0]; c.State != Bad {
		t.Errorf("below a file: %+v", c)
	}
}

func TestTools(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if err := os.WriteFile(filepath.Join(dir, "tool"), []byte("#!/bin/sh\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	right := digest.Of(digest.SHA256, []byte("#!/bin/sh\n"))
	for _, c := range []struct {
		name string
		pin  plan.ToolLock
		want State
		code verdict.Code
	}{
		{"tool", plan.ToolLock{}, Warn, ""},
		{"none", plan.ToolLock{}, Bad, verdict.ToolMissing},
		{"pinned", plan.ToolLock{Program: "tool", Digest: right}, OK, ""},
		{"pinned", plan.ToolLock{Program: "none", Digest: right}, Bad, verdict.ToolMissing},
		{"pinned", plan.ToolLock{Program: "tool", Digest: digest.Of(digest.SHA256, nil)}, Bad, verdict.LockStale},
		{"pinned", plan.ToolLock{Image: "example.test/tool", Digest: right}, OK, ""},
	} {
		if got := tool(c.name, c.pin); got.State != c.want || got.Code != c.code {
			t.Errorf("%s %+v: %+v", c.name, c.pin, got)
		}
	}
	p := plan.Plan{Steps: []plan.Step{{Tools: []string{"tool", "none"}}, {Tools: []string{"tool"}}}}
	if checks := Tools(p, plan.Lock{})(t.Context()); len(checks) != 2 {
		t.Errorf("%+v, want each tool once", checks)
	}
	if Program("git").Code != verdict.ToolMissing || Program("tool").State != OK {
		t.Error("a program is found where it is not, or not where it is")
	}
}

func TestWalls(t *testing.T) {
	whole := sandbox.Report{Mode: sandbox.Isolated, Had: sandbox.Guarantees()}
	lacking := sandbox.Report{Mode: sandbox.Unisolated, Lacking: []sandbox.Lack{{Guarantee: sandbox.NetworkClosed, Reason: "no namespaces"}}}
	if c := Isolation(whole, false); len(c) != 1 || c[0].State != OK {
		t.Errorf("all walls: %+v", c)
	}
	if c := Isolation(lacking, true); c[0].State != Warn || c[1].State != Warn || !strings.Contains(c[1].Says, "no namespaces") {
		t.Errorf("no walls, and a token for it: %+v", c)
	}
	if c := Isolation(lacking, false); c[0].Code != verdict.NotIsolated || c[1].State != Warn || !strings.Contains(c[0].Next, "as root") || !strings.Contains(c[0].Next, "--identity-token builder-unisolated=FILE") {
		t.Errorf("no walls, and no token: %+v", c)
	}
	contained := sandbox.Report{Mode: sandbox.Contained, Lacking: []sandbox.Lack{{Guarantee: sandbox.OwnAccount, Reason: "the account of its launcher"}}}
	if c := Isolation(contained, true); !strings.Contains(c[0].Says, "contained") || !strings.Contains(c[0].Says, "cannot claim level 3") || !strings.Contains(c[0].Next, "as root") {
		t.Errorf("all but the account: %+v", c)
	}
}

// permission is a writer that answers as it is told.
type permission struct {
	store.Writer
	answer error
	probed bool
}

func (p *permission) MayWrite(context.Context) error   { return p.answer }
func (p *permission) ProbeWrite(context.Context) error { p.probed = true; return p.answer }

func TestPlaces(t *testing.T) {
	place := func(dir string) store.Place {
		p, err := store.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	dir := t.TempDir()
	denied := errors.Join(errors.New("the bucket"), os.ErrPermission)
	for _, c := range []struct {
		name   string
		answer error
		want   State
		code   verdict.Code
	}{
		{"allowed", nil, OK, ""}, {"denied", denied, Bad, verdict.NotWritable}, {"cannot say", store.ErrNotAsked, Warn, ""},
		{"no answer", &verdict.UnavailableError{Place: dir, Op: "asking", Err: errors.New("away")}, Bad, verdict.PlaceDown},
	} {
		w := &permission{answer: c.answer}
		if got := (Place{Name: "staging", Place: place(dir), Writer: w}).Ask()(t.Context()); got[1].State != c.want || got[1].Code != c.code || w.probed {
			t.Errorf("%s: %+v, probed %t", c.name, got, w.probed)
		}
	}
	// The real one, written and taken back.
	w, err := store.OpenWriter(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, confirm := range []bool{false, true} {
		for _, c := range (Place{Name: "staging", Place: place(dir), Writer: w, Confirm: confirm}).Ask()(t.Context()) {
			if c.State != OK {
				t.Errorf("confirmed %t: %+v", confirm, c)
			}
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("the probe left %v, %v", left, err)
	}
	absent := place(filepath.Join(dir, "absent"))
	if c := (Place{Name: "staging", Place: absent, Writer: w}).Ask()(t.Context())[0]; c.State != OK {
		t.Errorf("a directory that will be made: %+v", c)
	}
	if c := (Place{Name: "release", Place: absent}).Ask()(t.Context())[0]; c.State != Bad {
		t.Errorf("a directory that is to be read: %+v", c)
	}
	web, err := store.Open("https://dl.example.test/", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if c := (Place{Name: "release", Place: web}).Ask()(t.Context())[0]; c.State != Warn {
		t.Errorf("a place that is not listed, and need not be: %+v", c)
	}
	if c := (Place{Name: "release", Place: web, Closed: true}).Ask()(t.Context())[0]; c.Code != verdict.NotListable {
		t.Errorf("a place that is not listed, and must be: %+v", c)
	}
}

// TestImages: a registry that takes an upload, and one that does not.
func TestImages(t *testing.T) {
	for _, c := range []struct {
		name    string
		status  int
		confirm bool
		want    State
		code    verdict.Code
	}{
		{"takes it", http.StatusAccepted, true, OK, ""},
		{"refuses it", http.StatusForbidden, true, Bad, verdict.NotWritable},
		{"fails", http.StatusTeapot, true, Bad, verdict.PlaceDown},
		{"is not asked", http.StatusForbidden, false, Warn, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var begun, cancelled int
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v2/", func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/tags/list") {
					w.WriteHeader(http.StatusNotFound)
				}
			})
			mux.HandleFunc("POST /v2/team/lantern/blobs/uploads/", func(w http.ResponseWriter, _ *http.Request) {
				begun++
				w.Header().Set("Location", "/v2/team/lantern/blobs/uploads/1")
				w.WriteHeader(c.status)
			})
			mux.HandleFunc("DELETE /v2/team/lantern/blobs/uploads/1", func(w http.ResponseWriter, _ *http.Request) {
				cancelled++
				w.WriteHeader(http.StatusNoContent)
			})
			server := httptest.NewServer(mux)
			defer server.Close()
			remote, err := registry.OpenRemote(strings.TrimPrefix(server.URL, "http://")+"/team", http.DefaultTransport)
			if err != nil {
				t.Fatal(err)
			}
			got := Images{Name: "staging", Remote: remote, Repositories: []string{"lantern"}, Write: true, Confirm: c.confirm}.Ask()(t.Context())
			if len(got) != 2 || got[0].State != OK || got[1].State != c.want || got[1].Code != c.code {
				t.Errorf("%+v", got)
			}
			if (begun > 0) != c.confirm || cancelled > begun || c.want == OK && cancelled != begun {
				t.Errorf("begun %d, cancelled %d", begun, cancelled)
			}
		})
	}
	if got := (Images{Name: "staging"}).Ask()(t.Context()); len(got) != 1 || got[0].State != Warn {
		t.Errorf("no repository: %+v", got)
	}
}
