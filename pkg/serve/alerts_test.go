package serve

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
)

// TestDocsAlerts: the alert rules and docs/operations.md name only metrics that the
// service reports, and one that nothing reports is found.
func TestDocsAlerts(t *testing.T) {
	rules, err := os.ReadFile("../../cmd/waybill/deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	new(tally).write(&out)
	flags, err := newFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	(&featureReader{world: &World{Features: &Features{}}, flags: flags}).measure(&out, &switched{})
	named := regexp.MustCompile(`\bwaybill_(?:gate|features?)_\w+`).FindAllString(string(rules)+string(page), -1)
	if len(named) < 16 {
		t.Errorf("the rules name only %q", named)
	}
	is := func(name string) bool {
		return strings.Contains(out.String(), "# TYPE "+strings.TrimSuffix(name, "_bucket")+" ")
	}
	for _, name := range named {
		if !is(name) {
			t.Errorf("the service does not report %s:\n%s", name, out.String())
		}
	}
	if is(strings.Replace(named[0], "total", "sum", 1)) {
		t.Error("a metric is found that nothing reports")
	}
}

// switchedOn is the one feature of a policy, switched on.
type switchedOn struct{ Switches }

func (switchedOn) States() []featuretransition.State {
	return []featuretransition.State{{Name: "RequireProvenance", State: "On"}}
}

// TestFeatureMetricsHaveTypes: each metric of the features has its value, its help
// and its type, without which a monitoring system stores it as untyped.
func TestFeatureMetricsHaveTypes(t *testing.T) {
	flags, err := newFlags(nil)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	world := &World{Clock: time.Now, Features: &Features{}}
	(&featureReader{world: world, flags: flags}).measure(&out, &switched{Switches: switchedOn{}, at: time.Now()})
	for _, want := range []string{`waybill_feature_state{name="RequireProvenance",state="On"} 1`, `waybill_feature_state{name="RequireProvenance",state="Off"} 0`, "waybill_features_known 1"} {
		if !strings.Contains(out.String(), want+"\n") {
			t.Errorf("the metrics lack %s:\n%s", want, out.String())
		}
	}
	names := map[string]bool{}
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "#") {
			names[line[:strings.IndexAny(line, "{ ")]] = true
		}
	}
	if len(names) != 4 {
		t.Errorf("the metrics are %v", names)
	}
	for name := range names {
		if !strings.Contains(out.String(), "# HELP "+name+" ") || !strings.Contains(out.String(), "# TYPE "+name+" gauge\n") {
			t.Errorf("%s has no help or no type:\n%s", name, out.String())
		}
	}
}
