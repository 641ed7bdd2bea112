package verify

import (
	"math"
	"net/url"
	"regexp"
	"strings"

	rekornote "github.com/sigstore/rekor-tiles/v2/pkg/note"
	tiles "github.com/sigstore/rekor-tiles/v2/pkg/verify"
	"github.com/sigstore/rekor/pkg/util"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore/pkg/signature"
	"golang.org/x/mod/sumdb/note"
)

// witness is a transparency log of the trust root, with what its key needs to
// be used made once, and the checkpoints that it was proven to have signed.
type witness struct {
	log    *root.TransparencyLog
	key    signature.Verifier
	name   note.Verifier // nil for a log that has no name to sign checkpoints in
	signed memo[tree]    // by the checkpoint
}

// tree is what a checkpoint states.
type tree struct {
	size int64
	root []byte
}

// witnesses prepares the logs that can be; whatever is of another is refused
// by the library, or proven by it.
func witnesses(material root.TrustedMaterial) map[string]*witness {
	all := map[string]*witness{}
	for id, l := range material.RekorLogs() {
		key, err := signature.LoadVerifier(l.PublicKey, l.SignatureHashFunc)
		if err != nil {
			continue
		}
		w := &witness{log: l, key: key}
		if u, err := url.Parse(l.BaseURL); err == nil && l.BaseURL != "" {
			if n, err := rekornote.NewNoteVerifier(u.Hostname(), key); err == nil {
				w.name = n
			}
		}
		all[id] = w
	}
	return all
}

// numbered is how the first line of a checkpoint of Rekor v1 ends.
var numbered = regexp.MustCompile(`.* - [0-9]+$`)

// checkpoint proves that the log signed a checkpoint, of the form of its
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
	if err := c.UnmarshalText([]byte(envelope)); err != nil || !c.Verify(w.key) || c.Size > math.MaxInt64 {
		return tree{}, false
	}
	return tree{int64(c.Size), c.Hash}, true
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
