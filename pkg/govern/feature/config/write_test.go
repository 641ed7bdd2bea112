package config_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// table writes as people read it.
func table(t *testing.T, write func(w config.Writer, to *bytes.Buffer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(config.Writer{Format: "table", Known: known.Registry()}, &b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wants demands that a text has all of these.
func wants(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in\n%s", want, text)
		}
	}
}

// some are features at rest and on their way, one with something that dangles
// and one that no program knows any more.
func some(t *testing.T) []feature.Feature {
	t.Helper()
	w := newTestWorld(t)
	for range 2 {
		w.pass()
	}
	var all []feature.Feature
	for _, p := range w.pass() {
		f := p.Feature
		switch p.Key.Name {
		case known.RequireSignoff:
			f = feature.WithConditions(f, feature.Condition{Type: feature.Dangling, Status: "True", Count: 2, Sample: []string{"one@sha256:1", "two@sha256:2"}})
		case known.RequireProvenance:
			f.Status.Forgotten = true
		}
		all = append(all, f)
	}
	return all
}

func TestList(t *testing.T) {
	all := some(t)
	text := table(t, func(w config.Writer, to *bytes.Buffer) error { return w.List(to, all) })
	wants(t, text, "FEATURE", "waybill/EmitVSA", "TurningOn", "being switched on at everything",
		"waybill/EmitVSA: left WaitForUses: the window ends", "no report yet from: promoter",
		"waybill/RequireSignoff: dangling: the feature is Off, but objects still refer to it: 2\n  one@sha256:1\n  two@sha256:2\n", "not listed: 1 that no program has known")
	if strings.Contains(text, known.RequireProvenance) {
		t.Errorf("a forgotten feature is listed:\n%s", text)
	}
	wants(t, table(t, func(w config.Writer, to *bytes.Buffer) error { return w.List(to, nil) }), "no features yet")
	fresh := newTestWorld(t).pass() // what is On by default is announced Off
	wants(t, strings.Join(config.Lines(fresh), "\n"), "waybill/EmitVSA  Off: announced\n  next: the desired state is On; the next pass of the reconciler begins the transition\n",
		"waybill/RequireSignoff  Off: announced\nwaybill/StatusPage")

	var b bytes.Buffer
	if err := (config.Writer{Format: "json"}).List(&b, all); err != nil {
		t.Fatal(err)
	}
	var list struct {
		Kind  string
		Items []json.RawMessage
	}
	if err := json.Unmarshal(b.Bytes(), &list); err != nil || list.Kind != "FeatureList" || len(list.Items) != len(all)-1 {
		t.Fatalf("%d of kind %q, %v", len(list.Items), list.Kind, err)
	}
	for _, raw := range list.Items {
		if _, err := feature.Parse(raw); err != nil {
			t.Error(err)
		}
	}
}

// TestListSaysWhatOnMeans: what is required is warned about on its way; of
// everything else it is said where it is on, for nobody is warned of it.
func TestListSaysWhatOnMeans(t *testing.T) {
	everything := feature.Scope{Everything: true}
	for _, row := range []struct {
		name  string
		state feature.State
		want  string
	}{
		{known.RequireSignoff, feature.On, "enforced at everything"},
		{known.RequireSignoff, feature.TurningOn, "warned about at everything"},
		{known.RequireSignoff, feature.TurningOff, "warned about at everything"},
		{known.EmitVSA, feature.On, "on at everything"},
		{known.EmitVSA, feature.TurningOn, "being switched on at everything"},
		{known.EmitVSA, feature.TurningOff, "being switched off at everything"},
		{known.EmitVSA, feature.Off, "nowhere"},
	} {
		f := feature.Feature{Metadata: feature.Metadata{Namespace: feature.CoreNamespace, Name: row.name}, Status: feature.Status{State: row.state}}
		switch row.state {
		case feature.On:
			f.Status.Enforced = everything
		case feature.TurningOn, feature.TurningOff:
			f.Status.Preparing = everything
		}
		text := table(t, func(w config.Writer, to *bytes.Buffer) error { return w.List(to, []feature.Feature{f}) })
		if line := strings.TrimSpace(strings.Split(text, "\n")[1]); !strings.HasSuffix(line, "  "+row.want) {
			t.Errorf("%s, %s: %q", row.name, row.state, line)
		}
		wants(t, table(t, func(w config.Writer, to *bytes.Buffer) error { return w.Feature(to, f) }), "on means  ")
	}
}

func TestFeature(t *testing.T) {
	w := newTestWorld(t)
	for range 2 {
		w.pass()
		w.report()
	}
	f, err := w.Site.Features.Get(t.Context(), key(known.StatusPage))
	if err != nil {
		t.Fatal(err)
	}
	f.Spec.PrepareFor = "v0.1.0"
	text := table(t, func(w config.Writer, to *bytes.Buffer) error { return w.Feature(to, f) })
	wants(t, text, "TurningOn since transition 1", "waybill feature set", "prepared for   v0.1.0", "promoter  v0.2.0   On     yes", "left WaitForUses",
		"Dangling         Unknown  the feature is TurningOn", "Off to TurningOn", "waybill/StatusPage/1.sigstore.json")
	f.Status.History[0].Statement = ""
	wants(t, table(t, func(w config.Writer, to *bytes.Buffer) error { return w.Feature(to, f) }), "not signed yet")
	var b bytes.Buffer
	if err := (config.Writer{Format: "json"}).Feature(&b, f); err != nil {
		t.Fatal(err)
	}
	if again, err := feature.Parse(b.Bytes()); err != nil || again.Key() != f.Key() {
		t.Errorf("%v", err)
	}
}

// TestPasses: who is missing and what would be refused is said, a line each, what
// others wrote moves no cursor, and what went wrong has a next act.
func TestPasses(t *testing.T) {
	var images, lines []string
	for n := range 8 {
		images = append(images, fmt.Sprintf("registry.example.test/prod/lantern:v0.%d.0@sha256:%064d (UNSIGNED)", n, n))
		lines = append(lines, "\n    "+images[n]+"\n")
	}
	f := some(t)[0]
	f.Status.Tasks = []feature.Task{
		{Kind: feature.Sweep, Name: known.CoverageAudit, Message: "8 of 9 images would be refused", Remaining: 8, Names: images},
		{Kind: feature.Hold, Name: known.VSAsInForce, Message: "\x1b[2Jheld"},
	}
	passes := []reconcile.Pass{
		{Key: key(known.RequireProvenance), Before: feature.TurningOn, After: feature.TurningOn, Feature: f},
		{Key: key(known.StatusPage), Before: feature.On, After: feature.On},
		{Key: key(known.EmitVSA), Did: "left to reconciler-1"},
		{Key: key(known.BundleReferrers), After: feature.On, Err: verdict.Refuse(verdict.FileConflict, "a", "one\ntwo\x1b[2J")},
		{Key: key(known.KMSSigning), After: feature.Off, Err: &verdict.UnavailableError{Place: "gs://gate", Op: "reading", Err: errors.New("it is down")}},
	}
	text := table(t, func(w config.Writer, to *bytes.Buffer) error { return w.Passes(to, passes) })
	wants(t, text, append(lines, "waybill/RequireProvenance  TurningOn: nothing was done", "  left CoverageAudit: 8 of 9 images would be refused\n", "  then VSAsInForce: ",
		"waybill/StatusPage  On: nothing to do", "waybill/EmitVSA  left to reconciler-1", "  UNAVAILABLE reading", "  FILE_CONFLICT a: one; two", "→ nothing was decided")...)
	if logged := strings.Join(config.Lines(passes), "\n"); strings.Contains(text+logged, "\x1b") || strings.Count(logged, "\n") != strings.Count(text, "\n")-1 {
		t.Errorf("%q moves the cursor", text+logged)
	}
	var b bytes.Buffer
	if err := (config.Writer{Format: "json"}).Passes(&b, passes); err != nil {
		t.Fatal(err)
	}
	var said struct {
		Passes []struct {
			Name, Did string
			Left      []string
			Names     []string
			Error     *struct{ Code string }
		}
	}
	if err := json.Unmarshal(b.Bytes(), &said); err != nil || len(said.Passes) != 5 {
		t.Fatalf("%v\n%s", err, b.String())
	}
	if p := said.Passes; len(p[0].Left) != 2 || !slices.Equal(p[0].Names, images) || p[2].Did != "left to reconciler-1" || p[4].Error == nil || p[4].Error.Code != "UNAVAILABLE" {
		t.Errorf("%+v", p)
	}
}

// TestManyNames: of a long list some are shown, and how many more there are; JSON
// has what the object has, and of the pass that found them all of them.
func TestManyNames(t *testing.T) {
	f := some(t)[0]
	var all []string
	for n := range 300 {
		all = append(all, fmt.Sprintf("registry.example.test/prod/lantern:v0.%d.0", n))
	}
	f.Status.Tasks = []feature.Task{{Kind: feature.Sweep, Name: known.CoverageAudit, Message: "all would be refused", Remaining: len(all), Names: all[:250]}}
	found := reconcile.Pass{Key: f.Key(), After: feature.TurningOn, Feature: f, Names: all}
	for name, text := range map[string]string{
		"list":  table(t, func(w config.Writer, to *bytes.Buffer) error { return w.List(to, []feature.Feature{f}) }),
		"get":   table(t, func(w config.Writer, to *bytes.Buffer) error { return w.Feature(to, f) }),
		"pass":  table(t, func(w config.Writer, to *bytes.Buffer) error { return w.Passes(to, []reconcile.Pass{found}) }),
		"lines": strings.Join(config.Lines([]reconcile.Pass{found}), "\n") + "\n",
	} {
		if shown := strings.Count(text, "prod/lantern:"); shown != 20 || !strings.Contains(text, all[19]+"\n") || !strings.Contains(text, " and 280 more\n") {
			t.Errorf("%s shows %d:\n%s", name, shown, text)
		}
	}
	later := reconcile.Pass{Key: f.Key(), After: feature.TurningOn, Feature: f}
	for want, pass := range map[int]reconcile.Pass{300: found, 250: later} {
		var b bytes.Buffer
		if err := (config.Writer{Format: "json"}).Passes(&b, []reconcile.Pass{pass}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "prod/lantern:"); n != want {
			t.Errorf("JSON has %d, want %d", n, want)
		}
	}
}

// TestNews: a loop tells what is new, once.
func TestNews(t *testing.T) {
	f := some(t)[0]
	waiting := func(message string) reconcile.Pass {
		g := f
		g.Status.Tasks = []feature.Task{{Kind: feature.WaitForUses, Name: "WaitForUses", Message: message}}
		return reconcile.Pass{Key: f.Key(), Before: feature.TurningOn, After: feature.TurningOn, Feature: g}
	}
	turned := waiting("")
	turned.Did = "Off to TurningOn"
	failed := waiting("a is missing")
	failed.Err = errors.New("it is down")
	elsewhere := reconcile.Pass{Key: f.Key(), Did: "left to reconciler-1"}
	var n config.News
	for i, step := range []struct {
		pass  reconcile.Pass
		fresh bool
	}{
		{turned, true}, {waiting("a, b are missing"), true}, {waiting("a, b are missing"), false}, {waiting("a is missing"), true},
		{elsewhere, false}, {waiting("a is missing"), false}, {failed, true}, {failed, true}, {waiting("a is missing"), false},
	} {
		if fresh := n.Of([]reconcile.Pass{step.pass}); (len(fresh) == 1) != step.fresh {
			t.Errorf("step %d: %d to tell, want %t", i, len(fresh), step.fresh)
		}
	}
}

func TestParseName(t *testing.T) {
	for text, want := range map[string]string{"EmitVSA": "waybill/EmitVSA", "fleet/Drain": "fleet/Drain"} {
		k, err := config.ParseName(text)
		if err != nil || k.String() != want || k.Short() != text {
			t.Errorf("%q is %s, short %s: %v", text, k, k.Short(), err)
		}
	}
	for _, text := range []string{"", "emitVSA", "fleet/", "/Drain", "Fleet/Drain", "a/b/C", "Drain "} {
		if k, err := config.ParseName(text); err == nil {
			t.Errorf("%q is %s", text, k)
		}
	}
}
