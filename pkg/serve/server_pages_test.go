package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestPages: callers are told the format of requests; operators see the flags, as
// text or as JSON, and the last fifty decisions, the newest first, each with a
// page of its own. Callers see none of that.
func TestPages(t *testing.T) {
	f := openFront(t)
	if got := f.ask("puller", http.MethodGet, "/openapi.json", ""); got.Code != 200 || !json.Valid(got.Body.Bytes()) || !strings.Contains(got.Body.String(), `"/v1/decisions"`) {
		t.Errorf("the format: %d %.100s", got.Code, got.Body)
	}
	if got := f.admin("/flagz"); got.Code != 200 || !strings.HasPrefix(got.Body.String(), "NAME ") {
		t.Errorf("flags as text: %d %.100s", got.Code, got.Body)
	}
	out, req := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/flagz", nil)
	req.Header.Set("Accept", "application/json")
	f.Admin().ServeHTTP(out, req)
	var flags struct{ Schema string }
	if err := json.Unmarshal(out.Body.Bytes(), &flags); err != nil || flags.Schema != schemaFlags {
		t.Errorf("flags as JSON: %v, %s", err, out.Body)
	}
	for i := range kept + 3 {
		v := verdict.New(fmt.Sprint("image ", i), time.Unix(1000, 0))
		v.Add(verdict.Find(verdict.Unsigned, "demo", "number %d", i))
		f.records.tally.add(api.Decision{Verdict: v}, line{ID: fmt.Sprint("id-", i), Verdict: v})
	}
	for id, code := range map[string]int{"id-2": 404, "id-3": 200, "id-52": 200} {
		path := "/statusz/decision/" + id
		if got := f.admin(path); got.Code != code || code == 200 && !strings.Contains(got.Body.String(), "number "+strings.TrimPrefix(id, "id-")) {
			t.Errorf("%s: %d %.300s", id, got.Code, got.Body)
		}
		if got := f.ask("puller", http.MethodGet, path, ""); got.Code != 404 || strings.Contains(got.Body.String(), "number") {
			t.Errorf("a caller reaches %s: %d", id, got.Code)
		}
	}
	page := f.admin("/statusz").Body.String()
	newest, oldest := strings.Index(page, "id-52"), strings.Index(page, "id-3")
	if newest < 0 || oldest < newest || strings.Count(page, `href="statusz/decision/`) != kept {
		t.Errorf("the page has %d and %d:\n%s", newest, oldest, page)
	}
	var metrics strings.Builder
	f.records.tally.write(&metrics)
	if want := `waybill_gate_decisions_total{outcome="refused"} 53`; !strings.Contains(metrics.String(), want) {
		t.Errorf("the metrics lack %s:\n%s", want, metrics.String())
	}
}

// TestReloadFails: a basis that cannot be read changes nothing: the last one
// decides, and the log and the page say why. The next one is taken.
func TestReloadFails(t *testing.T) {
	f := openFront(t)
	pull := func() int {
		return f.ask("puller", http.MethodGet, "/v2/"+repository+"/manifests/v1", "").Code
	}
	for _, fail := range []error{verdict.Refuse(verdict.ConfigParse, "policy", "it is half written"), nil} {
		f.fail = fail
		f.log.Reset()
		err := f.Reload(t.Context())
		logged := strings.Contains(f.log.String(), `"level":"ERROR"`) && strings.Contains(f.log.String(), `"code":"CONFIG"`) && strings.Contains(f.log.String(), "half written")
		if (err != nil) != (fail != nil) || logged != (fail != nil) || strings.Contains(f.admin("/statusz").Body.String(), "half written") != (fail != nil) {
			t.Errorf("%v: %v, logged: %s", fail, err, f.log.String())
		}
		if code := pull(); code != 200 {
			t.Errorf("%v: a pull is answered %d", fail, code)
		}
	}
	f.fail = verdict.Refuse(verdict.ConfigParse, "policy", "it is half written")
	if _, err := New(t.Context(), *f.world, Limits{}); verdict.FindingOf("", err).Code != verdict.ConfigParse || err == nil {
		t.Errorf("it begins without a basis: %v", err)
	}
}

// inForce are states of features that were read. They switch nothing.
type inForce []featuretransition.State

func (in inForce) For(p policy.Policy, _ ...string) (policy.Policy, error) { return p, nil }
func (in inForce) States() []featuretransition.State                       { return in }

// noFeatures is a store without any.
type noFeatures struct{ featurestore.Store }

func (noFeatures) List(context.Context) ([]feature.Feature, error) { return nil, nil }

