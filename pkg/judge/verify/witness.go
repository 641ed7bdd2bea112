package verify

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	network "encoding/binary"
	"math"
	"net/url"
	"regexp"
	"strings"

	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	tiles "github.com/sigstore/rekor-tiles/v2/pkg/verify"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/options"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"golang.org/x/mod/sumdb/note"
)

// witness is a transparency log of the trust root, with its prepared key, and
// its checkpoints whose signatures were proven.
type witness struct {
	log    *root.TransparencyLog
	key    signature.Verifier
	hint   uint32        // by which checkpoints of Rekor v1 identify the key
	name   note.Verifier // nil for a log without a name in which it signs checkpoints
	signed memo[tree]    // by the checkpoint
}

// tree is what a checkpoint states.
type tree struct {
	size int64
	root []byte
}

// witnesses prepares the logs that this package supports; the library verifies
// entries of the others.
func witnesses(material root.TrustedMaterial) map[string]*witness {
	all := map[string]*witness{}
	for id, l := range material.RekorLogs() {
		key, err := signature.LoadVerifier(l.PublicKey, l.SignatureHashFunc)
		if err != nil {
			continue
		}
		der, err := x509.MarshalPKIXPublicKey(l.PublicKey)
		if err != nil {
			continue
		}
		sum := sha256.Sum256(der)
		w := &witness{log: l, key: key, hint: network.BigEndian.Uint32(sum[:])}
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
var numbered = regexp.MustCompile(`.* - [0-9]+$`)

// checkpoint proves that the log signed a checkpoint, in the form of its
// version, and returns what it states.
func (w *witness) checkpoint(envelope string, v1 bool) (tree, bool) {
	if first, _, _ := strings.Cut(envelope, "\n"); numbered.MatchString(first) != v1 {
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

func (w *witness) signedV1(envelope string) (tree, bool) {
	var c util.SignedCheckpoint
	if err := c.UnmarshalText([]byte(envelope)); err != nil || !w.signs(c.SignedNote) || c.Size > math.MaxInt64 {
		return tree{}, false
	}
	return tree{int64(c.Size), c.Hash}, true
}

// signs reports whether a note has at least one signature and all are the
// log's. The library checks the same, but computes the key's name each time.
func (w *witness) signs(n util.SignedNote) bool {
	sum := sha256.Sum256([]byte(n.Note))
	var how []signature.VerifyOption
	switch w.log.PublicKey.(type) {
	case *ecdsa.PublicKey, *rsa.PublicKey:
		how = append(how, options.WithDigest(sum[:]))
	case ed25519.PublicKey:
	default:
		return false
	}
	for _, s := range n.Signatures {
		raw, err := base64.StdEncoding.DecodeString(s.Base64)
		if err != nil || s.Hash != w.hint || w.key.VerifySignature(bytes.NewReader(raw), strings.NewReader(n.Note), how...) != nil {
			return false
		}
	}
	return len(n.Signatures) > 0
}

func (w *witness) signedV2(envelope string) (tree, bool) {
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
	for id, w := range v.seen.witnesses {
		for _, older := range []bool{false, true} {
			if t, ok := w.checkpoint(string(raw), older); ok && len(t.root) == sha256.Size {
				return id, t.size, t.root, nil
			}
		}
	}
	return "", 0, nil, verdict.Refuse(verdict.CheckpointSig, "checkpoint", "no log of the trust root signed this checkpoint: %.200q", raw)
}

// Issued reports whether an authority of the trust root issued a certificate.
func (v *Verifier) Issued(certificate []byte) bool {
	leaf, err := x509.ParseCertificate(certificate)
	if err == nil {
		_, err = sigstore.VerifyLeafCertificate(leaf.NotBefore, leaf, v.material)
	}
	return err == nil
}
