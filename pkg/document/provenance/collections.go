package provenance

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The limits of a collection.
const (
	maxCollection = 32 << 20
	maxListed     = 1024
)

type wireCloudBuild struct {
	Summary struct {
		Provenance json.RawMessage `json:"provenance"`
	} `json:"provenance_summary"`
}

type wireOccurrence struct {
	Build struct {
		Statement json.RawMessage `json:"intotoStatement"`
	} `json:"build"`
	Envelope json.RawMessage `json:"envelope"`
}

// CloudBuild parses what Google Cloud Build returns for an image: a list of
// envelopes, each beside the same statement in readable form. Only the envelope
// is signed; if a readable statement differs from it, the whole list is
// refused.
func CloudBuild(raw []byte) ([]intoto.Envelope, error) {
	var wire wireCloudBuild
	if err := collection(raw, &wire); err != nil {
		return nil, err
	}
	list, err := listOf[wireOccurrence](wire.Summary.Provenance)
	if err != nil {
		return nil, err
	}
	envelopes := make([]intoto.Envelope, 0, len(list))
	for _, listed := range list {
		e, err := intoto.ParseEnvelope(listed.Envelope)
		if err != nil {
			return nil, err
		}
		if err := sameStatement(listed.Build.Statement, e); err != nil {
			return nil, err
		}
		envelopes = append(envelopes, e)
	}
	return envelopes, nil
}

// shown is the readable statement beside an envelope. Its predicate has another
// key.
type shown struct {
	Type          string          `json:"_type"`
	PredicateType string          `json:"predicateType"`
	Subject       json.RawMessage `json:"subject"`
	Predicate     json.RawMessage `json:"slsaProvenance"`
}

// sameStatement refuses a readable statement that differs from the signed one.
// A missing one is accepted.
func sameStatement(text json.RawMessage, e intoto.Envelope) error {
	if len(text) == 0 {
		return nil
	}
	signed, err := e.Statement()
	if err != nil {
		return err
	}
	var said shown
	if err := collection(text, &said); err != nil {
		return err
	}
	var subject struct {
		Subject json.RawMessage `json:"subject"`
	}
	if err := collection(signed.Raw(), &subject); err != nil {
		return err
	}
	if said.Type != signed.Type() || said.PredicateType != signed.PredicateType() ||
		!sameValue(said.Subject, subject.Subject) || !sameValue(said.Predicate, signed.Predicate()) {
		return verdict.Refuse(verdict.NotBound, "attestations", "the statement beside an envelope differs from the one inside it")
	}
	return nil
}

// sameValue compares two JSON values by meaning; numbers by their text.
func sameValue(a, b json.RawMessage) bool {
	read := func(raw json.RawMessage) (value any) {
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		if d.Decode(&value) != nil {
			return nil
		}
		return value
	}
	left := read(a)
	return left != nil && reflect.DeepEqual(left, read(b))
}

// Listed is one Sigstore bundle of a collection. Its predicate type is the one
// given beside it, or empty.
type Listed struct {
	PredicateType string          `json:"predicateType"`
	Bundle        json.RawMessage `json:"bundle"`
}

// Bundles parses the answer of the npm registry or of GitHub to a request for
// attestations: a list of Sigstore bundles, whose bytes are kept unchanged.
func Bundles(raw []byte) ([]Listed, error) {
	var wire struct {
		Attestations json.RawMessage `json:"attestations"`
	}
	if err := collection(raw, &wire); err != nil {
		return nil, err
	}
	list, err := listOf[Listed](wire.Attestations)
	if err != nil {
		return nil, err
	}
	for i, l := range list {
		if len(l.Bundle) == 0 || l.Bundle[0] != '{' {
			return nil, verdict.Refuse(verdict.BundleParse, "attestations", "entry %d has no bundle", i)
		}
	}
	return list, nil
}

// listOf parses a list that is neither empty nor too long. Its entries are
// counted before memory is allocated for them.
func listOf[T any](raw json.RawMessage) ([]T, error) {
	if len(raw) > 0 && members(raw) > maxListed {
		return nil, verdict.Refuse(verdict.Limit, "attestations", "more than %d in the list", maxListed)
	}
	var list []T
	if len(raw) > 0 {
		if err := collection(raw, &list); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, verdict.Refuse(verdict.BundleParse, "attestations", "the list is empty")
	}
	return list, nil
}

func collection(raw []byte, into any) error {
	if err := strictjson.UnmarshalOpen(raw, into, strictjson.MaxSize(maxCollection)); err != nil {
		return verdict.Wrap(verdict.BundleParse, "attestations", err)
	}
	return nil
}
