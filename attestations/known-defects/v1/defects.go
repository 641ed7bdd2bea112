// Package knowndefects is the encoding of the known-defects predicate, version
// 1: known problems of published releases, and withdrawn releases.
//
//	p, err := knowndefects.ParseFile(raw)        // the YAML form
//	s, err := knowndefects.New("defects.yaml", digest.SetOf(raw), p)
//	l, err := knowndefects.Parse(evidence.Statement())
//
// The README beside this file is the specification and schema.json its JSON
// Schema. pkg/judge/waiver decides who may sign a list, and its effect on a
// verdict.
package knowndefects

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/known-defects/v1"

// Kind is the kind in the YAML file of a list.
const Kind = "KnownDefects"

// maxSize limits a signed list, and its file.
const maxSize = 1 << 20

// Predicate is the list.
type Predicate struct {
	Name        string       `json:"name" yaml:"name"`
	Sequence    int          `json:"sequence" yaml:"sequence"`
	Issued      time.Time    `json:"issued" yaml:"issued"`
	Expires     time.Time    `json:"expires" yaml:"expires"`
	Defects     []Defect     `json:"defects,omitempty" yaml:"defects"`
	Withdrawals []Withdrawal `json:"withdrawals,omitempty" yaml:"withdrawals"`
}

// Defect explains why published artifacts are refused with a code.
type Defect struct {
	ID          string          `json:"id" yaml:"id"`
	Versions    Versions        `json:"versions" yaml:"versions"`
	Artifacts   []string        `json:"artifacts" yaml:"artifacts"`
	Code        verdict.Code    `json:"code" yaml:"code"`
	Explanation string          `json:"explanation" yaml:"explanation"`
	Source      string          `json:"source" yaml:"source"`
	Digests     []digest.Digest `json:"digests,omitempty" yaml:"digests"`
}

// Versions are those in a list, or all from one up to, but not including,
// another.
type Versions struct {
	List  []string `json:"list,omitempty" yaml:"list"`
	From  string   `json:"from,omitempty" yaml:"from"`
	Until string   `json:"until,omitempty" yaml:"until"`
}

// Withdrawal says that a release, or one artifact of it, must not be used.
type Withdrawal struct {
	Version  string        `json:"version" yaml:"version"`
	Artifact string        `json:"artifact,omitempty" yaml:"artifact"`
	Digest   digest.Digest `json:"digest,omitzero" yaml:"digest"`
	Reason   string        `json:"reason" yaml:"reason"`
	Source   string        `json:"source" yaml:"source"`
	Since    time.Time     `json:"since" yaml:"since"`
}

// Contains reports whether a version is one of them.
func (v Versions) Contains(of version.Version) bool {
	if of.IsZero() {
		return false
	}
	if len(v.List) > 0 {
		return slices.Contains(v.List, of.String())
	}
	from, err := version.Parse(v.From)
	if err != nil {
		return false
	}
	until, err := version.Parse(v.Until)
	return err == nil && !of.Less(from) && of.Less(until)
}

// file is the YAML form of a list.
type file struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Predicate  `yaml:",inline"`
}

// ParseFile parses the YAML form of a list, which is unsigned.
func ParseFile(raw []byte) (Predicate, error) {
	var f file
	if err := strictyaml.Unmarshal(raw, &f); err != nil {
		return Predicate{}, verdict.Wrap(verdict.ConfigParse, "known defects", err)
	}
	if f.APIVersion != "waybill/v1" || f.Kind != Kind {
		return Predicate{}, verdict.Refuse(verdict.ConfigParse, "known defects", "apiVersion %.40q and kind %.40q: want waybill/v1 and %s", f.APIVersion, f.Kind, Kind)
	}
	if err := f.Validate(); err != nil {
		return Predicate{}, verdict.Refuse(verdict.ConfigParse, "known defects", "%v", err)
	}
	return f.Predicate, nil
}

// New makes the statement of a list, bound to its YAML file.
func New(name string, bytes digest.Set, p Predicate) (intoto.Statement, error) {
	return intoto.NewFor(Parse, PredicateType, []intoto.Subject{{Name: name, Digests: bytes}}, p)
}

// Parse parses the statement strictly. The predicate counts; the subject is the
// file that people reviewed.
func Parse(s intoto.Statement) (p Predicate, err error) {
	s, err = s.DecodeStrict(PredicateType, "known defects", "a list of known defects", maxSize, &p)
	if err != nil {
		return Predicate{}, err
	}
	if subjects := s.Subjects(); len(subjects) != 1 || subjects[0].Digests.SHA512.IsZero() {
		return Predicate{}, verdict.Refuse(verdict.StatementParse, "known defects", "want exactly one subject: the file of the list, with sha256 and sha512")
	}
	return p, nil
}

func at(where string, i int, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %d %q: %w", where, i+1, id, err)
}
