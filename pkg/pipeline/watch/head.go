package watch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tiles"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// head is a tree as its log signed it now, and how it is read. A Rekor v2 log has one tree,
// one of Rekor v1 may have several (shards), of which all but the last do not grow.
type head struct {
	tlog.Tree
	reader
	raw       string // the checkpoint
	log, name string // the identifier in the trust root; of Rekor v1 the number of the tree
	base      int64  // how many entries the trees before it have
}

// id names the tree in the state directory.
func (h head) id() string {
	if h.name == "" {
		return h.log
	}
	return h.log + "-" + h.name
}

// origin is the name of the tree in its checkpoint.
func (h head) origin() string {
	first, _, _ := strings.Cut(h.raw, "\n")
	return first
}

// reader reads a tree.
type reader interface {
	// prefix is for Contradiction.Compare of pkg/judge/watched.
	prefix(ctx context.Context, a, b tlog.Tree) (tlog.Hash, tlog.TreeProof, error)
	// scan reads entries from where the cursor is, as many as are proven together by the
	// tree, opens those that are ours, and moves the cursor behind them.
	scan(ctx context.Context, c *cursor, of tlog.Tree) error
}

// heads reads the checkpoints of the trees at an address, up to the first that is not
// signed. Where there are no tiles, it asks by the API of Rekor v1.
func (r *run) heads(ctx context.Context, address string) (heads []head, err error) {
	at, err := store.Open(strings.TrimSuffix(address, "/")+"/api/v2/", r.Transport)
	if err != nil {
		return nil, err
	}
	log := tiles.Log(func(ctx context.Context, path string) ([]byte, error) {
		return store.Read(ctx, at, path, tiles.MaxTile)
	})
	raw, err := log(ctx, "checkpoint")
	if err == nil {
		h, err := r.head(string(raw))
		if h.reader = (tiled{r, log}); err == nil {
			heads = append(heads, h)
		}
		return heads, err
	}
	if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	v1, err := rekorv1.Open(address, r.Transport)
	if err != nil {
		return nil, verdict.Refuse(verdict.PlaceDown, address, "it has no checkpoint, so it is no Rekor v2 log; and no address of a Rekor v1 log: %v", err)
	}
	checkpoints, err := v1.Heads(ctx)
	if err != nil {
		return nil, err
	}
	base := int64(0)
	for _, checkpoint := range checkpoints {
		h, err := r.head(checkpoint)
		if err != nil {
			return heads, err
		}
		first := h.origin()
		h.name, h.base = first[strings.LastIndexByte(first, ' ')+1:], base
		h.reader = shard{r, v1, h.log, h.name, base}
		heads, base = append(heads, h), base+h.N
	}
	return heads, nil
}

func (r *run) head(checkpoint string) (h head, err error) {
	h.raw = checkpoint
	var root []byte
	if h.log, h.N, root, err = r.Gate.Verifier().Checkpoint([]byte(checkpoint)); err == nil {
		h.Hash = tlog.Hash(root)
	}
	return h, err
}

// tiled reads the tree of a Rekor v2 log by its tiles.
type tiled struct {
	*run
	log tiles.Log
}

func (t tiled) prefix(ctx context.Context, a, b tlog.Tree) (root tlog.Hash, path tlog.TreeProof, err error) {
	hashes := t.log.Hashes(ctx, b)
	if root, err = tlog.TreeHash(a.N, hashes); err == nil && root != a.Hash {
		path, err = tlog.ProveTree(b.N, a.N, hashes)
	}
	return root, path, err
}

func (t tiled) scan(ctx context.Context, c *cursor, of tlog.Tree) error {
	end := min((c.Next/tiles.Width+perBatch)*tiles.Width, of.N)
	indexes := make([]int64, end-c.Next)
	for i := range indexes {
		indexes[i] = tlog.StoredHashIndex(0, c.Next+int64(i))
	}
	proven, err := t.log.Hashes(ctx, of).ReadHashes(indexes)
	if err != nil {
		return err
	}
	first := c.Next / tiles.Width
	return c.read(ctx, end, (end-1)/tiles.Width-first+1, func(ctx context.Context, i int64) (found []open, err error) {
		tile := first + i
		bodies, err := t.log.Entries(ctx, tile, int(min(end-tile*tiles.Width, tiles.Width)))
		for i := max(0, c.Next-tile*tiles.Width); i < int64(len(bodies)); i++ {
			n := tile*tiles.Width + i
			e, is, err := t.ours.Entry(bodies[i])
			switch {
			case tlog.RecordHash(bodies[i]) != proven[n-c.Next]:
				return nil, verdict.Refuse(verdict.LogProof, "log", "entry %d is not the one that the checkpoint proves", n)
			case err != nil:
				return nil, err
			case is:
				found = append(found, open{e, fmt.Sprintf("%s/%d", c.Log, n)})
			}
		}
		return found, err
	})
}

