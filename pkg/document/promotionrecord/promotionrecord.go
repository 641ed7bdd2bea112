// Package promotionrecord reads and writes the records of promotions: which
// image was copied from where to where, when, under which tags and by which
// program.
//
// The predicate is that of the Kubernetes promoter and defined by that project.
// Its readers can read what this package writes, and the reverse. A [Record] is
// parsed, not verified: it counts if the verifier role signed it, and proves
// nothing about how an image was built.
//
//	s, err := promotionrecord.New(promotionrecord.Record{…}, "registry.example.test/lantern")
//	r, err := promotionrecord.Parse(s)
//
// Specification: https://k8s.io/promo-tools/promotion/v1, which is
// docs/promotion-predicate.md of kubernetes-sigs/promo-tools: the JSON form of
// a protobuf message, with names in lower camel case and empty fields left out.
//
// Other projects should not import this package: it changes without notice.
package promotionrecord

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType is the type of promotion records, version 1.
const PredicateType = "https://k8s.io/promo-tools/promotion/v1"

// The limits of a record.
const (
	maxPredicate = 1 << 20
	maxTags      = 10_000
)

// Record is one promotion of one digest.
type Record struct {
	// Source is where the image was, without its digest; empty if not known.
	Source string
	// Destination is its first name in production, without digest or tag.
	Destination string
	Digest      digest.Digest
	Time        time.Time
	// Builder names the program that promoted it, with its version.
	Builder string
	Tags    []string
	// Manifest is the document that requested the promotion; zero if there is
	// none.
	Manifest Resource
	Promoter Promoter
	Job      Job
}

// Resource is a thing as the record describes it.
type Resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

// Promoter is the promoting program.
type Promoter struct {
	Version string `json:"version,omitempty"`
	Commit  string `json:"gitCommit,omitempty"`
}

// Job is the CI job that ran it.
type Job struct {
	Name      string `json:"name,omitempty"`
	Type      string `json:"type,omitempty"`
	BuildID   string `json:"buildId,omitempty"`
	ProwJobID string `json:"prowJobId,omitempty"`
}

type wire struct {
	SrcRef      string    `json:"srcRef,omitempty"`
	DstRef      string    `json:"dstRef,omitempty"`
	Digest      string    `json:"digest,omitempty"`
	Time        string    `json:"timestamp,omitempty"`
	Builder     string    `json:"builderId,omitempty"`
	Tags        []string  `json:"tags,omitempty"`
	Source      *Resource `json:"source,omitempty"`
	Destination *Resource `json:"destination,omitempty"`
	Manifest    Resource  `json:"manifest,omitzero"`
	Promoter    Promoter  `json:"promoter,omitzero"`
	Job         Job       `json:"job,omitzero"`
}

// New makes the statement of a record. Its subjects are the names under which
// the digest is in production, including the record's destination: one
// statement for all of them.
func New(r Record, names ...string) (intoto.Statement, error) {
	if r.Digest.IsZero() || r.Time.IsZero() {
		return intoto.Statement{}, refuse("want a digest and a time")
	}
	sum := func(name string) *Resource {
		return &Resource{Name: name, Digest: map[string]string{r.Digest.Algorithm().String(): r.Digest.Hex()}}
	}
	w := wire{
		DstRef: r.Destination, Digest: r.Digest.String(), Time: r.Time.UTC().Format(time.RFC3339), Builder: r.Builder,
		Tags: slice.Unique(r.Tags), Destination: sum(r.Destination),
		Manifest: r.Manifest, Promoter: r.Promoter, Job: r.Job,
	}
	if r.Source != "" {
		w.SrcRef, w.Source = r.Source+"@"+r.Digest.String(), sum(r.Source)
	}
	var subjects []intoto.Subject
	for _, name := range slice.Unique(append([]string{r.Destination}, names...)) {
		subjects = append(subjects, intoto.Subject{Name: name, Digests: digest.Set{SHA256: r.Digest}})
	}
	return intoto.NewFor(Parse, PredicateType, subjects, w)
}

