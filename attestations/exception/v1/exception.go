// Package exception is the wire form of the exception predicate, version 1:
// for a short time, at one destination, under one policy, one finding about
// one artifact does not refuse.
//
//	s, err := exception.New(subject, exception.Predicate{Code: verdict.NoSBOM, Reason: …})
//	e, err := exception.Parse(evidence.Statement())
//
// The README beside this file is the specification and schema.json its JSON
// Schema. Who may sign one, and what one may never set aside, others decide:
// see pkg/judge/waiver.
package exception

import (
	"strings"
	"time"
	"unicode"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType names the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/exception/v1"

// Suffix ends the name of a bundle that carries an exception.
const Suffix = ".exception.sigstore.json"

// MaxLife is the longest that an exception can last: whoever needs it longer
// needs another policy.
const MaxLife = 30 * 24 * time.Hour

// The bounds of what is written.
const (
	MaxSize        = 8 << 10
	maxReason      = 300
	maxDestination = 1024
)

// Predicate says what is set aside, where, under what, why and how long.
type Predicate struct {
	Code        verdict.Code  `json:"code"`
	Reason      string        `json:"reason"`
	Destination string        `json:"destination"`
	Policy      digest.Digest `json:"policy"`
	Issued      time.Time     `json:"issued"`
	Expires     time.Time     `json:"expires"`
}

// Exception is a parsed statement: the predicate, and the one artifact that it
// is about. It is believed by nobody yet.
type Exception struct {
	Predicate
	Artifact intoto.Subject
}

// Validate refuses a predicate that leaves something open, or that lasts.
func (p Predicate) Validate() error {
	switch {
	case p.Code.Fix() == "":
		return refuse("code %q is none of this version", p.Code)
	case !isLine(p.Reason, maxReason):
		return refuse("reason %q: want one line of up to %d bytes that says why", p.Reason, maxReason)
	case !isLine(p.Destination, maxDestination) || strings.Contains(p.Destination, " "):
		return refuse("destination %q: want the canonical address of one place", p.Destination)
	case p.Policy.Algorithm() != digest.SHA256:
		return refuse("policy: want the sha256 digest of one policy")
	case p.Issued.IsZero() || !p.Expires.After(p.Issued):
		return refuse("it is issued %s and expires %s: want a time after another", p.Issued.Format(time.RFC3339), p.Expires.Format(time.RFC3339))
	case p.Expires.Sub(p.Issued) > MaxLife:
		return refuse("it would last %s, the limit is %s", p.Expires.Sub(p.Issued), MaxLife)
	}
	return nil
}

// isLine reports whether text is one line that shows what it says.
func isLine(text string, limit int) bool {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	return text != "" && len(text) <= limit && strings.TrimSpace(text) == text && !strings.ContainsFunc(text, hidden)
}

// New makes the statement about one artifact.
func New(artifact intoto.Subject, p Predicate) (intoto.Statement, error) {
	s, err := intoto.New(PredicateType, []intoto.Subject{artifact}, p)
	if err != nil {
		return intoto.Statement{}, err
	}
	_, err = Parse(s)
	return s, err
}

// Parse reads the statement strictly.
func Parse(s intoto.Statement) (Exception, error) {
	if s.PredicateType() != PredicateType {
		return Exception{}, verdict.Refuse(verdict.PredicateType, "exception", "says %q, not an exception", s.PredicateType())
	}
	s, err := s.Strict()
	if err != nil {
		return Exception{}, err
	}
	var p Predicate
	if err := strictjson.Unmarshal(s.Predicate(), &p, strictjson.MaxSize(MaxSize)); err != nil {
		return Exception{}, verdict.Wrap(verdict.StatementParse, "exception", err)
	}
	if err := p.Validate(); err != nil {
		return Exception{}, err
	}
	subjects := s.Subjects()
	if len(subjects) != 1 {
		return Exception{}, refuse("%d subjects: one exception is about one artifact", len(subjects))
	}
	if err := releasemanifest.CheckName(nameOf(subjects[0])); err != nil {
		return Exception{}, verdict.Wrap(verdict.Path, subjects[0].Name, err)
	}
	return Exception{Predicate: p, Artifact: subjects[0]}, nil
}

// nameOf is the part of a subject's name that has to be one: an image that no
// manifest names is called REPOSITORY@sha256:…, by its own digest.
func nameOf(s intoto.Subject) string {
	if repository, is := strings.CutSuffix(s.Name, "@"+s.Digests.SHA256.String()); is && !s.Digests.SHA256.IsZero() {
		return repository
	}
	return s.Name
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, "exception", format, args...)
}
