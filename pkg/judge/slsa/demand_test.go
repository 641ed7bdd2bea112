package slsa

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestParseDemand(t *testing.T) {
	if d, err := ParseDemand("kep-3027=3"); err != nil || d != (Demand{V01, 3}) {
		t.Errorf("kep-3027=3: %s, %v", d, err)
	}
	for _, good := range []string{"build=1", "build=4", "source=1", "source=4", "v0.1=1", "v0.1=4"} {
		if d, err := ParseDemand(good); err != nil || d.String() != good {
			t.Errorf("%s: %s, %v", good, d, err)
		}
	}
	for _, bad := range []string{"", "build", "build=", "build=0", "build=5", "build=-1", "build=2=2", "v0.1=5", "source=5", "kep-3027=5", "kep-3027=0", "Build=1", "=1", "build= 1"} {
		if d, err := ParseDemand(bad); err == nil || d != (Demand{}) {
			t.Errorf("%q: %s, %v", bad, d, err)
		}
	}
}

// A level that is not reached is refused, and what limits it is named.
func TestMeet(t *testing.T) {
	full, err := everything().judge(t)
	if err != nil {
		t.Fatal(err)
	}
	stranger := everything()
	stranger.builder = "stranger"
	low, err := stranger.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	one := Report{
		Levels:  []Reached{{Track: Build, Level: 1, Most: 3, Next: []string{"build.hosted"}}},
		Answers: []Answer{{Track: Build, Requirement: "build.hosted", Level: 2, Why: "the builder is unknown"}},
	}
	rows := []struct {
		name   string
		report Report
		demand Demand
		limit  string // empty when it is met
	}{
		{"reached", full, Demand{Build, 3}, ""},
		{"reached by far", full, Demand{V01, 1}, ""},
		{"what anybody reaches", low, Demand{Build, 1}, ""},
		{"not reached", low, Demand{Build, 2}, "build.authentic (not met)"},
		{"not reached in v0.1", low, Demand{V01, 3}, "and 4 more"},
		{"not reached for one reason", one, Demand{Build, 2}, "the builder is unknown"},
		{"no level", full, Demand{}, "the report has no level"},
		{"level 0", full, Demand{Build, 0}, "the report has no level"},
		{"another track", full, Demand{"dependency", 1}, "the report has no level"},
		{"no report", Report{}, Demand{Build, 1}, "the report has no level"},
	}
	for _, r := range rows {
		err := r.report.Meet(r.demand)
		if (err == nil) != (r.limit == "") {
			t.Errorf("%s: %v", r.name, err)
		}
		if err == nil {
			continue
		}
		if f := verdict.FindingOf("", err); f.Code != verdict.Level || !strings.Contains(f.Message, r.limit) || strings.Contains(f.Message, "and 0 more") {
			t.Errorf("%s: %s %s, want %q", r.name, f.Code, f.Message, r.limit)
		}
	}
	if got := full.On(Build); got.Level != 3 || got.Most != 3 || len(got.Requirements) != len(build())-1 || len(got.Next) > 0 {
		t.Errorf("on the Build track: %+v", got)
	}
	if got := low.On(Build); got.Level != 1 || !slices.Contains(got.Next, "build.hosted") {
		t.Errorf("on the Build track: %+v", got)
	}
}

// A key may speak for a builder, and neither another key nor an identity then
// does.
func TestKeysSpeakForBuilders(t *testing.T) {
	key, other := digest.Of(digest.SHA256, []byte("key")), digest.Of(digest.SHA256, []byte("other"))
	byKey, err := NewTrust([]Pair{{Key: key, BuilderID: builderID, Level: 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	byName, err := NewTrust([]Pair{{Signer: only(t, "builder"), BuilderID: builderID, Level: 3}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	statement := says(t, provenance.PredicateTypeV02, theArtifact(), claimed())
	rows := []struct {
		name  string
		trust Trust
		said  witness
		level int
	}{
		{"the key", byKey, witness{key: key}, 3},
		{"another key", byKey, witness{key: other}, 1},
		{"an identity for a key", byKey, witness{who: who("builder")}, 1},
		{"the identity", byName, witness{who: who("builder")}, 3},
		{"a key for an identity", byName, witness{key: key}, 1},
		{"a key with the identity's name", byName, witness{key: key, who: who("builder")}, 1},
	}
	for _, r := range rows {
		r.said.statement = statement
		report, err := r.trust.judge(question{Question: Question{Name: "bin/lantern", Bytes: artifact()}, provenance: r.said})
		if err != nil || report.Level(Build) != r.level {
			t.Errorf("%s: level %d, want %d; %v", r.name, report.Level(Build), r.level, err)
		}
	}
	for name, pairs := range map[string][]Pair{
		"a key and a signer":        {{Key: key, Signer: only(t, "builder"), BuilderID: builderID, Level: 3}},
		"a key without a builder":   {{Key: key, Level: 3}},
		"a key of level 0":          {{Key: key, BuilderID: builderID}},
		"two entries":               {{Key: key, BuilderID: builderID, Level: 3}, {Key: key, BuilderID: builderID, Level: 3}},
		"builders of unequal trust": {{Key: key, BuilderID: builderID, Level: 3}, {Key: key, BuilderID: otherID, Level: 2}},
	} {
		if _, err := NewTrust(pairs, nil); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
