package stories

import (
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	featuregates "github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/features/field"
)

// without says what a program found that runs without trace annotations.
func (s switching) without(gate string) {
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
	g := must(featuregates.At(running.Major(), running.Minor()))(s.t)
	for _, err := range []error{
		featuregates.Add(g, known.Registry(), feature.CoreNamespace),
		g.Set(gate + "=false"),
		g.InitReporter(featuregates.Reporter{Store: site.Features, Namespace: feature.CoreNamespace, Identity: "promoter", Version: running}),
		g.Report(s.t.Context()),
	} {
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// TestFeatureTraceAnnotations: switched off, what is attached to a public image
// names no run any more, and the registry is as if it never had.
func TestFeatureTraceAnnotations(t *testing.T) {
	s := openSwitching(t)
	image := s.signed("v0.1.0")
	before := string(must(s.Snapshot(t.Context(), s.repository))(t))
	bundle := must(registry.Bundles(t.Context(), s.Remote, s.repository, image.Digest))(t)[0]
	s.Attach(t, s.repository, image, field.Evidence{Kind: intoto.CosignSignature, Bundle: bundle, Hints: field.Hints()})
	s.until(known.TraceAnnotations, feature.On) // by default
	s.file("FEATURES.yaml", "desired: {TraceAnnotations: {state: \"Off\"}}\npublic: ["+s.Host+"/"+s.repository+"]\n")
	for deadline := time.Now().Add(2 * time.Minute); s.get(known.TraceAnnotations).Status.State != feature.Off; {
		if time.Now().After(deadline) {
			t.Fatalf("it is not off: %s", s.pass().Stdout)
		}
		want(t, s.pass(), 0)
		s.without(known.TraceAnnotations)
	}
	want(t, s.pass(), 0)
	if c := s.get(known.TraceAnnotations).Condition(feature.Dangling); c.Status != "False" {
		t.Errorf("%s: %d, %v", c.Status, c.Count, c.Sample)
	}
	if after := string(must(s.Snapshot(t.Context(), s.repository))(t)); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	want(t, s.asks("v0.1.0"), 1, "NO_PROVENANCE")
	s.attests(image)
	want(t, s.asks("v0.1.0"), 0)
}
