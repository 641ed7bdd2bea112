package config_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const file = `apiVersion: waybill/v1
kind: Features
site: ./features
profile: profile.yaml
identity: reconciler-0
every: 5m
reporters:
- {identity: promoter, every: 24h}
- {identity: gate, every: 1m}
window: 72h
desired:
  RequireProvenance: {state: "On", scope: [registry.example.test/prod, registry.example.test/eu]}
  waybill/TraceAnnotations: {state: "Off"}
dynamic: [StatusPage]
public: [registry.example.test/prod/lantern]
releases: [v0.1.0]
`

func key(name string) feature.Key { return feature.Key{Namespace: feature.CoreNamespace, Name: name} }

func TestParseConfig(t *testing.T) {
	c, err := config.ParseConfig([]byte(file), "/etc/gate", known.Registry())
	if err != nil {
		t.Fatal(err)
	}
	if c.Site != filepath.FromSlash("/etc/gate/features") || c.Profile != filepath.FromSlash("/etc/gate/profile.yaml") {
		t.Errorf("site %q, profile %q", c.Site, c.Profile)
	}
	if c.Identity != "reconciler-0" || c.Every != 5*time.Minute {
		t.Errorf("%s every %s", c.Identity, c.Every)
	}
	expect := map[string]reconcile.Expect{feature.CoreNamespace: {Window: 72 * time.Hour, Reporters: []reconcile.Reporter{
		{Identity: "promoter", Every: 24 * time.Hour}, {Identity: "gate", Every: time.Minute},
	}}}
	if !reflect.DeepEqual(c.Expect, expect) {
		t.Errorf("expects %+v", c.Expect)
	}
	wishes := reconcile.Wishes{
		Wanted: map[feature.Key]feature.Wanted{
			key(known.RequireProvenance): {Desired: feature.On, Scope: feature.Scope{Repositories: []string{"registry.example.test/eu", "registry.example.test/prod"}}},
			key(known.TraceAnnotations):  {Desired: feature.Off, Scope: feature.Scope{Everything: true}},
		},
		Dynamic: []feature.Key{key(known.StatusPage)},
	}
	if !reflect.DeepEqual(c.Wishes, wishes) {
		t.Errorf("wishes %+v", c.Wishes)
	}
	if len(c.Public) != 1 || len(c.Releases) != 1 || c.Releases[0].String() != "v0.1.0" {
		t.Errorf("public %v, releases %v", c.Public, c.Releases)
	}
}

// TestParseConfigDefaults: what may be left out is, and a site in a bucket is no
// path.
func TestParseConfigDefaults(t *testing.T) {
	text := `apiVersion: waybill/v1
kind: Features
site: gs://gate/features
profile: /etc/profile.yaml
identity: reconciler-0
reporters: [{identity: promoter, every: 24h}]
`
	c, err := config.ParseConfig([]byte(text), "/etc/gate", known.Registry())
	if err != nil {
		t.Fatal(err)
	}
	if c.Site != "gs://gate/features" || c.Profile != "/etc/profile.yaml" || c.Every != time.Minute {
		t.Errorf("%+v", c)
	}
	if e := c.Expect[feature.CoreNamespace]; e.Window != 0 {
		t.Errorf("the window is %s, and ought to be left to the reconciler", e.Window)
	}
}

