package rekorv1

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"net/http"
	"net/url"
	"slices"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Batch is how many entries a log returns at once.
const Batch = 10

// Heads retrieves the signed checkpoints of the log's trees, in the order of their
// entries: those that get no more entries, then the one that does.
func (l *Log) Heads(ctx context.Context) (checkpoints []string, err error) {
	type tree struct {
		Signed string `json:"signedTreeHead"`
	}
	var info struct {
		tree
		Inactive []tree `json:"inactiveShards"`
	}
	err = l.ask(ctx, http.MethodGet, "/api/v1/log", nil, &info)
	return slice.Map(append(info.Inactive, info.tree), func(t tree) string { return t.Signed }), err
}

// Consistency retrieves the proof that a tree had a beginning of so many entries.
func (l *Log) Consistency(ctx context.Context, tree string, first, last int64) (proof tlog.TreeProof, err error) {
	var answer struct {
		Hashes []hash `json:"hashes"`
	}
	err = l.ask(ctx, http.MethodGet, fmt.Sprintf("/api/v1/log/proof?firstSize=%d&lastSize=%d&treeID=%s", first, last, url.QueryEscape(tree)), nil, &answer)
	for _, h := range answer.Hashes {
		proof = append(proof, tlog.Hash(h))
	}
	return proof, err
}

// Entry is an entry as the log returns it. Index counts the entries of all trees.
type Entry struct {
	Body         []byte `json:"body"`
	Index        int64  `json:"logIndex"`
	Time         int64  `json:"integratedTime"`
	Verification struct {
		Promise []byte `json:"signedEntryTimestamp"`
		Proof   struct {
			Hashes []hash `json:"hashes"`
			Size   int64  `json:"treeSize"`
		} `json:"inclusionProof"`
	} `json:"verification"`
}

// hash is a hash in hexadecimal.
type hash tlog.Hash

// UnmarshalText reads exactly one hash.
func (h *hash) UnmarshalText(text []byte) error {
	if len(text) != hex.EncodedLen(len(h)) {
		return fmt.Errorf("%.100q is no hash", text)
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// Before are the hashes in the entry's proof that are of entries before it, which are
// index in its tree, largest first. They are those of a compact range.
func (e Entry) Before(index int64) (left [][]byte) {
	inner := bits.Len64(uint64(index ^ (e.Verification.Proof.Size - 1))) //nolint:gosec // a wrong size gives hashes that prove nothing
	for i, h := range e.Verification.Proof.Hashes {
		if i >= inner || index>>i&1 == 1 {
			left = append(left, h[:])
		}
	}
	slices.Reverse(left)
	return left
}

// Entries retrieves n entries, at most a [Batch]. Who reads them proves them.
func (l *Log) Entries(ctx context.Context, first int64, n int) (entries []Entry, err error) {
	indexes := make([]int64, n)
	for i := range indexes {
		indexes[i] = first + int64(i)
	}
	var answers []map[string]Entry
	if err := l.post(ctx, "/api/v1/log/entries/retrieve", map[string][]int64{"logIndexes": indexes}, &answers); err != nil {
		return nil, err
	}
	for _, one := range answers {
		entries = slices.AppendSeq(entries, maps.Values(one))
	}
	slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Index, b.Index) })
	if !slices.EqualFunc(entries, indexes, func(e Entry, i int64) bool { return e.Index == i }) {
		return nil, &verdict.UnavailableError{Place: l.address, Op: "reading the log", Err: fmt.Errorf("it did not return the %d entries from %d", n, first)}
	}
	return entries, nil
}
