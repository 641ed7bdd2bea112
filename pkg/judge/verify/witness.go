package verify

import (
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	cosignature "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// A witness (C2SP tlog-witness) cosigns a checkpoint of a log if it extends each
// checkpoint of the log that it cosigned before. So who asks for enough witnesses sees
// the same tree as others, even if the log would show several.

// CheckWitnesses reads the keys of the witnesses. A key that is listed under several names counts once.
func (r *Rules) CheckWitnesses() error {
	if r.Cosigned < 0 || r.Cosigned > len(r.Witnesses) || r.Cosigned == 0 && len(r.Witnesses) > 0 {
		return verdict.Refuse(verdict.Usage, "witnesses", "%d of %d must cosign; want at least 1, and not more than there are", r.Cosigned, len(r.Witnesses))
	}
	var verifiers []note.Verifier
	var keys []string
	for _, text := range r.Witnesses {
		v, err := cosignature.NewVerifierForCosignatureV1(text)
		if err != nil {
			return verdict.Refuse(verdict.Usage, "witnesses", "%.200q is no key of a witness, want NAME+HASH+KEY: %v", text, err)
		}
		raw, _ := base64.StdEncoding.DecodeString(strings.SplitN(text, "+", 3)[2])
		if raw = raw[1:]; slices.Contains(keys, string(raw)) {
			return verdict.Refuse(verdict.Usage, "witnesses", "%.200q has the key of another witness", text)
		}
		verifiers, keys = append(verifiers, v), append(keys, string(raw))
	}
	r.witnesses = note.VerifierList(verifiers...)
	return nil
}

// Cosigned refuses a checkpoint that fewer witnesses cosigned than the rules ask for.
func (v *Verifier) Cosigned(checkpoint []byte) error { return v.rules.cosigned(checkpoint) }

func (r Rules) cosigned(checkpoint []byte) error {
	if r.Cosigned == 0 {
		return nil
	}
	have, err := note.Open(checkpoint, r.witnesses)
	if wrong := (*note.InvalidSignatureError)(nil); errors.As(err, &wrong) {
		return verdict.Refuse("WITNESS_SIG", "checkpoint", "it has a cosignature under the key of the witness %q, who did not sign it", wrong.Name)
	}
	if have == nil { // no witness signed it
		have = &note.Note{}
	}
	if len(have.Sigs) < r.Cosigned { // of each key there is one
		return verdict.Refuse("WITNESS_FEW", "checkpoint", "%d of %d witnesses cosigned it, want at least %d", len(have.Sigs), len(r.Witnesses), r.Cosigned)
	}
	return nil
}
