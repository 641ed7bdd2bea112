package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

const whole = `apiVersion: waybill/v1
kind: Features
site: ./features
profile: profile.yaml
identity: reconciler-0
every: 5m
reporters:
- {identity: promoter, every: 24h}
- {identity: gate, every: 1m30s, namespace: waybill}
window: 72.5h
desired:
  RequireProvenance: {state: "On", scope: [registry.example.test:5000/prod, registry.example.test/eu]}
  waybill/TraceAnnotations: {state: "Off"}
dynamic: [StatusPage]
public: [registry.example.test/prod/lantern]
releases: [v0.1.0, v0.2.0-rc.1]
`

// TestSchemaAgrees: what is read, the schema accepts; and each row changes one
// thing, which neither takes.
func TestSchemaAgrees(t *testing.T) {
	root := checkschema.Load(t, Schema())
	least := "apiVersion: waybill/v1\nkind: Features\nsite: gs://gate/features\nprofile: /etc/profile.yaml\nidentity: reconciler-0\nreporters: [{identity: promoter, every: 24h}]\n"
	for _, text := range []string{whole, least} {
		if _, err := ParseConfig([]byte(text), ".", known.Registry()); err != nil {
			t.Fatal(err)
		}
		if err := root.Accepts(text); err != nil {
			t.Errorf("the schema refuses\n%s%v", text, err)
		}
	}
	for from, to := range map[string]string{
		"kind: Features":        "kind: GateService",
		"every: 5m":             "evry: 5m",
		"site: ./features\n":    "",
		"reconciler-0":          "Reconciler/0",
		"every: 24h":            "every: often",
		"identity: promoter, ":  "",
		"{identity: promoter, ": "{identity: promoter, window: 1h, ",
		"namespace: waybill":    "namespace: Waybill",
		"RequireProvenance:":    "require-provenance:",
		`state: "On", `:         "",
		`state: "Off"`:          `state: "TurningOff"`,
		"test/eu]":              "test/Eu]",
		"lantern]":              "lantern@sha256]",
		"dynamic: [StatusPage]": "dynamic: []",
		"[StatusPage]":          "[StatusPage, StatusPage]",
		"v0.2.0-rc.1":           "v0.1.0",
		"releases: [v0.1.0, ":   "releases: [\"0.1\", ",
		"window: 72.5h":         "window: 72.5",
		"\npublic: [":           "\npublic: {is: ",
	} {
		text := strings.Replace(whole, from, to, 1)
		if text == whole {
			t.Fatalf("%q does not stand in the file", from)
		}
		if err := root.Accepts(text); err == nil {
			t.Errorf("%q in place of %q: the schema accepts it", to, from)
		}
		if _, err := ParseConfig([]byte(text), ".", known.Registry()); err == nil {
			t.Errorf("%q in place of %q: the parser accepts it", to, from)
		}
	}
}

// TestSchemaNamesEveryKey: a key in the schema or in the parser alone is a lie
// in the other, and so is another default.
func TestSchemaNamesEveryKey(t *testing.T) {
	s := checkschema.Load(t, Schema())
	s.Matches(reflect.TypeFor[wire]())
	s.Defaults(map[string]any{"every": "1m", "reporters[].namespace": "waybill"})
	bare := strings.NewReplacer("every: 5m\n", "", ", namespace: waybill", "").Replace(whole)
	said := strings.NewReplacer("every: 5m", "every: 1m", "every: 24h", "every: 24h, namespace: waybill").Replace(whole)
	var read []Config
	for _, text := range []string{bare, said} {
		c, err := ParseConfig([]byte(text), ".", known.Registry())
		if err != nil {
			t.Fatal(err)
		}
		read = append(read, c)
	}
	if !reflect.DeepEqual(read[0], read[1]) || read[0].Every != usual {
		t.Errorf("with the defaults left out %+v, written down %+v", read[0], read[1])
	}
}
