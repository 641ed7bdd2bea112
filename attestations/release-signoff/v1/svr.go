package releasesignoff

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// SVRType is in-toto's simple verification result, which generic policy engines
// read.
const SVRType = "https://in-toto.io/attestation/svr/v0.2"

// svr is its predicate.
type svr struct {
	Verifier    verifier  `json:"verifier"`
	TimeCreated time.Time `json:"timeCreated"`
	Properties  []string  `json:"properties"`
}

type verifier struct {
	ID string `json:"id"`
	// Policies is what was checked against: the template.
	Policies []policy `json:"policies"`
}

type policy struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// SVR makes a simple verification result of a sign-off: its milestone, and
// whether anything was excepted.
func SVR(release digest.Set, p Predicate) (intoto.Statement, error) {
	if err := p.Validate(); err != nil {
		return intoto.Statement{}, err
	}
	return intoto.New(SVRType, []intoto.Subject{{Name: configName, Digests: release}}, svr{
		Verifier:    verifier{ID: p.Checker.ID, Policies: []policy{{p.Template.Name, map[string]string{"sha256": p.Template.Digest.Hex()}}}},
		TimeCreated: p.Checked,
		Properties:  p.Properties(),
	})
}

// SummaryTime is the creation time in a summary.
func SummaryTime(s intoto.Statement) (time.Time, error) {
	var said struct {
		TimeCreated time.Time `json:"timeCreated"`
	}
	if s.PredicateType() != SVRType {
		return time.Time{}, verdict.Refuse(verdict.PredicateType, "summary", "says %q, not a verification result", s.PredicateType())
	}
	if err := json.Unmarshal(s.Predicate(), &said); err != nil || said.TimeCreated.IsZero() {
		return time.Time{}, verdict.Refuse(verdict.StatementParse, "summary", "the summary has no creation time")
	}
	return said.TimeCreated, nil
}

// Properties are the properties of the release, as strings that engines
// compare.
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
