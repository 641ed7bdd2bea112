package promote

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// images iterates over the edges of a plan by image: edges of one route and
// image are adjacent. It yields the index of the first edge of each image,
// and the index after the last.
func images(p promotionplan.Plan) iter.Seq2[int, int] {
	return func(yield func(int, int) bool) {
		for first := 0; first < len(p.Edges); {
			after := first + 1
			for after < len(p.Edges) && p.Edges[after].Route == p.Edges[first].Route && p.Edges[after].Image == p.Edges[first].Image {
				after++
			}
			if !yield(first, after) {
				return
			}
			first = after
		}
	}
}

// resolveListed finds out what the listed tags and digests name where the
// list does not say: one request each. It returns the number of requests.
func (c *comparing) resolveListed(ctx context.Context, at *registry.Remote, all []ends, l *registry.Listing) (int, error) {
	var ask []string
	for _, one := range all {
		for _, e := range c.Plan.Edges[one.first:one.after] {
			if len(e.Tags) == 0 && l.Digests == nil && l.Pages > 0 {
				ask = append(ask, e.Digest.String())
			}
			for _, tag := range e.Tags {
				if d, listed := l.Tags[tag]; listed && d.IsZero() {
					ask = append(ask, tag)
				}
			}
		}
	}
	ask = slice.Unique(ask)
	var mu sync.Mutex // owns l
	return len(ask), atonce.Try(ctx, toAtOnce, ask, func(ctx context.Context, _ int, tag string) error {
		d, err := at.Claimed(ctx, all[0].repo, tag)
		if err != nil && !errors.Is(err, registry.ErrNotFound) {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		switch _, listed := l.Tags[tag]; {
		case err != nil:
			delete(l.Tags, tag) // removed since it was listed
		case listed:
			l.Tags[tag] = d
		default:
			if l.Digests == nil {
				l.Digests = map[digest.Digest]bool{}
			}
			l.Digests[d] = true
		}
		return nil
	})
}

// compared is the state of an edge in a repository, and whether it is as
// planned.
func compared(e promotionplan.Edge, l registry.Listing, away error) (ImageDiff, bool) {
	i := ImageDiff{State: Absent, Image: e.Image, Digest: e.Digest, Tags: e.Tags}
	if away != nil {
		i.State, i.Why = Unknown, away.Error()
		return i, false
	}
	there := len(e.Tags) > 0 || l.Digests[e.Digest]
	for _, tag := range e.Tags {
		got, listed := l.Tags[tag]
		switch {
		case !listed:
			there = false
		case !got.Equal(e.Digest):
			i.State, i.Tag, i.Got = Other, tag, got
			return i, false
		}
	}
	return i, there
}

// add counts images that are not as planned, and keeps the first of them.
func (s *DestinationDiff) add(images []ImageDiff) {
	for _, i := range images {
		switch i.State {
		case Absent:
			s.Missing++
		case Other:
			s.Other++
		default:
			s.Unknown++
		}
	}
	if s.Images = append(s.Images, images...); len(s.Images) > 8*maxListed {
		s.Images = firstOf(s.Images)
	}
}

// firstOf are the first images of each state, in the order of the plan, with
// the most important states first.
func firstOf(images []ImageDiff) []ImageDiff {
	rank := []DiffState{Other, Unknown, Absent}
	slices.SortFunc(images, func(a, b ImageDiff) int {
		return cmp.Or(cmp.Compare(slices.Index(rank, a.State), slices.Index(rank, b.State)), cmp.Compare(a.Edge, b.Edge))
	})
	kept, n := images[:0], map[DiffState]int{}
	for _, i := range images {
		if n[i.State]++; n[i.State] <= maxListed {
			kept = append(kept, i)
		}
	}
	return slices.Clip(kept)
}
