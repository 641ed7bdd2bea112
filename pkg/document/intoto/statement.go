// Package intoto reads and writes in-toto Statements and the DSSE envelopes
// that carry them.
//
// A [Statement] is parsed: it has the shape, and nobody has been believed. It
// keeps the very bytes it was read from, because those are what somebody
// signed; nothing here ever encodes a statement a second time. Belief is the
// business of pkg/judge/verify, which turns a statement inside a verified envelope
// into evidence.
//
//	s, err := intoto.Parse(payload)
//	for _, subject := range s.Subjects() { … }
//
// There are two readers. [Parse] is for the statements that we write: version
// 1, no field that we do not know, every subject with a name of its own and a
// SHA-256. [ParseOpen] is for everybody else's: versions 0.1 and 1, fields
// that the specification tells consumers to ignore, subjects that are a Git
// commit or carry SHA-512 only. What neither allows is a text that two readers
// could read differently. A statement read by the open reader proves its
// strictness with [Statement.Strict] before it is taken for one of ours.
//
// Envelopes are read by [ParseEnvelope], files of several are split by [Lines];
// Sigstore bundles are the business of pkg/judge/verify.
//
// Specifications: in-toto Attestation Framework, Statement v0.1 and v1,
// ResourceDescriptor, DigestSet; DSSE v1.
package intoto

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The names that the specification gives.
const (
	TypeV1      = "https://in-toto.io/Statement/v1"
	TypeV01     = "https://in-toto.io/Statement/v0.1" // written for predicates of its time only
	PayloadType = "application/vnd.in-toto+json"
)

// MaxSubjects bounds one statement; larger sets are split into pages.
const MaxSubjects = 100_000

// Subject is one thing that a statement speaks of. Its digests are the strong
// ones; in a statement of others there may be none, and then it is bound to no
// bytes: see [Resource] for what was written.
type Subject struct {
	Name    string
	Digests digest.Set
}

// Statement is a parsed statement beside the bytes it was parsed from.
type Statement struct {
	raw           []byte
	kind          string
	predicateType string
	subjects      []Subject
	written       *written         // in place of subjects
	open          bool             // it came through the open reader
	plain         bool             // which read all of it as plain
	extra         map[int]Resource // what else was written of a subject, by its place
	predicate     json.RawMessage
	names         *names
}

type wireSubject struct {
	Name             string            `json:"name,omitempty"`
	URI              string            `json:"uri,omitempty"`
	Digest           map[string]string `json:"digest"`
	Content          string            `json:"content,omitempty"`
	DownloadLocation string            `json:"downloadLocation,omitempty"`
	MediaType        string            `json:"mediaType,omitempty"`
	Annotations      map[string]any    `json:"annotations,omitempty"`
}

