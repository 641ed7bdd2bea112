package registry

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// readBackAtOnce is how many lists and blobs of one image are looked for at a
// time, beside its manifests: hosts with a quota refuse what comes all at once.
const readBackAtOnce = 8

// DriftError reports a registry that does not show what it took.
type DriftError struct {
	Place string
	What  string
	Shown int // how many others it shows in its place
}

// Error names what is not shown.
func (e *DriftError) Error() string {
	return fmt.Sprintf("reading back at %q: the registry took %s, and does not show it", e.Place, e.What)
}

// Code is the reason code of the refusal.
func (e *DriftError) Code() string { return "REPLICA_DRIFT" }

// ReadBack demands that a place shows all that was copied: each manifest by its
// bytes, what refers to each of them in its list, and each blob. None waits for
// those of another kind. What a registry lost is unavailable, for it may
// have it the next time; what it has and does not show is a [*DriftError]. A
// manifest that is not there is reported before all else.
func ReadBack(ctx context.Context, at Source, repo string, c Copied) error {
	manifests, below := errgroup.WithContext(ctx)
	_ = c.Image.Walk(func(n *Node) error { // the visitor returns no error
		manifests.Go(func() error { // verified bytes: what they name need not be looked at again
			if _, err := Read(below, at, repo, n.Descriptor, MaxManifest); err != nil {
				return fmt.Errorf("reading back: %w", err)
			}
			return nil
		})
		return nil
	})
	group, inner := errgroup.WithContext(below)
	group.SetLimit(readBackAtOnce)
	for of, list := range c.Referrers { // the image's, and theirs
		if len(list) > 0 {
			group.Go(func() error { return readBackReferrers(inner, at, repo, of, list) })
		}
	}
	remote, is := at.(*Remote)
	for _, b := range c.Blobs {
		if !is {
			break // a layout reads what it wrote
		}
		group.Go(func() error {
			there, err := remote.Holds(inner, repo, b)
			if err == nil && !there {
				err = &DriftError{Place: remote.prefix + "/" + repo, What: "the blob " + b.Digest.String()}
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

// readBackReferrers looks for referrers in the list of their subject. A list
// that has not caught up is asked for again, as long as there is patience.
func readBackReferrers(ctx context.Context, at Source, repo string, of digest.Digest, want []Descriptor) error {
	patience, _ := transport.Patience() // a wrong one is the transport's error
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
			if _, err := Graph(ctx, at, repo, missing); err != nil { // it is lost, and not only hidden
				return fmt.Errorf("reading back: %w", err)
			}
			return &DriftError{Place: repo, What: fmt.Sprintf("%s, which refers to %s", missing.Digest, of), Shown: len(there)}
		}
		if err := transport.Sleep(ctx, wait); err != nil {
			return err
		}
		wait *= 2
	}
}
