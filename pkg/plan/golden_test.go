package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/plan"
)

// goldens are release.yaml files of real shapes. The names of the first are
// those of a Kubernetes release, on places of nobody.
func golden(t testing.TB, name string) (text string, p plan.Plan) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := plan.ParseConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	p, err = c.Expand(ver(t, "v1.31.2"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), p
}

// count tells how many artifacts of each class there are.
func count(p plan.Plan) map[plan.Class]int {
	counts := map[plan.Class]int{}
	for _, a := range p.Artifacts {
		counts[a.Class]++
	}
	return counts
}

// listing writes a plan a line each, as it is kept beside the golden.
func listing(p plan.Plan) string {
	var b strings.Builder
	for _, a := range p.Artifacts {
		fmt.Fprintf(&b, "%-12s %s\n", a.Class, a.Name)
	}
	return b.String()
}

func TestKubernetesShape(t *testing.T) {
	text, p := golden(t, "kubernetes")
	if n := strings.Count(text, "\n"); n > 60 {
		t.Errorf("the file has %d lines, more than 60", n)
	}
	t.Logf("%d lines, %d steps, %d artifacts: %v", strings.Count(text, "\n"), len(p.Steps), len(p.Artifacts), count(p))
	_ = slices.Sort[[]string]
}