// TestCheck: the check at the start passes when the states of the features are
// known or not needed, and says why they are not (UNAVAILABLE).
func TestCheck(t *testing.T) {
	now := time.Now()
	down := verdict.Refuse(verdict.FeatureState, "site", "rolled back")
	for name, row := range map[string]struct {
		now  *switched
		want string
	}{
		"not used":     {nil, ""},
		"known":        {&switched{Switches: inForce{}, at: now}, ""},
		"not any more": {&switched{Switches: inForce{}, at: now.Add(-time.Hour), failed: down}, "last read at " + now.Add(-time.Hour).UTC().Format(time.RFC3339)},
		"never read":   {&switched{failed: down}, "never read: " + down.Error()},
	} {
		f := openFront(t)
		f.world.Features = &Features{Site: "site"}
		f.basis.Load().switched = row.now
		err := f.Check(t.Context())
		if (err == nil) != (row.want == "") || err != nil && (verdict.FindingOf("", err).Code != verdict.PlaceDown || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
}

// TestFeaturesGoForward: the states in force never go back, nor does one disappear
// that the policy names (FEATURE_STATE).
func TestFeaturesGoForward(t *testing.T) {
	const role = "  reconciler: [{issuer: \"https://accounts.example.test\", subject: reconciler@example.test, type: email}]\n"
	text, err := os.ReadFile("../judge/policy/testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	names, err := policy.Parse([]byte(strings.Replace(string(text), "roles:\n", "roles:\n"+role, 1)+"features: {RequireProvenance: {floor: warn}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, number int, is string) featuretransition.State {
		return featuretransition.State{Namespace: feature.CoreNamespace, Name: name, State: is, Number: number}
	}
	first := []featuretransition.State{of("RequireProvenance", 2, "On"), of("Other", 2, "On")}
	for name, row := range map[string]struct {
		next []featuretransition.State
		good bool
	}{
		"the same":       {first, true},
		"the next":       {[]featuretransition.State{of("RequireProvenance", 3, "TurningOff"), of("Other", 3, "Off")}, true},
		"an older":       {[]featuretransition.State{of("RequireProvenance", 1, "Off"), of("Other", 2, "On")}, false},
		"another of it":  {[]featuretransition.State{of("RequireProvenance", 2, "Off"), of("Other", 2, "On")}, false},
		"without one":    {first[:1], true},
		"without its":    {first[1:], false},
		"one more":       {append([]featuretransition.State{of("More", 1, "On")}, first...), true},
		"an older other": {[]featuretransition.State{first[0], of("Other", 1, "On")}, false},
	} {
		read := first
		f := openFront(t, func(w *World) {
			w.Features = &Features{Site: "site", Store: noFeatures{}, Read: func(context.Context, Basis) (Switches, error) { return inForce(read), nil }}
		})
		f.policy = names
		if err := f.Reload(t.Context()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		read = row.next
		if err := f.Follow(t.Context()); (err == nil) != row.good || err != nil && verdict.FindingOf("", err).Code != verdict.FeatureState {
			t.Errorf("%s: %v, want good %t", name, err, row.good)
		}
	}
}

// TestScopeIsShown: the page names three repositories of a scope, and counts the others.
func TestScopeIsShown(t *testing.T) {
	for want, scope := range map[string]feature.Scope{
		" everywhere": {Everything: true}, " in a": {Repositories: []string{"a"}}, " in a, b, c": {Repositories: []string{"a", "b", "c"}},
		" in a, b, c and 2 more": {Repositories: []string{"a", "b", "c", "d", "e"}},
	} {
		if got := scopeText(scope); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestServiceNeedsTLS: a service that other machines reach needs a certificate.
func TestServiceNeedsTLS(t *testing.T) {
	const key = "tls: {certificate: server.crt, key: server.key}\n"
	for listen, bare := range map[string]bool{"127.0.0.1:1": true, "0.0.0.0:1": false, "gate.example.test:1": false, ":1": false} {
		for _, with := range []string{"", key} {
			text := "apiVersion: waybill/v1\nkind: GateService\nprofile: p\ncallers: c\nlisten: \"" + listen + "\"\nadmin: 127.0.0.1:2\n" + with
			c, err := ParseConfig([]byte(text), "/etc/gate")
			if good := bare || with != ""; (err == nil) != good || err != nil && verdict.FindingOf("", err).Code != verdict.ConfigParse {
				t.Errorf("%s, %q: %v", listen, with, err)
			}
			if with != "" && (c.TLS.Certificate != "/etc/gate/server.crt" || c.TLS.Key != "/etc/gate/server.key") {
				t.Errorf("the files are %+v", c.TLS)
			}
		}
	}
}
