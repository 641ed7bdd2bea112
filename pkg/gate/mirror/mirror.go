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
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

var (
	// evidenceSuffix is how the name of a file ends that is evidence about the file
	// of the name before, or its checksum.
	evidenceSuffix = pattern.Lazy(`\.(sigstore\.json|spdx\.json|sig|cert|sha256|sha512)$`)
	errNotAsked    = errors.New("not asked: the limit of requests was reached")
)

// Audit asks the destinations of a plan what they have.
type Audit struct {
	Plan   promotionplan.Plan
	Judge  gate.PolicyRequest // whose evidence counts
	Images func(prefix string) (*registry.Remote, error)
	Files  func(uri string) (store.Place, error)
	// Markers is the place of the version markers of a release; empty for none.
	Markers string
	// Record is a directory with the answers of earlier runs, which are not asked
	// for again, and of this one; empty for none. Each shard has files of its own,
	// and a run of the whole plan reads those of all shards.
	Record string
	Shard  promotionplan.Shard
	// Manifests leaves out the layers of images.
	Manifests bool
	Progress  func(done, of int)
}

// running is an audit in progress.
type running struct {
	Report
	artifacts []artifact // of the edges, then of the files, then the markers

	mu        sync.Mutex // owns done, unproven, markers and the tallies
	done, all int
	markers   []part
}

// Run reads the reference, and then one place after the other.
func (a Audit) Run(ctx context.Context) (Report, error) {
	r := &running{Report: Report{Audit: a}}
	sources, places := r.arrange()
	for source, mine := range sources {
		if err := r.each(ctx, source, "evidence of ", mine, r.refer); err != nil {
			return Report{}, err
		}
	}
	for _, m := range r.markers {
		places[a.Markers] = append(places[a.Markers], len(r.artifacts))
		one := artifact{name: m.Name, marker: true, parts: []part{{Want: m.Want, lost: missing}}}
		one.version, _ = version.Parse(a.Plan.Release.Version)
		r.artifacts, r.all = append(r.artifacts, one), r.all+1
	}
	for i := range r.artifacts {
		r.artifacts[i].wanted = wanted(r.artifacts[i].parts)
	}
	for to, mine := range places {
		t := &tally{place: to, counts: map[state]int{}}
		r.places = append(r.places, t)
		if err := r.each(ctx, to, "", mine, func(ctx context.Context, p place, i int, recorded []byte) (any, error) {
			return r.look(ctx, p, t, i, recorded)
		}); err != nil {
			return Report{}, err
		}
	}
	slices.SortFunc(r.places, func(a, b *tally) int { return cmp.Compare(a.place, b.place) })
	slices.Sort(r.unproven)
	return r.Report, nil
}

// arrange makes the artifacts of the plan, and returns the indexes of those of the
// shard by their source and by their destinations.
func (r *running) arrange() (sources, places map[string][]int) {
	sources, places = map[string][]int{}, map[string][]int{}
	add := func(a artifact, source string, destinations []string) {
		if i := len(r.artifacts); r.Shard.Takes(a.parts[0].Want) {
			sources[source] = append(sources[source], i)
			for _, to := range destinations {
				places[to] = append(places[to], i)
			}
			r.all += 1 + len(destinations)
		}
		r.artifacts = append(r.artifacts, a)
	}
	for i, e := range r.Plan.Edges {
		one := artifact{name: "/" + e.Image, parts: []part{{Name: "@", Want: e.Digest, lost: missing}}, others: map[digest.Digest]version.Version{}}
		if i > 0 && r.Plan.Edges[i-1].Route == e.Route && r.Plan.Edges[i-1].Image == e.Image {
			one.others = r.artifacts[i-1].others
		}
		one.version, _ = version.Parse(gate.VersionOf(e.Tags)) // zero without one
		one.others[e.Digest] = one.version
		for _, tag := range e.Tags {
			one.parts = append(one.parts, part{Name: ":" + tag, Want: e.Digest, lost: missing})
		}
		add(one, r.Plan.Routes[e.Route].Source, r.Plan.Routes[e.Route].Destinations)
	}
	mains := map[promotionplan.File]int{} // index, by store and name
	for _, f := range r.Plan.Files {
		one, suffix := artifact{name: f.Name, parts: []part{{Want: f.Digest, lost: missing}}, marker: channelindex.IsChannel(strings.TrimSuffix(path.Base(f.Name), ".txt"))}, evidenceSuffix().FindString(f.Name)
		if main, there := mains[promotionplan.File{Store: f.Store, Name: strings.TrimSuffix(f.Name, suffix)}]; there {
			of := &r.artifacts[main]
			of.parts, of.with = append(of.parts, part{Name: suffix, Want: f.Digest}), append(of.with, len(r.artifacts))
			r.artifacts = append(r.artifacts, one)
			continue
		}
		if mains[promotionplan.File{Store: f.Store, Name: f.Name}] = len(r.artifacts); suffix != "" {
			one.parts[0].lost = dropped
		}
		add(one, r.Plan.Stores[f.Store].Source, r.Plan.Stores[f.Store].Destinations)
	}
	return sources, places
}

// state is what a place has of one part of an artifact.
type state string

