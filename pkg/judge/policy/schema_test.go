package policy

import (
	"reflect"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaNamesEveryKey compares the published schema with what the loader
// reads: every object has exactly the keys of its struct, and is closed.
func TestSchemaNamesEveryKey(t *testing.T) {
	s := checkschema.Load(t, Schema())
	s.Matches(reflect.TypeFor[file]())
	for path, want := range map[string][]string{
		"roles":            {"channel", "policy", "reconciler", "release", "signoff", "verifier", "vex"},
		"require[].checks": {string(Provenance), string(SBOM), string(Signature), string(Summary)},
		"closed":           {"files", "images", inputs},
		"thresholds":       {"builders", "logs", "scts", "times"},
		"limits":           {"manifest", "trustRoot"},
		"features":         {requireProvenance, requireSignoff},
	} {
		if got := s.Keys(path); !slices.Equal(got, want) {
			t.Errorf("%s: the schema knows %v, the loader %v", path, got, want)
		}
	}
}

// TestSchemaDefaults compares the defaults of the schema with those of the
// loader.
func TestSchemaDefaults(t *testing.T) {
	rules := verify.Default()
	checkschema.Load(t, Schema()).Defaults(map[string]any{
		"digests": "sha256", "children": "own", "regression": string(Require), "insecureAcceptUnsigned": file{}.Unsigned,
		"builders[].hermetic": fileBuilder{}.Hermetic, "builders[].complete": fileBuilder{}.Complete,
		"declares[].notImplementable": fileDeclaration{}.NotImplementable, "build.parameters[].optional": fileParameter{}.Optional,
		"require[].checks.summary": string(Off),
		"thresholds.logs":          rules.Logs, "thresholds.times": rules.Times, "thresholds.scts": rules.SCTs, "thresholds.builders": 1,
	})
	p, err := Parse([]byte(least), nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.counts, thresholds{rules, 1}) || p.whole.digests || p.unsigned || p.byIndex || Regression(p) != Require {
		t.Errorf("a policy that leaves these out has %+v, all digests %t, unsigned %t, children by the index %t", p.counts, p.whole.digests, p.unsigned, p.byIndex)
	}
	if d := p.cells[cell{Published, "file"}]; d.modes[Summary] != Off {
		t.Errorf("a row without summary has %q", d.modes[Summary])
	}
}

// least has only what a policy needs.
const least = `apiVersion: waybill/v1
kind: Policy
name: least
roles:
  release: [{issuer: "https://accounts.example.test", subject: release@example.test, type: email}]
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {signature: require, provenance: "off", sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {signature: require, provenance: "off"}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: warn
closed: {files: require, images: require}
`

func keysOf(t reflect.Type) []string {
	var keys []string
	for i := range t.NumField() {
		keys = append(keys, t.Field(i).Tag.Get("yaml"))
	}
	slices.Sort(keys)
	return keys
}
