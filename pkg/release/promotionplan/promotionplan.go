// Package promotionplan describes what a promotion moves: which digest of which
// source goes to which destinations, under which tags or names.
//
// [Make] turns the manifests of Kubernetes' promoter into a [Plan], a value
// that is reviewed, compared and saved as JSON; [MakeFiles] does so with
// manifests of files, and [MakeRelease] with the verified manifest of a sealed
// release:
//
//	plan, err := promotionplan.Make(manifests)
//	fmt.Println(plan.Digest(), plan.Extent())
//
// A plan is sorted, so the same manifests give the same bytes, whatever order
// they were read in. Its edges are not repeated for each destination: an edge
// names its route, and the route its destinations, because twenty regions get
// the same images. [Plan.All] iterates over every move.
//
// Two edges, or two files, may have one destination name only if they have the
// same digest. Otherwise the plan is refused as TAG_CONFLICT or FILE_CONFLICT
// before any request to a registry or bucket.
//
// Other projects should not import this package: it changes without notice.
package promotionplan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Schema names the form of a plan.
const Schema = "waybill/promotion-plan/v1"

// Plan lists everything that a promotion moves.
type Plan struct {
	Schema string `json:"schema"`
	// Policy is the digest of the policy that every image must pass; zero if
	// the plan names none.
	Policy digest.Digest `json:"policy,omitzero"`
	Routes []Route       `json:"routes"`
	Edges  []Edge        `json:"edges"`
	Stores []Store       `json:"stores,omitempty"`
	Files  []File        `json:"files,omitempty"`
	// Release is the sealed release that the plan moves; nil for other plans.
	Release *Release `json:"release,omitempty"`
}

// Route is a source and its destinations.
type Route struct {
	Manifest     string   `json:"manifest"`
	Source       string   `json:"source"`
	Destinations []string `json:"destinations"`
	// Policy is the manifest's policy for its images; nil if it has none.
	Policy *promoterfile.Policy `json:"policy,omitempty"`
}

// Edge is one digest of a route. Without tags it is promoted by digest.
type Edge struct {
	Route  int           `json:"route"` // index into [Plan.Routes]
	Image  string        `json:"image"`
	Digest digest.Digest `json:"digest"`
	Tags   []string      `json:"tags,omitempty"`
}

// Make makes the plan of manifests of images.
func Make(manifests []promoterfile.Manifest) (Plan, error) {
	p := Plan{Schema: Schema, Routes: []Route{}, Edges: []Edge{}}
	sorted := slices.SortedFunc(slices.Values(manifests), func(a, b promoterfile.Manifest) int {
		return cmp.Or(cmp.Compare(a.Source.Name, b.Source.Name), cmp.Compare(a.Name, b.Name))
	})
	for i, m := range sorted {
		p.Routes = append(p.Routes, Route{Manifest: m.Name, Source: m.Source.Name, Policy: m.Policy, Destinations: destinations(m.Destinations)})
		for _, image := range m.Images {
			for _, pinned := range image.Digests {
				p.Edges = append(p.Edges, Edge{Route: i, Image: image.Name, Digest: pinned.Digest, Tags: pinned.Tags})
			}
		}
	}
	if len(p.Edges) == 0 {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "the manifests list no images")
	}
	if err := p.check(); err != nil {
		return Plan{}, err
	}
	return p, nil
}

// Under refuses another policy than the one that the plan was made for, if it
// was made for one.
func (p Plan) Under(policy digest.Digest, subject string) error {
	if p.Policy.IsZero() || p.Policy.Equal(policy) {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.PlanStale, subject, "the plan was made for another policy").Differ(p.Policy.String(), policy.String())}
}

// JSON is the plan in its saved form.
func (p Plan) JSON() []byte {
	raw, err := json.Marshal(p)
	if err != nil {
		panic(fmt.Sprintf("promotionplan: a plan of texts: %v", err))
	}
	return append(raw, '\n')
}

// Digest is the digest of the plan's saved form.
func (p Plan) Digest() digest.Digest { return digest.Of(digest.SHA256, p.JSON()) }

// maxPlan is the largest saved plan: that of a million edges has some 200 MB.
const maxPlan = 512 << 20

// Parse reads a plan as [Plan.JSON] wrote it. Only the canonical form is
// accepted: a plan that was changed or written by hand has another digest than
// the reviewed one.
func Parse(raw []byte) (p Plan, err error) {
	if err := strictjson.Unmarshal(raw, &p, strictjson.MaxSize(maxPlan)); err != nil {
		return Plan{}, verdict.Wrap(verdict.ConfigParse, "plan", err)
	}
	if p.Schema != Schema {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "the plan has schema %q, want %s", p.Schema, Schema)
	}
	for _, e := range p.Edges {
		if e.Route < 0 || e.Route >= len(p.Routes) {
			return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "an edge names route %d, and there are %d", e.Route, len(p.Routes))
		}
	}
	for _, f := range p.Files {
		if f.Store < 0 || f.Store >= len(p.Stores) {
			return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "a file names store %d, and there are %d", f.Store, len(p.Stores))
		}
	}
	if !bytes.Equal(p.JSON(), raw) || !p.isOrdered() || len(p.Edges)+len(p.Files) == 0 {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", "the plan was changed after it was made").Advise("make the plan again, and do not edit it")
	}
	return p, p.check()
}

// isOrdered reports whether everything is in the order of planning, once. All
// later checks, for conflicts too, depend on that.
func (p Plan) isOrdered() bool {
	other := func(name string) bool {
		canonical, err := address.Canonical(name)
		return err != nil || canonical != name
	}
	for _, r := range p.Routes {
		if p.Release == nil && (other(r.Source) || slices.ContainsFunc(r.Destinations, other)) {
			return false // two spellings of one place would hide a conflict
		}
		if len(slice.Unique(r.Destinations)) != len(r.Destinations) {
			return false
		}
	}
	for i := 1; i < len(p.Edges); i++ {
		a, b := p.Edges[i-1], p.Edges[i]
		if cmp.Or(cmp.Compare(a.Route, b.Route), cmp.Compare(a.Image, b.Image), cmp.Compare(a.Digest.Hex(), b.Digest.Hex())) >= 0 {
			return false
		}
	}
	for i := 1; i < len(p.Files); i++ {
		a, b := p.Files[i-1], p.Files[i]
		if cmp.Or(cmp.Compare(a.Store, b.Store), cmp.Compare(a.Name, b.Name)) >= 0 {
			return false
		}
	}
	return true
}

// destinations are the names of places, sorted.
func destinations(places []promoterfile.Place) []string {
	return slices.Sorted(slices.Values(slice.Map(places, func(p promoterfile.Place) string { return p.Name })))
}
