package promotionplan

import (
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Extent counts the parts of a plan.
type Extent struct {
	Routes       int `json:"routes"`
	Digests      int `json:"digests"` // in sources, each judged once
	Moves        int `json:"moves"`
	Tags         int `json:"tags"`
	Repositories int `json:"repositories"` // in destinations, each listed once
	// Stores are places that files come from; Copies are files times
	// destinations.
	Stores int `json:"stores,omitempty"`
	Files  int `json:"files,omitempty"`
	Copies int `json:"copies,omitempty"`
	// Bytes are those of all copies whose size a manifest gives.
	Bytes int64 `json:"bytes,omitempty"`
}

// String prints the extent on one line.
func (e Extent) String() string {
	var parts []string
	if e.Routes > 0 {
		parts = append(parts, fmt.Sprintf("routes %d, digests to judge %d, moves %d, repositories %d, tags %d", e.Routes, e.Digests, e.Moves, e.Repositories, e.Tags))
	}
	if e.Files > 0 {
		parts = append(parts, fmt.Sprintf("stores %d, files %d, copies %d", e.Stores, e.Files, e.Copies))
	}
	if e.Bytes > 0 {
		parts = append(parts, fmt.Sprintf("bytes %d", e.Bytes))
	}
	return strings.Join(parts, ", ")
}

// Requests is the least number of requests to apply the plan, which is enough
// if everything is already there: for each image its manifest and its
// referrers, and the tags of each repository; for each file its evidence, and a
// request for each copy. An image of A manifests and B blobs that is not yet
// there needs up to 2A+3B+3 more for each destination; A and B are unknown
// before it is read.
func (e Extent) Requests() int { return 2*e.Digests + e.Repositories + e.Files + e.Copies }

// Extent counts the plan.
func (p Plan) Extent() Extent {
	e := Extent{Routes: len(p.Routes), Stores: len(p.Stores), Files: len(p.Files)}
	digests := map[string]bool{}
	type repository struct {
		route int
		image string
	}
	seen := map[repository]bool{}
	for _, edge := range p.Edges {
		to := len(p.Routes[edge.Route].Destinations)
		e.Moves += to
		e.Tags += to * len(edge.Tags)
		digests[p.Routes[edge.Route].Source+"/"+edge.Image+edge.Digest.Hex()] = true
		if r := (repository{edge.Route, edge.Image}); !seen[r] {
			seen[r] = true
			e.Repositories += to
		}
	}
	e.Digests = len(digests)
	for _, f := range p.Files {
		to := len(p.Stores[f.Store].Destinations)
		e.Copies += to
		e.Bytes += int64(to) * f.Size
	}
	return e
}

// Goals are all registries that images of a source go to, by the source, over
// all routes.
type Goals map[string][]string

// Of returns the repositories that an image goes to.
func (g Goals) Of(source, image string) []string {
	return slice.Map(g[source], func(to string) string { return to + "/" + image })
}

// Goals returns those of the plan.
func (p Plan) Goals() Goals {
	all := Goals{}
	for _, r := range p.Routes {
		all[r.Source] = append(all[r.Source], r.Destinations...)
	}
	for source, to := range all {
		all[source] = slice.Unique(to)
	}
	return all
}

// FileGoals returns all places that files of the plan go to.
func (p Plan) FileGoals() []string {
	var all []string
	for _, s := range p.Stores {
		all = append(all, s.Destinations...)
	}
	return slice.Unique(all)
}
