package provenance

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The bounds of a collection.
const (
	MaxCollection = 32 << 20
	MaxListed     = 1024
)

// NPMPublish is the predicate type with which the npm registry says that it
// published a package.
const NPMPublish = "https://github.com/npm/attestation/tree/main/specs/publish/v0.1"

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

// CloudBuild takes apart what Google Cloud Build hands out for an image: a
// list of envelopes, each beside the same statement for people to read. The
// envelope is what somebody signed; a text beside it that says something else
// refuses the whole list.
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

// shown is the statement beside an envelope. It has the predicate under a name
// of its own.
type shown struct {
	Type          string          `json:"_type"`
	PredicateType string          `json:"predicateType"`
	Subject       json.RawMessage `json:"subject"`
	Predicate     json.RawMessage `json:"slsaProvenance"`
}

// sameStatement refuses a text that differs from what was signed. Without a
// text there is nothing to differ.
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
		return verdict.Refuse(verdict.NotBound, "attestations", "the statement beside an envelope is not the one inside it")
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

// Listed is one Sigstore bundle of a collection. Its predicate type is what
// the collection says beside it, or empty.
type Listed struct {
	PredicateType string          `json:"predicateType"`
	Bundle        json.RawMessage `json:"bundle"`
}

// Bundles takes apart the answer of the npm registry or of GitHub to who asks
// for attestations: a list of Sigstore bundles, whose bytes are kept as they
// are.
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
			return nil, verdict.Refuse(verdict.BundleParse, "attestations", "entry %d carries no bundle", i)
		}
	}
	return list, nil
}

// listOf reads a list that has something in it, and not too much. What it
// holds is counted before there is room for it.
func listOf[T any](raw json.RawMessage) ([]T, error) {
	if len(raw) > 0 && members(raw) > MaxListed {
		return nil, verdict.Refuse(verdict.Limit, "attestations", "more than %d in the list", MaxListed)
	}
	var list []T
	if len(raw) > 0 {
		if err := collection(raw, &list); err != nil {
			return nil, err
		}
	}
	if len(list) == 0 {
		return nil, verdict.Refuse(verdict.BundleParse, "attestations", "there is nothing in the list")
	}
	return list, nil
}

func collection(raw []byte, into any) error {
	if err := strictjson.UnmarshalOpen(raw, into, strictjson.MaxSize(MaxCollection)); err != nil {
		return verdict.Wrap(verdict.BundleParse, "attestations", err)
	}
	return nil
}
