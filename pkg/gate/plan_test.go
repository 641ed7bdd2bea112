package gate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// clerk answers about images as it was told, and counts.
type clerk struct {
	mu    sync.Mutex // guards asked, now and most
	asked map[string]int
	now   int
	most  int
	meet  chan struct{}                              // where it waits for company; nil: nowhere
	say   func(image gate.Image, v *verdict.Verdict) // nil: yes
}

func (c *clerk) Image(_ context.Context, image gate.Image) *verdict.Verdict {
	c.mu.Lock()
	c.asked[image.Name]++
	c.now++
	c.most = max(c.most, c.now)
	c.mu.Unlock()
	if c.meet != nil {
		c.meet <- struct{}{}
	}
	v := verdict.New("image", time.Unix(0, 0))
	v.Counts = verdict.Counts{Verified: 1, Required: 1}
	v.Policy = digest.Of(digest.SHA256, []byte("the policy"))
	v.Proofs = []verdict.Proof{{Subject: image.Name, Bundle: digest.Of(digest.SHA256, []byte(image.Name))}}
	if c.say != nil {
		c.say(image, v)
	}
	c.mu.Lock()
	c.now--
	c.mu.Unlock()
	return v
}

// planned is a plan of so many images of one source, to so many mirrors.
func planned(t *testing.T, images, mirrors int, section string) promotionplan.Plan {
	t.Helper()
	var text strings.Builder
	text.WriteString("registries:\n- {name: staging.example.test/team, src: true}\n")
	for i := range mirrors {
		fmt.Fprintf(&text, "- {name: mirror-%d.example.test/prod}\n", i)
	}
	text.WriteString(section + "images:\n- name: demo\n  dmap:\n")
	for i := range images {
		fmt.Fprintf(&text, "    %q: [v1.0.%d]\n", digest.Of(digest.SHA256, fmt.Append(nil, i)), i)
	}
	m, err := promoterfile.Parse("team", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	p, err := promotionplan.Make([]promoterfile.Manifest{m})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (c *clerk) ask(p promotionplan.Plan, edits ...func(*gate.PlanRequest)) *verdict.Verdict {
	c.asked = map[string]int{}
	req := gate.PlanRequest{
		Plan: p, Now: time.Unix(0, 0),
		Judge: func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error) { return c, nil },
		Open:  func(string) (registry.Source, error) { return nil, nil },
	}
	for _, edit := range edits {
		edit(&req)
	}
	return gate.Plan(context.Background(), req)
}

func TestPlanJudgesEachDigestOnce(t *testing.T) {
	c, opened, told := &clerk{}, 0, 0
	v := c.ask(planned(t, 300, 21, ""), func(r *gate.PlanRequest) {
		r.Open = func(prefix string) (registry.Source, error) {
			if opened++; prefix != "staging.example.test/team" {
				t.Errorf("opened %q", prefix)
			}
			return nil, nil
		}
		r.Progress = func(done, of int) {
			if told++; done != told || of != 300 {
				t.Errorf("%d of %d after %d", done, of, told)
			}
		}
	})
	if err := v.Err(); err != nil || v.Counts.Verified != 300 || v.Counts.Required != 300 || len(c.asked) != 300 || opened != 1 || told != 300 {
		t.Errorf("%v: %s, asked %d, opened %d, told %d", err, v.Counts, len(c.asked), opened, told)
	}
	for name, n := range c.asked {
		if n != 1 {
			t.Errorf("%s was judged %d times", name, n)
		}
	}
	if len(v.Groups) != 1 || v.Groups[0] != (verdict.Group{Name: "team", Verified: 300, Required: 300}) {
		t.Errorf("groups %v", v.Groups)
	}
}

// TestPlanSaysWhatIsBlocked: one refused image is one finding, which names every
// destination, and the others are accepted.
func TestPlanSaysWhatIsBlocked(t *testing.T) {
	bad := digest.Of(digest.SHA256, fmt.Append(nil, 1))
	c := &clerk{say: func(image gate.Image, v *verdict.Verdict) {
		if image.Digest.Equal(bad) {
			v.Counts.Verified = 0
			v.Add(verdict.Find(verdict.Unsigned, "demo@"+bad.String(), "nobody signed it"))
		}
	}}
	v := c.ask(planned(t, 3, 2, ""))
	if got := codes(v); !slices.Equal(got, []verdict.Code{verdict.Unsigned}) || v.Counts.Verified != 2 || v.Counts.Required != 3 {
		t.Fatalf("%v, %s", got, v.Counts)
	}
	f := v.Findings[0]
	const want = "nobody signed it; blocks mirror-0.example.test/prod/demo:v1.0.1, mirror-1.example.test/prod/demo:v1.0.1"
	if f.Subject != "staging.example.test/team/demo@"+bad.String() || f.Message != want {
		t.Errorf("%s: %s", f.Subject, f.Message)
	}
}

func TestPlanRefuses(t *testing.T) {
	whole := planned(t, 40, 1, "")
	silent := func(_ gate.Image, v *verdict.Verdict) {
		v.Counts.Verified = 0
		v.Add(verdict.Find(verdict.PlaceDown, "demo", "no answer"))
	}
	undecided := func(_ gate.Image, v *verdict.Verdict) { v.Counts = verdict.Counts{} }
	edit := func(change func(*gate.PlanRequest)) func(*gate.PlanRequest) { return change }
	rows := []struct {
		name  string
		plan  promotionplan.Plan
		say   func(gate.Image, *verdict.Verdict)
		edit  func(*gate.PlanRequest)
		codes []verdict.Code
	}{
		{"as it must be", whole, nil, nil, nil},
		{"nobody who decides", whole, nil, edit(func(r *gate.PlanRequest) { r.Judge = nil }), []verdict.Code{verdict.Usage}},
		{"nothing that moves", promotionplan.Plan{}, nil, nil, []verdict.Code{verdict.Usage}},
		{"a sealed release", whole, nil, edit(func(r *gate.PlanRequest) { r.Plan.Release = &promotionplan.Release{} }), []verdict.Code{verdict.Usage}},
		{"files", whole, nil, edit(func(r *gate.PlanRequest) { r.Plan.Files = []promotionplan.File{{}} }), []verdict.Code{verdict.Usage}},
		{"another policy than it was made for", whole, nil, edit(func(r *gate.PlanRequest) {
			r.Plan.Policy = digest.Of(digest.SHA256, []byte("another policy"))
		}), []verdict.Code{verdict.PlanStale}},
		{"the policy that it was made for", whole, nil, edit(func(r *gate.PlanRequest) {
			r.Plan.Policy = digest.Of(digest.SHA256, []byte("the policy"))
		}), nil},
		{"a source that is none", whole, nil, edit(func(r *gate.PlanRequest) {
			r.Open = func(string) (registry.Source, error) { return nil, verdict.Refuse(verdict.Usage, "registry", "none") }
		}), []verdict.Code{verdict.Usage}},
		{"a registry that is silent", whole, silent, nil, []verdict.Code{verdict.PlaceDown}},
		{"a judge who does not decide", whole, undecided, nil, []verdict.Code{}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			c := &clerk{say: row.say}
			v := c.ask(row.plan, func(r *gate.PlanRequest) {
				if row.edit != nil {
					row.edit(r)
				}
			})
			if got := codes(v); !slices.Equal(got, row.codes) && len(got)+len(row.codes) > 0 || (v.Err() == nil) != (row.codes == nil) {
				t.Errorf("%v, want %v; %v", got, row.codes, v.Err())
			}
		})
	}
}

