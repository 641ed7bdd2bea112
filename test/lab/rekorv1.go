package lab

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cyberphone/json-canonicalization/go/src/webpki.org/jsoncanonicalizer"
	"github.com/go-openapi/runtime"
	"github.com/sigstore/rekor/pkg/generated/models"
	"github.com/sigstore/rekor/pkg/types"
	_ "github.com/sigstore/rekor/pkg/types/dsse/v0.0.1"         // a kind of entry
	_ "github.com/sigstore/rekor/pkg/types/hashedrekord/v0.0.1" // a kind of entry
	_ "github.com/sigstore/rekor/pkg/types/intoto/v0.0.1"       // a kind of entry
	_ "github.com/sigstore/rekor/pkg/types/intoto/v0.0.2"       // a kind of entry
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/merkle/testonly"
)

// The name of the log in its checkpoints, and the tree that it says it keeps.
// Verifiers tell a log of version 1 by the number behind the name.
const (
	rekorV1Host = "rekor-v1.insecure-lab.invalid"
	rekorV1Tree = 0x1ab0000000000001
)

// rekorV1 is a Rekor v1 log: rekor's own entry kinds, checks, canonical form,
// index keys and checkpoint signatures over a Merkle tree in memory. The tree
// and the HTTP handlers are ours, because upstream's need Trillian and MySQL.
type rekorV1 struct {
	http.Handler

	id     string // hexadecimal, as entries carry it
	pem    []byte
	public crypto.PublicKey
	signer signature.Signer
	clock  func() time.Time

	mu    sync.Mutex // owns what follows
	tree  *testonly.Tree
	old   []*testonly.Tree // shards that get no more entries
	kept  []keptEntry
	where map[string]int64    // hexadecimal leaf hash -> index
	keys  map[string][]string // search key -> entry IDs
	file  *os.File            // one entry a line
}

// keptEntry is what the log remembers of an entry.
type keptEntry struct {
	Body []byte   `json:"body"` // canonical
	Time int64    `json:"time"`
	Keys []string `json:"keys"` // what it is found by
}

func newRekorV1(st *state, clock func() time.Time) (*rekorV1, error) {
	key, err := st.key("rekor-v1", newECDSA)
	if err != nil {
		return nil, err
	}
	r := &rekorV1{
		public: key.Public(), clock: clock, tree: testonly.New(rfc6962.DefaultHasher),
		where: map[string]int64{}, keys: map[string][]string{},
	}
	if r.signer, err = signature.LoadSigner(key, crypto.SHA256); err != nil {
		return nil, fmt.Errorf("loading the v1 log's key: %w", err)
	}
	der, err := x509.MarshalPKIXPublicKey(r.public)
	if err != nil {
		return nil, fmt.Errorf("encoding the v1 log's key: %w", err)
	}
	sum := sha256.Sum256(der)
	r.id, r.pem = hex.EncodeToString(sum[:]), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	if r.file, err = openLines(st.path("rekor-v1.jsonl"), r.load); err != nil {
		return nil, err
	}
	r.Handler = r.routes()
	return r, nil
}

func (r *rekorV1) load(line []byte) error {
	var k keptEntry
	if err := json.Unmarshal(line, &k); err != nil {
		return err
	}
	r.grow(k)
	return nil
}

// readEntry parses an entry, proposed or canonical, and checks what it says:
// that the signature is of the digest, by the key.
func readEntry(raw []byte) (types.EntryImpl, error) {
	proposed, err := models.UnmarshalProposedEntry(bytes.NewReader(raw), runtime.JSONConsumer())
	if err != nil {
		return nil, err
	}
	return types.UnmarshalEntry(proposed)
}

// grow takes an entry in; r.mu is held, or nobody else knows r yet.
func (r *rekorV1) grow(k keptEntry) {
	leaf := leafOf(k.Body)
	r.where[leaf] = int64(len(r.kept))
	r.kept = append(r.kept, k)
	r.tree.AppendData(k.Body)
	for _, key := range k.Keys {
		r.keys[key] = append(r.keys[key], entryID(leaf))
	}
}

func leafOf(body []byte) string { return hex.EncodeToString(rfc6962.DefaultHasher.HashLeaf(body)) }

// entryID names an entry: its tree, then its leaf.
func entryID(leaf string) string { return fmt.Sprintf("%016x%s", uint64(rekorV1Tree), leaf) }

// errKept says that the log has the entry already.
var errKept = errors.New("an equivalent entry already exists in the transparency log")

