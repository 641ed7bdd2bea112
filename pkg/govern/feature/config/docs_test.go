package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// TestDocsFile: the file that the page shows is one, and asks for what the page
// says.
func TestDocsFile(t *testing.T) {
	c, err := config.ParseConfig(block(t, "kind: Features"), ".", known.Registry())
	if err != nil {
		t.Fatal(err)
	}
	if c.Wishes.Wanted[key(known.RequireProvenance)].Desired != feature.On || c.Every != time.Minute || len(c.Expect[feature.CoreNamespace].Reporters) != 2 {
		t.Errorf("%+v", c)
	}
}

// TestDocsPolicy: the part of a policy that the page shows is part of one.
func TestDocsPolicy(t *testing.T) {
	signer := `{issuer: "https://issuer.example.test", subject: %s@example.test, type: email}`
	text := fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: page
%s  release: [%s]
builders:
- id: https://example.test/builder
  level: 1
  signers: [%s]
source: {repository: "git+https://example.test/source"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`, block(t, "RequireProvenance: {floor"), fmt.Sprintf(signer, "release"), fmt.Sprintf(signer, "builder"))
	p, err := policy.Parse([]byte(text), nil)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if p.Floors()[known.RequireProvenance] != policy.Warn || len(p.Expected(policy.Reconciler)) != 1 {
		t.Errorf("floors %v", p.Floors())
	}
}

// page is the README of package feature.
func page(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// block is the example of the page that has some text in it.
func block(t *testing.T, has string) []byte {
	t.Helper()
	for _, rest := range strings.Split(page(t), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(rest, "```")
		if strings.Contains(text, has) {
			return []byte(regexp.MustCompile(`(?m)^ {3}`).ReplaceAllString(text, ""))
		}
	}
	t.Fatalf("no example has %q", has)
	return nil
}

// TestDocsRequirements: the table has every requirement, each with a test that
// stands where it says.
func TestDocsRequirements(t *testing.T) {
	var found []string
	for _, m := range regexp.MustCompile("(?m)^\\| F([0-9]+) \\|.*\\[`(TestF[0-9]+)`\\]\\(([^)]+)\\) \\|$").FindAllStringSubmatch(page(t), -1) {
		found = append(found, m[1])
		if m[2] != fmt.Sprintf("TestF%02s", m[1]) {
			t.Errorf("F%s is held by %s", m[1], m[2])
		}
		raw, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(m[3])))
		if err != nil || !strings.Contains(string(raw), "func "+m[2]+"(t *testing.T)") {
			t.Errorf("%s is not in %s: %v", m[2], m[3], err)
		}
	}
	var want []string
	for n := range 24 {
		want = append(want, fmt.Sprint(n+1))
	}
	if !slices.Equal(found, want) {
		t.Errorf("the table has %v", found)
	}
}
