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

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxListed is how many images of each state are listed for a destination:
// the first ones, in the order of the plan.
const maxListed = 100

// renew is after how many repositories a registry is opened again: its client
// keeps a session for each, and there can be a million.
const renew = 1024

// Diff compares the images of a plan with the destinations, as [CompareFiles]
// does with files.
type Diff struct {
	Plan promotionplan.Plan
	// Open opens a registry. It is called repeatedly for each host.
	Open func(host string) (*registry.Remote, error)
	// Progress is called with the number of repositories compared and the total,
	// by several goroutines; may be nil.
	Progress func(done, of int)
}

// Difference is the state of a plan's images at their destinations, as
// reported by the registries. No manifest is read, so it is useful for
// planning and proves nothing.
type Difference struct {
	Plan         digest.Digest     `json:"plan"`
	Destinations []DestinationDiff `json:"destinations"`
	// Lists and Heads count requests: pages of tags, and single tags whose
	// digest the list does not contain.
	Lists int `json:"lists"`
	Heads int `json:"heads"`
}

// DestinationDiff is the state of the plan at one destination.
type DestinationDiff struct {
	To      string `json:"to"`
	Same    int    `json:"same"`
	Missing int    `json:"missing"`
	// Other counts images with a tag that names a different image there.
	Other   int `json:"other"`
	Unknown int `json:"unknown"` // the registry does not answer
	// Unnamed counts tags of the plan's repositories that no edge names.
	Unnamed int `json:"unnamed"`
	// Images are the first images that are not as planned.
	Images []ImageDiff `json:"images,omitempty"`
}

// ImageDiff is the state of one image at one destination, if it is not as
// planned.
type ImageDiff struct {
	State  DiffState     `json:"state"`
	Edge   int           `json:"edge"` // of the plan
	Image  string        `json:"image"`
	Digest digest.Digest `json:"digest"`
	Tags   []string      `json:"tags,omitempty"`
	// Tag is the one that names a different image, and Got that image.
	Tag string        `json:"tag,omitempty"`
	Got digest.Digest `json:"got,omitzero"`
	Why string        `json:"why,omitempty"` // if the registry does not answer
}

// Compare reads each repository once.
func (d Diff) Compare(ctx context.Context) (Difference, error) {
	if d.Open == nil || len(d.Plan.Edges) == 0 {
		return Difference{}, verdict.Refuse(verdict.Usage, "plan", "the plan has no images to compare")
	}
	c := &comparing{Diff: d, standings: map[string]*DestinationDiff{}}
	c.out.Plan = d.Plan.Digest()
	hosts := c.byHost()
	if err := atonce.Try(ctx, toAtOnce, slices.Sorted(maps.Keys(hosts)), func(ctx context.Context, _ int, host string) error {
		return c.compareHost(ctx, host, hosts[host])
	}); err != nil || ctx.Err() != nil {
		return Difference{}, errors.Join(err, context.Cause(ctx))
	}
	for _, to := range slices.Sorted(maps.Keys(c.standings)) {
		s := c.standings[to]
		s.Images = firstOf(s.Images)
		c.out.Destinations = append(c.out.Destinations, *s)
	}
	return c.out, nil
}

// Err is a refusal if a tag names a different image, because no promotion
// moves tags; or an unavailability if a registry did not answer.
func (d Difference) Err() (away error) {
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

// comparing is a comparison in progress.
type comparing struct {
	Diff
	regions regions
	done    counter
	all     int

	mu        sync.Mutex // owns the rest
	standings map[string]*DestinationDiff
	out       Difference
}

// ends are edges of one route and image that end in one repository.
type ends struct {
	repo  string // below the host
	to    string // the destination, as in the route
	first int    // of the edges
	after int
}

// byHost lists the routes that end at each host.
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

// compareHost compares everything that ends at one host. Only one host's
// repositories are in memory at a time for each worker.
func (c *comparing) compareHost(ctx context.Context, host string, of []int) error {
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
			c.compareRepository(ctx, at, host, one)
			c.done.add(len(one), c.all, c.Progress)
			return nil
		})
	}
	return group.Wait()
}

// compareRepository compares one repository with everything that ends there.
func (c *comparing) compareRepository(ctx context.Context, at *registry.Remote, host string, all []ends) {
	var l registry.Listing
	lists := 0
	err := error(&verdict.UnavailableError{Place: host, Op: "listing " + all[0].repo, Err: errDown})
	if !c.regions.down(host) {
		l, err = at.Listing(ctx, all[0].repo)
		lists = max(1, l.Pages) // no page came, but one was requested
		c.regions.count(host, verdict.OutcomeOf(err) == verdict.Unavailable)
	}
	if errors.Is(err, registry.ErrNotFound) {
		err = nil // nothing has been promoted there
	}
	heads := 0
	if err == nil {
		heads, err = c.resolveListed(ctx, at, all, &l)
	}
	found := map[string][]ImageDiff{}
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
		s := c.destination(one.to)
		s.Same += same[one.to]
		s.add(found[one.to])
		delete(same, one.to) // a route may end there with two images
		delete(found, one.to)
	}
	s := c.destination(all[0].to)
	for tag := range l.Tags {
		if !named[tag] && !isAttached(tag) {
			s.Unnamed++
		}
	}
}

// destination returns the state at a destination. The caller has the lock.
func (c *comparing) destination(to string) *DestinationDiff {
	s := c.standings[to]
	if s == nil {
		s = &DestinationDiff{To: to}
		c.standings[to] = s
	}
	return s
}
