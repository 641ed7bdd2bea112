package promote

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxListed is how many images of one kind are listed of a destination: the
// first ones, in the order of the plan.
const maxListed = 100

// renew is after how many repositories a registry is opened anew: a session is
// kept for each, and there can be a million.
const renew = 1024

// Diff compares the images of a plan with what the destinations have, as
// [CompareFiles] does with files.
type Diff struct {
	Plan promotionplan.Plan
	// Open opens a registry. It is called now and then for each host.
	Open func(host string) (*registry.Remote, error)
	// Progress is told how many repositories were looked at, of how many. It is
	// called by several goroutines; nil tells nobody.
	Progress func(done, of int)
}

// Difference is how the images of a plan stand at their destinations, by what
// the registries say. No manifest is read for it: it is good for planning, and
// proves nothing.
type Difference struct {
	Plan         digest.Digest `json:"plan"`
	Destinations []Standing    `json:"destinations"`
	// Lists and Heads count the requests: pages of tags, and tags that were
	// asked for one by one because the list does not say what they name.
	Lists int `json:"lists"`
	Heads int `json:"heads"`
}

// Standing is how the plan stands at one destination.
type Standing struct {
	To      string `json:"to"`
	Same    int    `json:"same"`
	Missing int    `json:"missing"`
	// Other counts images one of whose tags names another image there.
	Other   int `json:"other"`
	Unknown int `json:"unknown"` // the registry does not answer
	// Unnamed counts tags of the plan's repositories that no edge names.
	Unnamed int `json:"unnamed"`
	// Images are the first of those that are not there as planned.
	Images []ImageStand `json:"images,omitempty"`
}

// ImageStand is how one image stands at one destination, where it is not there
// as planned.
type ImageStand struct {
	State  Stand         `json:"state"`
	Edge   int           `json:"edge"` // of the plan
	Image  string        `json:"image"`
	Digest digest.Digest `json:"digest"`
	Tags   []string      `json:"tags,omitempty"`
	// Tag is the one that names another image, and Got that image.
	Tag string        `json:"tag,omitempty"`
	Got digest.Digest `json:"got,omitzero"`
	Why string        `json:"why,omitempty"` // of a registry that does not answer
}

// Compare asks each repository once for what it has.
func (d Diff) Compare(ctx context.Context) (Difference, error) {
	if d.Open == nil || len(d.Plan.Edges) == 0 {
		return Difference{}, verdict.Refuse(verdict.Usage, "plan", "it has no images that could be compared")
	}
	c := &comparing{Diff: d, standings: map[string]*Standing{}}
	c.out.Plan = d.Plan.Digest()
	hosts := c.byHost()
	group := errgroup.Group{}
	group.SetLimit(toAtOnce)
	for _, host := range slices.Sorted(maps.Keys(hosts)) {
		group.Go(func() error { return c.host(ctx, host, hosts[host]) })
	}
	if err := errors.Join(group.Wait(), context.Cause(ctx)); err != nil {
		return Difference{}, err
	}
	for _, to := range slices.Sorted(maps.Keys(c.standings)) {
		s := c.standings[to]
		s.Images = firstOf(s.Images)
		c.out.Destinations = append(c.out.Destinations, *s)
	}
	return c.out, nil
}

// Err is what a difference amounts to: a refusal if a tag names another image,
// which no promotion moves, and no answer where a registry gave none.
func (d Difference) Err() error {
	var away error
	for _, s := range d.Destinations {
		for _, i := range s.Images {
			switch i.State {
			case Other:
				return &verdict.Error{Finding: verdict.Find(verdict.TagConflict, s.To+"/"+i.Image+":"+i.Tag, "the tag names another image").
					Differ(i.Digest.String(), i.Got.String())}
			case Unknown:
				away = &verdict.UnavailableError{Place: s.To, Op: "comparing " + i.Image, Err: errors.New(i.Why)}
			}
		}
	}
	return away
}

// comparing is a plan being compared.
type comparing struct {
	Diff
	regions regions

	mu        sync.Mutex // owns the rest
	standings map[string]*Standing
	out       Difference
	done, all int
}

