package lab

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	rekorpb "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// A Rekor v2 log is read by tiles (C2SP tlog-tiles), which its operators serve
// from wherever the log writes them. Here the log serves them itself.

// tileWidth is how many hashes or entries a full tile has.
const tileWidth = 256

// indexHeader says which entry is equal to one that was offered.
const indexHeader = "x-log-index"

// forwardIndex lets that header through, and nothing else, as upstream does.
func forwardIndex(name string) (string, bool) { return name, name == indexHeader }

var _ runtime.HeaderMatcherFunc = forwardIndex

// duplicate answers an entry that the log has already.
func (*rekor) duplicate(ctx context.Context, index uint64) error {
	// It fails only where nobody listens for headers.
	_ = grpc.SetHeader(ctx, metadata.Pairs(indexHeader, strconv.FormatUint(index, 10)))
	return status.Errorf(codes.AlreadyExists, "an equivalent entry already exists in the transparency log with index %d", index)
}

// GetTile serves hashes of one level.
func (r *rekor) GetTile(_ context.Context, req *rekorpb.TileRequest) (*httpbody.HttpBody, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	level := req.GetL() * 8
	first, width, err := r.tileAt(req.GetN(), level)
	if err != nil {
		return nil, err
	}
	var hashes []byte
	for i := range width {
		hashes = append(hashes, r.node(level, first+i)...)
	}
	return &httpbody.HttpBody{ContentType: "application/octet-stream", Data: hashes}, nil
}

// GetEntryBundle serves entries, each with its length before it.
func (r *rekor) GetEntryBundle(_ context.Context, req *rekorpb.EntryBundleRequest) (*httpbody.HttpBody, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first, width, err := r.tileAt(req.GetN(), 0)
	if err != nil {
		return nil, err
	}
	var entries []byte
	for _, body := range r.bodies[first : first+width] {
		entries = binary.BigEndian.AppendUint16(entries, uint16(len(body))) //nolint:gosec // the API bounds an entry
		entries = append(entries, body...)
	}
	return &httpbody.HttpBody{ContentType: "application/octet-stream", Data: entries}, nil
}

// tileAt reads the path of a tile, x001/x234/067.p/8, and finds it in the tree
// as it is; r.mu is held.
func (r *rekor) tileAt(path string, level uint32) (first, width uint64, err error) {
	path, partial, isPartial := strings.Cut(path, ".p/")
	n, err := strconv.ParseUint(strings.NewReplacer("x", "", "/", "").Replace(path), 10, 32)
	if err != nil || level > 40 {
		return 0, 0, status.Error(codes.InvalidArgument, "no such tile")
	}
	width = tileWidth
	if isPartial {
		if width, err = strconv.ParseUint(partial, 10, 8); err != nil || width == 0 {
			return 0, 0, status.Error(codes.InvalidArgument, "no such tile")
		}
	}
	first = n * tileWidth
	if first+width > r.tree.Size()>>level {
		return 0, 0, status.Error(codes.NotFound, "the tree is not that large yet")
	}
	return first, width, nil
}

// node is the hash of a full subtree; r.mu is held.
func (r *rekor) node(level uint32, index uint64) []byte {
	if level == 0 {
		return r.tree.LeafHash(index)
	}
	return rfc6962.DefaultHasher.HashChildren(r.node(level-1, 2*index), r.node(level-1, 2*index+1))
}

// Logged are the entries that the Rekor v2 log has, in order.
func (l *Lab) Logged() []string {
	l.rekor.mu.Lock()
	defer l.rekor.mu.Unlock()
	list := make([]string, len(l.rekor.bodies))
	for i, body := range l.rekor.bodies {
		list[i] = string(body)
	}
	return list
}

// LoggedSince are the entries from one on, and how many there are now.
func (l *Lab) LoggedSince(first int) (list []string, size int) {
	l.rekor.mu.Lock()
	defer l.rekor.mu.Unlock()
	for _, body := range l.rekor.bodies[min(first, len(l.rekor.bodies)):] {
		list = append(list, string(body))
	}
	return list, len(l.rekor.bodies)
}

// Forget makes the Rekor v2 log forget which entries it has, as one without
// persistent deduplication does when it is started again: it takes an equal one
// once more.
func (l *Lab) Forget() {
	l.rekor.mu.Lock()
	defer l.rekor.mu.Unlock()
	clear(l.rekor.seen)
}

// Shrink makes the Rekor v2 log what it was when it had so many entries, for simulations:
// each begins with the same one.
func (l *Lab) Shrink(size int) {
	r := l.rekor
	r.mu.Lock()
	defer r.mu.Unlock()
	first := r.bodies[:size]
	r.tree, r.bodies = testonly.New(rfc6962.DefaultHasher), nil
	clear(r.seen)
	for _, body := range first {
		r.grow(body)
	}
}

// Checkpoint signs a checkpoint with the key of the Rekor v2 log: of a tree that it does
// not have, for logs that are too large to be made here, and logs that lie.
func (l *Lab) Checkpoint(size uint64, root []byte) (string, error) {
	cp := log.Checkpoint{Origin: l.rekor.origin, Size: size, Hash: root}
	signed, err := note.Sign(&note.Note{Text: string(cp.Marshal())}, l.rekor.signer)
	return string(signed), err
}
