package intoto

import (
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Resource is a subject or a dependency as another author wrote it, with all
// its digests of any algorithm.
type Resource struct {
	Name             string            `json:"name,omitempty"`
	URI              string            `json:"uri,omitempty"`
	Digest           map[string]string `json:"digest,omitempty"`
	DownloadLocation string            `json:"downloadLocation,omitempty"`
	MediaType        string            `json:"mediaType,omitempty"`
	Content          string            `json:"content,omitempty"`
	Annotations      json.RawMessage   `json:"annotations,omitempty"`
}

// openStatement delays parsing the subjects, so that they are counted before
// memory is allocated for them.
type openStatement struct {
	Type          string          `json:"_type"`
	Subject       json.RawMessage `json:"subject"`
	PredicateType string          `json:"predicateType"`
	Predicate     json.RawMessage `json:"predicate"`
}

// ParseOpen parses a statement of any author, of version 0.1 or 1. It ignores
// unknown fields, as the specification requires, unless they differ from a
// known field by letter case only. Subjects may share a name or have none, and
// may lack a strong digest: those bind no bytes. A predicate that is absent or
// null is read as an empty one.
//
// It still refuses everything that two readers could read differently, a
// subject without any digest, and a strong digest in another spelling than the
// canonical one.
func ParseOpen(raw []byte) (Statement, error) {
	if s, is := plainOpen(raw); is {
		return s.apart(), nil
	}
	return parseOpen(raw)
}

// Adopt is [ParseOpen] without a copy: the statement owns the bytes, and the
// caller must not change them.
func Adopt(raw []byte) (Statement, error) {
	if s, is := plainOpen(raw); is {
		return s, nil
	}
	return parseOpen(raw)
}

func plainOpen(raw []byte) (Statement, bool) {
	s, is := plainStatement(raw)
	s.open, s.plain, s.extra = true, true, map[int]Resource{}
	return s, is
}

// parseOpen parses a statement of any form with the full rules.
func parseOpen(raw []byte) (Statement, error) {
	if err := countSubjects(raw); err != nil {
		return Statement{}, err
	}
	var wire openStatement
	if err := strictjson.UnmarshalOpen(raw, &wire); err != nil {
		return Statement{}, verdict.Wrap(verdict.StatementParse, "statement", err)
	}
	if wire.Type != TypeV1 && wire.Type != typeV01 {
		return Statement{}, verdict.Refuse(verdict.StatementType, "statement", "unknown statement type %q", short(wire.Type))
	}
	if len(wire.Predicate) == 0 || string(wire.Predicate) == "null" {
		wire.Predicate = json.RawMessage("{}") // "Unset is treated the same as set-but-empty."
	}
	if err := checkPredicate(wire.PredicateType, wire.Predicate); err != nil {
		return Statement{}, err
	}
	subjects, extra, err := openSubjects(wire.Subject)
	if err != nil {
		return Statement{}, err
	}
	return Statement{
		raw: slices.Clone(raw), kind: wire.Type, predicateType: wire.PredicateType,
		subjects: subjects, extra: extra, open: true, predicate: wire.Predicate, names: &names{},
	}, nil
}

// openSubjects parses subjects in batches, so that a hundred thousand of them
// are never in memory as maps. What a Subject cannot represent is stored beside
// it, by index.
func openSubjects(raw json.RawMessage) (subjects []Subject, extra map[int]Resource, err error) {
	extra = map[int]Resource{}
	p := newPlain(raw)
	p.must("[")
	subjects = p.subjects()
	p.must("]")
	if p.End(); !p.other && !p.Failed() {
		return subjects, extra, nil
	}
	subjects = nil
	for batch, err := range batches(raw) {
		if err != nil {
			return nil, nil, err
		}
		list, err := ParseResources(batch, batchSize)
		if err != nil {
			return nil, nil, err
		}
		for _, r := range list {
			if len(r.Digest) == 0 {
				return nil, nil, verdict.Refuse(verdict.StatementParse, short(r.Name), "subject %d has no digest", len(subjects))
			}
			sub := Subject{Name: r.Name, Digests: r.Strong()}
			if !sub.says(r) {
				extra[len(subjects)] = r
			}
			subjects = append(subjects, sub)
		}
	}
	if len(subjects) == 0 {
		return nil, nil, verdict.Refuse(verdict.StatementParse, "statement", "no subjects")
	}
	return subjects, extra, nil
}

// says reports whether a subject represents everything that was written.
func (s Subject) says(r Resource) bool {
	return r.URI == "" && r.DownloadLocation == "" && r.MediaType == "" && r.Content == "" && r.Annotations == nil &&
		maps.Equal(r.Digest, s.Digests.Map())
}

const batchSize = 1000

// batches splits a list into lists of at most batchSize entries.
func batches(raw json.RawMessage) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		s := strictjson.NewScanner([]byte(raw))
		if s.Open('['); s.Failed() {
			yield(nil, verdict.Refuse(verdict.StatementParse, "statement", "the subjects are not a list"))
			return
		}
		for more := s.Next(true, ']'); more; {
			batch := json.RawMessage("[")
			for n := 0; n < batchSize && more; n++ {
				if n > 0 {
					batch = append(batch, ',')
				}
				from := s.Offset()
				s.Skip()
				batch = append(batch, raw[from:s.Offset()]...)
				more = s.Next(false, ']')
			}
			if s.Failed() {
				yield(nil, verdict.Wrap(verdict.StatementParse, "statement", s.Err()))
				return
			}
			if !yield(append(batch, ']'), nil) {
				return
			}
		}
	}
}