// ends are edges, of one route and image, that end in one repository.
type ends struct {
	repo  string // below the host
	to    string // the destination, as the route has it
	first int    // of the edges
	after int
}

// byHost says which routes end at which host.
func (c *comparing) byHost() map[string][]int {
	hosts := map[string][]int{}
	for i, r := range c.Plan.Routes {
		for _, to := range r.Destinations {
			host, _, _ := strings.Cut(to, "/")
			if of := hosts[host]; len(of) == 0 || of[len(of)-1] != i {
				hosts[host] = append(of, i)
			}
		}
	}
	for first := range images(c.Plan) {
		c.all += len(c.Plan.Routes[c.Plan.Edges[first].Route].Destinations)
	}
	return hosts
}

// host compares what ends at one host. Its repositories are forgotten before
// another host takes its place.
func (c *comparing) host(ctx context.Context, host string, of []int) error {
	var all []ends
	for first, after := range images(c.Plan) {
		e := c.Plan.Edges[first]
		if _, mine := slices.BinarySearch(of, e.Route); !mine {
			continue
		}
		for _, to := range c.Plan.Routes[e.Route].Destinations {
			if at, path, _ := strings.Cut(to, "/"); at == host {
				all = append(all, ends{strings.TrimPrefix(path+"/"+e.Image, "/"), to, first, after})
			}
		}
	}
	slices.SortFunc(all, func(a, b ends) int { return cmp.Or(cmp.Compare(a.repo, b.repo), cmp.Compare(a.first, b.first)) })
	group := errgroup.Group{}
	group.SetLimit(inFlight)
	var remote *registry.Remote
	for n := 0; len(all) > 0; n++ {
		same := 1
		for same < len(all) && all[same].repo == all[0].repo {
			same++
		}
		if n%renew == 0 {
			var err error
			if remote, err = c.Open(host); err != nil {
				return errors.Join(err, group.Wait())
			}
		}
		one, at := all[:same], remote
		all = all[same:]
		group.Go(func() error {
			c.repository(ctx, at, host, one)
			c.progress(len(one))
			return nil
		})
	}
	return group.Wait()
}

func (c *comparing) progress(n int) {
	c.mu.Lock()
	c.done += n
	done := c.done
	c.mu.Unlock()
	if c.Progress != nil {
		c.Progress(done, c.all)
	}
}

// repository compares one repository with all that ends there.
func (c *comparing) repository(ctx context.Context, at *registry.Remote, host string, all []ends) {
	var l registry.Listing
	lists := 0
	err := error(&verdict.UnavailableError{Place: host, Op: "listing " + all[0].repo, Err: errDown})
	if !c.regions.down(host) {
		l, err = at.Listing(ctx, all[0].repo)
		lists = max(1, l.Pages) // none came, but one was asked for
		c.regions.count(host, verdict.OutcomeOf(err) == verdict.Unavailable)
	}
	if errors.Is(err, registry.ErrNotFound) {
		err = nil // nothing was ever promoted there
	}
	heads := 0
	if err == nil {
		heads, err = c.name(ctx, at, all, &l)
	}
	found := map[string][]ImageStand{}
	same := map[string]int{}
	named := map[string]bool{}
	for _, one := range all {
		for i := one.first; i < one.after; i++ {
			e := c.Plan.Edges[i]
			for _, tag := range e.Tags {
				named[tag] = true
			}
			if image, there := compared(e, l, err); there {
				same[one.to]++
			} else {
				image.Edge = i
				found[one.to] = append(found[one.to], image)
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.Lists += lists
	c.out.Heads += heads
	for _, one := range all {
		s := c.at(one.to)
		s.Same += same[one.to]
		s.add(found[one.to])
		delete(same, one.to) // a route may end there with two images
		delete(found, one.to)
	}
	s := c.at(all[0].to)
	for tag := range l.Tags {
		if !named[tag] && !isAttached(tag) {
			s.Unnamed++
		}
	}
}

// at is how the plan stands at a destination. Who calls it holds the lock.
func (c *comparing) at(to string) *Standing {
	s := c.standings[to]
	if s == nil {
		s = &Standing{To: to}
		c.standings[to] = s
	}
	return s
}
