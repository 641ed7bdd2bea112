package intoto

import (
	"encoding/json"
	"fmt"
)

// outStatement is a statement to be written; a struct of digests, in place of a
// map, for lists of very many subjects.
type outStatement struct {
	Type          string          `json:"_type"`
	Subject       []outSubject    `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

type outSubject struct {
	Name   string `json:"name,omitempty"`
	Digest struct {
		SHA256 string `json:"sha256,omitempty"`
		SHA512 string `json:"sha512,omitempty"`
	} `json:"digest"`
}

func encode(kind, predicateType string, subjects []Subject, predicate any) ([]byte, error) {
	said, err := json.Marshal(predicate)
	if err != nil {
		return nil, fmt.Errorf("encoding predicate %s: %w", predicateType, err)
	}
	out := outStatement{kind, make([]outSubject, len(subjects)), predicateType, said}
	for i, s := range subjects {
		out.Subject[i].Name = s.Name
		out.Subject[i].Digest.SHA256, out.Subject[i].Digest.SHA512 = s.Digests.SHA256.Hex(), s.Digests.SHA512.Hex()
	}
	return json.Marshal(out)
}
