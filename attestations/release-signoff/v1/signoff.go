// Package releasesignoff is the encoding of the release sign-off predicate,
// version 1: the documents that a release depends on were checked, with this
// result.
//
//	s, err := releasesignoff.New(config, p)
//	x, err := releasesignoff.Parse(evidence.Statement())
//
// The README beside this file is the specification and schema.json its JSON
// Schema. pkg/govern/signoff checks the documents; a policy decides who may
// sign, and when a sign-off is required.
package releasesignoff

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/release-signoff/v1"

// Name is the name of the bundle in the place of a release, and Summary that of
// the bundle with the same result for generic policy engines.
const (
	Name    = "release-signoff.sigstore.json"
	Summary = "release-signoff.svr.sigstore.json"
)

// configName is the name of the subject.
const configName = "release.yaml"

// maxSize limits the predicate.
const maxSize = 4 << 20

// MaxLife is the longest lifetime of a sign-off.
const MaxLife = 400 * 24 * time.Hour

const (
	maxDocuments = 2000
	maxText      = 4096
)

// Predicate says which documents were checked, with what, and the result.
type Predicate struct {
	Milestone  string      `json:"milestone"`
	Source     Source      `json:"source"`
	Checker    Checker     `json:"checker"`
	Template   File        `json:"template"`
	Checked    time.Time   `json:"checked"`
	Expires    time.Time   `json:"expires"`
	Documents  []Document  `json:"documents"`
	Exceptions []Exception `json:"exceptions,omitempty"`
	// Left lists what was not checked.
	Left []string `json:"left,omitempty"`
}

// Source is the origin of the release.yaml.
type Source struct {
	Repository string `json:"repository"`
	Commit     string `json:"commit"`
}

// Checker is the program that checked.
type Checker struct {
	ID      string `json:"id"`
	Version string `json:"version"`
}

// File is a file with its digest.
type File struct {
	Name   string        `json:"name"`
	Digest digest.Digest `json:"digest"`
}

// Document is one enhancement that was checked.
type Document struct {
	Directory string    `json:"directory"`
	Number    string    `json:"number"`
	Title     string    `json:"title"`
	Stage     string    `json:"stage"`
	Status    string    `json:"status"`
	Files     []File    `json:"files"`
	Sections  Sections  `json:"sections"`
	Review    Review    `json:"review"`
	Gates     []string  `json:"gates,omitempty"`
	Checklist []Item    `json:"checklist,omitempty"`
	Findings  []Finding `json:"findings,omitempty"`
}

// Sections counts what the stage requires.
type Sections struct {
	Required int `json:"required"`
	Filled   int `json:"filled"`
}

// Review says whether a production readiness review was required, and was
// approved.
type Review struct {
	Required bool `json:"required"`
	Approved bool `json:"approved"`
}

// Item is one box of the checklist. Evidence is machine if a check proves it,
// claimed if a person ticked it, and none otherwise.
type Item struct {
	Text     string `json:"text"`
	Required bool   `json:"required"`
	Ticked   bool   `json:"ticked"`
	Evidence string `json:"evidence"`
	Proof    string `json:"proof,omitempty"`
	By       string `json:"by,omitempty"`
}

// Finding is a finding that does not refuse the release: a warning, or an
// excepted one.
type Finding struct {
	Code     string `json:"code"`
	About    string `json:"about"`
	Message  string `json:"message"`
	Excepted bool   `json:"excepted"`
}

// Exception is a temporary exception by a person.
type Exception struct {
	Document string    `json:"document"`
	Code     string    `json:"code"`
	About    string    `json:"about"`
	Reason   string    `json:"reason"`
	Approver string    `json:"approver"`
	Filed    time.Time `json:"filed"`
	Expires  time.Time `json:"expires"`
}

// Signoff is a parsed statement: the predicate, and its release.yaml. It is not
// verified.
type Signoff struct {
	Predicate
	Release digest.Set
}

var (
	milestone = pattern.Lazy(`\Av(?:0|[1-9]\d{0,3})\.(?:0|[1-9]\d{0,3})\z`)
	commit    = pattern.Lazy(`\A(?:[0-9a-f]{40}|[0-9a-f]{64})\z`)
	stages    = pattern.Lazy(`\A(?:alpha|beta|stable)\z`)
	evidence  = pattern.Lazy(`\A(?:machine|claimed|none)\z`)
)

