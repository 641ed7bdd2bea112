package verify

import (
	"encoding/base64"
	"slices"
	"testing"

	"github.com/sigstore/rekor/pkg/util"
	"golang.org/x/mod/sumdb/note"
)

// A note is a log's where the library says so, whichever part of it is another
// one.
func TestSignsAsTheLibraryDoes(t *testing.T) {
	m, v := known(t, "blob-rekor-v1")
	entry := m.entity.GetVerificationMaterial().GetTlogEntries()[0]
	var genuine util.SignedCheckpoint
	if err := genuine.UnmarshalText([]byte(entry.GetInclusionProof().GetCheckpoint().GetEnvelope())); err != nil {
		t.Fatal(err)
	}
	signature := genuine.Signatures[0]
	raw, err := base64.StdEncoding.DecodeString(signature.Base64)
	if err != nil {
		t.Fatal(err)
	}
	as := func(hash uint32, text string, name string) note.Signature {
		return note.Signature{Name: name, Hash: hash, Base64: text}
	}
	notes := map[string]util.SignedNote{
		"as it is":               genuine.SignedNote,
		"another name":           {Note: genuine.Note, Signatures: []note.Signature{as(signature.Hash, signature.Base64, "another")}},
		"signed twice":           {Note: genuine.Note, Signatures: []note.Signature{signature, signature}},
		"nobody":                 {Note: genuine.Note},
		"nothing":                {},
		"another key":            {Note: genuine.Note, Signatures: []note.Signature{as(signature.Hash+1, signature.Base64, signature.Name)}},
		"another key, too":       {Note: genuine.Note, Signatures: []note.Signature{signature, as(signature.Hash+1, signature.Base64, signature.Name)}},
		"no key":                 {Note: genuine.Note, Signatures: []note.Signature{as(0, signature.Base64, signature.Name)}},
		"no signature":           {Note: genuine.Note, Signatures: []note.Signature{as(signature.Hash, "", signature.Name)}},
		"not to be read":         {Note: genuine.Note, Signatures: []note.Signature{as(signature.Hash, "*", signature.Name)}},
		"a line more":            {Note: genuine.Note + "\n", Signatures: genuine.Signatures},
		"nothing, and signed so": {Signatures: genuine.Signatures},
	}
	for i := range raw {
		changed := slices.Clone(raw)
		changed[i] ^= 1
		text := base64.StdEncoding.EncodeToString(changed)
		notes["another signature "+text] = util.SignedNote{Note: genuine.Note, Signatures: []note.Signature{as(signature.Hash, text, signature.Name)}}
	}
	signed := 0
	for id, w := range v.seen.witnesses {
		for name, n := range notes {
			want := n.Verify(w.key)
			if w.signs(n) != want {
				t.Errorf("%.8s, %s: the library says %t", id, name, want)
			}
			if want {
				signed++
			}
		}
	}
	if signed != 3 { // as it is, by another name, and twice
		t.Errorf("%d notes are signed, want 3", signed)
	}
}
