package promote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// errDown is why a place is no longer contacted.
var errDown = errors.New("no answer several times in a row, so this run does not try again")

// target is one destination of one image.
type target struct {
	name   string // the registry, as in the route
	remote *registry.Remote
	// untagged are the tags that do not name the image yet.
	untagged []string
	// moves has those of them that name a different image and may be moved,
	// with that image.
	moves map[string]digest.Digest
	// whole means that the image is as an earlier run left it.
	whole bool
	proof verdict.Proof // of that run's decision
	// there are the bundles that referred to the image at the destination
	// before anything was copied.
	there [][]byte
	// copied is what must be there in the end.
	copied registry.Copied
}

// checkTarget reads the tags of the image at a destination. What an earlier
// run left is compared with what is there now. Otherwise nothing is assumed:
// the image is copied again, which adds what is missing.
func (o imageJob) checkTarget(ctx context.Context, t *target) (err error) {
	if t.remote, err = o.remote(t.name); err != nil {
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

// mayMove refuses to move a tag that names a different image, unless a signed
// exception permits it. The verdict then lists that exception.
func (o imageJob) mayMove(tag string, from digest.Digest) error {
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
	return !slices.ContainsFunc(want, func(d digest.Digest) bool {
		return !slices.ContainsFunc(there, func(h registry.Descriptor) bool { return h.Digest.Equal(d) })
	})
}

// deliver copies an accepted image to its destinations. It is recorded once
// for all that have it, and tagged only after it is recorded.
func (o imageJob) deliver(ctx context.Context, pending []*target, judged *verdict.Verdict) {
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
		o.succeed(t, Done)
	}
}

// each does a step at each destination, and returns those where it succeeded.
func (o imageJob) each(ctx context.Context, pending []*target, step func(*target) error) (left []*target) {
	done := make([]bool, len(pending))
	atonce.Each(toAtOnce, pending, func(i int, t *target) {
		err := step(t)
		o.regions.saw(t.name, err)
		if done[i] = err == nil; err != nil {
			o.failAt(ctx, t, err)
		}
	})
	for i, t := range pending {
		if done[i] {
			left = append(left, t)
		}
	}
	return left
}

// copyTo copies the image with everything that refers to it.
func (o imageJob) copyTo(ctx context.Context, t *target) error {
	root, err := o.src.Resolve(ctx, o.edge.Image, o.edge.Digest.String())
	if err == nil {
		err = o.recorded(ctx, t)
	}
	if err != nil {
		return err
	}
	var listing sync.WaitGroup // the tags are needed later; read them in parallel
	listing.Go(func() { _, _ = o.attachedTags(ctx) })
	defer listing.Wait()
	if t.copied, err = registry.Copy(ctx, registry.ReadLater{Remote: t.remote}, o.src, o.edge.Image, root); err != nil {
		return err
	}
	o.report.left(o.name(), len(t.copied.Left))
	return o.copyAttached(ctx, t)
}

// copyAttached copies what older clients look for: the tags by which evidence
// was attached before there were referrers. Tags that the judge used are
// copied even if the registry does not list them.
func (o imageJob) copyAttached(ctx context.Context, t *target) error {
	tags, err := o.attachedTags(ctx)
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

// tag reads the image back with everything that refers to it, and then tags
// it. Before that, only its digest can find it.
func (o imageJob) tag(ctx context.Context, t *target) error {
	root := t.copied.Image.Descriptor
	if err := registry.ReadBack(ctx, t.remote, o.edge.Image, t.copied); err != nil {
		return err
	}
	for _, tag := range t.untagged {
		moved := o.unmoved(ctx, t, tag)
		if err := cmp.Or(To{Exclusive: o.Rights.Exclusive}.checkExclusive(ctx), moved); err != nil {
			return err
		}
		if err := t.remote.TagManifest(ctx, o.edge.Image, tag, root, t.copied.Image.Raw); err != nil {
			return err
		}
	}
	left := slice.Map(t.copied.Referrers[root.Digest], func(d registry.Descriptor) digest.Digest { return d.Digest })
	return o.Ledger.add(ctx, o.ref(t.name), o.route, entry{Tags: o.edge.Tags, Refer: left, Proof: o.proof})
}

// unmoved demands that a tag still names what it named before copying, which
// takes a while. A registry cannot write conditionally, so a race within the
// time of one request remains; a lease prevents that, too.
func (o imageJob) unmoved(ctx context.Context, t *target, tag string) error {
	held, err := t.remote.Resolve(ctx, o.edge.Image, tag)
	if errors.Is(err, registry.ErrNotFound) {
		return nil
	}
	if err != nil || held.Digest.Equal(o.edge.Digest) || held.Digest.Equal(t.moves[tag]) {
		return err
	}
	return registry.TagRace(t.name+"/"+o.edge.Image+":"+tag, o.edge.Digest, held.Digest)
}

func (a *applying) remote(prefix string) (*registry.Remote, error) {
	return a.remotes.Get(prefix, func() (*registry.Remote, error) { return a.Open(prefix) })
}

// maxSilent is after how many consecutive failures a place is no longer contacted.
// Each has had the transport's retries.
const maxSilent = 3

// regions remember which places do not answer, so they do not delay the
// others.
type regions struct {
	mu  sync.Mutex // owns row
	row map[string]int
}

func (r *regions) down(to string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.row[to] >= maxSilent
}

// saw records how a step at a destination ended. An unavailable source does
// not count against the destination.
func (r *regions) saw(to string, err error) {
	if down, is := errors.AsType[*verdict.UnavailableError](err); err == nil || is {
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
	} else if r.row[to] < maxSilent { // after the limit the place is not contacted, so it cannot recover
		r.row[to] = 0
	}
}

// attachedTags are the tags of the image's repository at its source that attach
// evidence.
func (o imageJob) attachedTags(ctx context.Context) ([]string, error) {
	return o.attached.Get(o.route.Source+"/"+o.edge.Image, func() ([]string, error) {
		all, err := o.src.Tags(ctx, o.edge.Image)
		return slices.DeleteFunc(all, func(tag string) bool { return !isAttached(tag) }), err
	})
}
