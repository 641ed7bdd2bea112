package legacy

import (
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/sigstore/cosign/v2/pkg/cosign/bundle"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// wireAnswer is an entry in an answer of the log's API.
type wireAnswer struct {
	bundle.RekorPayload
	Verification struct {
		SignedEntryTimestamp []byte `json:"signedEntryTimestamp"`
		InclusionProof       *struct {
			Checkpoint string   `json:"checkpoint"`
			Hashes     []string `json:"hashes"`
			LogIndex   int64    `json:"logIndex"`
			RootHash   string   `json:"rootHash"`
			TreeSize   int64    `json:"treeSize"`
		} `json:"inclusionProof"`
	} `json:"verification"`
}

// ParseAnswer parses one entry in an answer of a log's API, and the name that
// the answer gives to it. It refuses an entry under a name that is not its own.
func ParseAnswer(raw []byte) (name string, e Entry, err error) {
	var answer map[string]wireAnswer
	if err := strictjson.UnmarshalOpen(raw, &answer, strictjson.MaxSize(MaxBundle)); err != nil {
		return "", Entry{}, verdict.Wrap(verdict.LogEntryParse, "log entry", err)
	}
	if len(answer) != 1 {
		return "", Entry{}, refuseEntry("the answer has %d entries, want 1", len(answer))
	}
	name = slices.Collect(maps.Keys(answer))[0]
	w := answer[name]
	if e, err = entryFrom(w.RekorPayload); err != nil {
		return "", Entry{}, err
	}
	if !strings.HasSuffix(name, leafHash(e.body)) {
		return "", Entry{}, verdict.Refuse(verdict.LogEntryUnbound, "log entry", "the log returned this entry under the name %.100q, which is that of another entry", name)
	}
	e.promise = w.Verification.SignedEntryTimestamp
	if len(e.promise) == 0 && w.Verification.InclusionProof == nil {
		return "", Entry{}, verdict.Refuse(verdict.LogProof, "log entry", "the entry has neither an inclusion promise nor a proof")
	}
	if p := w.Verification.InclusionProof; p != nil {
		e.proof = &proof{checkpoint: p.Checkpoint, index: p.LogIndex, size: p.TreeSize}
		if len(p.Hashes) > maxHashes {
			return "", Entry{}, verdict.Refuse(verdict.Limit, "log entry", "the proof has %d hashes, the limit is %d", len(p.Hashes), maxHashes)
		}
		if err := e.proof.decode(p.RootHash, p.Hashes); err != nil {
			return "", Entry{}, err
		}
	}
	return name, e, nil
}

func (p *proof) decode(root string, hashes []string) (err error) {
	if p.root, err = hex.DecodeString(root); err != nil {
		return refuseEntry("the root hash of the proof is not hexadecimal")
	}
	for _, text := range hashes {
		hash, err := hex.DecodeString(text)
		if err != nil {
			return refuseEntry("a hash of the proof is not hexadecimal")
		}
		p.hashes = append(p.hashes, hash)
	}
	return nil
}