// Validate refuses a predicate that is incomplete, or that lasts too long.
func (p Predicate) Validate() error {
	switch {
	case !milestone().MatchString(p.Milestone):
		return refuse("milestone %q: want one such as v1.37", p.Milestone)
	case !oneline.Is(p.Source.Repository, maxText) || !commit().MatchString(p.Source.Commit):
		return refuse("source: want a repository and the full id of a commit")
	case !oneline.Is(p.Checker.ID, maxText) || !oneline.Is(p.Checker.Version, maxText):
		return refuse("checker: want id and version")
	case p.Checked.IsZero() || !p.Expires.After(p.Checked):
		return refuse("checked %s, expires %s: want an expiry after the time of the checks", p.Checked.Format(time.RFC3339), p.Expires.Format(time.RFC3339))
	case p.Expires.Sub(p.Checked) > MaxLife:
		return refuse("the lifetime is %s, the limit is %s", p.Expires.Sub(p.Checked), MaxLife)
	case len(p.Documents) == 0 || len(p.Documents) > maxDocuments:
		return refuse("%d documents: want 1 to %d", len(p.Documents), maxDocuments)
	}
	if err := p.Template.validate(); err != nil {
		return err
	}
	for i, d := range p.Documents {
		if err := d.Validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(p.Documents[:i], func(o Document) bool { return o.Directory == d.Directory }) {
			return refuse("document %q is listed twice", d.Directory)
		}
	}
	return p.excepted()
}

// excepted refuses incomplete exceptions, exceptions that had expired, and
// findings that are marked as excepted without an exception.
func (p Predicate) excepted() error {
	for _, x := range p.Exceptions {
		switch {
		case !oneline.Is(x.Document, maxText) || !oneline.Is(x.Code, maxText) || !oneline.Is(x.About, maxText) || !oneline.Is(x.Reason, maxText) || !oneline.Is(x.Approver, maxText):
			return refuse("exception %q of %q: want document, code, about, reason and approver, a line each", x.Code, x.Document)
		case x.Filed.IsZero() || !x.Expires.After(x.Filed):
			return refuse("exception %q of %q: want a filing date, and a later end date", x.Code, x.Document)
		case !x.Expires.After(p.Checked):
			return refuse("exception %q of %q had expired when it was checked", x.Code, x.Document)
		}
	}
	for _, d := range p.Documents {
		for _, f := range d.Findings {
			is := func(x Exception) bool { return x.Document == d.Number && x.Code == f.Code && x.About == f.About }
			if f.Excepted && !slices.ContainsFunc(p.Exceptions, is) {
				return refuse("%s: %s about %q is marked as excepted, but has no exception", d.Directory, f.Code, f.About)
			}
		}
	}
	return nil
}

// Validate refuses a document that is not identified, or without the result of
// its checks.
func (d Document) Validate() error {
	switch {
	case !oneline.Is(d.Directory, maxText) || !oneline.Is(d.Number, maxText) || !oneline.Is(d.Title, maxText) || !oneline.Is(d.Status, maxText):
		return refuse("document %q: want directory, number, title and status, a line each", d.Directory)
	case !stages().MatchString(d.Stage):
		return refuse("%s: stage %q, want alpha, beta or stable", d.Directory, d.Stage)
	case len(d.Files) == 0:
		return refuse("%s: no files", d.Directory)
	case d.Sections.Required < 1 || d.Sections.Filled < 0 || d.Sections.Filled > d.Sections.Required:
		return refuse("%s: %d of %d sections; want a number of those that are required", d.Directory, d.Sections.Filled, d.Sections.Required)
	}
	for _, f := range d.Files {
		if err := f.validate(); err != nil {
			return err
		}
	}
	for _, it := range d.Checklist {
		if !oneline.Is(it.Text, maxText) || !evidence().MatchString(it.Evidence) || it.Evidence == "claimed" && !it.Ticked || it.Evidence == "machine" && !oneline.Is(it.Proof, maxText) {
			return refuse("%s: the item %q: want its text, and machine with what was found, claimed where it is ticked, or none", d.Directory, it.Text)
		}
	}
	for _, f := range d.Findings {
		if !oneline.Is(f.Code, maxText) || !oneline.Is(f.About, maxText) || !oneline.Is(f.Message, maxText) {
			return refuse("%s: a finding without code, about or message", d.Directory)
		}
	}
	return nil
}

func (f File) validate() error {
	if !oneline.Is(f.Name, maxText) || f.Digest.Algorithm() != digest.SHA256 {
		return refuse("file %q: want a name and a sha256 digest", f.Name)
	}
	return nil
}

// Ends is when the sign-off, or the first exception in it, expires.
func (p Predicate) Ends() time.Time {
	end := p.Expires
	for _, x := range p.Exceptions {
		if x.Expires.Before(end) {
			end = x.Expires
		}
	}
	return end
}

// New makes the statement about one release.yaml.
func New(release digest.Set, p Predicate) (intoto.Statement, error) {
	return intoto.NewFor(Parse, PredicateType, []intoto.Subject{{Name: configName, Digests: release}}, p)
}

// Parse parses the statement strictly.
func Parse(s intoto.Statement) (x Signoff, err error) {
	s, err = s.DecodeStrict(PredicateType, "sign-off", "a sign-off", maxSize, &x.Predicate)
	if err != nil {
		return Signoff{}, err
	}
	subjects := s.Subjects()
	if len(subjects) != 1 || subjects[0].Name != configName || subjects[0].Digests.SHA256.IsZero() {
		return Signoff{}, refuse("want one subject, %s, with its sha256", configName)
	}
	x.Release = subjects[0].Digests
	return x, nil
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, "sign-off", "%s", fmt.Sprintf(format, args...))
}

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
