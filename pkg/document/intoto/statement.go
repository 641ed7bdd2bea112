// Package intoto reads and writes in-toto Statements and the DSSE envelopes
// that contain them.
//
// A [Statement] is parsed, not verified. It keeps the bytes it was read from,
// because those are what was signed; nothing here encodes a parsed statement
// again. pkg/judge/verify turns a statement in a verified envelope into
// evidence.
//
//	s, err := intoto.Parse(payload)
//	for _, subject := range s.Subjects() { … }
//
// There are two readers. [Parse] is for the statements that Waybill writes:
// version 1, no unknown fields, every subject with a unique name and a SHA-256.
// [ParseOpen] is for those of everybody else: versions 0.1 and 1, with fields
// that the specification tells consumers to ignore, and subjects that are a Git
// commit or have only SHA-512. Both refuse a text that two readers could read
// differently. Use [Statement.Strict] before treating a statement from the open
// reader as one of ours.
//
// [ParseEnvelope] reads envelopes, and [Lines] splits files with several;
// pkg/judge/verify reads Sigstore bundles.
//
// Specifications: in-toto Attestation Framework, Statement v0.1 and v1,
// ResourceDescriptor, DigestSet; DSSE v1.
package intoto

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The names that the specification defines.
const (
	TypeV1      = "https://in-toto.io/Statement/v1"
	typeV01     = "https://in-toto.io/Statement/v0.1" // written only for predicates of its time
	PayloadType = "application/vnd.in-toto+json"
)

// maxSubjects limits one statement; larger sets are split into pages.
const maxSubjects = 100_000

// Subject is one thing that a statement covers. Its digests are the strong
// ones. In a statement of another author there may be none, and then the
// subject is bound to no bytes: see [Resource] for what was written.
type Subject struct {
	Name    string
	Digests digest.Set
}

// Statement is a parsed statement with the bytes it was parsed from.
type Statement struct {
	raw           []byte
	kind          string
	predicateType string
	subjects      []Subject
	open          bool             // parsed by the open reader
	plain         bool             // parsed in full by plainStatement
	extra         map[int]Resource // everything else that was written about a subject, by index
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
	raw, err := encode(TypeV1, predicateType, subjects, predicate)
	if err != nil {
		return Statement{}, err
	}
	return Parse(raw)
}

// NewFor encodes a statement, and parses it as its readers will.
func NewFor[T any](parse func(Statement) (T, error), predicateType string, subjects []Subject, predicate any) (Statement, error) {
	s, err := New(predicateType, subjects, predicate)
	if err == nil {
		_, err = parse(s)
	}
	if err != nil {
		return Statement{}, err
	}
	return s, nil
}

// NewV01 encodes a statement of version 0.1, for a predicate whose readers know
// no newer version.
func NewV01(predicateType string, subjects []Subject, predicate any) (Statement, error) {
	raw, err := encode(typeV01, predicateType, subjects, predicate)
	if err != nil {
		return Statement{}, err
	}
	return ParseOpen(raw)
}

// Parse parses a statement of the form that Waybill writes. It refuses what two
// readers could read differently, an older version, an unknown field, an empty
// subject list, a subject without SHA-256, and two subjects with one name.
func Parse(raw []byte) (Statement, error) {
	if s, is := plainStatement(raw); is && s.kind == TypeV1 && distinct(s.subjects) {
		return s.apart(), nil
	}
	return parse(raw)
}

// parse parses a statement of any form with the full rules.
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
		return verdict.Refuse(verdict.StatementParse, "statement", "the predicate is missing or not an object")
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

// PAE is what a signature of the statement in an envelope covers: the
// pre-authentication encoding of DSSE, with the statement last and not copied.
func (s Statement) PAE() io.Reader {
	head := fmt.Sprintf("DSSEv1 %d %s %d ", len(PayloadType), PayloadType, len(s.raw))
	return io.MultiReader(strings.NewReader(head), bytes.NewReader(s.raw))
}

// Type is the version of the statement, as a name of the specification.
func (s Statement) Type() string { return s.kind }

// PredicateType is the type of the predicate.
func (s Statement) PredicateType() string { return s.predicateType }

