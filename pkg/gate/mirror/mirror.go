// Package mirror compares the places that should hold the same files and images
// with the reference: a promotion plan, and the evidence at its sources that the
// policy accepts. A mirror never says what should be there.
//
//	report, err := mirror.Audit{Plan: plan, Verifier: v, Policy: p, …}.Run(ctx)
//	err = report.Verdict(now).Err()
//
// A place that answers with an error, a page for people or a part of a body does
// not answer, and is never reported as changed.
//
// Other projects should not import this package: it changes without notice.
package mirror

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// state is what a place has of one part of an artifact.
type state string

const whole, changed, missing, dropped, stale, silent state = "whole", "bytes changed", "missing", "evidence dropped", "stale", "not answering"

// report returns the reason code of a state that is not whole, and the next act.
func (s state) report() (verdict.Code, string) {
	const again = "copy it again: --repair DIR writes a plan for waybill promote apply"
	switch s {
	case changed:
		return verdict.Tampered, "use another place; find out who can write to this one, and remove what it has under this name; then it is missing, and --repair plans to copy it"
	case missing:
		return verdict.Missing, again
	case dropped:
		return verdict.EvidenceMissing, again + "; the operator of the mirror must copy referrers and the tags .sig and .att with each image"
	case stale:
		return verdict.Stale, again + ", which moves a tag only with a signed exception"
	}
	return verdict.PlaceDown, "ask again when the place answers, or log in to it if access was denied; with --record DIR, only what has no answer is asked again"
}

// answer is what a place answers about a part: got bytes with a digest, or that it
// has none. The zero answer is no answer.
type answer struct {
	Kind string        `json:"kind,omitempty"`
	Got  digest.Digest `json:"got,omitzero"`
	Why  string        `json:"why,omitempty"`
}

const got, none = "got", "none"

// part is the bytes, a tag or a piece of evidence of an artifact.
type part struct {
	Name string        `json:"name"` // after that of the artifact: @DIGEST, :TAG, or the suffix of a file beside it
	Want digest.Digest `json:"want"`
	// Of is the image or platform that evidence in a registry is about; with
	// Attached, it is a layer of the tag with that suffix.
	Of       digest.Digest `json:"of,omitzero"`
	Attached string        `json:"attached,omitempty"`
	lost     state         // if the place does not have it
}

// artifact is a file, or an image with its tags, and the evidence about it.
type artifact struct {
	name    string // of a file, or / and the repository of an image
	parts   []part // the bytes first
	with    []int  // indexes of files that are promoted with it
	version version.Version
	others  map[digest.Digest]version.Version // what the plan has in the repository
}

// judge compares answers with the reference. A part that was not asked because of
// the bytes has their state, and is not reported.
func (a artifact) judge(seen map[string]answer, report func(p part, s state)) map[state]int {
	counts, bytes := map[state]int{}, whole
	for i, p := range a.parts {
		is, asked := seen[p.Name]
		of, listed := a.others[is.Got]
		s := cmp.Or(p.lost, dropped)
		if bytes == missing {
			s = missing // not only the evidence
		}
		switch {
		case !asked && bytes != whole:
			s = bytes
		case is.Kind == got && is.Got.Equal(p.Want):
			s = whole
		case is.Kind == got && listed && !a.version.Less(of):
			s = stale
		case is.Kind == got:
			s = changed
		case is.Kind != none:
			s = silent
		}
		if counts[s]++; s != whole && (asked || bytes == whole) {
			report(p, s)
		}
		if i == 0 {
			bytes = s
		}
	}
	return counts
}

// maxListed is how many parts that are not whole are listed for each place.
const maxListed = 1000

// tally counts the parts at one place by their state.
type tally struct {
	place   string
	counts  map[state]int
	found   []verdict.Finding
	repairs []int // indexes of artifacts to copy again
	row     int   // artifacts without an answer since the last one with
}

