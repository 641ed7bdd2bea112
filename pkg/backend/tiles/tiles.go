// Package tiles reads the entries and hashes that a transparency log publishes as tiles, as
// Rekor v2 does (C2SP tlog-tiles). The caller compares entries with proven hashes.
//
// Other projects should not import this package: it changes without notice.
package tiles

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The height of all tiles, the entries or hashes of a full one, and the bytes of one with
// entries, each of which has its length before it.
const (
	height  = 8
	Width   = 1 << height
	MaxTile = Width * (2 + 1<<16)
)

// Log reads what a log publishes at a path, such as "checkpoint".
type Log func(ctx context.Context, path string) ([]byte, error)

// Entries reads the first entries of a tile.
func (l Log) Entries(ctx context.Context, tile int64, width int) ([][]byte, error) {
	raw, err := l.tile(ctx, tlog.Tile{H: height, L: -1, N: tile, W: width})
	if err != nil {
		return nil, err
	}
	all := make([][]byte, width)
	for i := range all {
		if len(raw) < 2 || len(raw)-2 < int(binary.BigEndian.Uint16(raw)) {
			return nil, verdict.Refuse(verdict.LogEntryParse, "log entry", "the tile ends before entry %d", tile*Width+int64(i))
		}
		end := 2 + int(binary.BigEndian.Uint16(raw))
		all[i], raw = raw[2:end], raw[end:]
	}
	return all, nil
}

// tile reads a tile. A partial tile may be deleted once it is full; then the full tile
// starts with the same entries.
func (l Log) tile(ctx context.Context, t tlog.Tile) ([]byte, error) {
	path := func() string { // the library has the height in it, and calls entries data
		return strings.NewReplacer("tile/8/data/", "tile/entries/", "tile/8/", "tile/").Replace(t.Path())
	}
	raw, err := l(ctx, path())
	if _, is := errors.AsType[*verdict.Error](err); t.W < Width && (is || errors.Is(err, store.ErrNotFound)) {
		t.W = Width
		return l(ctx, path())
	}
	return raw, err
}

// Hashes reads hashes of a tree, and proves them by its root.
func (l Log) Hashes(ctx context.Context, tree tlog.Tree) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		r := &reader{ctx: ctx, log: l}
		hashes, err := tlog.TileHashReader(tree, r).ReadHashes(indexes)
		if err != nil && r.err == nil {
			r.err = verdict.Wrap(verdict.LogProof, "log", fmt.Errorf("its tiles do not prove the checkpoint with %d entries: %w", tree.N, err))
		}
		return hashes, r.err
	})
}

// reader reads tiles of hashes for [tlog.TileHashReader], which authenticates them.
type reader struct {
	ctx context.Context //nolint:containedctx // the library's interface has none
	log Log
	err error // the first error of reading, with its kind
}

// Height is that of all tiles.
func (*reader) Height() int { return height }

// ReadTiles reads the tiles, some at a time.
func (r *reader) ReadTiles(asked []tlog.Tile) ([][]byte, error) {
	read := make([][]byte, len(asked))
	r.err = atonce.Try(r.ctx, 8, asked, func(ctx context.Context, i int, tile tlog.Tile) (err error) {
		read[i], err = r.log.tile(ctx, tile)
		read[i] = read[i][:min(len(read[i]), tile.W*tlog.HashSize)]
		return err
	})
	return read, r.err
}

// SaveTiles does not cache.
func (*reader) SaveTiles([]tlog.Tile, [][]byte) {}