// Subjects are the things that the statement covers.
func (s Statement) Subjects() []Subject { return slices.Clone(s.subjects) }

// Predicate is the predicate as it was read.
func (s Statement) Predicate() json.RawMessage { return slices.Clone(s.predicate) }

// IsZero reports whether s is the zero Statement.
func (s Statement) IsZero() bool { return len(s.raw) == 0 }

// Names reports whether the statement has a subject with exactly this name and
// these bytes: the subject has a strong digest, and every one equals the given
// one. A digest alone is not enough: in real releases many names share bytes
// with another name.
func (s Statement) Names(name string, bytes digest.Set) bool {
	return s.names != nil && slices.ContainsFunc(s.names.of(s.subjects, name), func(i int32) bool { return s.subjects[i].Binds(bytes) })
}

// Binds reports whether the statement has a subject with exactly these bytes
// under any name. That is enough only where the digest is the name, as in a
// registry.
func (s Statement) Binds(bytes digest.Set) bool {
	return slices.ContainsFunc(s.subjects, func(sub Subject) bool { return sub.Binds(bytes) })
}

// Binds reports whether the subject has these bytes, under any name.
func (s Subject) Binds(bytes digest.Set) bool {
	holds := func(said, have digest.Digest) bool { return said.IsZero() || said.Equal(have) }
	return !s.Digests.IsZero() && holds(s.Digests.SHA256, bytes.SHA256) && holds(s.Digests.SHA512, bytes.SHA512)
}

// short limits untrusted text in a message.
func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// encode writes a statement as json.Marshal would, in one pass, for lists of
// very many subjects.
func encode(kind, predicateType string, subjects []Subject, predicate any) ([]byte, error) {
	said, err := json.Marshal(predicate)
	if err != nil {
		return nil, fmt.Errorf("encoding predicate %s: %w", predicateType, err)
	}
	raw := append(make([]byte, 0, len(said)+160*(len(subjects)+2)), `{"_type":`...)
	raw, next := append(appendText(raw, kind), `,"subject":[`...), "{"
	for _, s := range subjects {
		raw, next = append(raw, next...), ",{"
		if s.Name != "" {
			raw = append(appendText(append(raw, `"name":`...), s.Name), ',')
		}
		raw = append(raw, `"digest":{`...)
		between := `"`
		for _, d := range []digest.Digest{s.Digests.SHA256, s.Digests.SHA512} {
			if !d.IsZero() {
				raw = append(append(append(raw, between...), d.Algorithm().String()...), `":"`...)
				raw, between = append(d.AppendHex(raw), '"'), `,"`
			}
		}
		raw = append(raw, "}}"...)
	}
	raw = appendText(append(raw, `],"predicateType":`...), predicateType)
	return append(append(append(raw, `,"predicate":`...), said...), '}'), nil
}

// appendText writes a JSON string.
func appendText(raw []byte, text string) []byte {
	for i := range len(text) {
		switch c := text[i]; {
		case c < ' ', c > '~', c == '"', c == '\\', c == '<', c == '>', c == '&':
			quoted, _ := json.Marshal(text) // text has no error
			return append(raw, quoted...)
		}
	}
	return append(append(append(raw, '"'), text...), '"')
}

// names is an index of subjects by name, built on first use: looking up each of
// a hundred thousand subjects must not scan them all.
type names struct {
	once  sync.Once
	order []int32 // indexes of the subjects by name; those with one name ascend
}

// of returns the indexes of the subjects with a name.
func (n *names) of(subjects []Subject, name string) []int32 {
	n.once.Do(func() {
		n.order = make([]int32, len(subjects))
		for i := range n.order {
			n.order[i] = int32(i)
		}
		slices.SortFunc(n.order, func(a, b int32) int {
			return cmp.Or(strings.Compare(subjects[a].Name, subjects[b].Name), cmp.Compare(a, b))
		})
	})
	first, _ := slices.BinarySearchFunc(n.order, name, func(i int32, name string) int { return strings.Compare(subjects[i].Name, name) })
	end := first
	for end < len(n.order) && subjects[n.order[end]].Name == name {
		end++
	}
	return n.order[first:end]
}