const (
	whole, changed, missing, dropped state = "whole", "bytes changed", "missing", "evidence dropped"
	stale, denied, silent            state = "stale", "not allowed", "not answering"
)

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
		return verdict.Stale, again + ", which moves a tag only with a signed exception; a version marker moves with the next waybill release"
	case denied:
		return "CREDENTIAL_REFUSED", "log in to the place with an account that may read it, and ask again"
	}
	return verdict.PlaceDown, "ask again when the place answers; with --record DIR, only what has no answer is asked again"
}

// answer is what a place answers about a part: got bytes with a digest, older ones
// of the same name, that it has none, or that we may not ask. The zero answer is no
// answer.
type answer struct {
	Kind string        `json:"kind,omitempty"`
	Got  digest.Digest `json:"got,omitzero"`
	Why  string        `json:"why,omitempty"`
}

const got, none, older, refused = "got", "none", "older", "refused"

// part is the bytes, a tag or a piece of evidence of an artifact.
type part struct {
	Name string        `json:"name"` // after that of the artifact: @ for the digest, :TAG, or the suffix of a file beside it
	Want digest.Digest `json:"want"`
	// Of is the image or platform that evidence in a registry is about; with
	// Attached, it is a layer of the tag with that suffix.
	Of       digest.Digest `json:"of,omitzero"`
	Attached string        `json:"attached,omitempty"`
	lost     state         // if the place does not have it
}

func (p part) name() string {
	if p.Name == "@" {
		return "@" + p.Want.String()
	}
	return p.Name
}

// artifact is a file, or an image with its tags, and the evidence about it.
type artifact struct {
	name    string // of a file, or / and the repository of an image
	parts   []part // the bytes first
	with    []int  // indexes of files that are promoted with it
	version version.Version
	marker  bool                              // its bytes are a version, and move
	wanted  string                            // of the parts
	others  map[digest.Digest]version.Version // what the plan has in the repository
}

// wanted is a digest over all parts, as JSON. It is recorded of an artifact that is
// whole.
func wanted(parts []part) string {
	all := slice.Map(parts, func(p part) string { return p.Name + " " + p.Want.Hex() + " " + p.Of.Hex() + " " + p.Attached })
	slices.Sort(all)
	return `"` + digest.Of(digest.SHA256, []byte(strings.Join(all, "\n"))).String() + `"`
}

// judge compares answers with the reference. A part that was not asked because of
// the bytes has their state, and is not reported.
func (a artifact) judge(seen map[string]answer, report func(p part, s state)) map[state]int {
	counts, bytes := map[state]int{}, whole
	for i, p := range a.parts {
		is, asked := seen[p.name()]
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
		case is.Kind == older, is.Kind == got && listed && !a.version.Less(of):
			s = stale
		case is.Kind == refused:
			s = denied
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
		repair = repair || s == missing || s == dropped || s == stale && !a.marker
		code, act := s.report()
		is := seen[p.name()]
		f := verdict.Find(code, t.place+a.name+p.name(), "%s", strings.TrimSuffix(string(s)+": "+is.Why, ": "))
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
	if t.row++; seen[a.parts[0].name()].Kind != "" {
		t.row = 0
	}
}

// Report is what an audit found.
type Report struct {
	Audit
	places   []*tally
	unproven []string  // artifacts without evidence at the reference
	unmarked string    // why the markers are not compared; empty if they are
	oldest   time.Time // of the recorded answers; zero without any
}

// IsEmpty reports whether the shard has nothing of the plan.
func (r Report) IsEmpty() bool { return len(r.places) == 0 }

// Verdict is the report as a verdict: it refuses if any part is missing, dropped,
// changed or stale; else a part without an answer decides nothing.
func (r Report) Verdict(now time.Time) *verdict.Verdict {
	v := verdict.NewCheck("do the mirrors hold what the reference holds", now)
	v.Subject = plural.Of(len(r.places), "mirror") + r.Shard.Suffix()
	v.Scope.Checks = []string{"bytes", "tags", "evidence"}
	v.Inputs = []verdict.Input{{Name: "plan", Digest: r.Plan.Digest()}}
	for _, t := range r.places {
		of, told := 0, []string{}
		for _, s := range []state{whole, changed, missing, dropped, stale, denied, silent} {
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
		v.Scope.Left = append(v.Scope.Left, "the layers of images")
	}
	if r.unmarked != "" {
		v.Scope.Left = append(v.Scope.Left, "the version markers: "+r.unmarked)
	}
	v.Scope.Left = append(v.Scope.Left, r.Shard.Others()...)
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
			switch edges := len(r.Plan.Edges); {
			case i >= edges+len(r.Plan.Files): // a marker, which no plan has
			case r.Plan.Release != nil:
				plans["release.json"] = r.Plan
			case i < edges:
				e := r.Plan.Edges[i]
				if route := r.Plan.Routes[e.Route]; e.Route != from {
					from, route.Destinations = e.Route, []string{t.place}
					images.Routes = append(images.Routes, route)
				}
				e.Route = len(images.Routes) - 1
				images.Edges = append(images.Edges, e)
				plans["images.json"] = images
			default:
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
