// Package signedpolicy is the encoding of the policy predicate, version 1: a
// policy officer states that a file with exactly these bytes is the policy, and
// its revision number.
//
//	s, err := signedpolicy.New("policy.yaml", digest.SetOf(raw), signedpolicy.Predicate{Name: "lantern", Sequence: 4})
//	p, err := signedpolicy.Parse(evidence.Statement())
//	err = p.Names(raw)
//
// The README beside this file is the specification and schema.json its JSON
// Schema. pkg/judge/policy decides who may sign, and which number is too low.
package signedpolicy

import (
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/policy/v1"

// Suffix is appended to the name of a policy to name its bundle; both are in
// the same directory.
const Suffix = ".sigstore.json"

// maxSize limits the predicate, which has three fields.
const maxSize = 4 << 10

// names matches the names of policies and of files: no address, path or space.
var names = pattern.Lazy(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,127}\z`)

// Predicate identifies the policy and its revision.
type Predicate struct {
	Name     string    `json:"name"`
	Sequence int       `json:"sequence"`
	Expires  time.Time `json:"expires,omitzero"`
}

// Policy is a parsed statement: the predicate, and the file that it names. It
// is not verified.
type Policy struct {
	Predicate
	File  string
	Bytes digest.Set
}

// Validate refuses a predicate that could be confused with that of another
// policy, or with an older one of the same policy.
func (p Predicate) Validate() error {
	switch {
	case !names().MatchString(p.Name):
		return refuse("name %q: want up to 128 of letters, digits and ._-", p.Name)
	case p.Sequence < 1:
		return refuse("sequence %d: numbers start at 1, and each revision has a higher one", p.Sequence)
	}
	return nil
}

// New makes the statement that a file with these bytes is the policy.
func New(file string, bytes digest.Set, p Predicate) (intoto.Statement, error) {
	return intoto.NewFor(Parse, PredicateType, []intoto.Subject{{Name: file, Digests: bytes}}, p)
}

// Parse parses the statement strictly.
func Parse(s intoto.Statement) (Policy, error) {
	var p Predicate
	s, err := s.DecodeStrict(PredicateType, "policy", "a policy", maxSize, &p)
	if err != nil {
		return Policy{}, err
	}
	subjects := s.Subjects()
	if len(subjects) != 1 || !names().MatchString(subjects[0].Name) || subjects[0].Digests.SHA512.IsZero() {
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
