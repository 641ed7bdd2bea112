package cleanup

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// place is the content of a public repository, as one pass found it.
type place struct {
	*Sweeps
	name string // HOST/PATH
	at   *registry.Remote
	path string

	mu     sync.Mutex // owns the rest while the repository is listed
	images map[digest.Digest]registry.Descriptor
	// held are the manifests that a tag names, directly or in an index. They are
	// never deleted.
	held map[digest.Digest]bool
	// points are the pointers to digests, such as a tag sha256-<digest>.att, and
	// there has the digests that exist.
	points []point
	there  map[digest.Digest]bool
	unread []string // manifests that cannot be read
}

// point is a pointer to a digest: a tag, a list entry or a referrer.
type point struct {
	from string
	to   digest.Digest
}

// attachedTag matches a tag that attaches evidence, or a list of referrers, to a
// digest.
var attachedTag = pattern.Lazy(`^sha256-([0-9a-f]{64})(\.[a-z]+)?$`)

// list reads the repository: every manifest that a tag names, that the registry
// lists, or that has something attached.
func (p *place) list(ctx context.Context) error {
	listing, err := p.at.Listing(ctx, p.path)
	if err != nil {
		return err
	}
	p.images, p.held, p.there = map[digest.Digest]registry.Descriptor{}, map[digest.Digest]bool{}, map[digest.Digest]bool{}
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(imagesAtOnce)
	for _, tag := range slices.Sorted(maps.Keys(listing.Tags)) {
		match := attachedTag().FindStringSubmatch(tag)
		group.Go(func() error {
			switch {
			case match == nil:
				return p.reach(inner, tag, true)
			case match[2] == "":
				if err := p.listed(inner, tag); err != nil {
					return err
				}
			}
			of, err := digest.ParseHex(digest.SHA256, match[1])
			if err != nil {
				return err
			}
			p.note(p.name+":"+tag, of)
			return p.reach(inner, of.String(), false)
		})
	}
	for d := range listing.Digests {
		group.Go(func() error { return p.reach(inner, d.String(), false) })
	}
	return group.Wait()
}

// reach reads the image that a tag or a digest names, with all its parts.
func (p *place) reach(ctx context.Context, reference string, held bool) error {
	d, err := p.at.Resolve(ctx, p.path, reference)
	var root *registry.Node
	if err == nil {
		root, err = registry.Graph(ctx, p.at, p.path, d)
	}
	switch {
	case errors.Is(err, registry.ErrNotFound) && d.Digest.IsZero():
		return nil // broken reports the pointer to it
	case err != nil:
		return p.cannot(reference, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return root.Walk(func(n *registry.Node) error {
		p.there[n.Descriptor.Digest] = true
		p.held[n.Descriptor.Digest] = held || p.held[n.Descriptor.Digest]
		if n.Subject.Digest.IsZero() {
			p.images[n.Descriptor.Digest] = n.Descriptor
			return nil
		}
		p.points = append(p.points, point{p.name + "@" + n.Descriptor.Digest.String(), n.Subject.Digest})
		return nil
	})
}

// listed reads a list of referrers that is kept under a tag.
func (p *place) listed(ctx context.Context, tag string) error {
	d, raw, err := p.at.Manifest(ctx, p.path, tag)
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	var entries []digest.Digest
	if err == nil {
		entries, err = registry.Entries(d, raw)
	}
	if err != nil {
		return p.cannot(tag, err)
	}
	for _, e := range entries {
		p.note(p.name+":"+tag+" which lists "+e.String(), e)
		switch _, err := p.at.Claimed(ctx, p.path, e.String()); {
		case err == nil:
			p.mu.Lock()
			p.there[e] = true
			p.mu.Unlock()
		case !errors.Is(err, registry.ErrNotFound):
			return err
		}
	}
	return nil
}

// note records a pointer to a digest.
func (p *place) note(from string, to digest.Digest) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.points = append(p.points, point{from, to})
}

// cannot records a manifest that cannot be read. A registry that does not answer is
// an error.
func (p *place) cannot(reference string, err error) error {
	if verdict.OutcomeOf(err) == verdict.Unavailable {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unread = append(p.unread, fmt.Sprintf("%s:%s, unreadable: %v", p.name, reference, err))
	return nil
}

// told adds manifests that cannot be read to the tally; without one they are an
// error.
func (p *place) told(remains *tally) error {
	if remains == nil && len(p.unread) > 0 {
		return fmt.Errorf("%s cannot be read: %s", plural.Of(len(p.unread), "manifest"), strings.Join(p.unread[:min(told, len(p.unread))], ", "))
	}
	for _, what := range p.unread {
		remains.add("%s", what)
	}
	return nil
}

// eachImage visits every manifest that is not evidence, several at a time.
func (p *place) eachImage(ctx context.Context, t *tally, do visit) error {
	return atonce.Try(ctx, imagesAtOnce, slices.Collect(maps.Values(p.images)), func(ctx context.Context, _ int, d registry.Descriptor) error {
		err := do(ctx, p, d, t)
		if err != nil {
			err = fmt.Errorf("%s: %w", d.Digest, err)
		}
		return err
	})
}

// named is the name of a manifest in messages.
func (p *place) named(d digest.Digest) string { return p.name + "@" + d.String() }

// bundles are our bundles that refer to an image.
func (p *place) bundles(ctx context.Context, of digest.Digest, kinds ...string) (ours []proven, err error) {
	all, err := registry.Bundles(ctx, p.at, p.path, of, kinds...)
	for _, raw := range all {
		if e, is := p.ours(raw, of); is {
			ours = append(ours, proven{e, raw})
		}
	}
	return ours, err
}

// VSAsInForce counts our summaries that may still be relied on: those of a verifier
// that the policy names under summaries, and those that have not expired. They are not
// removed: people let them expire, delete them, or publish a policy that accepts none.
func (s *Sweeps) VSAsInForce() reconcile.Counter {
	return counter{Sweeps: s, visit: s.summaries(true)}
}

// VSAsLeft counts our summaries that are still attached but not relied on.
func (s *Sweeps) VSAsLeft() reconcile.Counter {
	return counter{Sweeps: s, visit: s.summaries(false)}
}

func (s *Sweeps) summaries(inForce bool) visit {
	asked := policy.SummaryAges(s.c.Policy)
	return func(ctx context.Context, p *place, image registry.Descriptor, t *tally) error {
		now := s.c.Clock()
		found, err := p.bundles(ctx, image.Digest, vsa.PredicateType)
		if err != nil {
			return err
		}
		for _, f := range found {
			said, err := vsa.Parse(f.evidence.Statement())
			if err != nil {
				continue // malformed, so it cannot be relied on
			}
			_, named := asked[said.Verifier.ID]
			fresh := s.fresh(said, now)
			if (named || fresh) != inForce {
				continue
			}
			why := "expired, and not accepted by the policy"
			switch {
			case named:
				why = "the policy accepts summaries of " + said.Verifier.ID
			case fresh:
				why = "valid until " + said.Verified.Add(s.c.Validity).Format(time.RFC3339)
			}
			t.add("a summary of %s by %s: %s", p.named(image.Digest), policy.Who(f.evidence), why)
		}
		return nil
	}
}

// fresh reports whether a summary has not expired. One without a time of verification
// never expires.
func (s *Sweeps) fresh(said vsa.Summary, now time.Time) bool {
	return said.Verified.IsZero() || now.Sub(said.Verified) <= s.c.Validity
}
