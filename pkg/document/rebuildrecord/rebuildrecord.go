// Package rebuildrecord is the encoding of the rebuild predicate, version 1: a
// rebuilder built artifacts again from their provenance, and got the same bytes.
//
//	s, err := rebuildrecord.New(subjects, predicate)
//	p, err := rebuildrecord.Parse(evidence.Statement())
//
// attestations/rebuild/v1 is the specification. pkg/judge/policy decides whose
// statements count, and how many are needed. There is no statement about bytes
// that differ, or a build that failed: neither is a vote.
//
// Other projects should not import this package: it changes without notice.
package rebuildrecord

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	// PredicateType is the type of the predicate.
	PredicateType = "https://github.com/waybill-release/waybill/attestations/rebuild/v1"
	// Role is the role of a rebuilder, and of its token.
	Role = "rebuilder"
	// Other is the code of a statement in the name of another rebuilder.
	Other verdict.Code = "REBUILDER"
	// MaxSubjects is how many artifacts a statement is about at most: other
	// clients read no more.
	MaxSubjects = 1000
)

const (
	maxSize = 1 << 20
	maxText = 1024
)

// Predicate says who built what again, and from what.
type Predicate struct {
	Rebuilder  Rebuilder `json:"rebuilder"`
	Source     Source    `json:"source"`
	Provenance []string  `json:"provenance"` // SHA-256 of each bundle that said how
	Isolation  string    `json:"isolation"`
	FinishedOn time.Time `json:"finishedOn"`
}

// Rebuilder is who built, by the id in policies.
type Rebuilder struct {
	ID string `json:"id"`
}

// Source is the commit that was built.
type Source struct {
	Repository string `json:"repository"`
	Commit     string `json:"commit"`
}

// Validate refuses a statement that does not say who built what.
func (p Predicate) Validate() error {
	switch {
	case !oneline.Is(p.Rebuilder.ID, maxText) || !strings.Contains(p.Rebuilder.ID, ":"):
		return fmt.Errorf("rebuilder.id %.40q: want a URI", p.Rebuilder.ID)
	case !oneline.Is(p.Source.Repository, maxText) || !oneline.Is(p.Source.Commit, maxText):
		return fmt.Errorf("source: want a repository and a commit")
	case len(p.Provenance) == 0:
		return fmt.Errorf("provenance: want the digest of each bundle that said how to build")
	case !oneline.Is(p.Isolation, maxText) || p.FinishedOn.IsZero():
		return fmt.Errorf("want isolation and finishedOn")
	}
	for _, hex := range p.Provenance {
		if _, err := digest.ParseHex(digest.SHA256, hex); err != nil {
			return fmt.Errorf("provenance: %w", err)
		}
	}
	return nil
}

// New makes the statement about the artifacts that were reproduced.
func New(subjects []intoto.Subject, p Predicate) (intoto.Statement, error) {
	if len(subjects) > MaxSubjects {
		return intoto.Statement{}, verdict.Refuse(verdict.Limit, "rebuild", "%d artifacts, and a statement is about %d at most; name those to rebuild", len(subjects), MaxSubjects)
	}
	return intoto.NewFor(Parse, PredicateType, subjects, p)
}

// Parse parses the statement strictly. It is not verified.
func Parse(s intoto.Statement) (p Predicate, err error) {
	if _, err := s.DecodeStrict(PredicateType, "rebuild", "a rebuild", maxSize, &p); err != nil {
		return Predicate{}, err
	}
	return p, nil
}

// Name is the n-th name, from 1, of a statement beside the manifest of a release.
func Name(n int) string { return fmt.Sprintf("release.rebuild-%d.sigstore.json", n) }

// IsName reports whether a name is one of [Name].
func IsName(name string) bool {
	var n int
	_, err := fmt.Sscanf(name, "release.rebuild-%d.sigstore.json", &n)
	return err == nil && n > 0 && name == Name(n)
}
