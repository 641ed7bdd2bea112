package sign

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// errUnplaced means that a log has a signature but does not say where.
var errUnplaced = errors.New("the log has this signature already but does not say at which index")

// tileHeight is fixed by C2SP tlog-tiles: 256 hashes are one tile.
const tileHeight = 8

// maxEntries limits the size of a tile of entries: 256 entries, each with its
// length.
const maxEntries = 256 * (2 + 1<<16)

// existing makes the log entry at an index from the log's checkpoint and
// tiles (C2SP tlog-tiles). pkg/judge/verify decides whether it is of our
// signature, and whether the log signed the checkpoint.
func (l *logger) existing(ctx context.Context, index int64) (*rekor.TransparencyLogEntry, error) {
	head, err := l.checkpoint(ctx)
	if err != nil {
		return nil, err
	}
	if head.tree.N <= index {
		return nil, l.away(fmt.Errorf("the checkpoint with %d entries does not include entry %d yet", head.tree.N, index))
	}
	hashes := &tileReader{ctx: ctx, log: l}
	proof, err := tlog.ProveRecord(head.tree.N, index, tlog.TileHashReader(head.tree, hashes))
	switch {
	case hashes.err != nil:
		return nil, hashes.err
	case err != nil:
		return nil, verdict.Wrap(verdict.LogProof, "log entry", err)
	}
	body, err := l.entry(ctx, index, head.tree.N)
	if err != nil {
		return nil, err
	}
	path := make([][]byte, len(proof))
	for i := range proof {
		path[i] = proof[i][:]
	}
	return &rekor.TransparencyLogEntry{
		LogIndex: index, LogId: &common.LogId{KeyId: head.log},
		KindVersion: &rekor.KindVersion{Kind: "hashedrekord", Version: "0.0.2"},
		InclusionProof: &rekor.InclusionProof{
			LogIndex: index, RootHash: head.tree.Hash[:], TreeSize: head.tree.N, Hashes: path,
			Checkpoint: &rekor.Checkpoint{Envelope: string(head.raw)},
		},
		CanonicalizedBody: body,
	}, nil
}

// head is a parsed checkpoint.
type head struct {
	raw  []byte
	tree tlog.Tree
	log  []byte // the log's identifier in the trust root
}

func (l *logger) checkpoint(ctx context.Context) (head, error) {
	raw, err := l.read(ctx, "checkpoint")
	if err != nil {
		return head{}, err
	}
	bad := func(why string) (head, error) {
		return head{}, verdict.Refuse(verdict.CheckpointSig, "checkpoint", "the log's checkpoint %s", why)
	}
	var unverified *note.UnverifiedNoteError
	if _, err := note.Open(raw, note.VerifierList()); !errors.As(err, &unverified) {
		return bad("is not a signed note")
	}
	lines := strings.Split(unverified.Note.Text, "\n")
	if len(lines) < 3 {
		return bad("is too short")
	}
	h := head{raw: raw}
	sum, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || copy(h.tree.Hash[:], sum) != tlog.HashSize || len(sum) != tlog.HashSize {
		return bad("has no root hash")
	}
	if h.tree.N, err = strconv.ParseInt(lines[1], 10, 64); err != nil || h.tree.N < 1 {
		return bad("has no size")
	}
	for _, signature := range unverified.Note.UnverifiedSigs {
		for id := range l.material.RekorLogs() {
			known, err := hex.DecodeString(id)
			if err == nil && len(known) >= 4 && binary.BigEndian.Uint32(known) == signature.Hash && signature.Name == lines[0] {
				h.log = known
				return h, nil
			}
		}
	}
	return head{}, verdict.Refuse(verdict.LogUnknown, "checkpoint", "no log of the trust root signed it")
}

// entry reads one entry from its tile.
func (l *logger) entry(ctx context.Context, index, size int64) ([]byte, error) {
	tile := index >> tileHeight
	width := min(size-tile<<tileHeight, 1<<tileHeight)
	raw, err := l.tile(ctx, "tile/entries/"+tilePath(tile), int(width))
	if err != nil {
		return nil, err
	}
	for range index & (1<<tileHeight - 1) {
		if _, raw, err = l.cut(raw); err != nil {
			return nil, err
		}
	}
	body, _, err := l.cut(raw)
	return body, err
}

// cut removes the first entry from a tile.
func (l *logger) cut(raw []byte) (first, rest []byte, err error) {
	if len(raw) < 2 || len(raw)-2 < int(binary.BigEndian.Uint16(raw)) {
		return nil, nil, verdict.Refuse(verdict.LogEntryParse, "log entry", "the tile ends before the entry")
	}
	end := 2 + int(binary.BigEndian.Uint16(raw))
	return raw[2:end], raw[end:], nil
}

// tilePath is a tile's index as the end of a path: x001/x234/067.
func tilePath(n int64) string {
	path := fmt.Sprintf("%03d", n%1000)
	for n >= 1000 {
		n /= 1000
		path = fmt.Sprintf("x%03d/%s", n%1000, path)
	}
	return path
}

// tile reads a tile of some width. A partial tile may be deleted once it is
// full; then the full tile starts with the same entries.
func (l *logger) tile(ctx context.Context, path string, width int) ([]byte, error) {
	if width == 1<<tileHeight {
		return l.read(ctx, path)
	}
	raw, err := l.read(ctx, path+".p/"+strconv.Itoa(width))
	var no *verdict.Error
	if errors.As(err, &no) {
		return l.read(ctx, path)
	}
	return raw, err
}

func (l *logger) read(ctx context.Context, what string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.endpoint(what), nil)
	if err != nil {
		return nil, l.refuse("%v", err)
	}
	raw, _, err := l.doLimit(r, maxEntries, "", http.StatusOK)
	return raw, err
}

// tileReader reads tiles of hashes for [tlog.TileHashReader], which
// authenticates them with the root hash.
type tileReader struct {
	ctx context.Context //nolint:containedctx // the library's interface has none
	log *logger
	err error // the first error of reading, with its kind
}

// Height is that of all tiles.
func (*tileReader) Height() int { return tileHeight }

// ReadTiles reads the tiles, one after the other.
func (t *tileReader) ReadTiles(asked []tlog.Tile) ([][]byte, error) {
	var read [][]byte
	for _, tile := range asked {
		raw, err := t.log.tile(t.ctx, "tile/"+strconv.Itoa(tile.L)+"/"+tilePath(tile.N), tile.W)
		if err != nil {
			t.err = err
			return nil, err
		}
		if want := tile.W * tlog.HashSize; len(raw) >= want {
			raw = raw[:want]
		}
		read = append(read, raw)
	}
	return read, nil
}

// SaveTiles does not cache: existing entries are rare.
func (*tileReader) SaveTiles([]tlog.Tile, [][]byte) {}