// add orders an entry, unless it is there already, and returns its ID.
func (r *rekorV1) add(ctx context.Context, entry types.EntryImpl) (id string, err error) {
	keys, err := entry.IndexKeys() // before what they come from is dropped
	if err != nil {
		return "", err
	}
	body, err := types.CanonicalizeEntry(ctx, entry)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	leaf := leafOf(body)
	if _, there := r.where[leaf]; there {
		return entryID(leaf), errKept
	}
	k := keptEntry{Body: body, Time: r.clock().Unix()}
	for _, key := range keys {
		k.Keys = append(k.Keys, strings.ToLower(key))
	}
	line, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	if _, err := r.file.Write(append(line, '\n')); err != nil {
		return "", err
	}
	r.grow(k)
	return entryID(leaf), nil
}

// find returns an entry with its proofs, as of now. index is -1 to go by leaf.
func (r *rekorV1) find(leaf string, index int64) (models.LogEntry, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if leaf != "" {
		at, ok := r.where[leaf]
		if !ok {
			return nil, os.ErrNotExist
		}
		index = at
	}
	if index < 0 || index >= int64(len(r.kept)) {
		return nil, os.ErrNotExist
	}
	k := r.kept[index]
	entry := models.LogEntryAnon{Body: k.Body, IntegratedTime: &k.Time, LogID: &r.id, LogIndex: &index}
	promise, err := r.promise(entry)
	if err != nil {
		return nil, err
	}
	proof, err := r.proof(index)
	if err != nil {
		return nil, err
	}
	entry.Verification = &models.LogEntryAnonVerification{InclusionProof: proof, SignedEntryTimestamp: promise}
	return models.LogEntry{entryID(leafOf(k.Body)): entry}, nil
}

// promise signs an entry's canonical form: the signed entry timestamp.
func (r *rekorV1) promise(entry models.LogEntryAnon) ([]byte, error) {
	payload, err := entry.MarshalBinary()
	if err != nil {
		return nil, err
	}
	canonical, err := jsoncanonicalizer.Transform(payload)
	if err != nil {
		return nil, err
	}
	return r.signer.SignMessage(bytes.NewReader(canonical))
}

// proof proves that its tree includes an entry; r.mu is held.
func (r *rekorV1) proof(global int64) (*models.InclusionProof, error) {
	all, index, n := r.trees(), global, 0
	for ; n < len(r.old) && index >= int64(all[n].Size()); n++ {
		index -= int64(all[n].Size())
	}
	tree := all[n]
	path, err := tree.InclusionProof(uint64(index), tree.Size())
	if err != nil {
		return nil, err
	}
	checkpoint, err := r.checkpoint(n)
	if err != nil {
		return nil, err
	}
	size, root := int64(tree.Size()), hex.EncodeToString(tree.Hash())
	return &models.InclusionProof{Checkpoint: &checkpoint, Hashes: texts(path), LogIndex: &index, RootHash: &root, TreeSize: &size}, nil
}

// texts are hashes as the API has them.
func texts(hashes [][]byte) []string {
	all := []string{}
	for _, h := range hashes {
		all = append(all, hex.EncodeToString(h))
	}
	return all
}

// trees are the shards in the order of their entries; r.mu is held.
func (r *rekorV1) trees() []*testonly.Tree { return append(r.old[:len(r.old):len(r.old)], r.tree) }

// checkpoint signs a shard as it is; r.mu is held.
func (r *rekorV1) checkpoint(shard int) (string, error) {
	tree := r.trees()[shard]
	b, err := util.CreateAndSignCheckpoint(context.Background(), rekorV1Host, rekorV1Tree+int64(shard), tree.Size(), tree.Hash(), r.signer)
	return string(b), err
}

// RotateV1 lets the Rekor v1 log continue in a new shard, until the lab is closed.
func (l *Lab) RotateV1() {
	l.rekorV1.mu.Lock()
	defer l.rekorV1.mu.Unlock()
	l.rekorV1.old, l.rekorV1.tree = l.rekorV1.trees(), testonly.New(rfc6962.DefaultHasher)
}

// SignPromise makes the version 1 log promise anything: that it took body in
// at this time and place. It is for tests of what a log's key can and cannot
// make good; an honest log promises only what it holds.
func (l *Lab) SignPromise(body []byte, at time.Time, index int64) ([]byte, error) {
	seconds := at.Unix()
	entry := models.LogEntryAnon{
		Body: base64.StdEncoding.EncodeToString(body), IntegratedTime: &seconds, LogID: &l.rekorV1.id, LogIndex: &index,
	}
	return l.rekorV1.promise(entry)
}

func (r *rekorV1) close() error { return r.file.Close() }

// LoggedV1 are the bodies of the version 1 log's entries, in order.
func (l *Lab) LoggedV1() []string {
	l.rekorV1.mu.Lock()
	defer l.rekorV1.mu.Unlock()
	list := make([]string, len(l.rekorV1.kept))
	for i, k := range l.rekorV1.kept {
		list[i] = string(k.Body)
	}
	return list
}
