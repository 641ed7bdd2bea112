package plan_test

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func TestExampleArtifacts(t *testing.T) {
	p, err := expand(t, exampleText(t))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, a := range p.Artifacts {
		fmt.Fprintf(&got, "%-12s %s\n", a.Class, a.Name)
	}
	const golden = "testdata/example.txt"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("the plan of the example changed. Got:\n%swant %s:\n%s", got.String(), golden, want)
	}
}

func TestExampleSteps(t *testing.T) {
	p, err := expand(t, exampleText(t))
	if err != nil {
		t.Fatal(err)
	}
	if p.Files != "https://dl.example.test/lantern/v0.1.0/" || p.Images != "registry.example.test/lantern" || !p.Locked {
		t.Errorf("places %q %q, locked %t", p.Files, p.Images, p.Locked)
	}
	windows := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.Instance == "compile-windows-amd64" })
	if windows < 0 {
		t.Fatal("no step compile-windows-amd64")
	}
	want := plan.Step{
		Name: "compile", Instance: "compile-windows-amd64", Each: map[string]string{"platform": "windows/amd64"},
		Run: []string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid= -X main.version=v0.1.0", "-o", "../out/bin/windows/amd64/lantern.exe", "."},
		Env: []string{"CGO_ENABLED=0", "GOARCH=amd64", "GOOS=windows"}, Tools: []string{"go"}, Root: plan.Scratch, Outputs: []string{"bin/windows/amd64/lantern.exe"},
	}
	if got := p.Steps[windows]; !reflect.DeepEqual(got, want) {
		t.Errorf("step is %#v, want %#v", got, want)
	}
	if got := p.Steps[len(p.Steps)-1].Inputs(); !slices.Equal(got, []string{"bin/linux/amd64/lantern", "bin/linux/arm64/lantern"}) {
		t.Errorf("the image takes %v", got)
	}
}

