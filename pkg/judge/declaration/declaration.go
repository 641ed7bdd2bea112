// Package declaration is the encoding of the declaration predicate, version 1:
// a person declares that a repository or a builder meets one requirement of a
// level, which no program can check.
//
//	p, err := declaration.ParseFile(raw)        // the YAML form
//	s, err := declaration.New("retained.yaml", digest.SetOf(raw), p)
//	p, err = declaration.Parse(evidence.Statement())
//
// attestations/declaration/v1 is the specification. pkg/judge/policy decides who
// may sign which declaration, and up to which level it counts.
//
// Other projects should not import this package: it changes without notice.
package declaration

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/declaration/v1"

// Kind is the kind in the YAML file of a declaration.
const Kind = "Declaration"

// MaxLife is the longest time from the signature of a declaration to its end.
const MaxLife = 366 * 24 * time.Hour

// The limits of the contents, in bytes.
const (
	maxSize  = 8 << 10
	maxText  = 300
	maxAbout = 1024
)

// Predicate is the declaration.
type Predicate struct {
	Sequence    int       `json:"sequence" yaml:"sequence"`
	Requirement string    `json:"requirement" yaml:"requirement"`
	About       string    `json:"about" yaml:"about"`
	By          string    `json:"by" yaml:"by"`
	Reason      string    `json:"reason" yaml:"reason"`
	Until       time.Time `json:"until" yaml:"until"`
}

// Validate refuses a declaration that is incomplete. Whether it lasts too long
// depends on the time of its signature.
func (p Predicate) Validate() error {
	switch {
	case p.Sequence < 1:
		return fmt.Errorf("sequence %d: numbers start at 1, and each revision has a higher one", p.Sequence)
	case !oneline.Is(p.Requirement, maxText):
		return fmt.Errorf("requirement: want one requirement, such as source.retained")
	case !oneline.Is(p.About, maxAbout) || !strings.Contains(p.About, ":"):
		return fmt.Errorf("about %.40q: want the address of the repository, or the id of the builder, as provenance names it", p.About)
	case !oneline.Is(p.By, maxText) || !oneline.Is(p.Reason, maxText):
		return fmt.Errorf("by and reason: want one line each, of up to %d bytes: who declares it, and why it holds", maxText)
	case p.Until.IsZero():
		return fmt.Errorf("until: want the time when the declaration ends, such as 2027-06-30T00:00:00Z")
	}
	return nil
}

// file is the YAML form of a declaration.
type file struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Predicate  `yaml:",inline"`
}

// ParseFile parses the YAML form of a declaration, which is unsigned.
func ParseFile(raw []byte) (Predicate, error) {
	var f file
	if err := strictyaml.Unmarshal(raw, &f); err != nil {
		return Predicate{}, verdict.Wrap(verdict.ConfigParse, "declaration", err)
	}
	if f.APIVersion != "waybill/v1" || f.Kind != Kind {
		return Predicate{}, verdict.Refuse(verdict.ConfigParse, "declaration", "apiVersion %.40q and kind %.40q: want waybill/v1 and %s", f.APIVersion, f.Kind, Kind)
	}
	if err := f.Validate(); err != nil {
		return Predicate{}, verdict.Wrap(verdict.ConfigParse, "declaration", err)
	}
	return f.Predicate, nil
}

// New makes the statement of a declaration, bound to its YAML file.
func New(name string, bytes digest.Set, p Predicate) (intoto.Statement, error) {
	return intoto.NewFor(Parse, PredicateType, []intoto.Subject{{Name: name, Digests: bytes}}, p)
}

// Parse parses the statement strictly. The predicate counts; the subject is the
// file that people reviewed.
func Parse(s intoto.Statement) (p Predicate, err error) {
	s, err = s.DecodeStrict(PredicateType, "declaration", "a declaration", maxSize, &p)
	if err != nil {
		return Predicate{}, err
	}
	if subjects := s.Subjects(); len(subjects) != 1 || subjects[0].Digests.SHA512.IsZero() {
		return Predicate{}, verdict.Refuse(verdict.StatementParse, "declaration", "want exactly one subject: the file of the declaration, with sha256 and sha512")
	}
	return p, nil
}
