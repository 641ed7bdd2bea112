package promotionplan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxConflicts is how many conflicts are listed.
const maxConflicts = 20

// check finds names that two edges, or two files, with different digests would
// get.
func (p Plan) check() error {
	images := search{code: verdict.TagConflict, what: "images", within: hostOf}
	for i, r := range p.Routes {
		for _, d := range r.Destinations {
			images.targets = append(images.targets, target{i, r.Manifest, d})
		}
	}
	edges := p.byRoute()
	images.names = func(t target, take func(string, digest.Digest)) {
		for _, e := range edges[t.from] {
			for _, tag := range e.Tags {
				take(t.destination+"/"+e.Image+":"+tag, e.Digest)
			}
		}
	}
	files := search{code: verdict.FileConflict, what: "files", within: bucketOf}
	for i, s := range p.Stores {
		for _, d := range s.Destinations {
			files.targets = append(files.targets, target{i, s.Manifest, d})
		}
	}
	of := make([][]File, len(p.Stores))
	for _, f := range p.Files {
		of[f.Store] = append(of[f.Store], f)
	}
	files.names = func(t target, take func(string, digest.Digest)) {
		for _, f := range of[t.from] {
			take(t.destination+f.Name, f.Digest)
		}
	}
	return errors.Join(images.conflicts(), files.conflicts())
}

// byRoute returns the edges of each route.
func (p Plan) byRoute() [][]Edge {
	of := make([][]Edge, len(p.Routes))
	first := 0
	for i := range p.Edges {
		if i+1 == len(p.Edges) || p.Edges[i+1].Route != p.Edges[i].Route {
			of[p.Edges[i].Route], first = p.Edges[first:i+1], i+1
		}
	}
	return of
}

// hostOf and bucketOf are the parts of a place that determine its host or
// bucket: names in two of them never clash.
func hostOf(place string) string {
	host, _, _ := strings.Cut(place, "/")
	return host
}

func bucketOf(place string) string {
	scheme, rest, _ := strings.Cut(place, "://")
	return scheme + "://" + hostOf(rest)
}

// search looks for the conflicts of one kind.
type search struct {
	code    verdict.Code
	what    string
	targets []target
	within  func(destination string) string
	// names passes every name that is written to a target.
	names func(t target, take func(name string, d digest.Digest))
}

// target is a destination of a route or of a store, with its index.
type target struct {
	from                  int
	manifest, destination string
}

// conflicts searches one host or bucket after another, to bound memory. Of those
// that get the same names, such as twenty regions, one is searched if it has no
// conflict.
func (s search) conflicts() error {
	by := map[string][]target{}
	for _, t := range s.targets {
		by[s.within(t.destination)] = append(by[s.within(t.destination)], t)
	}
	var all []error
	clean := map[string]bool{}
	for _, at := range slices.Sorted(maps.Keys(by)) {
		var names strings.Builder
		for _, t := range by[at] {
			fmt.Fprintf(&names, "%d %q\n", t.from, t.destination[len(at):])
		}
		if clean[names.String()] {
			continue
		}
		found := s.among(by[at])
		clean[names.String()] = len(found) == 0
		all = append(all, found...)
	}
	if more := len(all) - maxConflicts; more > 0 {
		all = append(all[:maxConflicts], fmt.Errorf("and %d more", more))
	}
	return errors.Join(all...)
}

// among are the conflicts among targets.
func (s search) among(targets []target) (found []error) {
	type written struct {
		manifest string
		digest   digest.Digest
	}
	taken := map[string]written{}
	for _, t := range targets {
		s.names(t, func(name string, d digest.Digest) {
			other, there := taken[name]
			if !there {
				taken[name] = written{t.manifest, d}
			} else if !other.digest.Equal(d) {
				f := verdict.Find(s.code, name, "%s and %s would write different %s to this name", other.manifest, t.manifest, s.what)
				found = append(found, &verdict.Error{Finding: f.Differ(other.digest.String(), d.String())})
			}
		})
	}
	return found
}
