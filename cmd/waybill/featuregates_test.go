package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// used is a command that asks for features, and what it did.
type used struct {
	*cobra.Command
	*featureFlags
	said bytes.Buffer
}

// using is a command that asks for these features and then ends as it is told.
func using(end error, names ...string) *used {
	u := &used{featureFlags: &featureFlags{}}
	u.Command = &cobra.Command{Use: "try", SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
		for _, name := range names {
			u.asks(featuregate.Feature(name))()
		}
		return end
	}}
	u.addFlags(u.Command)
	u.SetOut(&u.said)
	u.SetErr(&u.said)
	return u
}

func (u *used) with(t *testing.T, args ...string) error {
	t.Helper()
	u.SetArgs(args)
	return u.ExecuteContext(t.Context())
}

// TestFeatureGates: features are set as Kubernetes' programs set them, and what
// is wrong is refused with the list of those that there are.
func TestFeatureGates(t *testing.T) {
	u := using(nil)
	if err := u.with(t, "--feature-gates", "EmitVSA=false, BundleReferrers=false", "--feature-gates", "RequireSignoff=1"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{known.EmitVSA: false, known.BundleReferrers: false, known.RequireSignoff: true, known.TraceAnnotations: true, known.RequireProvenance: false} {
		if got := u.asks(featuregate.Feature(name))(); got != want {
			t.Errorf("%s is %t", name, got)
		}
	}
	if got, want := u.Flag(gatesFlag).Value.String(), "BundleReferrers=false,EmitVSA=false,RequireSignoff=true"; got != want {
		t.Errorf("it says that %s was set, want %s", got, want)
	}
	for text, why := range map[string]string{
		"RequireLantern=true": "unrecognized feature gate: RequireLantern",
		"EmitVSA":             "missing bool value for EmitVSA",
		"EmitVSA=perhaps":     "invalid value of EmitVSA=perhaps",
	} {
		err := using(nil).with(t, "--feature-gates", text)
		if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "known are BundleReferrers, EmitVSA, KMSSigning, ") {
			t.Errorf("%s: %v", text, err)
		}
	}
	help := u.Flag(gatesFlag).Usage
	for _, line := range []string{"EmitVSA=true|false (BETA - default=true)", "RequireSignoff=true|false (ALPHA - default=false)"} {
		if !strings.Contains(help, line) {
			t.Errorf("help does not have %q:\n%s", line, help)
		}
	}
}

