package promote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// errDown is why nothing more is tried at a destination.
var errDown = errors.New("it did not answer several times in a row, so it is not asked again in this run")

// target is one destination of one image.
type target struct {
	name   string // the registry, as the route names it
	remote *registry.Remote
	// untagged are the tags that do not name the image yet.
	untagged []string
	// moves are what those of them named that name another image, and may be
	// moved.
	moves map[string]digest.Digest
	// whole says that the image is there as an earlier run left it.
	whole bool
	proof verdict.Proof // of that run's decision
	// there are the bundles that refer to the image at the destination before
	// anything is copied.
	there [][]byte
	// copied is what must be there in the end.
	copied registry.Copied
}

// lookAt asks a destination for the tags of the image. What an earlier run is
// known to have left is held against what is there now; of everything else
// nothing is assumed, and the image is copied again, which adds what lacks.
func (o one) lookAt(ctx context.Context, t *target) (err error) {
	if t.remote, err = o.remotes.at(t.name); err != nil {
		return err
	}
	t.moves = map[string]digest.Digest{}
	for _, tag := range o.edge.Tags {
		held, err := t.remote.Resolve(ctx, o.edge.Image, tag)
		switch {
		case errors.Is(err, registry.ErrNotFound):
			t.untagged = append(t.untagged, tag)
		case err != nil:
			return err
		case !held.Digest.Equal(o.edge.Digest):
			full := t.name + "/" + o.edge.Image + ":" + tag
			if err := o.mayMove(full, held.Digest); err != nil {
				return err
			}
			t.untagged = append(t.untagged, tag)
			t.moves[tag] = held.Digest
		}
	}
	left, known := o.Ledger.find(o.ref(t.name), o.route, o.edge.Tags)
	if !known || len(t.untagged) > 0 {
		return nil
	}
	if len(o.edge.Tags) == 0 {
		if _, err := t.remote.Resolve(ctx, o.edge.Image, o.edge.Digest.String()); err != nil {
			if errors.Is(err, registry.ErrNotFound) {
				return nil
			}
			return err
		}
	}
	there, err := t.remote.Referrers(ctx, o.edge.Image, o.edge.Digest)
	if err != nil {
		return err
	}
	t.whole, t.proof = containsAll(there, left.Refer), left.Proof
	return nil
}

// mayMove refuses to move a tag that names another image, unless somebody with
// the right to do so said that it may. That then stands in the verdict.
func (o one) mayMove(tag string, from digest.Digest) error {
	if o.Rights.MayMove != nil {
		if by, may := o.Rights.MayMove(tag, from, o.edge.Digest); may {
			o.report.moved(by)
			return nil
		}
	}
	return &verdict.Error{Finding: verdict.Find(verdict.TagConflict, tag, "the tag names another image").
		Differ(o.edge.Digest.String(), from.String())}
}

func containsAll(there []registry.Descriptor, want []digest.Digest) bool {
	return !slices.ContainsFunc(want, func(d digest.Digest) bool { return !holds(there, d) })
}

func holds(there []registry.Descriptor, want digest.Digest) bool {
	return slices.ContainsFunc(there, func(h registry.Descriptor) bool { return h.Digest.Equal(want) })
}

// deliver brings an image that was accepted to its destinations. It is recorded
// once for all that have it, and tagged where it is recorded.
func (o one) deliver(ctx context.Context, pending []*target, judged *verdict.Verdict) {
	pending = o.each(ctx, pending, func(t *target) error { return o.copyTo(ctx, t) })
	if len(pending) == 0 {
		return
	}
	if o.Records != nil {
		bundles, err := o.record(ctx, pending, judged)
		if err != nil {
			o.fail(ctx, pending, err)
			return
		}
		pending = o.each(ctx, pending, func(t *target) error { return o.attach(ctx, t, bundles) })
	}
	pending = o.each(ctx, pending, func(t *target) error { return o.tag(ctx, t) })
	for _, t := range pending {
		o.settle(t, Done)
	}
}

// each does a step at each destination, and returns those where it was done.
func (o one) each(ctx context.Context, pending []*target, step func(*target) error) []*target {
	done := make([]bool, len(pending))
	group := errgroup.Group{}
	group.SetLimit(toAtOnce)
	for i, t := range pending {
		group.Go(func() error {
			err := step(t)
			o.regions.saw(t.name, err)
			if done[i] = err == nil; err != nil {
				o.leave(ctx, t, err)
			}
			return nil
		})
	}
	_ = group.Wait() // each failure is that of its destination
	var left []*target
	for i, t := range pending {
		if done[i] {
			left = append(left, t)
		}
	}
	return left
}

// copyTo copies the image with everything that refers to it.
func (o one) copyTo(ctx context.Context, t *target) error {
	root, err := o.src.Resolve(ctx, o.edge.Image, o.edge.Digest.String())
	if err == nil {
		err = o.recorded(ctx, t)
	}
	if err != nil {
		return err
	}
	var listing sync.WaitGroup // the tags will be needed, and are not waited for before
	listing.Go(func() { _, _ = o.attached.of(ctx, o.src, o.route.Source, o.edge.Image) })
	defer listing.Wait()
	if t.copied, err = registry.Copy(ctx, registry.ReadLater{Remote: t.remote}, o.src, o.edge.Image, root); err != nil {
		return err
	}
	o.report.left(o.name(), len(t.copied.Left))
	return o.copyAttached(ctx, t)
}

