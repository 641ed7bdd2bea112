// Package exception is the encoding of the exception predicate, version 1: for
// a short time, at one destination, under one policy, one finding about one
// artifact is waived.
//
//	s, err := exception.New(subject, exception.Predicate{Code: verdict.NoSBOM, Reason: …})
//	e, err := exception.Parse(evidence.Statement())
//
// The README beside this file is the specification and schema.json its JSON
// Schema. pkg/judge/waiver decides who may sign an exception, and which codes
// can be waived.
package exception

import (
	"strings"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/exception/v1"

// Suffix ends the name of a bundle with an exception.
const Suffix = ".exception.sigstore.json"

// MaxLife is the longest lifetime of an exception. Change the policy for
// anything that is needed longer.
const MaxLife = 30 * 24 * time.Hour

// The limits of the texts.
const (
	maxSize        = 8 << 10
	maxReason      = 300
	maxDestination = 1024
)

// Predicate says what is waived, where, under which policy, why and how long.
type Predicate struct {
	Code        verdict.Code  `json:"code"`
	Reason      string        `json:"reason"`
	Destination string        `json:"destination"`
	Policy      digest.Digest `json:"policy"`
	Issued      time.Time     `json:"issued"`
	Expires     time.Time     `json:"expires"`
}

// Exception is a parsed statement: the predicate, and its only artifact. It is
// not verified.
type Exception struct {
	Predicate
	Artifact intoto.Subject
}

// Validate refuses a predicate that is incomplete, or that lasts too long.
func (p Predicate) Validate() error {
	switch {
	case p.Code.Fix() == "":
		return refuse("code %q is unknown in this version", p.Code)
	case !oneline.Is(p.Reason, maxReason):
		return refuse("reason %q: want one line of up to %d bytes that says why", p.Reason, maxReason)
	case !oneline.Is(p.Destination, maxDestination) || strings.Contains(p.Destination, " "):
		return refuse("destination %q: want the canonical address of one place", p.Destination)
	case p.Policy.Algorithm() != digest.SHA256:
		return refuse("policy: want the sha256 digest of one policy")
	case p.Issued.IsZero() || !p.Expires.After(p.Issued):
		return refuse("issued %s, expires %s: want an expiry after the issue time", p.Issued.Format(time.RFC3339), p.Expires.Format(time.RFC3339))
	case p.Expires.Sub(p.Issued) > MaxLife:
		return refuse("the lifetime is %s, the limit is %s", p.Expires.Sub(p.Issued), MaxLife)
	}
	return nil
}

// New makes the statement about one artifact.
func New(artifact intoto.Subject, p Predicate) (intoto.Statement, error) {
	return intoto.NewFor(Parse, PredicateType, []intoto.Subject{artifact}, p)
}

// Parse parses the statement strictly.
func Parse(s intoto.Statement) (Exception, error) {
	var p Predicate
	s, err := s.DecodeStrict(PredicateType, "exception", "an exception", maxSize, &p)
	if err != nil {
		return Exception{}, err
	}
	subjects := s.Subjects()
	if len(subjects) != 1 {
		return Exception{}, refuse("%d subjects, want 1: an exception is about one artifact", len(subjects))
	}
	if err := releasemanifest.CheckName(nameOf(subjects[0])); err != nil {
		return Exception{}, verdict.Wrap(verdict.Path, subjects[0].Name, err)
	}
	return Exception{Predicate: p, Artifact: subjects[0]}, nil
}

// nameOf returns the part of a subject's name that is checked: an image that is
// in no manifest is named REPOSITORY@sha256:…, by its own digest.
func nameOf(s intoto.Subject) string {
	if repository, is := strings.CutSuffix(s.Name, "@"+s.Digests.SHA256.String()); is && !s.Digests.SHA256.IsZero() {
		return repository
	}
	return s.Name
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, "exception", format, args...)
}