// add judges what the place has of an artifact.
func (t *tally) add(i int, a artifact, seen map[string]answer) {
	repair := false
	for s, n := range a.judge(seen, func(p part, s state) {
		repair = repair || s != silent && s != changed
		code, act := s.report()
		is := seen[p.Name]
		f := verdict.Find(code, t.place+a.name+p.Name, "%s", strings.TrimSuffix(string(s)+": "+is.Why, ": "))
		if f.Fix = act; is.Kind == got {
			f = f.Differ(p.Want.String(), is.Got.String())
		}
		if len(t.found) < maxListed {
			t.found = append(t.found, f)
		}
	}) {
		t.counts[s] += n
	}
	if repair {
		t.repairs = append(append(t.repairs, i), a.with...)
	}
	if t.row++; seen[a.parts[0].Name].Kind != "" {
		t.row = 0
	}
}

// Report is what an audit found.
type Report struct {
	Audit
	places   []*tally
	unproven []string  // artifacts without evidence at the reference
	oldest   time.Time // of the recorded answers; zero without any
}

// Verdict is the report as a verdict: it refuses if any part is missing, dropped,
// changed or stale; else a part without an answer decides nothing.
func (r Report) Verdict(now time.Time) *verdict.Verdict {
	v := verdict.NewCheck("do the mirrors hold what the reference holds", now)
	v.Subject = plural.Of(len(r.places), "mirror")
	v.Scope.Checks = []string{"bytes", "tags", "evidence"}
	v.Inputs = []verdict.Input{{Name: "plan", Digest: r.Plan.Digest()}}
	for _, t := range r.places {
		of, told := 0, []string{}
		for _, s := range []state{whole, changed, missing, dropped, stale, silent} {
			if of += t.counts[s]; t.counts[s] > 0 {
				told = append(told, fmt.Sprintf("%s %d", s, t.counts[s]))
			}
		}
		v.Counts.Verified, v.Counts.Required = v.Counts.Verified+t.counts[whole], v.Counts.Required+of
		v.Groups = append(v.Groups, verdict.Group{Name: t.place, Verified: t.counts[whole], Required: of})
		v.Tell("%s: %s.", t.place, strings.Join(told, ", "))
		slices.SortFunc(t.found, func(a, b verdict.Finding) int { return cmp.Compare(a.Subject, b.Subject) })
		v.Add(t.found...)
	}
	if r.Manifests {
		v.Scope.Left = []string{"the layers of images"}
	}
	if !r.oldest.IsZero() {
		v.Tell("What the record answers was not asked again; its oldest answer is of %s.", r.oldest.UTC().Format(time.RFC3339))
	}
	for _, one := range r.unproven {
		v.Warn(verdict.Find(verdict.Unsigned, one, "no evidence at the reference is by a signer that the policy names, so it is unknown which evidence the mirrors should have"))
	}
	return v
}

// Repairs are plans of what is missing, dropped or stale, by the name of a file,
// with a route or store for each mirror. A release with a manifest is only promoted
// as a whole.
func (r Report) Repairs() map[string]promotionplan.Plan {
	images := promotionplan.Plan{Schema: promotionplan.Schema, Policy: r.Plan.Policy, Routes: []promotionplan.Route{}, Edges: []promotionplan.Edge{}}
	files, plans := images, map[string]promotionplan.Plan{}
	for _, t := range r.places {
		slices.Sort(t.repairs)
		from := -1
		for _, i := range t.repairs {
			if edges := len(r.Plan.Edges); r.Plan.Release != nil {
				plans["release.json"] = r.Plan
			} else if i < edges {
				e := r.Plan.Edges[i]
				if route := r.Plan.Routes[e.Route]; e.Route != from {
					from, route.Destinations = e.Route, []string{t.place}
					images.Routes = append(images.Routes, route)
				}
				e.Route = len(images.Routes) - 1
				images.Edges = append(images.Edges, e)
				plans["images.json"] = images
			} else {
				f := r.Plan.Files[i-edges]
				if s := r.Plan.Stores[f.Store]; f.Store != from {
					from, s.Destinations = f.Store, []string{t.place}
					files.Stores = append(files.Stores, s)
				}
				f.Store = len(files.Stores) - 1
				files.Files = append(files.Files, f)
				plans["files.json"] = files
			}
		}
	}
	return plans
}
