package serve

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"
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