// ParseResources parses a list of resource descriptors, at most limit of them.
// Empty input and null are an empty list.
func ParseResources(raw json.RawMessage, limit int) (list []Resource, err error) {
	if n := elements(raw, 0); n > limit {
		return nil, verdict.Refuse(verdict.Limit, "statement", "more than %d entries in one list", limit)
	}
	if len(raw) == 0 {
		return nil, nil
	}
	if err := strictjson.UnmarshalOpen(raw, &list); err != nil {
		return nil, verdict.Wrap(verdict.StatementParse, "statement", err)
	}
	for i, r := range list {
		if err := r.check(); err != nil {
			return nil, verdict.Refuse(verdict.StatementParse, short(r.Name), "digest of entry %d: %v", i, err)
		}
	}
	return list, nil
}

// check refuses strong digests in a form that other readers would take for
// another one, or ignore.
func (r Resource) check() error {
	for _, name := range slices.Sorted(maps.Keys(r.Digest)) {
		var err error
		switch {
		case name == "sha256":
			_, err = digest.ParseHex(digest.SHA256, r.Digest[name])
		case name == "sha512":
			_, err = digest.ParseHex(digest.SHA512, r.Digest[name])
		case strings.EqualFold(name, "sha256"), strings.EqualFold(name, "sha512"):
			err = &digest.FormError{Text: name, Reason: "algorithm names are lower case"}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Strong returns the digests that bind bytes. All others are only text.
func (r Resource) Strong() (set digest.Set) {
	if d, err := digest.ParseHex(digest.SHA256, r.Digest["sha256"]); err == nil {
		set.SHA256 = d
	}
	if d, err := digest.ParseHex(digest.SHA512, r.Digest["sha512"]); err == nil {
		set.SHA512 = d
	}
	return set
}

// Commit is the Git commit of the resource, or "". Only the digest gitCommit,
// or sha1 at a Git address, is a commit.
func (r Resource) Commit() string {
	c := r.Digest["gitCommit"]
	if c == "" && strings.HasPrefix(r.URI, "git+") {
		c = r.Digest["sha1"]
	}
	if (len(c) != 40 && len(c) != 64) || strings.Trim(c, "0123456789abcdef") != "" {
		return ""
	}
	return c
}

// Resources are the subjects as they were written, in the order of
// [Statement.Subjects].
func (s Statement) Resources() []Resource {
	list := make([]Resource, 0, len(s.subjects))
	for i, sub := range s.subjects {
		r, more := s.extra[i]
		if !more {
			r = Resource{Name: sub.Name, Digest: sub.Digests.Map()}
		}
		r.Digest, r.Annotations = maps.Clone(r.Digest), slices.Clone(r.Annotations)
		list = append(list, r)
	}
	return list
}

// Strict parses the bytes of s again with [Parse]. A caller that parsed a
// statement with the open reader needs this before it relies on its form.
func (s Statement) Strict() (Statement, error) {
	switch {
	case !s.open && !s.IsZero():
		return s, nil
	case s.plain && s.kind == TypeV1 && distinct(s.subjects):
		s.open, s.plain, s.extra = false, false, nil
		return s, nil
	}
	return Parse(s.raw)
}

// DecodeStrict decodes the predicate of s into a struct, strictly in every part
// of s, and returns s as [Statement.Strict] does. A statement of another predicate
// type is refused: what names the document in the refusal, and noun says what it
// should be. A predicate with a method Validate is validated.
func (s Statement) DecodeStrict(kind, what, noun string, limit int, into any) (Statement, error) {
	if s.PredicateType() != kind {
		return Statement{}, verdict.Refuse(verdict.PredicateType, what, "says %q, not %s", s.PredicateType(), noun)
	}
	s, err := s.Strict()
	if err != nil {
		return Statement{}, err
	}
	if err := strictjson.Unmarshal(s.Predicate(), into, strictjson.MaxSize(int64(limit))); err != nil {
		return Statement{}, verdict.Wrap(verdict.StatementParse, what, err)
	}
	if p, ok := into.(interface{ Validate() error }); ok {
		err = p.Validate()
	}
	var refused *verdict.Error
	switch {
	case err == nil:
		return s, nil
	case errors.As(err, &refused):
		return Statement{}, err
	}
	return Statement{}, verdict.Wrap(verdict.StatementParse, what, err)
}
