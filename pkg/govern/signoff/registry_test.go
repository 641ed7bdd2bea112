package signoff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// TestRegistry: gates and metrics that a document names are those that the
// release has, and what can be disabled can be switched off.
func TestRegistry(t *testing.T) {
	reg := func(before, after string) *world { return good(t).change(t, "registry.yaml", before, after) }
	reg("LanternDimmer", "LanternShade").expect(t, verdict.SignoffFeature, "no feature gate")
	reg("stage: beta", "stage: alpha").expect(t, verdict.SignoffFeature, "another stage")
	reg("offTasks: true", "offTasks: false").expect(t, verdict.SignoffFeature, "no tasks that switch")
	reg("offTasks: true", "offTasks: false").change(t, kep, "disable-supported: true", "disable-supported: false").accepted(t)
	reg("lantern_dimmed_total", "lantern_lit_total").expect(t, verdict.SignoffFeature, "no metric")
	for _, text := range []string{"gates: []", "gates: [{name: A, stage: late}]", "gates: [{name: A, stage: beta}, {name: A, stage: beta}]", "x: y"} {
		if _, err := signoff.ParseRegistry([]byte(text)); verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestFeatures: the table of a program's features is a registry of gates, at
// the stages of the version that is asked about.
func TestFeatures(t *testing.T) {
	since := func(text string, stage feature.Stage) feature.Version {
		return feature.Version{Since: at(t, text), Stage: stage, Default: feature.Off}
	}
	gone := since("v1.40.0", feature.Deprecated)
	gone.Removed = true
	definition := func(name string, versions ...feature.Version) feature.Definition {
		return feature.Definition{Name: name, About: "light", Versions: versions}
	}
	table, err := feature.NewRegistry(
		feature.Namespace{Name: feature.CoreNamespace, Features: []feature.Definition{
			definition("LanternDimmer", since("v1.36.0", feature.Alpha), since("v1.37.0", feature.Beta), since("v1.38.0", feature.GA), since("v1.39.0", feature.Deprecated), gone),
		}},
		feature.Namespace{Name: "fleet", Features: []feature.Definition{definition("Drain", since("v1.30.0", feature.Beta))}},
	)
	if err != nil {
		t.Fatal(err)
	}
	check := func(version, gate string) (*verdict.Verdict, signoff.Report) {
		w := good(t).change(t, kep, "name: LanternDimmer", "name: "+gate)
		w.check(t) // for everything but the registry
		w.q.Registry = signoff.Features(table, at(t, version))
		return signoff.Check(w.q)
	}
	for _, r := range []struct{ version, gate, words string }{
		{"v1.37.0", "LanternDimmer", ""},
		{"v1.37.5", "LanternDimmer", ""},
		{"v1.37.0", "fleet/Drain", ""},
		{"v1.37.0", "Drain", "no feature gate"},
		{"v1.37.0", "waybill/LanternDimmer", "no feature gate"},
		{"v1.35.0", "LanternDimmer", "no feature gate"},
		{"v1.40.0", "LanternDimmer", "no feature gate"},
		{"v1.36.0", "LanternDimmer", "another stage"},
		{"v1.38.0", "LanternDimmer", "another stage"},
		{"v1.39.0", "LanternDimmer", "another stage"},
	} {
		v, report := check(r.version, r.gate)
		if r.words == "" && v.Outcome() != verdict.Accepted || r.words != "" && (!slices.Equal(codes(v.Findings), []verdict.Code{verdict.SignoffFeature}) || !strings.Contains(v.Findings[0].Message, r.words)) {
			t.Errorf("%s in %s: %s: %v, want %q", r.gate, r.version, v.Headline(), v.Findings, r.words)
		}
		if !slices.Contains(report.Left, "metrics (the registry has none)") {
			t.Errorf("metrics were not compared, and nobody says so: %q", report.Left)
		}
	}
	// A second document without metrics does not make up for the first.
	w := good(t)
	for file, text := range w.files {
		if rest, inside := strings.CutPrefix(file, dir); inside {
			w.files["keps/sig-release/7002-lantern-shade"+rest] = strings.NewReplacer("7001", "7002", "metrics:\n  - lantern_dimmed_total\n", "metrics: []\n").Replace(text)
		}
	}
	w.check(t)
	w.q.Registry = signoff.Features(table, at(t, "v1.37.0"))
	if _, r := signoff.Check(w.q); len(r.Documents) != 2 || !slices.Contains(r.Left, "metrics (the registry has none)") {
		t.Errorf("%d documents, left %q", len(r.Documents), r.Left)
	}
	w = good(t).change(t, kep, "metrics:\n  - lantern_dimmed_total\n", "metrics: []\n")
	w.check(t)
	w.q.Registry = signoff.Features(table, at(t, "v1.37.0"))
	if v, r := signoff.Check(w.q); v.Outcome() != verdict.Accepted || len(r.Left) != 0 {
		t.Errorf("%s: %v, left %q", v.Headline(), v.Findings, r.Left)
	}
}

func at(t testing.TB, text string) version.Version {
	t.Helper()
	v, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
