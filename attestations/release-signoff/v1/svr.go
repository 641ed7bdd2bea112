package releasesignoff

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// SVRType is in-toto's simple verification result, which generic engines read.
const SVRType = "https://in-toto.io/attestation/svr/v0.2"

// svr is its predicate.
type svr struct {
	Verifier    verifier  `json:"verifier"`
	TimeCreated time.Time `json:"timeCreated"`
	Properties  []string  `json:"properties"`
}

type verifier struct {
	ID string `json:"id"`
	// Policies are what was judged by: the template.
	Policies []policy `json:"policies"`
}

type policy struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// SVR says of a sign-off, in the form that generic engines read, that it was
// given: for which milestone, and whether anything was excepted.
func SVR(release digest.Set, p Predicate) (intoto.Statement, error) {
	if err := p.Validate(); err != nil {
		return intoto.Statement{}, err
	}
	return intoto.New(SVRType, []intoto.Subject{{Name: Config, Digests: release}}, svr{
		Verifier:    verifier{ID: p.Checker.ID, Policies: []policy{{p.Template.Name, map[string]string{"sha256": p.Template.Digest.Hex()}}}},
		TimeCreated: p.Checked,
		Properties:  p.Properties(),
	})
}

// SummaryTime is when a summary says that it was made.
func SummaryTime(s intoto.Statement) (time.Time, error) {
	var said struct {
		TimeCreated time.Time `json:"timeCreated"`
	}
	if s.PredicateType() != SVRType {
		return time.Time{}, verdict.Refuse(verdict.PredicateType, "summary", "says %q, not what was verified", s.PredicateType())
	}
	if err := json.Unmarshal(s.Predicate(), &said); err != nil || said.TimeCreated.IsZero() {
		return time.Time{}, verdict.Refuse(verdict.StatementParse, "summary", "it does not say when it was made")
	}
	return said.TimeCreated, nil
}

// Properties are what holds of the release, as words that engines compare.
func (p Predicate) Properties() []string {
	word := "WAYBILL_RELEASE_SIGNOFF_" + strings.ToUpper(strings.ReplaceAll(p.Milestone, ".", "_"))
	list := []string{word}
	if len(p.Exceptions) == 0 {
		list = append(list, word+"_WITHOUT_EXCEPTIONS")
	}
	if len(p.Left) == 0 {
		list = append(list, word+"_COMPLETE")
	}
	return list
}