// copyAttached copies what older clients look for: the tags by which evidence
// was attached before there were referrers. By what the judge was shown of them
// it was accepted, so that travels, whatever the registry lists.
func (o one) copyAttached(ctx context.Context, t *target) error {
	tags, err := o.attached.of(ctx, o.src, o.route.Source, o.edge.Image)
	if err != nil {
		return err
	}
	from, to := From{Images: o.src}, To{Images: t.remote, Left: o.report.leftTag, Exclusive: o.Rights.Exclusive}
	return t.copied.Image.Walk(func(n *registry.Node) error {
		for _, suffix := range []string{registry.SuffixSignatures, registry.SuffixAttestations} {
			tag := registry.AttachedTag(n.Descriptor.Digest, suffix)
			d, judged := o.src.Named(o.edge.Image, tag)
			if !judged && !slices.Contains(tags, tag) {
				continue
			}
			if !judged {
				if d, err = o.src.Resolve(ctx, o.edge.Image, tag); err != nil {
					return err
				}
			}
			if err := copyTag(ctx, attachedTag{o.edge.Image, tag, d}, from, to); err != nil {
				return fmt.Errorf("copying %s: %w", tag, err)
			}
		}
		return nil
	})
}

// tag reads the image back with all that refers to it, and then gives it its
// tags. Until then nobody finds it who does not know its digest.
func (o one) tag(ctx context.Context, t *target) error {
	root := t.copied.Image.Descriptor
	if err := registry.ReadBack(ctx, t.remote, o.edge.Image, t.copied); err != nil {
		return err
	}
	for _, tag := range t.untagged {
		if o.Rights.Exclusive != nil {
			if err := o.Rights.Exclusive(ctx); err != nil {
				return err
			}
		}
		if err := o.unmoved(ctx, t, tag); err != nil {
			return err
		}
		if err := t.remote.TagManifest(ctx, o.edge.Image, tag, root, t.copied.Image.Raw); err != nil {
			return err
		}
	}
	var left []digest.Digest
	for _, d := range t.copied.Referrers[root.Digest] {
		left = append(left, d.Digest)
	}
	return o.Ledger.add(ctx, o.ref(t.name), o.route, entry{Tags: o.edge.Tags, Refer: left, Proof: o.proof})
}

// unmoved demands that a tag still names what it named when it was looked at:
// copying takes a while, and somebody else may have tagged another image since.
// A registry cannot be told to write only then, so what remains is the time of
// one request; whoever wants none of it holds a lease.
func (o one) unmoved(ctx context.Context, t *target, tag string) error {
	held, err := t.remote.Resolve(ctx, o.edge.Image, tag)
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err != nil || held.Digest.Equal(o.edge.Digest) || held.Digest.Equal(t.moves[tag]) {
		return err
	}
	return &registry.TagError{Tag: t.name + "/" + o.edge.Image + ":" + tag, Want: o.edge.Digest, Got: held.Digest}
}

// remotes are the registries of a plan, each opened once.
type remotes struct {
	open func(prefix string) (*registry.Remote, error)
	mu   sync.Mutex // owns all
	all  map[string]*registry.Remote
}

func (r *remotes) at(prefix string) (*registry.Remote, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*registry.Remote{}
	}
	if at := r.all[prefix]; at != nil {
		return at, nil
	}
	at, err := r.open(prefix)
	if err == nil {
		r.all[prefix] = at
	}
	return at, err
}

// silent is how often in a row a destination may give no answer before it is
// left alone.
const silent = 3

// regions remember which destinations do not answer, so that the rest is not
// kept waiting for them.
type regions struct {
	mu  sync.Mutex // owns row
	row map[string]int
}

func (r *regions) down(to string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row[to] >= silent
}

// saw notes how a step at a destination ended. What the source did not answer
// says nothing of the destination.
func (r *regions) saw(to string, err error) {
	var down *verdict.UnavailableError
	if err == nil || errors.As(err, &down) {
		r.count(to, err != nil && strings.HasPrefix(down.Place, to))
	}
}

func (r *regions) count(to string, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.row == nil {
		r.row = map[string]int{}
	}
	if failed {
		r.row[to]++
	} else if r.row[to] < silent { // who was given up on is not asked, so it cannot come back
		r.row[to] = 0
	}
}

// attachedTags are the tags of the sources by which evidence is attached: each
// repository is listed once.
type attachedTags struct {
	mu    sync.Mutex // owns known, not what it holds
	known map[string]*listed
}

type listed struct {
	once sync.Once
	tags []string
	err  error
}

func (a *attachedTags) of(ctx context.Context, src registry.Source, prefix, repo string) ([]string, error) {
	a.mu.Lock()
	if a.known == nil {
		a.known = map[string]*listed{}
	}
	l := a.known[prefix+"/"+repo]
	if l == nil {
		l = &listed{}
		a.known[prefix+"/"+repo] = l
	}
	a.mu.Unlock()
	l.once.Do(func() {
		all, err := src.Tags(ctx, repo)
		l.tags, l.err = slices.DeleteFunc(all, func(tag string) bool { return !isAttached(tag) }), err
	})
	return l.tags, l.err
}
