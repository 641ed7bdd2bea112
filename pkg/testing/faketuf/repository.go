// Package faketuf is a TUF repository for tests, whose operators can do
// anything: publish, rotate keys, make mistakes, and serve what they should
// not.
//
//	r := faketuf.New(t, now)
//	r.Publish(nil)                    // a new version of everything but the root
//	r.Rotate("timestamp")             // a new key, in a new root
//	old := r.Files(); r.Publish(nil); r.Serve(old) // a replay
//
// Other projects should not import this package: it changes without notice.
package faketuf

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// Repository serves consistent snapshots over HTTP on loopback. Its methods
// are for one goroutine.
type Repository struct {
	URL string
	// Root, Targets, Snapshot and Timestamp are what the next version is made
	// of. Their versions and expiry are set by New and raised by Publish.
	Root      *metadata.Metadata[metadata.RootType]
	Targets   *metadata.Metadata[metadata.TargetsType]
	Snapshot  *metadata.Metadata[metadata.SnapshotType]
	Timestamp *metadata.Metadata[metadata.TimestampType]

	t       testing.TB
	seed    string
	made    int // keys
	signers map[string][]signature.Signer
	trusted []byte // the trusted root that Attack.Trusted published

	mu      sync.Mutex // guards what the server reads
	files   map[string][]byte
	answers map[string]http.HandlerFunc
	asked   []string
}

// validDays is the period of validity of all metadata, also that which the root
// gives for timestamps.
const validDays = 30

// New starts a repository with one version of everything, valid for 30 days
// (the root for a year) from now on. Its keys are its own.
func New(t testing.TB, now time.Time) *Repository {
	t.Helper()
	return NewFrom(t, now, rand.Text())
}