// read reads so many parts before end, some at a time. The cursor changes if all were read.
func (c *cursor) read(ctx context.Context, end, parts int64, part func(context.Context, int64) ([]open, error)) error {
	found := make([][]open, parts)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8) // parts in memory
	for i := range parts {
		group.Go(func() (err error) {
			found[i], err = part(ctx, i)
			return err
		})
	}
	err := group.Wait()
	if err == nil {
		c.Open, c.Next = append(c.Open, slices.Concat(found...)...), end
	}
	return err
}

// shard reads a tree of a Rekor v1 log by its API.
type shard struct {
	*run
	api       *rekorv1.Log
	log, tree string
	base      int64
}

func (s shard) prefix(ctx context.Context, a, b tlog.Tree) (tlog.Hash, tlog.TreeProof, error) {
	path, err := s.api.Consistency(ctx, s.tree, a.N, b.N)
	if err != nil || tlog.CheckTree(path, b.N, b.Hash, a.N, a.Hash) == nil {
		return a.Hash, path, err
	}
	next, err := s.api.Entries(ctx, s.base+a.N, 1)
	if err != nil {
		return a.Hash, nil, err
	}
	root, err := rootOf(next[0].Before(a.N), a.N, nil)
	if err == nil && root == a.Hash {
		err = verdict.Refuse(verdict.LogProof, "log", "it does not prove that the tree of %d entries extends that of %d", b.N, a.N)
	}
	return root, path, err
}

// scan computes the root of all entries up to the last that it reads, from hashes that the
// log states for those before, and compares it with the checkpoint by one proof.
func (s shard) scan(ctx context.Context, c *cursor, of tlog.Tree) error {
	first, end := c.Next, min(c.Next+perBatch*rekorv1.Batch, of.N)
	leaves := make([][]byte, end-first)
	var before [][]byte
	next := *c
	err := next.read(ctx, end, (end-first-1)/rekorv1.Batch+1, func(ctx context.Context, part int64) (found []open, err error) {
		from := first + part*rekorv1.Batch
		entries, err := s.api.Entries(ctx, s.base+from, int(min(end-from, rekorv1.Batch)))
		if part == 0 && err == nil {
			before = entries[0].Before(first)
		}
		for i, e := range entries {
			leaves[from-first+int64(i)] = rfc6962.DefaultHasher.HashLeaf(e.Body)
			o, is, err := s.ours.EntryV1(e.Body)
			switch {
			case err != nil:
				return nil, err
			case is && !s.Gate.Verifier().Promised(s.log, e.Index, e.Time, e.Body, e.Verification.Promise):
				return nil, verdict.Refuse(verdict.LogPromise, "log", "it did not sign that it has entry %d, which is yours", e.Index)
			case is:
				found = append(found, open{o, fmt.Sprintf("%s/%d", s.log, e.Index)})
			}
		}
		return found, err
	})
	if err != nil {
		return err
	}
	root, err := rootOf(before, first, leaves)
	var path tlog.TreeProof
	if err == nil && end < of.N {
		path, err = s.api.Consistency(ctx, s.tree, end, of.N)
	}
	if err == nil && tlog.CheckTree(path, of.N, of.Hash, end, root) != nil {
		err = verdict.Refuse(verdict.LogProof, "log", "entries %d to %d are not those that the checkpoint proves", s.base+first, s.base+end-1)
	}
	if err == nil {
		*c = next
	}
	return err
}

// rootOf is the root of a tree: of n entries, whose compact range is before, and of leaves.
func rootOf(before [][]byte, n int64, leaves [][]byte) (root tlog.Hash, err error) {
	all, err := (&compact.RangeFactory{Hash: rfc6962.DefaultHasher.HashChildren}).NewRange(0, uint64(n), before) //nolint:gosec // no tree is of a negative size
	for i := 0; err == nil && i < len(leaves); i++ {
		err = all.Append(leaves[i], nil)
	}
	if err != nil {
		return root, verdict.Wrap(verdict.LogProof, "log", err)
	}
	sum, err := all.GetRootHash(nil)
	copy(root[:], sum)
	return root, err
}
