package plan_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// planOf expands a configuration for a version.
func planOf(t testing.TB, text, version string) plan.Plan {
	t.Helper()
	c, err := plan.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := c.Expand(ver(t, version))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSamePlansDoNotDiffer(t *testing.T) {
	for name, to := range map[string]plan.Plan{
		"the same":        planOf(t, full, "v1.0.0"),
		"another version": planOf(t, full, "v1.1.0"),
	} {
		d := plan.Compare(planOf(t, full, "v1.0.0"), to)
		if !d.IsEmpty() || d.Err() != nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func TestDiffNamesWhatChanges(t *testing.T) {
	rows := []struct {
		name, old, with string
		added, lost     []string
		changed         string // part of one line
	}{
		{"a platform more", "server: [linux/amd64, linux/arm64]", "server: [linux/amd64, linux/arm64, linux/s390x]",
			[]string{"bin/linux/s390x/ctl", "tool-linux-s390x.tar.gz", "oci/tool/ctl/linux/s390x", "share/s390x.txt.sha256"}, nil, "step compile-linux-s390x added"},
		{"a platform fewer", "every: [+server, windows/amd64]", "every: [+server]",
			nil, []string{"bin/windows/amd64/serve.exe", "tool-windows-amd64.tar.gz.sigstore.json"}, "step compile-windows-amd64 lost"},
		{"another command", "run: [make,", "run: [make, install,", nil, nil, `step compile-linux-amd64: run ["make","JOBS=4"`},
		{"the root", "  root: scratch\n", "", nil, nil, `step helper-linux-amd64: root`},
		{"the network", "network: none", "network: [proxy.example.test]", nil, nil, `step helper-linux-amd64: network added ["proxy.example.test:443"]`},
		{"less evidence", "file: [provenance, bundle]", "file: [provenance]",
			nil, []string{"share/arm64.txt.sigstore.json"}, "artifact share/arm64.txt: evidence"},
		{"another place", "https://dl.example.test/", "https://dl.example.org/", nil, nil, "release tool: files"},
		{"another base", "base: static", "base: debian", nil, nil, "step image-ctl: image"},
		{"a default", "default: 4", "default: 5", nil, nil, "release tool: parameters"},
		{"a marker fewer", `"{channel}.txt", `, "", nil, nil, "release tool: markers"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			from, to := planOf(t, full, "v1.0.0"), planOf(t, change(t, full, r.old, r.with), "v1.0.0")
			d := plan.Compare(from, to)
			for what, part := range map[string]struct {
				want []string
				got  []plan.Artifact
			}{"added": {r.added, d.Added}, "lost": {r.lost, d.Lost}} {
				if (len(part.want) == 0) != (len(part.got) == 0) {
					t.Errorf("%s: %+v, want %q", what, part.got, part.want)
				}
				for _, name := range part.want {
					if !slices.ContainsFunc(part.got, func(a plan.Artifact) bool { return a.Name == name }) {
						t.Errorf("%s is not among what is %s", name, what)
					}
				}
			}
			if !slices.ContainsFunc(d.Changed, func(c plan.Change) bool { return strings.Contains(c.String(), r.changed) }) {
				t.Errorf("nothing says %q: %v", r.changed, d.Changed)
			}
			if code := verdict.FindingOf("", d.Err()).Code; code != "PLAN_DIFFERS" {
				t.Errorf("refused as %s, want PLAN_DIFFERS", code)
			}
			back := plan.Compare(to, from)
			if len(back.Added) != len(d.Lost) || len(back.Lost) != len(d.Added) || len(back.Changed) != len(d.Changed) {
				t.Error("the way back is another")
			}
			var b strings.Builder
			if err := d.Write(&b); err != nil || !strings.Contains(b.String(), "added,") {
				t.Errorf("printed as %q, %v", b.String(), err)
			}
		})
	}
}

func TestSavedPlans(t *testing.T) {
	p := planOf(t, full, "v1.0.0")
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	read, err := plan.Parse(raw)
	if err != nil || !reflect.DeepEqual(read, p) || read.Digest() != p.Digest() {
		t.Fatalf("a saved plan is not read back: %v", err)
	}
	rows := []struct{ name, old, with, says string }{
		{"another schema", "waybill/plan/v1", "waybill/plan/v9", "schema"},
		{"no version", `"version": "v1.0.0"`, `"version": "1"`, "version"},
		{"an unknown field", `"tag":`, `"tags": [], "tag":`, "tags"},
		{"a name that leaves", `"name": "SHA256SUMS"`, `"name": "../SHA256SUMS"`, "clean relative name"},
		{"evidence that nobody plans", `"name": "SHA256SUMS.sigstore.json"`, `"name": "SHA256SUMS.sig"`, "not planned"},
		{"a name twice", `"name": "release.lock.yaml"`, `"name": "image/tool/serve.spdx.json"`, ""},
		{"out of order", `"name": "SHA256SUMS"`, `"name": "zzz"`, "not sorted by name"},
		{"a step that takes from nowhere", `"bin/helper"`, `"bin/helped"`, ""},
		{"the beginning", string(raw[len(raw)/2:]), "", ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := plan.Parse([]byte(change(t, string(raw), r.old, r.with)))
			refused(t, err, r.says)
		})
	}
}

func TestSeveralReleases(t *testing.T) {
	one, two := planOf(t, full, "v1.0.0"), planOf(t, full, "v1.1.0-alpha.0")
	r, err := plan.NewReleases(one, two)
	if err != nil || len(r) != 2 || r.Count() != len(one.Artifacts)+len(two.Artifacts) || r.String() != "tool v1.0.0, tool v1.1.0-alpha.0" {
		t.Errorf("two releases are %v, %v", r, err)
	}
	for name, plans := range map[string][]plan.Plan{"none": nil, "one twice": {one, two, one}} {
		if _, err := plan.NewReleases(plans...); verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("%s: %v, want USAGE", name, err)
		}
	}
}

func TestPlanIsPrinted(t *testing.T) {
	p := planOf(t, full, "v1.0.0")
	var b strings.Builder
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"tool v1.0.0, tag release-v1.0.0", p.Digest().String(), "proxy.example.test:443", "archive of the source", "marker  stable.txt",
		"bin/linux/amd64/serve", "provenance sbom bundle", "flavour = plain", "steps,",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not printed", want)
		}
	}
	for _, a := range p.Artifacts {
		if !strings.Contains(b.String(), "\n"+a.Name+" ") {
			t.Errorf("%s is not printed", a.Name)
		}
	}
}
