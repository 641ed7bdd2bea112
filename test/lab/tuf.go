package lab

import (
	"crypto"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// tufRepo is a TUF repository with consistent snapshots, held in memory and
// signed by go-tuf. The root is version 1 for ever; the rest is signed anew,
// with a higher version, at every start.
type tufRepo struct {
	root    []byte
	files   map[string][]byte // URL path without the first slash -> bytes
	signers map[string]signature.Signer
	expires time.Time // of targets, snapshot and timestamp
}

func newTUF(st *state, clock func() time.Time, targets map[string][]byte) (*tufRepo, error) {
	r := &tufRepo{files: map[string][]byte{}, signers: map[string]signature.Signer{}}
	now := clock().UTC().Truncate(time.Second)
	r.expires = now.AddDate(0, 0, 90)
	var err error
	for _, role := range []string{metadata.ROOT, metadata.TARGETS, metadata.SNAPSHOT, metadata.TIMESTAMP} {
		key, err := st.key("tuf-"+role, newEd25519)
		if err != nil {
			return nil, err
		}
		if r.signers[role], err = signature.LoadSigner(key, crypto.Hash(0)); err != nil {
			return nil, fmt.Errorf("loading the TUF %s key: %w", role, err)
		}
	}
	r.root, err = st.remember("tuf-root.json", func() ([]byte, error) { return r.makeRoot(now.AddDate(10, 0, 0)) })
	if err != nil {
		return nil, err
	}
	r.files["1.root.json"] = r.root
	st.TUFVersion++
	return r, r.publish(st.TUFVersion, targets)
}

func (r *tufRepo) makeRoot(expires time.Time) ([]byte, error) {
	root := metadata.Root(expires)
	for role, s := range r.signers {
		public, err := s.PublicKey()
		if err != nil {
			return nil, err
		}
		key, err := metadata.KeyFromPublicKey(public)
		if err != nil {
			return nil, err
		}
		if err := root.Signed.AddKey(key, role); err != nil {
			return nil, err
		}
	}
	if _, err := root.Sign(r.signers[metadata.ROOT]); err != nil {
		return nil, err
	}
	return root.ToBytes(true)
}

// publish signs targets, snapshot and timestamp as one version.
func (r *tufRepo) publish(version int64, targets map[string][]byte) error {
	tg, sn, ts := metadata.Targets(r.expires), metadata.Snapshot(r.expires), metadata.Timestamp(r.expires)
	tg.Signed.Version, sn.Signed.Version, ts.Signed.Version = version, version, version
	sn.Signed.Meta["targets.json"].Version = version
	ts.Signed.Meta["snapshot.json"].Version = version
	for name, b := range targets {
		file, err := metadata.TargetFile().FromBytes(name, b, "sha256")
		if err != nil {
			return fmt.Errorf("describing TUF target %q: %w", name, err)
		}
		tg.Signed.Targets[name] = file
		sum := sha256.Sum256(b)
		r.files["targets/"+hex.EncodeToString(sum[:])+"."+name] = b
	}
	v := strconv.FormatInt(version, 10) + "."
	return r.signAll(map[string]signable{v + "targets.json": tg, v + "snapshot.json": sn, "timestamp.json": ts})
}

// signable is what go-tuf's generic metadata types have in common.
type signable interface {
	Sign(signature.Signer) (*metadata.Signature, error)
	ToBytes(pretty bool) ([]byte, error)
}

func (r *tufRepo) signAll(files map[string]signable) error {
	for name, m := range files {
		role := strings.TrimSuffix(name, ".json")
		role = role[strings.LastIndexByte(role, '.')+1:]
		if _, err := m.Sign(r.signers[role]); err != nil {
			return fmt.Errorf("signing TUF %s: %w", role, err)
		}
		b, err := m.ToBytes(true)
		if err != nil {
			return fmt.Errorf("encoding TUF %s: %w", role, err)
		}
		r.files[name] = b
	}
	return nil
}

func (r *tufRepo) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	b, ok := r.files[strings.TrimPrefix(req.URL.Path, "/")]
	if !ok || (req.Method != http.MethodGet && req.Method != http.MethodHead) {
		http.NotFound(w, req)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // the client went away: nothing to tell it
}
