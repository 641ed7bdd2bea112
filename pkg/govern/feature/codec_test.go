package feature_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func raw(t testing.TB, f feature.Feature) []byte {
	t.Helper()
	text, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestF15: the object is namespaced and records what is wanted, the default, the
// uses, the version and the state; and reads back as it was written.
func TestF15(t *testing.T) {
	w := reach(t, feature.TurningOff)
	w.in.Feature = feature.WithConditions(w.in.Feature, feature.Condition{Type: feature.Dangling, Status: "True", Count: 2, Sample: []string{"a", "b\nc"}})
	w.report(true, "promoter")
	text := raw(t, w.in.Feature)
	for _, field := range []string{`"namespace": "waybill"`, `"desired": "Off"`, `"default": "Off"`, `"uses": [`, `"identity": "promoter"`, `"version": "v0.2.0"`, `"state": "TurningOff"`, `"lastKnownVersion"`, `"tasks": [`, `"history": [`, `"conditions": [`} {
		if !strings.Contains(string(text), field) {
			t.Errorf("the object lacks %s", field)
		}
	}
	again, err := feature.Parse(text)
	if err != nil || !bytes.Equal(raw(t, again), text) {
		t.Errorf("read and written again it differs: %v", err)
	}
}

// TestParseRefuses: each row changes one thing in an object that reads.
func TestParseRefuses(t *testing.T) {
	good := string(raw(t, reach(t, feature.TurningOff).in.Feature))
	for name, change := range map[string][2]string{
		"an unknown field":            {`"dynamic"`, `"dynamics"`},
		"an unknown field, added":     {`"spec": {`, `"spec": { "force": true,`},
		"a key twice":                 {`"kind": "Feature",`, `"kind": "Feature", "kind": "Feature",`},
		"another version":             {"waybill/v1alpha1", "waybill/v2"},
		"another kind":                {`"kind": "Feature"`, `"kind": "Policy"`},
		"a name in lower case":        {`"name": "RequireLantern",`, `"name": "requireLantern",`},
		"a namespace that leaves":     {`"namespace": "waybill",`, `"namespace": "../waybill",`},
		"another state":               {`"state": "TurningOff"`, `"state": "Off"`},
		"a state of nobody":           {`"state": "TurningOff"`, `"state": "Disabled"`},
		"another number":              {"\"state\": \"TurningOff\",\n    \"number\": 3", "\"state\": \"TurningOff\",\n    \"number\": 4"},
		"a wish on the way":           {`"desired": "Off"`, `"desired": "TurningOff"`},
		"a default on the way":        {`"default": "Off"`, `"default": "TurningOff"`},
		"a stage of nobody":           {`"stage": "alpha"`, `"stage": "gamma"`},
		"a version of another form":   {`"lastKnownVersion": "v0.2.0"`, `"lastKnownVersion": "0.2"`},
		"a task of another kind":      {`"kind": "Hold"`, `"kind": "Delete"`},
		"a wait since never":          {`"since": "2026`, `"since": "0001`},
		"a generation below zero":     {`"generation": 0`, `"generation": -1`},
		"a scope in two ways":         {"\"scope\": {\n      \"everything\": true", "\"scope\": {\n      \"everything\": true, \"repositories\": [\"a.example.test/b\"]"},
		"text after it":               {"\n}\n", "\n}\n{}"},
		"a history that goes nowhere": {`"from": "On"`, `"from": "TurningOn"`},
	} {
		changed := strings.Replace(good, change[0], change[1], 1)
		if name == "a wait since never" {
			changed = strings.Replace(good, `"since": "2026-03-01T13:00:00Z"`, `"since": "0001-01-01T00:00:00Z"`, 1)
		}
		if name == "an unknown field" {
			changed = strings.Replace(good, `"preparing"`, `"prepared"`, 1)
		}
		if changed == good {
			t.Errorf("%s: nothing was changed", name)
			continue
		}
		_, err := feature.Parse([]byte(changed))
		if f := verdict.FindingOf("", err); err == nil || f.Code != verdict.ConfigParse {
			t.Errorf("%s: %v, want CONFIG", name, err)
		}
	}
	if _, err := feature.Parse(append([]byte(good), bytes.Repeat([]byte(" "), feature.MaxSize)...)); err == nil {
		t.Error("an object past the limit is read")
	}
	if _, err := (feature.Feature{}).Bytes(); err == nil {
		t.Error("the zero feature has bytes")
	}
}

// TestMangled: no prefix of an object reads, and none with a byte changed reads
// as another state than its history leads to.
func TestMangled(t *testing.T) {
	good := raw(t, reach(t, feature.On).in.Feature)
	for i := range len(good) - 2 {
		if _, err := feature.Parse(good[:i]); err == nil {
			t.Fatalf("%d bytes of %d read", i, len(good))
		}
	}
	for i := range good {
		bumped := bytes.Clone(good)
		bumped[i]++
		if f, err := feature.Parse(bumped); err == nil && f.Status.State != feature.On {
			t.Errorf("byte %d changed, it is %s", i, f.Status.State)
		}
	}
}

// TestHistoryIsBounded: an object that was switched a hundred times keeps the
// last of it, and still counts all.
func TestHistoryIsBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 50 {
		w.want([]feature.State{feature.On, feature.Off}[i%2])
		w.pass()
	}
	if s := w.in.Feature.Status; len(s.History) != 20 || s.Number != 50 || s.History[19].Transition.Number != 50 {
		t.Errorf("%d of %d are kept", len(s.History), s.Number)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []feature.State{feature.Off, feature.TurningOn, feature.On, feature.TurningOff} {
		f.Add(raw(f, reach(f, s).in.Feature))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		one, err := feature.Parse(text)
		if err != nil {
			return
		}
		written := raw(t, one)
		two, err := feature.Parse(written)
		if err != nil || !bytes.Equal(raw(t, two), written) {
			t.Errorf("what was written does not read the same: %v", err)
		}
	})
}
