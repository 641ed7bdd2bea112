// Package signedpolicy is the wire form of the policy predicate, version 1: an
// officer says that a file of exact bytes is the policy, and which in the
// order of its revisions.
//
//	s, err := signedpolicy.New("policy.yaml", digest.SetOf(raw), signedpolicy.Predicate{Name: "lantern", Sequence: 4})
//	p, err := signedpolicy.Parse(evidence.Statement())
//	err = p.Names(raw)
//
// The README beside this file is the specification and schema.json its JSON
// Schema. Who may sign, and which number is too low, others decide: see
// pkg/judge/policy.
package signedpolicy

import (
	"regexp"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType names the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/policy/v1"

// Suffix is what the name of a policy's bundle adds to that of the policy: the
// two lie side by side.
const Suffix = ".sigstore.json"

// MaxSize bounds the predicate: it says three things.
const MaxSize = 4 << 10

// names are those of policies and of files: no address, no path, no space.
var names = regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z`)

// Predicate says which policy the subject is.
type Predicate struct {
	Name     string    `json:"name"`
	Sequence int       `json:"sequence"`
	Expires  time.Time `json:"expires,omitzero"`
}

// Policy is a parsed statement: the predicate, and the file that it names. It
// is believed by nobody yet.
type Policy struct {
	Predicate
	File  string
	Bytes digest.Set
}

// Validate refuses a predicate that could not be told from another policy's,
// or from an older one of the same.
func (p Predicate) Validate() error {
	switch {
	case !names.MatchString(p.Name):
		return refuse("name %q: want up to 128 of letters, digits and ._-", p.Name)
	case p.Sequence < 1:
		return refuse("sequence %d: numbers start at 1, and each revision has a higher one", p.Sequence)
	}
	return nil
}

// New makes the statement that file, of these bytes, is the policy.
func New(file string, bytes digest.Set, p Predicate) (intoto.Statement, error) {
	s, err := intoto.New(PredicateType, []intoto.Subject{{Name: file, Digests: bytes}}, p)
	if err != nil {
		return intoto.Statement{}, err
	}
	_, err = Parse(s)
	return s, err
}

// Parse reads the statement strictly.
func Parse(s intoto.Statement) (Policy, error) {
	if s.PredicateType() != PredicateType {
		return Policy{}, verdict.Refuse(verdict.PredicateType, "policy", "says %q, not which policy it is", s.PredicateType())
	}
	s, err := s.Strict()
	if err != nil {
		return Policy{}, err
	}
	var p Predicate
	if err := strictjson.Unmarshal(s.Predicate(), &p, strictjson.MaxSize(MaxSize)); err != nil {
		return Policy{}, verdict.Wrap(verdict.StatementParse, "policy", err)
	}
	if err := p.Validate(); err != nil {
		return Policy{}, err
	}
	subjects := s.Subjects()
	if len(subjects) != 1 || !names.MatchString(subjects[0].Name) || subjects[0].Digests.SHA512.IsZero() {
		return Policy{}, refuse("want exactly one subject: the policy's file name, with sha256 and sha512")
	}
	return Policy{Predicate: p, File: subjects[0].Name, Bytes: subjects[0].Digests}, nil
}

// Names refuses bytes that are not those of the policy.
func (p Policy) Names(raw []byte) error {
	if have := digest.SetOf(raw); !p.Bytes.Equal(have) {
		return &verdict.Error{Finding: verdict.Find(verdict.PolicySig, p.File, "the policy is not the one that was signed").
			Differ(p.Bytes.SHA256.String(), have.SHA256.String())}
	}
	return nil
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, "policy", format, args...)
}
