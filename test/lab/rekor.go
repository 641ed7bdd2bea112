package lab

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekorv1 "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	rekorpb "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	"github.com/sigstore/rekor-tiles/v2/pkg/types/hashedrekord"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/transparency-dev/formats/log"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
	"golang.org/x/mod/sumdb/note"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
)

// rekorOrigin names the log in its checkpoints. Verifiers take the name from
// the hostname of the log's base URL in the trusted root, so that URL is made
// of this name, not of the address that answers (which signing_config has).
const (
	rekorOrigin  = "rekor.insecure-lab.invalid"
	rekor2Origin = "rekor-2.insecure-lab.invalid" // of a second log
)

// rekor is a Rekor v2 log: rekor-tiles' own API, request checks, entry format
// and checkpoint signatures over a Merkle tree in memory. The tree is ours,
// because the upstream storage answers an add only after a second.
type rekor struct {
	rekorpb.UnimplementedRekorServer
	http.Handler

	origin     string
	public     crypto.PublicKey
	id         []byte
	algorithms *signature.AlgorithmRegistryConfig
	signer     note.Signer

	mu     sync.Mutex // owns what follows
	tree   *testonly.Tree
	bodies [][]byte
	seen   map[[sha256.Size]byte]uint64 // entry digest -> index
	file   *os.File                     // one canonical entry a line
}

// newRekor opens a log. Its name is that of its files.
func newRekor(ctx context.Context, st *state, name, origin string) (*rekor, error) {
	key, err := st.key(name, newEd25519)
	if err != nil {
		return nil, err
	}
	signer, err := signature.LoadSigner(key, crypto.Hash(0))
	if err != nil {
		return nil, fmt.Errorf("loading the log's key: %w", err)
	}
	r := &rekor{origin: origin, public: key.Public(), tree: testonly.New(rfc6962.DefaultHasher), seen: map[[sha256.Size]byte]uint64{}}
	if r.signer, err = rekornote.NewNoteSigner(context.WithoutCancel(ctx), origin, signer); err != nil {
		return nil, fmt.Errorf("making the checkpoint signer: %w", err)
	}
	if _, r.id, err = rekornote.KeyHash(origin, r.public); err != nil {
		return nil, fmt.Errorf("computing the log's id: %w", err)
	}
	if r.algorithms, err = algorithms(); err != nil {
		return nil, err
	}
	if r.file, err = openLines(st.path(name+".jsonl"), func(entry []byte) error {
		r.grow(entry)
		return nil
	}); err != nil {
		return nil, err
	}
	mux := runtime.NewServeMux(runtime.WithForwardResponseOption(answerCreated), runtime.WithOutgoingHeaderMatcher(forwardIndex))
	if err := rekorpb.RegisterRekorHandlerServer(ctx, mux, r); err != nil {
		return nil, errors.Join(fmt.Errorf("registering Rekor: %w", err), r.close())
	}
	r.Handler = mux
	return r, nil
}

// answerCreated gives a new entry its status 201, which clients insist on.
func answerCreated(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	if _, ok := m.(*rekorv1.TransparencyLogEntry); ok {
		w.WriteHeader(http.StatusCreated)
	}
	return nil
}

func (r *rekor) grow(entry []byte) uint64 {
	index := r.tree.Size()
	r.tree.AppendData(entry)
	r.bodies = append(r.bodies, bytes.Clone(entry))
	r.seen[sha256.Sum256(entry)] = index
	return index
}

func (r *rekor) close() error { return r.file.Close() }

// CreateEntry checks, orders and proves one entry.
func (r *rekor) CreateEntry(ctx context.Context, req *rekorpb.CreateEntryRequest) (*rekorv1.TransparencyLogEntry, error) {
	hr := req.GetHashedRekordRequestV002()
	if hr == nil {
		return nil, status.Error(codes.InvalidArgument, "invalid type, must be hashedrekord")
	}
	entry, err := hashedrekord.ToLogEntry(hr, r.algorithms)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "invalid hashedrekord request: %v", err)
	}
	serialized, err := protojson.Marshal(entry)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "invalid hashedrekord request: %v", err)
	}
	body, err := jsoncanonicalizer.Transform(serialized)
	if err != nil {
		return nil, status.Errorf(codes.InvalidArgument, "invalid entry: %v", err)
	}
	proof, err := r.add(ctx, body)
	if err != nil {
		return nil, err
	}
	return &rekorv1.TransparencyLogEntry{
		LogIndex: proof.LogIndex, LogId: &common.LogId{KeyId: r.id},
		KindVersion:    &rekorv1.KindVersion{Kind: entry.Kind, Version: entry.ApiVersion},
		InclusionProof: proof, CanonicalizedBody: body,
	}, nil
}

func (r *rekor) add(ctx context.Context, body []byte) (*rekorv1.InclusionProof, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if index, dup := r.seen[sha256.Sum256(body)]; dup {
		return nil, r.duplicate(ctx, index)
	}
	if _, err := r.file.Write(append(bytes.Clone(body), '\n')); err != nil {
		return nil, status.Errorf(codes.Unknown, "storing the entry: %v", err)
	}
	index := r.grow(body)
	hashes, err := r.tree.InclusionProof(index, r.tree.Size())
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "proving inclusion: %v", err)
	}
	checkpoint, err := r.checkpoint()
	if err != nil {
		return nil, err
	}
	return &rekorv1.InclusionProof{
		LogIndex: int64(index), RootHash: r.tree.Hash(), TreeSize: int64(r.tree.Size()), Hashes: hashes,
		Checkpoint: &rekorv1.Checkpoint{Envelope: string(checkpoint)},
	}, nil
}

// checkpoint signs the tree as it is; r.mu is held.
func (r *rekor) checkpoint() ([]byte, error) {
	cp := log.Checkpoint{Origin: r.origin, Size: r.tree.Size(), Hash: r.tree.Hash()}
	signed, err := note.Sign(&note.Note{Text: string(cp.Marshal())}, r.signer)
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "signing the checkpoint: %v", err)
	}
	return signed, nil
}

// GetCheckpoint serves the newest signed tree head.
func (r *rekor) GetCheckpoint(context.Context, *emptypb.Empty) (*httpbody.HttpBody, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, err := r.checkpoint()
	if err != nil {
		return nil, err
	}
	return &httpbody.HttpBody{ContentType: "text/plain; charset=utf-8", Data: b}, nil
}
