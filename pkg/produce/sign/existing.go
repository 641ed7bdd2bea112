package sign

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"

	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	"github.com/sigstore/rekor/pkg/util"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-release/waybill/pkg/backend/tiles"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// errUnplaced means that a log has a signature but does not say where.
var errUnplaced = errors.New("the log has this signature already but does not say at which index")

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
	published := tiles.Log(l.read)
	proof, err := tlog.ProveRecord(head.tree.N, index, published.Hashes(ctx, head.tree))
	if err != nil {
		return nil, err
	}
	first := index / tiles.Width * tiles.Width
	bodies, err := published.Entries(ctx, index/tiles.Width, int(min(head.tree.N-first, tiles.Width)))
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
		CanonicalizedBody: bodies[index-first],
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
	var c util.SignedCheckpoint
	if err := c.UnmarshalText(raw); err != nil || len(c.Hash) != tlog.HashSize || c.Size < 1 || c.Size > math.MaxInt64 {
		return head{}, verdict.Refuse(verdict.CheckpointSig, "checkpoint", "the log's checkpoint is not a signed note with a size and a root hash")
	}
	for _, signature := range c.Signatures {
		for id := range l.material.RekorLogs() {
			known, err := hex.DecodeString(id)
			if err == nil && len(known) >= 4 && binary.BigEndian.Uint32(known) == signature.Hash && signature.Name == c.Origin {
				return head{raw: raw, tree: tlog.Tree{N: int64(c.Size), Hash: tlog.Hash(c.Hash)}, log: known}, nil
			}
		}
	}
	return head{}, verdict.Refuse(verdict.LogUnknown, "checkpoint", "no log of the trust root signed it")
}

// read reads what the log publishes at a path.
func (l *logger) read(ctx context.Context, what string) ([]byte, error) {
	raw, _, err := l.send(ctx, question{path: "/api/v2/" + what, limit: tiles.MaxTile}, http.StatusOK)
	return raw, err
}
