package attacks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// atRest are all features of this program, off and with nothing left behind.
func atRest(t *testing.T) map[string]feature.Feature {
	t.Helper()
	all := map[string]feature.Feature{}
	for _, d := range known.Namespace().Features {
		f := must[feature.Feature](t)(feature.Announce(feature.Key{Namespace: feature.CoreNamespace, Name: d.Name}, d, known.Newest()))
		all[d.Name] = feature.WithConditions(f, feature.Condition{Type: feature.Dangling, Status: "False"})
	}
	return all
}

// turningOn is a feature on its way, with a statement about that or without.
func turningOn(t *testing.T, f feature.Feature, statement string) feature.Feature {
	t.Helper()
	d, _ := known.Registry().Definition(f.Key())
	step := must[feature.Step](t)(feature.Next(feature.Input{
		Feature: f, Definition: d, Running: known.Newest(), Reconciler: "reconciler-0", Wanted: &feature.Wanted{Desired: feature.On},
		Expected: []string{"promoter"}, Window: time.Hour, Now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
	}))
	if statement == "" {
		return step.Feature
	}
	return must[feature.Feature](t)(feature.Signed(step.Feature, 1, statement))
}

// TestFeaturePreflight: no other version is started over features that it would
// misread, that are on their way, or that nobody looked at. Each row has a twin
// that differs in that one fact, and is safe.
func TestFeaturePreflight(t *testing.T) {
	loose := feature.Condition{Type: feature.Dangling, Status: "Unknown"}
	rows := []struct {
		name, to, said string
		change         func(t *testing.T, all map[string]feature.Feature)
		twin           func(t *testing.T, all map[string]feature.Feature) // nil: as it was
	}{
		{"an empty site", "v0.3.0", "nothing was checked", func(_ *testing.T, all map[string]feature.Feature) { clear(all) }, nil},
		{"a feature that was never announced", "v0.3.0", "not announced at this site", func(_ *testing.T, all map[string]feature.Feature) { delete(all, known.RequireSignoff) }, nil},
		{"a feature on its way", "v0.3.0", "the feature is TurningOn", func(t *testing.T, all map[string]feature.Feature) {
			all[known.EmitVSA] = turningOn(t, all[known.EmitVSA], "waybill/EmitVSA/1.sigstore.json")
		}, nil},
		{"a transition that nobody signed", "v0.3.0", "not signed yet", func(t *testing.T, all map[string]feature.Feature) {
			all[known.EmitVSA] = turningOn(t, all[known.EmitVSA], "")
		}, nil},
		{"data in a form that the older version does not read", "v0.1.0", "reads schema 1", func(_ *testing.T, all map[string]feature.Feature) {
			all[known.BundleReferrers] = feature.WithConditions(all[known.BundleReferrers], loose)
		}, nil},
		{"a feature that the other version does not know, and nobody looked", "v0.0.1", "unknown to v0.0.1", func(_ *testing.T, all map[string]feature.Feature) {
			all[known.TraceAnnotations] = feature.WithConditions(all[known.TraceAnnotations], loose)
		}, nil},
		{"a feature of another program, and nobody looked", "v0.3.0", "unknown to v0.2.0", func(t *testing.T, all map[string]feature.Feature) {
			all["Drain"] = foreign(t, loose)
		}, func(t *testing.T, all map[string]feature.Feature) {
			all["Drain"] = foreign(t, feature.Condition{Type: feature.Dangling, Status: "False"})
		}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			all := atRest(t)
			r.change(t, all)
			v := flight(t, all, r.to)
			refused(t, v.Err(), "FEATURE_UNSAFE")
			if !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return strings.Contains(f.Message, r.said) }) {
				t.Errorf("%+v, want one that says %q", v.Findings, r.said)
			}
			all = atRest(t)
			if r.twin != nil {
				r.twin(t, all)
			}
			v = flight(t, all, r.to)
			refused(t, v.Err())
			if v.Counts.Verified != len(all) || v.Counts.Required != len(all) {
				t.Errorf("%s, of %d features", v.Counts, len(all))
			}
		})
	}
}

// flight asks whether a version can be started over features.
func flight(t *testing.T, all map[string]feature.Feature, to string) *verdict.Verdict {
	t.Helper()
	s := must[featurestore.Store](t)(featurestore.OpenDirectory(t.TempDir()))
	for _, f := range all {
		must[feature.Feature](t)(s.Create(t.Context(), f))
	}
	return must[*verdict.Verdict](t)(config.Preflight(t.Context(), config.Move{
		Site: "the site", Features: s, Registry: known.Registry(), From: known.Newest(), To: must[version.Version](t)(version.Parse(to)),
	}, time.Now()))
}

// foreign is a feature that no version of this program knows.
func foreign(t *testing.T, dangling feature.Condition) feature.Feature {
	t.Helper()
	k := feature.Key{Namespace: "fleet", Name: "Drain"}
	d := feature.Definition{Name: k.Name, About: "a cluster is drained first", Versions: []feature.Version{{Since: known.Newest(), Stage: feature.Beta, Default: feature.Off}}}
	return feature.WithConditions(must[feature.Feature](t)(feature.Announce(k, d, known.Newest())), dangling)
}