// TestPlanWithoutPolicy: a manifest that demands nothing is refused, once.
func TestPlanWithoutPolicy(t *testing.T) {
	for name, section := range map[string]string{"nothing": "", "off": "provenance: {mode: \"off\"}\n"} {
		t.Run(name, func(t *testing.T) {
			v := (&clerk{}).ask(planned(t, 30, 2, section), func(r *gate.PlanRequest) {
				r.Judge = func(r promotionplan.Route, _ promotionplan.Edge) (gate.ImageJudge, error) {
					return gate.ManifestRequest{Manifest: r.Manifest, Policy: r.Policy}.Judge()
				}
			})
			if len(v.Findings) != 1 || v.Findings[0].Code != verdict.PolicyEmpty || v.Findings[0].Subject != "team" || v.Counts.Verified != 0 || v.Counts.Required != 30 {
				t.Errorf("%v, %s", v.Findings, v.Counts)
			}
			if !strings.Contains(v.Findings[0].Fix, "--policy") || v.Outcome() != verdict.Malformed {
				t.Errorf("%s: %s", v.Outcome(), v.Findings[0].Fix)
			}
		})
	}
}

// TestPlanAsksManyAtOnce: 64 are on their way, and no more.
func TestPlanAsksManyAtOnce(t *testing.T) {
	c := &clerk{meet: make(chan struct{})}
	var all sync.WaitGroup
	all.Go(func() {
		for i := range 200 {
			if i == 0 { // until all who may are waiting
				for n := 0; n < 64; {
					c.mu.Lock()
					n = c.now
					c.mu.Unlock()
				}
			}
			<-c.meet
		}
	})
	v := c.ask(planned(t, 200, 1, ""))
	all.Wait()
	if err := v.Err(); err != nil || c.most != 64 {
		t.Errorf("%v, %d at once", err, c.most)
	}
}

