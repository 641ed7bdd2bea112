package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// readBackAtOnce is how many lists and blobs of one image are read back
// concurrently, beside its manifests: registries with a rate limit refuse
// bursts.
const readBackAtOnce = 8

// drift reports a registry that does not show what it accepted.
func drift(place, what string) error {
	return verdict.Coded("REPLICA_DRIFT", "reading back at %q: the registry accepted %s but does not list it", place, what)
}

// ReadBack checks that a place shows everything that was copied: each manifest
// by its bytes, the referrers of each in its list, and each blob; all three
// concurrently. What a registry lost is unavailable, because a retry may
// succeed; what it has but does not show is drift. A missing manifest
// is reported first.
func ReadBack(ctx context.Context, at Source, repo string, c Copied) error {
	manifests, below := errgroup.WithContext(ctx)
	_ = c.Image.Walk(func(n *Node) error { // the visitor returns no error
		manifests.Go(func() error { // the bytes are verified: what they name need not be checked again
			if _, err := Read(below, at, repo, n.Descriptor, MaxManifest); err != nil {
				return fmt.Errorf("reading back: %w", err)
			}
			return nil
		})
		return nil
	})
	group, inner := errgroup.WithContext(below)
	group.SetLimit(readBackAtOnce)
	for of, list := range c.Referrers { // the image's blobs, and those of its referrers
		if len(list) > 0 {
			group.Go(func() error { return AwaitReferrers(inner, at, repo, of, list...) })
		}
	}
	remote, is := at.(*Remote)
	for _, b := range c.Blobs {
		if !is {
			break // a layout read back what it wrote
		}
		group.Go(func() error {
			there, err := remote.Holds(inner, repo, b)
			if err == nil && !there {
				err = drift(remote.prefix+"/"+repo, "the blob "+b.Digest.String())
			}
			return err
		})
	}
	shown := group.Wait()
	if err := manifests.Wait(); err != nil {
		return err
	}
	return shown
}

// AwaitReferrers checks that referrers are in the list of their subject. A stale
// list is requested again until the patience ends.
func AwaitReferrers(ctx context.Context, at Source, repo string, of digest.Digest, want ...Descriptor) error {
	patience, _ := transport.Patience() // a wrong value is reported by the transport
	begun, wait := time.Now(), min(100*time.Millisecond, patience/16)
	for {
		there, err := at.Referrers(ctx, repo, of)
		if err != nil {
			return fmt.Errorf("reading back: %w", err)
		}
		lacks := slices.IndexFunc(want, func(d Descriptor) bool {
			return !slices.ContainsFunc(there, func(o Descriptor) bool { return o.Digest.Equal(d.Digest) })
		})
		if lacks < 0 {
			return nil
		}
		missing := want[lacks]
		if time.Since(begun)+wait > patience {
			if _, err := Graph(ctx, at, repo, missing); err != nil { // the manifest is lost, not only unlisted
				return fmt.Errorf("reading back: %w", err)
			}
			return drift(repo, fmt.Sprintf("%s, which refers to %s", missing.Digest, of))
		}
		if err := transport.Sleep(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}
