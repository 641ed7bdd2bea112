package plan_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestReadmeIsTrue reads every YAML of the README, and holds its figures and
// its tables against the product.
func TestReadmeIsTrue(t *testing.T) {
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	var blocks []string
	for _, part := range strings.Split(text, "```yaml\n")[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	if len(blocks) != 6 {
		t.Fatalf("%d blocks of YAML, want 6", len(blocks))
	}
	if p, err := expand(t, blocks[5]); err != nil || len(p.Given) != 7 || len(p.GivenImages) != 1 {
		t.Errorf("another tool's: %d files, %d images, %v", len(p.Given), len(p.GivenImages), err)
	}
	p, err := expand(t, blocks[0])
	if err != nil {
		t.Fatalf("the first file: %v", err)
	}
	for _, name := range []string{"bin/windows/amd64/lantern.exe", "lantern_0.1.0_darwin_arm64.tar.gz", "oci/lantern-arm64"} {
		if _, ok := p.Find(name); !ok {
			t.Errorf("%s is not planned", name)
		}
	}
	head, _, _ := strings.Cut(blocks[0], "defaults:")
	_, places, _ := strings.Cut(blocks[0], "\nplaces:")
	if _, err := expand(t, head+blocks[1]+"places:"+places); err != nil {
		t.Errorf("what a step takes: %v", err)
	}
	if _, err := plan.ParseConfig([]byte(change(t, full, full[strings.Index(full, "parameters:"):strings.Index(full, "defaults:")], blocks[2]))); err != nil {
		t.Errorf("the parameters: %v", err)
	}
	if _, err := plan.ParseLock([]byte(blocks[3])); err != nil {
		t.Errorf("the lock: %v", err)
	}
	if l, err := plan.ParseLock([]byte("apiVersion: waybill/v1\nkind: Lock\n" + blocks[4])); err != nil || len(l.Tools["go"].Platforms) != 2 {
		t.Errorf("the lock of a team: %v", err)
	}
	kubernetes, big := golden(t, "kubernetes")
	goreleaser, _ := golden(t, "goreleaser")
	for _, figure := range []string{
		fmt.Sprintf("%d lines that expand to %d artifacts", strings.Count(kubernetes, "\n"), len(big.Artifacts)),
		fmt.Sprintf("%d lines.", strings.Count(goreleaser, "\n")),
	} {
		if !strings.Contains(text, figure) {
			t.Errorf("it does not say %q", figure)
		}
	}
	// Every key of the schema has a word.
	s := checkschema.Load(t, plan.ConfigSchema())
	keys := map[string]bool{}
	for _, path := range []string{"", "steps[]", "steps[].outputs[]", "outputs[]", "defaults.step.limits", "parameters.*"} {
		for _, key := range s.Keys(path) {
			keys[key] = true
		}
	}
	for name := range keys {
		if !strings.Contains(text, "`"+name) && !strings.Contains(text, name+":") && !strings.Contains(text, "."+name) {
			t.Errorf("it says nothing of %s", name)
		}
	}
}