// NewFrom is [New] with keys that the seed determines.
func NewFrom(t testing.TB, now time.Time, seed string) *Repository {
	t.Helper()
	expires := now.UTC().Truncate(time.Second).AddDate(0, 0, validDays)
	r := &Repository{
		t: t, seed: seed, signers: map[string][]signature.Signer{}, files: map[string][]byte{}, answers: map[string]http.HandlerFunc{},
		Root: metadata.Root(expires.AddDate(1, 0, 0)), Targets: metadata.Targets(expires),
		Snapshot: metadata.Snapshot(expires), Timestamp: metadata.Timestamp(expires),
	}
	for _, role := range []string{metadata.ROOT, metadata.TARGETS, metadata.SNAPSHOT, metadata.TIMESTAMP} {
		r.AddKey(role)
	}
	r.Root.Signed.Roles[metadata.TIMESTAMP].UnrecognizedFields = map[string]any{"x-tuf-on-ci-expiry-period": float64(validDays)}
	r.sign("1.root.json", r.Root, r.signers[metadata.ROOT])
	r.Targets.Signed.Version, r.Snapshot.Signed.Version, r.Timestamp.Signed.Version = 0, 0, 0
	r.Publish(nil)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// AddKey makes a key for a role, in the next root.
func (r *Repository) AddKey(role string) *metadata.Key {
	r.t.Helper()
	signer := r.newSigner()
	key, _ := r.public(signer)
	r.must(r.Root.Signed.AddKey(key, role))
	r.signers[role] = append(r.signers[role], signer)
	return key
}

// newSigner makes the next key, for no role yet.
func (r *Repository) newSigner() signature.Signer {
	r.t.Helper()
	seed := sha256.Sum256([]byte(r.seed + " " + strconv.Itoa(r.made)))
	r.made++
	signer, err := signature.LoadSigner(ed25519.NewKeyFromSeed(seed[:]), crypto.Hash(0))
	r.must(err)
	return signer
}

// public is the key of a signer as metadata names it, and its id.
func (r *Repository) public(s signature.Signer) (*metadata.Key, string) {
	r.t.Helper()
	key, err := s.PublicKey()
	r.must(err)
	public, err := metadata.KeyFromPublicKey(key)
	r.must(err)
	id, err := public.ID()
	r.must(err)
	return public, id
}

// PublishRoot publishes the next version of the root, signed by the keys of
// this one and of the next.
func (r *Repository) PublishRoot() {
	r.t.Helper()
	r.Root.Signed.Version++
	r.sign(strconv.FormatInt(r.Root.Signed.Version, 10)+".root.json", r.Root, r.signers[metadata.ROOT])
}

// Rotate replaces all keys of a role, in a new root. A root's old keys sign
// the new root too, and then no more.
func (r *Repository) Rotate(role string) {
	r.t.Helper()
	before := r.signers[role]
	for _, id := range r.Root.Signed.Roles[role].KeyIDs {
		r.must(r.Root.Signed.RevokeKey(id, role))
	}
	r.signers[role] = nil
	r.AddKey(role)
	after := r.signers[role]
	if role == metadata.ROOT {
		r.signers[role] = append(before, after...)
	}
	r.PublishRoot()
	r.signers[role] = after
}

// Publish publishes a new version of targets, snapshot and timestamp that
// lists these targets, or the same as before if there are none.
func (r *Repository) Publish(targets map[string][]byte) {
	r.t.Helper()
	for name, raw := range targets {
		file, err := metadata.TargetFile().FromBytes(name, raw, "sha256")
		r.must(err)
		r.Targets.Signed.Targets[name] = file
		sum := sha256.Sum256(raw)
		at := strings.LastIndexByte(name, '/') + 1
		r.Put("targets/"+name[:at]+hex.EncodeToString(sum[:])+"."+name[at:], raw)
	}
	r.Targets.Signed.Version++
	r.Snapshot.Signed.Version++
	r.Timestamp.Signed.Version++
	r.PublishAs()
}

// PublishAs publishes targets, snapshot and timestamp under the versions that
// they have now.
func (r *Repository) PublishAs() {
	r.t.Helper()
	version := func(v int64, name string) string { return strconv.FormatInt(v, 10) + "." + name }
	r.Snapshot.Signed.Meta["targets.json"] = r.sign(version(r.Targets.Signed.Version, "targets.json"), r.Targets, r.signers[metadata.TARGETS])
	r.Snapshot.Signed.Meta["targets.json"].Version = r.Targets.Signed.Version
	r.Timestamp.Signed.Meta["snapshot.json"] = r.sign(version(r.Snapshot.Signed.Version, "snapshot.json"), r.Snapshot, r.signers[metadata.SNAPSHOT])
	r.Timestamp.Signed.Meta["snapshot.json"].Version = r.Snapshot.Signed.Version
	r.PublishTimestamp()
}

// PublishTimestamp publishes the timestamp as it is now.
func (r *Repository) PublishTimestamp() {
	r.t.Helper()
	r.sign("timestamp.json", r.Timestamp, r.signers[metadata.TIMESTAMP])
}

// Forge lets a stranger sign for a role from now on, under the identifier of
// its key.
func (r *Repository) Forge(role string) {
	r.t.Helper()
	kept := *r.Root.Signed.Roles[role]
	r.Root.Signed.Roles[role] = &metadata.Role{Threshold: 1}
	r.signers[role] = nil
	r.AddKey(role)
	r.Root.Signed.Roles[role] = &kept
}

// Quit takes the last key of a role away from its operators, though the root
// still names it.
func (r *Repository) Quit(role string) {
	r.signers[role] = r.signers[role][:len(r.signers[role])-1]
}

// Delegate adds a role that lists these targets, signed by the key of targets,
// to the next version.
func (r *Repository) Delegate(name string, paths []string, terminating bool, targets map[string][]byte) {
	r.t.Helper()
	role := r.listing(targets)
	if r.Targets.Signed.Delegations == nil {
		r.Targets.Signed.Delegations = &metadata.Delegations{Keys: map[string]*metadata.Key{}}
	}
	r.delegateTo(r.Targets.Signed.Delegations, metadata.DelegatedRole{Name: name, Terminating: terminating, Paths: paths}, r.signers[metadata.TARGETS][0])
	r.promise(name, role, r.signers[metadata.TARGETS][:1])
}

// delegateTo adds a role with one key.
func (r *Repository) delegateTo(d *metadata.Delegations, role metadata.DelegatedRole, s signature.Signer) {
	r.t.Helper()
	key, id := r.public(s)
	d.Keys[id] = key
	role.KeyIDs, role.Threshold = []string{id}, 1
	d.Roles = append(d.Roles, role)
}

// promise publishes version 1 of a role, and has the next snapshot list it.
func (r *Repository) promise(name string, role signable, signers []signature.Signer) {
	r.t.Helper()
	r.Snapshot.Signed.Meta[name+".json"] = r.sign("1."+name+".json", role, signers)
	r.Snapshot.Signed.Meta[name+".json"].Version = 1
}

// listing is a role that lists these targets, which are served.
func (r *Repository) listing(targets map[string][]byte) *metadata.Metadata[metadata.TargetsType] {
	r.t.Helper()
	role := metadata.Targets(r.Targets.Signed.Expires)
	for target, raw := range targets {
		file, err := metadata.TargetFile().FromBytes(target, raw, "sha256")
		r.must(err)
		role.Signed.Targets[target] = file
		sum := sha256.Sum256(raw)
		r.Put("targets/"+hex.EncodeToString(sum[:])+"."+target, raw)
	}
	return role
}

// signable is what the metadata of every role can do.
type signable interface {
	ClearSignatures()
	Sign(signature.Signer) (*metadata.Signature, error)
	ToBytes(pretty bool) ([]byte, error)
}

// sign publishes metadata signed by signers and describes the file.
func (r *Repository) sign(name string, m signable, signers []signature.Signer) *metadata.MetaFiles {
	r.t.Helper()
	m.ClearSignatures()
	for _, s := range signers {
		_, err := m.Sign(s)
		r.must(err)
	}
	raw, err := m.ToBytes(false)
	r.must(err)
	r.Put(name, raw)
	sum := sha256.Sum256(raw)
	return &metadata.MetaFiles{Length: int64(len(raw)), Hashes: metadata.Hashes{"sha256": sum[:]}}
}

func (r *Repository) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// Put serves these bytes at a path, instead of what was there.
func (r *Repository) Put(path string, raw []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files[path] = bytes.Clone(raw)
}

// File is what is served at a path.
func (r *Repository) File(path string) []byte { return r.Files()[path] }

// Files is all that is served.
func (r *Repository) Files() map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.files)
}

// Serve serves these files and nothing else.
func (r *Repository) Serve(files map[string][]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.files = maps.Clone(files)
}

// Answer lets a handler answer for a path; nil takes it away.
func (r *Repository) Answer(path string, h http.HandlerFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[path] = h
}

// Asked lists the paths that were asked for since the last call.
func (r *Repository) Asked() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

// ServeHTTP serves the files.
func (r *Repository) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	path := strings.TrimPrefix(req.URL.Path, "/")
	r.mu.Lock()
	r.asked = append(r.asked, path)
	raw, ok := r.files[path]
	answer := r.answers[path]
	r.mu.Unlock()
	switch {
	case answer != nil:
		answer(w, req)
	case ok:
		_, _ = w.Write(raw) // the client went away: nothing to tell it
	default:
		http.NotFound(w, req)
	}
}