// Parse parses a record. It ignores unknown fields, because the specification
// may add some; two fields that contradict each other are refused.
func Parse(s intoto.Statement) (Record, error) {
	if s.PredicateType() != PredicateType {
		return Record{}, verdict.Refuse(verdict.PredicateType, "promotion record", "says %.200q, not a promotion record", s.PredicateType())
	}
	var w wire
	if err := strictjson.UnmarshalOpen(s.Predicate(), &w, strictjson.MaxSize(maxPredicate)); err != nil {
		return Record{}, verdict.Wrap(verdict.StatementParse, "promotion record", err)
	}
	r := Record{Destination: w.DstRef, Builder: w.Builder, Tags: w.Tags, Manifest: w.Manifest, Promoter: w.Promoter, Job: w.Job}
	for _, read := range []func(wire) error{r.what, r.whence, r.tagged} {
		if err := read(w); err != nil {
			return Record{}, err
		}
	}
	if err := r.of(s); err != nil {
		return Record{}, err
	}
	return r, nil
}

// what checks the digest and the time.
func (r *Record) what(w wire) (err error) {
	if r.Digest, err = digest.Parse(w.Digest); err != nil || r.Digest.Algorithm() != digest.SHA256 {
		return refuse("digest: %.200q is not a SHA-256", w.Digest)
	}
	if r.Time, err = time.Parse(time.RFC3339, w.Time); err != nil {
		return refuse("timestamp: %.200q is not in RFC 3339 format", w.Time)
	}
	r.Time = r.Time.UTC()
	switch {
	case w.Builder == "":
		return refuse("builderId: missing")
	case w.DstRef == "" || strings.ContainsAny(w.DstRef, "@ \t\r\n"):
		return refuse("dstRef: %.200q is not an image name without digest", w.DstRef)
	}
	return nil
}

// whence checks that the descriptors agree with the names: both are in the
// record.
func (r *Record) whence(w wire) error {
	if w.SrcRef != "" {
		name, sum, _ := strings.Cut(w.SrcRef, "@")
		if name == "" || sum != r.Digest.String() {
			return refuse("srcRef: %.200q does not name the digest that was promoted", w.SrcRef)
		}
		r.Source = name
	}
	if w.Source != nil && (w.Source.Name != r.Source || w.Source.Digest["sha256"] != r.Digest.Hex()) {
		return refuse("source: does not match srcRef")
	}
	if w.Destination != nil && (w.Destination.Name != w.DstRef || w.Destination.Digest["sha256"] != r.Digest.Hex()) {
		return refuse("destination: does not match dstRef")
	}
	return nil
}

func (r *Record) tagged(w wire) error {
	if len(w.Tags) > maxTags {
		return verdict.Refuse(verdict.Limit, "promotion record", "%d tags, the limit is %d", len(w.Tags), maxTags)
	}
	for i, tag := range w.Tags {
		if tag == "" || len(tag) > 128 || strings.ContainsAny(tag, ":/@ \t\r\n") || i > 0 && w.Tags[i-1] >= tag {
			return refuse("tags: %.200q is not a tag, or not in order", tag)
		}
	}
	return nil
}

// of checks the record against its statement: every subject has the digest, and
// one of them is the destination.
func (r *Record) of(s intoto.Statement) error {
	named := false
	for _, sub := range s.Subjects() {
		if !sub.Digests.SHA256.Equal(r.Digest) {
			return refuse("subject %.200q is not the digest that was promoted", sub.Name)
		}
		named = named || sub.Name == r.Destination
	}
	if !named {
		return refuse("dstRef: %.200q is not one of the subjects", r.Destination)
	}
	return nil
}

// Gist is the digest of the essence of a record: which digest was promoted,
// from where, to where and under which tags. It excludes the time, the job, the
// program and the requesting document, so that a repeated promotion can be
// recognized as already recorded.
func Gist(s intoto.Statement) (digest.Digest, error) {
	r, err := Parse(s)
	if err != nil {
		return digest.Digest{}, err
	}
	raw, err := json.Marshal(struct {
		Subjects            []intoto.Resource
		Source, Destination string
		Tags                []string
	}{s.Resources(), r.Source, r.Destination, r.Tags})
	if err != nil {
		return digest.Digest{}, fmt.Errorf("encoding the gist of a promotion record: %w", err)
	}
	return digest.Of(digest.SHA256, raw), nil
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, "promotion record", format, args...)
}