// TestParseConfigRefuses: each row changes one thing, and is refused for that, at
// its line and column.
func TestParseConfigRefuses(t *testing.T) {
	rows := []struct{ name, from, to, said string }{
		{"another kind", "kind: Features", "kind: GateService", "1:1"},
		{"another version", "waybill/v1\n", "waybill/v2\n", "want waybill/v1 and Features"},
		{"an unknown key", "every: 5m", "evry: 5m", `unknown key "evry"`},
		{"an unknown key of a reporter", "{identity: gate, every: 1m}", "{identity: gate, evry: 1m}", `9:20`},
		{"no site", "site: ./features\n", "", "directory or bucket"},
		{"no profile", "profile: profile.yaml\n", "", "policy, trust root"},
		{"no identity", "identity: reconciler-0\n", "", "unique name of this reconciler"},
		{"an identity that is none", "reconciler-0", "Reconciler/0", "5:11"},
		{"a time that is none", "every: 5m", "every: often", "not a duration"},
		{"no time between two passes", "every: 5m", "every: 0s", "6:8"},
		{"a negative time", "every: 5m", "every: -5m", "at least 1s"},
		{"no reporters", "reporters:\n- {identity: promoter, every: 24h}\n- {identity: gate, every: 1m}\n", "", "no report would be waited for"},
		{"an empty list of reporters", "reporters:\n- {identity: promoter, every: 24h}\n- {identity: gate, every: 1m}\n", "reporters: []\n", "7:12"},
		{"a reporter without a name", "identity: gate, ", "", "--report-as"},
		{"a reporter that never runs", "every: 1m}", "every: 0s}", "9:27"},
		{"a reporter without a time", ", every: 1m}", "}", "between two of its runs"},
		{"a reporter twice", "identity: gate,", "identity: promoter,", "listed twice"},
		{"a reporter of nobody's features", "every: 1m}", "every: 1m, namespace: fleet}", `"fleet": no known feature is in this namespace`},
		{"a window that is too short", "window: 72h", "window: 12h", "10:9"},
		{"a window of nothing", "window: 72h", "window: 0s", "10:9"},
		{"nothing is desired", file[strings.Index(file, "desired:"):strings.Index(file, "dynamic:")], "desired: {}\n", "11:10"},
		{"a feature that nobody knows", "RequireProvenance:", "RequireProvenence:", "known are BundleReferrers"},
		{"a feature of somebody else", "RequireProvenance:", "fleet/RequireProvenance:", "unknown feature fleet/RequireProvenance"},
		{"a name that is none", "RequireProvenance:", "require-provenance:", "12:23"},
		{"a feature twice", "waybill/TraceAnnotations:", "waybill/RequireProvenance:", "named twice"},
		{"a state on its way", `state: "On"`, `state: "TurningOn"`, `want "On" or "Off"`},
		{"a state without quotes", `state: "On"`, `state: On`, "quote it"},
		{"no state", `state: "On", `, "", `want "On" or "Off"`},
		{"an empty scope", "scope: [registry.example.test/prod, registry.example.test/eu]", "scope: []", "leave the key out"},
		{"a repository that is none", "registry.example.test/eu]", "https://registry.example.test/eu]", "want a repository"},
		{"a repository twice", "registry.example.test/eu]", "registry.example.test/prod]", "listed twice"},
		{"a scope of what is off", `{state: "Off"}`, `{state: "Off", scope: [registry.example.test/eu]}`, "a scope is only for On"},
		{"nothing is dynamic", "dynamic: [StatusPage]", "dynamic: []", "14:10"},
		{"what cannot be dynamic", "dynamic: [StatusPage]", "dynamic: [EmitVSA]", "write it under desired"},
		{"what needs a flag", "dynamic: [StatusPage]", "dynamic: [KMSSigning]", "it needs --key"},
		{"dynamic twice", "dynamic: [StatusPage]", "dynamic: [StatusPage, StatusPage]", "listed twice"},
		{"dynamic and desired", "waybill/TraceAnnotations", "StatusPage", "leave one of the two out"},
		{"nothing is public", "public: [registry.example.test/prod/lantern]", "public: []", "15:9"},
		{"a public tag", "prod/lantern]", "prod/lantern@sha256]", "want a repository"},
		{"no release", "releases: [v0.1.0]", "releases: []", "16:11"},
		{"a release that is none", "releases: [v0.1.0]", `releases: ["0.1"]`, "16:12"},
		{"a release twice", "releases: [v0.1.0]", "releases: [v0.1.0, v0.1.0]", "16:20"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if strings.Count(file, r.from) != 1 {
				t.Fatalf("%q stands %d times in the file", r.from, strings.Count(file, r.from))
			}
			_, err := config.ParseConfig([]byte(strings.Replace(file, r.from, r.to, 1)), ".", known.Registry())
			if err == nil || !strings.Contains(err.Error(), r.said) {
				t.Fatalf("%v, want one that says %q", err, r.said)
			}
			if f := verdict.FindingOf("", err); f.Code != verdict.ConfigParse {
				t.Errorf("the code is %s", f.Code)
			}
		})
	}
}

// TestParseConfigOfOthers: a table with features of a third party needs reporters
// of theirs, too.
func TestParseConfigOfOthers(t *testing.T) {
	theirs := theirs(t)
	if _, err := config.ParseConfig([]byte(file), ".", theirs); err == nil || !strings.Contains(err.Error(), "no reporter has namespace fleet") {
		t.Fatalf("%v, want one that says who is missing", err)
	}
	both := strings.Replace(file, "- {identity: gate, every: 1m}\n", "- {identity: gate, every: 1m}\n- {identity: gate, every: 1h, namespace: fleet}\n", 1)
	both = strings.Replace(both, "dynamic: [StatusPage]", "dynamic: [StatusPage, fleet/Drain]", 1)
	c, err := config.ParseConfig([]byte(both), ".", theirs)
	if err != nil {
		t.Fatal(err)
	}
	if e := c.Expect["fleet"]; len(e.Reporters) != 1 || e.Reporters[0].Every != time.Hour || e.Window != 72*time.Hour {
		t.Errorf("expects %+v", e)
	}
	if len(c.Wishes.Dynamic) != 2 || c.Wishes.Dynamic[1] != (feature.Key{Namespace: "fleet", Name: "Drain"}) {
		t.Errorf("dynamic are %v", c.Wishes.Dynamic)
	}
}

// theirs is the table of Waybill with that of a third party.
func theirs(t *testing.T) feature.Registry {
	t.Helper()
	first := known.Newest()
	r, err := feature.NewRegistry(known.Namespace(), feature.Namespace{Name: "fleet", Features: []feature.Definition{{
		Name: "Drain", About: "a cluster is drained before it is upgraded", Dynamic: true,
		Versions: []feature.Version{{Since: first, Stage: feature.Beta, Default: feature.Off}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
