package promotionplan

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	one = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	two = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
)

// project is a manifest of one image: name, source, destinations, and pairs of
// digest and tag.
func project(t *testing.T, name, source, image string, destinations, pinned []string) promoterfile.Manifest {
	t.Helper()
	where := "registries:\n- {name: " + source + ", src: true}\n"
	for _, d := range destinations {
		where += "- {name: " + d + "}\n"
	}
	what := "- name: " + image + "\n  dmap:\n"
	for i := 0; i < len(pinned); i += 2 {
		what += "    \"" + pinned[i] + "\": [" + pinned[i+1] + "]\n"
	}
	m, err := promoterfile.ParseThin(name, []byte(where), []byte(what))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestPlan(t *testing.T) {
	a := project(t, "a", "staging.example.test/a", "demo", []string{"us.example.test/prod", "eu.example.test/prod"}, []string{two, `"v2"`, one, `"v1", "latest"`})
	b := project(t, "b", "staging.example.test/b", "other", []string{"eu.example.test/prod"}, []string{one, ""})
	p, err := Make([]promoterfile.Manifest{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Extent(), (Extent{Routes: 2, Digests: 3, Moves: 5, Tags: 6, Repositories: 3}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	var moves []string
	for _, e := range p.Edges {
		for _, to := range p.Routes[e.Route].Destinations {
			moves = append(moves, p.Routes[e.Route].Source+"/"+e.Image+"@"+e.Digest.Hex()[:1]+" "+to+"/"+e.Image+" "+strings.Join(e.Tags, ","))
		}
	}
	want := []string{
		"staging.example.test/a/demo@1 eu.example.test/prod/demo latest,v1", "staging.example.test/a/demo@1 us.example.test/prod/demo latest,v1",
		"staging.example.test/a/demo@2 eu.example.test/prod/demo v2", "staging.example.test/a/demo@2 us.example.test/prod/demo v2",
		"staging.example.test/b/other@1 eu.example.test/prod/other ",
	}
	if !slices.Equal(moves, want) {
		t.Errorf("moves\n%s\nwant\n%s", strings.Join(moves, "\n"), strings.Join(want, "\n"))
	}
	again, err := Make([]promoterfile.Manifest{a, b})
	if err != nil || !again.Digest().Equal(p.Digest()) {
		t.Errorf("the same manifests in another order are another plan: %v", err)
	}
}

func TestTwoDigestsOfOneName(t *testing.T) {
	to := []string{"us.example.test/prod"}
	a := project(t, "a", "staging.example.test/a", "demo", to, []string{one, `"v1"`})
	for name, c := range map[string]struct {
		b    promoterfile.Manifest
		want int
	}{
		"the same digest (twin)":             {project(t, "b", "staging.example.test/b", "demo", to, []string{one, `"v1"`}), 0},
		"another digest":                     {project(t, "b", "staging.example.test/b", "demo", to, []string{two, `"v1"`}), 1},
		"another tag (twin)":                 {project(t, "b", "staging.example.test/b", "demo", to, []string{two, `"v2"`}), 0},
		"another host (twin)":                {project(t, "b", "staging.example.test/b", "demo", []string{"eu.example.test/prod"}, []string{two, `"v1"`}), 0},
		"the same name by another split":     {project(t, "b", "staging.example.test/b", "prod/demo", []string{"us.example.test"}, []string{two, `"v1"`}), 1},
		"both tags, in two regions, one too": {project(t, "b", "staging.example.test/b", "demo", []string{"us.example.test/prod", "eu.example.test/prod"}, []string{two, `"v1", "v2"`}), 1},
	} {
		_, err := Make([]promoterfile.Manifest{a, c.b})
		got := 0
		if err != nil {
			got = strings.Count(err.Error(), "\n") + 1
		}
		if err != nil && verdict.FindingOf("", err).Code != verdict.TagConflict {
			t.Errorf("%s: %v", name, err)
		}
		if got != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %v, want %d conflicts", name, err, c.want)
		}
	}
	if _, err := Make(nil); err == nil {
		t.Error("a plan of nothing")
	}
}

// TestGoals: an image of a source goes wherever a route from there leads.
func TestGoals(t *testing.T) {
	p := Plan{Routes: []Route{
		{Source: "staging.example.test/a", Destinations: []string{"us.example.test", "eu.example.test"}},
		{Source: "staging.example.test/b", Destinations: []string{"eu.example.test/b"}},
		{Source: "staging.example.test/a", Destinations: []string{"eu.example.test", "asia.example.test"}},
	}, Stores: []Store{{Destinations: []string{"gs://two", "gs://one"}}, {Destinations: []string{"gs://one"}}}}
	goals := p.Goals()
	if got, want := goals.Of("staging.example.test/a", "lantern"), []string{"asia.example.test/lantern", "eu.example.test/lantern", "us.example.test/lantern"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := goals.Of("staging.example.test/b", "lantern"); !slices.Equal(got, []string{"eu.example.test/b/lantern"}) {
		t.Errorf("%v", got)
	}
	if len(goals.Of("elsewhere.example.test", "lantern")) != 0 || !slices.Equal(p.FileGoals(), []string{"gs://one", "gs://two"}) {
		t.Errorf("%v", p.FileGoals())
	}
}
