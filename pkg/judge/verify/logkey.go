package verify

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"math"
	"net/url"
	"strings"
	"time"

	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	protorekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	tiles "github.com/sigstore/rekor-tiles/v2/pkg/verify"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"golang.org/x/mod/sumdb/note"
)

// logKey is a transparency log of the trust root, with its prepared key, and
// its checkpoints whose signatures were proven.
type logKey struct {
	log    *root.TransparencyLog
	key    signature.Verifier
	name   note.Verifier // nil for a log without a name in which it signs checkpoints
	signed memo[tree]    // by the checkpoint
}

// tree is what a checkpoint states.
type tree struct {
	size int64
	root []byte
}

// logKeys prepares the logs that this package supports; the library verifies
// entries of the others.
func logKeys(material root.TrustedMaterial) map[string]*logKey {
	all := map[string]*logKey{}
	for id, l := range material.RekorLogs() {
		key, err := signature.LoadVerifier(l.PublicKey, l.SignatureHashFunc)
		if err != nil {
			continue
		}
		w := &logKey{log: l, key: key}
		if u, err := url.Parse(l.BaseURL); err == nil && l.BaseURL != "" {
			if n, err := rekornote.NewNoteVerifier(u.Hostname(), key); err == nil {
				w.name = n
			}
		}
		all[id] = w
	}
	return all
}

// numbered matches the end of the first line of a checkpoint of Rekor v1.
var numbered = pattern.Lazy(`.* - [0-9]+$`)

// checkpoint proves that the log signed a checkpoint, in the form of its
// version, and returns what it states.
func (w *logKey) checkpoint(envelope string, v1 bool) (tree, bool) {
	if first, _, _ := strings.Cut(envelope, "\n"); numbered().MatchString(first) != v1 {
		return tree{}, false
	}
	key := []byte(envelope)
	if t, ok := w.signed.find(key); ok {
		return t, true
	}
	prove := w.signedV2
	if v1 {
		prove = w.signedV1
	}
	t, ok := prove(envelope)
	if ok {
		w.signed.keep(key, t)
	}
	return t, ok
}

func (w *logKey) signedV1(envelope string) (tree, bool) {
	var c util.SignedCheckpoint
	if err := c.UnmarshalText([]byte(envelope)); err != nil || !c.Verify(w.key) || c.Size > math.MaxInt64 {
		return tree{}, false
	}
	return tree{int64(c.Size), c.Hash}, true
}

func (w *logKey) signedV2(envelope string) (tree, bool) {
	if w.name == nil {
		return tree{}, false
	}
	c, err := tiles.VerifyCheckpoint(envelope, w.name)
	if err != nil || c.Size > math.MaxInt64 {
		return tree{}, false
	}
	return tree{int64(c.Size), c.Hash}, true
}

// Checkpoint verifies that a log of the trust root signed a checkpoint, at any time,
// and returns the log's identifier and what the checkpoint states.
func (v *Verifier) Checkpoint(raw []byte) (log string, size int64, root []byte, err error) {
	for id, w := range v.seen.logs {
		for _, older := range []bool{false, true} {
			if t, ok := w.checkpoint(string(raw), older); ok && len(t.root) == sha256.Size {
				return id, t.size, t.root, nil
			}
		}
	}
	return "", 0, nil, verdict.Refuse(verdict.CheckpointSig, "checkpoint", "no log of the trust root signed this checkpoint: %.200q", raw)
}

// Promised reports whether a log of version 1 signed that it has an entry, at an index
// and a time.
func (v *Verifier) Promised(log string, index, at int64, body, promise []byte) bool {
	id, err := hex.DecodeString(log)
	w := v.seen.logs[log]
	return err == nil && w != nil && w.promises(&protorekor.TransparencyLogEntry{
		LogId: &protocommon.LogId{KeyId: id}, LogIndex: index, IntegratedTime: at, CanonicalizedBody: body,
		InclusionPromise: &protorekor.InclusionPromise{SignedEntryTimestamp: promise},
	}, time.Unix(at, 0))
}

// Issued reports whether an authority of the trust root issued a certificate.
func (v *Verifier) Issued(certificate []byte) bool {
	leaf, err := x509.ParseCertificate(certificate)
	if err == nil {
		_, err = sigstore.VerifyLeafCertificate(leaf.NotBefore, leaf, v.material)
	}
	return err == nil
}