type wireStatement struct {
	Type          string          `json:"_type"`
	Subject       []wireSubject   `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// New encodes a statement, once. Subjects keep their order.
func New(predicateType string, subjects []Subject, predicate any) (Statement, error) {
	raw, said, plain, err := encode(TypeV1, predicateType, subjects, predicate)
	if err != nil {
		return Statement{}, err
	}
	if !plain {
		return Parse(raw)
	}
	return made(raw, said, predicateType, len(subjects))
}

// NewV01 encodes a statement of the older version, for a predicate whose
// readers know no newer one.
func NewV01(predicateType string, subjects []Subject, predicate any) (Statement, error) {
	raw, _, _, err := encode(TypeV01, predicateType, subjects, predicate)
	if err != nil {
		return Statement{}, err
	}
	return ParseOpen(raw)
}

// Parse reads a statement of the form that we write. It refuses what two
// readers could read differently, an older version, an unknown field, an empty
// subject list, a subject without SHA-256, and two subjects of one name.
func Parse(raw []byte) (Statement, error) {
	if s, is := plainStatement(raw); is && s.kind == TypeV1 && distinct(s.subjects) {
		return s.apart(), nil
	}
	return parse(raw)
}

// parse reads a statement of any form by the whole rules.
func parse(raw []byte) (Statement, error) {
	if err := countSubjects(raw); err != nil {
		return Statement{}, err
	}
	var wire wireStatement
	if err := strictjson.Unmarshal(raw, &wire); err != nil {
		return Statement{}, verdict.Wrap(verdict.StatementParse, "statement", err)
	}
	if wire.Type != TypeV1 {
		return Statement{}, verdict.Refuse(verdict.StatementType, "statement", "unknown statement type %q", short(wire.Type))
	}
	if err := checkPredicate(wire.PredicateType, wire.Predicate); err != nil {
		return Statement{}, err
	}
	subjects, err := parseSubjects(wire.Subject)
	if err != nil {
		return Statement{}, err
	}
	return Statement{
		raw: slices.Clone(raw), kind: wire.Type, predicateType: wire.PredicateType,
		subjects: subjects, predicate: wire.Predicate, names: &names{},
	}, nil
}

func checkPredicate(predicateType string, predicate json.RawMessage) error {
	if predicateType == "" || len(predicate) == 0 || predicate[0] != '{' {
		return verdict.Refuse(verdict.StatementParse, "statement", "no predicate, or one that is no object")
	}
	return nil
}

func parseSubjects(wire []wireSubject) ([]Subject, error) {
	if len(wire) == 0 {
		return nil, verdict.Refuse(verdict.StatementParse, "statement", "no subjects")
	}
	seen := make(map[string]bool, len(wire))
	subjects := make([]Subject, 0, len(wire))
	for i, s := range wire {
		if s.Name != "" && seen[s.Name] {
			return nil, verdict.Refuse(verdict.StatementParse, short(s.Name), "two subjects have this name")
		}
		seen[s.Name] = true
		set, err := digest.ParseMap(s.Digest)
		if err != nil {
			return nil, verdict.Refuse(verdict.StatementParse, short(s.Name), "digest of subject %d: %v", i, err)
		}
		subjects = append(subjects, Subject{Name: s.Name, Digests: set})
	}
	return subjects, nil
}

// Raw is the statement as it was read or encoded.
func (s Statement) Raw() []byte { return slices.Clone(s.raw) }

// PAE is what a signature of the statement in an envelope signs: the
// pre-authentication encoding of DSSE, with the statement last and not copied.
func (s Statement) PAE() io.Reader {
	head := fmt.Sprintf("DSSEv1 %d %s %d ", len(PayloadType), PayloadType, len(s.raw))
	return io.MultiReader(strings.NewReader(head), bytes.NewReader(s.raw))
}

// Type is the version of the statement, as a name of the specification.
func (s Statement) Type() string { return s.kind }

// PredicateType names what the statement says.
func (s Statement) PredicateType() string { return s.predicateType }

// Subjects are the things it speaks of.
func (s Statement) Subjects() []Subject { return slices.Clone(s.list()) }

// list are the subjects, for those who change nothing.
func (s Statement) list() []Subject {
	if s.written != nil {
		return s.written.read(s.raw)
	}
	return s.subjects
}

// Predicate is what it says, as it was read.
func (s Statement) Predicate() json.RawMessage { return slices.Clone(s.predicate) }

// IsZero reports whether s was never parsed.
func (s Statement) IsZero() bool { return len(s.raw) == 0 }

// Names reports whether the statement has a subject of exactly this name and
// these bytes: every strong digest of the subject is one of theirs, and there
// is one. Digest alone is not enough: in real releases many names share bytes
// with another name.
func (s Statement) Names(name string, bytes digest.Set) bool {
	subjects := s.list()
	if len(subjects) > few {
		return slices.ContainsFunc(s.names.of(subjects, name), func(i int32) bool { return subjects[i].Binds(bytes) })
	}
	return slices.ContainsFunc(subjects, func(sub Subject) bool {
		return sub.Name == name && sub.Binds(bytes)
	})
}

// Binds reports whether the statement has a subject of exactly these bytes
// under whatever name. That is enough only where the digest is the name, as in
// a registry.
func (s Statement) Binds(bytes digest.Set) bool {
	return slices.ContainsFunc(s.list(), func(sub Subject) bool { return sub.Binds(bytes) })
}

// Binds reports whether the subject is these bytes, whatever its name.
func (s Subject) Binds(bytes digest.Set) bool {
	holds := func(said, have digest.Digest) bool { return said.IsZero() || said.Equal(have) }
	return !s.Digests.IsZero() && holds(s.Digests.SHA256, bytes.SHA256) && holds(s.Digests.SHA512, bytes.SHA512)
}

// short bounds foreign text in a message.
func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}