func TestEveryOutputHasItsEvidence(t *testing.T) {
	p, err := expand(t, exampleText(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range p.Artifacts {
		if !a.IsBuilt() {
			continue
		}
		need := []string{plan.ProvenanceName(a.Step)}
		if a.Class != plan.ImageChild {
			need = append(need, plan.SBOMName(a.Name))
		}
		if !a.IsImage() {
			need = append(need, plan.BundleName(a.Name))
		}
		for _, name := range need {
			if _, ok := p.Find(name); !ok {
				t.Errorf("%s: no %s in the plan", a.Name, name)
			}
		}
	}
	if _, ok := p.Find("bin/linux/amd64/lanter"); ok {
		t.Error("part of a name was found")
	}
}

func TestSBOMName(t *testing.T) {
	for artifact, want := range map[string]string{
		"oci/lantern": "image/lantern.spdx.json", "bin/lantern": "bin/lantern.spdx.json", "bin/soci/x": "bin/soci/x.spdx.json",
	} {
		if got := plan.SBOMName(artifact); got != want {
			t.Errorf("SBOM of %s is %s, want %s", artifact, got, want)
		}
	}
}

// named is the small configuration with one output of another name.
func named(t *testing.T, name string) string {
	return change(t, small, "name: tool.tar.gz", fmt.Sprintf("name: %q", name))
}

func TestNames(t *testing.T) {
	rows := []struct {
		name string
		says string // empty when the name is accepted
	}{
		{"tool-v1.tar.gz", ""},
		{"a/b/c.tar.gz", ""},
		{"A_b+c@d~e-f.g", ""},
		{"image.tar.gz", ""},
		{"provenances/tool", ""},
		{"release.manifest", "release.manifest.sigstore.json"}, // its signature would be the manifest
		{"release.manifest.sigstore.json", "manifest's own"},
		{"oci/other", "are reserved for the release"},
		{"provenance/tool", "are reserved for the release"},
		{"image/tool", "are reserved for the release"},
		{"image", "are reserved for the release"},
		{"release.yaml", "two artifacts"},
		{"release.lock.yaml", "two artifacts"},
		{"SHA256SUMS", "two artifacts"},
		{"SHA512SUMS.sigstore.json", "two artifacts"},
		{"tool.spdx.json", "two artifacts"},
		{"bin/linux/amd64/tool", "two artifacts"},
		{"bin/linux/amd64/tool.sigstore.json", "two artifacts"},
		{"bin/linux/amd64/tool/readme", "not a directory"},
		{"bin/linux", "not a directory"},
		{"release.yaml/x", "not a directory"},
		{"", "steps[1].outputs[0].name: empty"},
		{".", "clean relative name"},
		{"/etc/passwd", "clean relative name"},
		{"../tool", "clean relative name"},
		{"a/../b", "clean relative name"},
		{"a//b", "clean relative name"},
		{"a/", "clean relative name"},
		{"./a", "clean relative name"},
		{strings.Repeat("a", 513), "clean relative name"},
		{"a b", "only letters"},
		{`a\b`, "only letters"},
		{"a:b", "only letters"},
		{"töol", "only letters"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := expand(t, named(t, r.name))
			if r.says != "" {
				refused(t, err, r.says)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestStepsTakeWhatEarlierStepsMake(t *testing.T) {
	const take = "take: [bin/linux/amd64/tool]"
	for what, text := range map[string]string{
		"what nobody makes":     change(t, small, take, "take: [bin/linux/arm/tool]"),
		"its own output":        change(t, small, take, "take: [tool.tar.gz]"),
		"evidence":              change(t, small, take, "take: [bin/linux/amd64/tool.sigstore.json]"),
		"an image":              change(t, small, take, "take: [oci/tool]"),
		"for one platform only": change(t, small, `"bin/{os}/{arch}/tool{exe}"}, entry`, `"bin/{os}/{arch}/tool"}, entry`),
	} {
		t.Run(what, func(t *testing.T) {
			_, err := expand(t, text)
			refused(t, err, "which no earlier step makes")
		})
	}
	t.Run("the output of a later step", func(t *testing.T) {
		head, rest, _ := strings.Cut(small, "- name: compile")
		compile, rest, _ := strings.Cut(rest, "- name: pack")
		steps, places, _ := strings.Cut(rest, "places:")
		_, err := expand(t, head+"- name: pack"+steps+"- name: compile"+compile+"places:"+places)
		refused(t, err, "which no earlier step makes")
	})
}

func TestStepInstancesDoNotClash(t *testing.T) {
	twin := "- name: compile-linux-amd64\n  run: [make]\n  outputs: [{class: file, name: other}]\n- name: pack"
	_, err := expand(t, change(t, small, "- name: pack", twin))
	refused(t, err, "provenance/compile-linux-amd64")
}

func TestExpandNeedsAVersion(t *testing.T) {
	c, err := plan.ParseConfig([]byte(small))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Expand(version.Version{})
	if code := verdict.FindingOf("", err).Code; code != verdict.Usage {
		t.Errorf("no version is refused as %s, want USAGE", code)
	}
}

func TestDigestNamesThePlan(t *testing.T) {
	first, err := expand(t, exampleText(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 { // map order would show
		again, err := expand(t, exampleText(t))
		if err != nil || again.Digest() != first.Digest() {
			t.Fatalf("equal configurations, digests %s and %s, %v", first.Digest(), again.Digest(), err)
		}
	}
	for name, text := range map[string]string{
		"an output":  change(t, exampleText(t), "lantern-{os}-{arch}.tar.gz", "lantern_{os}_{arch}.tar.gz"),
		"a command":  change(t, exampleText(t), "-buildid=", "-buildid=1"),
		"a variable": change(t, exampleText(t), "go: {ldflags", "go: {cgo: true, ldflags"),
		"a base":     change(t, exampleText(t), "base: static", "base: other"),
		"a place":    change(t, exampleText(t), "dl.example.test", "dl.example.org"),
	} {
		other, err := expand(t, text)
		if err != nil || other.Digest() == first.Digest() {
			t.Errorf("%s changed, the digest did not, %v", name, err)
		}
	}
	c, _ := plan.ParseConfig([]byte(exampleText(t)))
	if other, err := c.Expand(ver(t, "v0.1.1")); err != nil || other.Digest() == first.Digest() {
		t.Errorf("the version changed, the digest did not, %v", err)
	}
}