// announced is a site with all features of this program, as a reconciler
// announces them, of which one is wanted.
func announced(t *testing.T, wanted string) (string, featurestore.Site) {
	t.Helper()
	dir := t.TempDir()
	if err := featurestore.MakeSite(dir); err != nil {
		t.Fatal(err)
	}
	site, err := openSite(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range known.Registry().Keys() {
		d, _ := known.Registry().Definition(k)
		f, err := feature.Announce(k, d, known.Newest())
		if err != nil {
			t.Fatal(err)
		}
		if k.Name == wanted {
			f.Spec.Desired = feature.On
		}
		if _, err := site.Features.Create(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	return dir, site
}

func usesOf(t *testing.T, site featurestore.Site, name string) []feature.Use {
	t.Helper()
	f, err := site.Features.Get(t.Context(), feature.Key{Namespace: feature.CoreNamespace, Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return f.Status.Uses
}

// TestFeatureReports: a command reports once, also when it refused: what it
// found, and whether it asked. What the gate demands is wanted by the store,
// what a flag says stays.
func TestFeatureReports(t *testing.T) {
	dir, site := announced(t, known.RequireProvenance)
	refused := verdict.Refuse(verdict.Unsigned, "lantern", "it has no signature")
	u := using(refused, known.EmitVSA, known.RequireProvenance)
	if err := u.with(t, "--features", dir, "--report-as", "promoter", "--feature-gates", "EmitVSA=false"); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	for name, want := range map[string]feature.Use{
		known.EmitVSA:           {Checked: true},
		known.RequireProvenance: {Checked: true, Value: true},
		known.RequireSignoff:    {},
		known.TraceAnnotations:  {Value: true},
	} {
		got := usesOf(t, site, name)
		if len(got) != 1 || got[0].Identity != "promoter" || got[0].Checked != want.Checked || got[0].Value != want.Value {
			t.Errorf("of %s it reports %+v", name, got)
		}
	}
	u = using(nil)
	if err := u.with(t, "--features", dir, "--report-as", "laptop", "--feature-gates", "RequireProvenance=false"); err != nil {
		t.Fatal(err)
	}
	if got := usesOf(t, site, known.RequireProvenance); len(got) != 2 || got[0].Identity != "laptop" || got[0].Value {
		t.Errorf("what a flag says is not what is reported: %+v", got)
	}
}

// TestFeatureReportsNowhere: a site that does not answer costs the report alone;
// a report to nobody, or by nobody, is wrong use; and who does not report needs
// no site.
func TestFeatureReportsNowhere(t *testing.T) {
	absent := filepath.Join(t.TempDir(), "absent")
	ran := errors.New("it ran")
	for _, row := range []struct {
		args []string
		want error // nil: wrong use
	}{
		{[]string{"--features", absent, "--report-as", "promoter"}, ran},
		{[]string{"--features", absent}, ran},
		{nil, ran},
		{[]string{"--report-as", "promoter"}, nil},
		{[]string{"--features", absent, "--report-as", "two\nlines"}, nil},
		{[]string{"--features", "nowhere://site", "--report-as", "promoter"}, nil},
	} {
		u := using(ran)
		err := u.with(t, row.args...)
		if row.want == nil && (errors.Is(err, ran) || verdict.OutcomeOf(err) != verdict.Malformed) || row.want != nil && !errors.Is(err, row.want) {
			t.Errorf("%q: %v", row.args, err)
		}
	}
	u := using(nil)
	if err := u.with(t, "--features", absent); err != nil {
		t.Fatal(err)
	}
	if _, there, err := u.site(); there || verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("a site that is not there: %t, %v", there, err)
	}
	if _, there, err := using(nil).site(); there || err != nil {
		t.Errorf("no site: %t, %v", there, err)
	}
}

// TestKMSSigning: a key of a service is refused before the service is asked,
// with the next act; the key of a file is not asked about.
func TestKMSSigning(t *testing.T) {
	asked := 0
	o := keys{names: []string{"release"}, given: []string{"release=awskms:///alias/lantern"}, services: func() bool { asked++; return false }}
	_, err := o.open(t.Context(), io.Discard)
	var refused *verdict.Error
	if !errors.As(err, &refused) || refused.Finding.Code != verdict.Usage || !strings.Contains(err.Error(), known.KMSSigning) || !strings.Contains(refused.Finding.Fix, "--feature-gates") || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
	o.given = []string{"release=" + filepath.Join(t.TempDir(), "absent.key")}
	if _, err := o.open(context.Background(), io.Discard); err == nil || asked != 1 {
		t.Errorf("asked %d times: %v", asked, err)
	}
}

// TestFeaturesFile: a file that says what is wanted of features is the
// operator's own, so whatever is wrong with it is wrong use, its size included.
func TestFeaturesFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "FEATURES.yaml")
	for _, row := range []struct {
		size int
		code verdict.Code
		says string
	}{
		{maxFeaturesFile + 1, verdict.ConfigParse, "more than 1048576 bytes"},
		{maxFeaturesFile, verdict.ConfigParse, "FEATURES_VALUE"},
	} {
		text := "apiVersion: waybill/v1\nkind: Features\nsite: site\n#"
		if err := os.WriteFile(path, []byte(text+strings.Repeat("x", row.size-len(text))), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readFeatures(path)
		if code := verdict.FindingOf("", err).Code; code != row.code || verdict.OutcomeOf(err) != verdict.Malformed || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%d bytes: %v", row.size, err)
		}
	}
	if _, err := readFeatures(path + ".not"); verdict.OutcomeOf(err) != verdict.Malformed {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := readFeatures(filepath.Dir(path)); verdict.OutcomeOf(err) != verdict.Malformed {
		t.Errorf("a directory: %v", err)
	}
}

// TestF12: what a feature adds to help and schemas is not shown to whoever
// switches it off, and all of it is to everybody else. No schema has the keys
// of annotations.
func TestF12(t *testing.T) {
	shown := func(args ...string) string {
		cmd := root()
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		cmd.SetArgs(args)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Fatalf("%q: %v", args, err)
		}
		return out.String()
	}
	for _, row := range []struct {
		args []string
		off  string
		keys []string
	}{
		{[]string{"sign", "--help"}, known.KMSSigning, []string{"NAME=SERVICE://KEY"}},
		{[]string{"promote", "apply", "--help"}, known.KMSSigning, []string{"NAME=SERVICE://KEY"}},
		{[]string{"feature", "reconcile", "--help"}, known.KMSSigning, []string{"NAME=SERVICE://KEY"}},
		{[]string{"schema", "policy"}, known.RequireSignoff, []string{`"signoff"`, `"RequireSignoff"`}},
		{[]string{"schema", "policy"}, known.RequireProvenance, []string{`"RequireProvenance"`}},
	} {
		on := shown(row.args...)
		off := shown(append(slices.Clone(row.args), "--feature-gates", row.off+"=false")...)
		for _, key := range row.keys {
			if !strings.Contains(on, key) || strings.Contains(off, key) {
				t.Errorf("%q: %s is shown: %t; without %s: %t", row.args, key, strings.Contains(on, key), row.off, strings.Contains(off, key))
			}
		}
		if row.args[0] == "schema" && !json.Valid([]byte(off)) {
			t.Errorf("%q without %s is no schema", row.args, row.off)
		}
	}
	for _, kind := range documentKinds() {
		schema, err := kind.text()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range known.Namespace().Features {
			off, err := withoutKeys(schema, d.Keys)
			if err != nil || d.Name == known.TraceAnnotations && !bytes.Equal(off, schema) {
				t.Errorf("schema %s without %s: %v", kind.name, d.Name, err)
			}
		}
	}
}