// TestPlanOfASilentRegistry: what does not answer is not asked for ever.
func TestPlanOfASilentRegistry(t *testing.T) {
	c := &clerk{say: func(_ gate.Image, v *verdict.Verdict) {
		v.Counts.Verified = 0
		v.Add(verdict.Find(verdict.PlaceDown, "demo", "no answer"))
	}}
	v := c.ask(planned(t, 2000, 1, ""))
	if v.Outcome() != verdict.Unavailable || len(v.Findings) != 2000 || len(c.asked) > 16+64 || v.Counts.Verified != 0 {
		t.Errorf("%s, %d findings, asked %d", v.Outcome(), len(v.Findings), len(c.asked))
	}
}

// TestBench: all must accept.
func TestBench(t *testing.T) {
	yes := &clerk{asked: map[string]int{}}
	no := &clerk{asked: map[string]int{}, say: func(_ gate.Image, v *verdict.Verdict) {
		v.Counts.Verified = 0
		v.Add(verdict.Find(verdict.Unsigned, "demo", "nobody signed it"))
	}}
	for _, row := range []struct {
		name  string
		bench gate.AllJudges
		want  verdict.Outcome
	}{
		{"two who accept", gate.AllJudges{yes, yes}, verdict.Accepted},
		{"the second refuses", gate.AllJudges{yes, no}, verdict.Refused},
		{"the first refuses", gate.AllJudges{no, yes}, verdict.Refused},
		{"nobody", nil, verdict.Malformed},
	} {
		if v := row.bench.Image(t.Context(), gate.Image{Name: "demo"}); v.Outcome() != row.want {
			t.Errorf("%s: %s", row.name, v.Outcome())
		}
	}
	v := gate.Several("two", yes.Image(t.Context(), gate.Image{}), no.Image(t.Context(), gate.Image{}))
	if v.Outcome() != verdict.Refused || v.Counts.Required != 2 || v.Counts.Verified != 1 {
		t.Errorf("%s, %s", v.Outcome(), v.Counts)
	}
	if nothing := gate.Several("nothing"); nothing.Err() == nil {
		t.Error("nothing was accepted")
	}
}

// TestPlanKeepsABoundedAnswer: what is said of images that were accepted does
// not grow with them, and what is said of the others is kept.
func TestPlanKeepsABoundedAnswer(t *testing.T) {
	c := &clerk{say: func(image gate.Image, v *verdict.Verdict) {
		v.Note("a note about %s", image.Name)
		v.Inputs = []verdict.Input{{Name: image.Name}}
		if image.Digest.Hex()[0] == '0' { // one in sixteen
			v.Counts.Verified = 0
			v.Add(verdict.Find(verdict.Unsigned, "demo", "nobody signed it"))
		}
	}}
	const images = 20_000
	v := c.ask(planned(t, images, 21, ""))
	refused := len(v.Findings)
	if refused < images/20 || v.Counts.Verified != images-refused || v.Outcome() != verdict.Refused {
		t.Fatalf("%d findings, %s", refused, v.Counts)
	}
	if len(v.Proofs) > 10_000+refused || len(v.Notes) > 110 || len(v.Inputs) != 1 {
		t.Errorf("kept %d proofs, %d notes, %d inputs", len(v.Proofs), len(v.Notes), len(v.Inputs))
	}
	if last := v.Notes[len(v.Notes)-2:]; !strings.HasPrefix(last[0], "left out: ") || !strings.Contains(last[0], " proofs of accepted images") || !strings.Contains(last[1], " notes about single images") {
		t.Errorf("notes %q", last)
	}
}
