// Package strictyaml reads the part of YAML in which what is written is what
// is meant.
//
// It is for files that people write and review: release.yaml and its kin. YAML
// readers disagree about much of YAML, and reviewers cannot be expected to know
// its corners, so everything of which the meaning is not plain to see is
// refused, each time naming line and column:
//
//   - anchors, aliases and merge keys                          (YAML_ALIAS)
//   - explicit tags, also the bare "!"                         (YAML_TAG)
//   - equal keys in one mapping                                (YAML_DUP_KEY)
//   - keys the target struct does not have; letter case counts (YAML_UNKNOWN_KEY)
//   - more than one document, no document, directives          (YAML_DOCUMENT)
//   - scalars that other readers may take for another type     (YAML_TYPE)
//   - invalid UTF-8, byte order marks, control characters, the line breaks of
//     YAML 1.1 that YAML 1.2 abolished (U+0085, U+2028, U+2029, a lone CR),
//     characters that are not seen, reorder text or look like
//     a space, also written as an escape; NUL written \0       (ENCODING)
//   - more than 1 MiB (see [MaxSize]), 32 levels, or 2048 keys
//     in one mapping (see [MaxKeys])                           (LIMIT_SIZE, LIMIT_DEPTH)
//   - what is no YAML at all                                   (YAML_SYNTAX)
//
// A bool is written true or false. A number is written as in JSON: no octal, no
// hex, no underscores, no leading plus or zero. Text has to be quoted if it
// would be a number, a bool (of YAML 1.1 too: yes, no, on, off, y, n), a null
// or a date otherwise; "version: 1.10" is an error, not 1.1. A key or item
// without a value is an error unless the target is any. The names of struct
// fields are exempt from quoting, for they are text to every reader that knows
// the format.
//
//	var m Manifest // fields tagged `yaml:"name"`
//	if err := strictyaml.Unmarshal(text, &m); err != nil {
//		return err // reading YAML at 12:5: unknown key "nmae"; known here: …
//	}
//
// Struct tags, inlining and the methods UnmarshalYAML and UnmarshalText work as
// in [go.yaml.in/yaml/v3], except that both methods may be called more than
// once. UnmarshalYAML should use [Decode] rather than yaml.Node.Decode.
//
// The package judges form only: it does not require keys to be present, and
// empty lists and mappings are allowed.
//
// Other projects should not import this package: it changes without notice.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
)

const (
	defaultSize = 1 << 20
	maxDepth    = 32
	// defaultKeys limits one mapping, because the YAML decoder compares all
	// keys of a mapping with each other: otherwise 1 MiB takes minutes.
	defaultKeys = 2048
)

// Limit changes what [Unmarshal] allows.
type Limit func(*limits)

type limits struct{ size, keys int }

// MaxSize allows n bytes instead of 1 MiB.
func MaxSize(n int) Limit { return func(l *limits) { l.size = n } }

// MaxKeys allows n keys in one mapping instead of 2048. A type with so many
// keys must parse them in UnmarshalYAML, node by node, because the decoder
// itself takes quadratic time.
func MaxKeys(n int) Limit { return func(l *limits) { l.keys = n } }

func limitsOf(opts []Limit) limits {
	l := limits{size: defaultSize, keys: defaultKeys}
	for _, set := range opts {
		set(&l)
	}
	return l
}

// Unmarshal parses data into v, which must be a non-nil pointer. The target of
// v is replaced as a whole, never merged into, and unchanged on error. The
// error is an [*Error], which wraps [io.EOF] if data has no document, only
// comments or nothing. Unmarshal panics if v is not a non-nil pointer.
func Unmarshal(data []byte, v any, opts ...Limit) error {
	target, limits := pointer(v), limitsOf(opts)
	if err := checkText(data, limits.size); err != nil {
		return err
	}
	root, err := parse(data)
	if err != nil {
		return err
	}
	t := &tree{lines: bytes.Split(data, []byte("\n")), maxKeys: limits.keys}
	if err := t.check(root, 1); err != nil {
		return err
	}
	m := matcher{}
	if err := m.node(root, target.Type()); err != nil {
		return err
	}
	return decode(target, func(fresh any) error {
		dec := yaml.NewDecoder(bytes.NewReader(data))
		dec.KnownFields(true)
		return dec.Decode(fresh)
	}, root)
}

// Decode parses one node of a document that [Unmarshal] is reading into v, with
// the same strictness. A method UnmarshalYAML calls it after checking the kind
// of its node. Unmarshal has already refused anchors and tags.
func Decode(n *yaml.Node, v any) error {
	target := pointer(v)
	m := matcher{}
	if err := m.node(n, target.Type()); err != nil {
		return err
	}
	return decode(target, n.Decode, n)
}

func pointer(v any) reflect.Value {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic(fmt.Sprintf("strictyaml: cannot unmarshal into %T", v))
	}
	return target
}

// decode fills a fresh value and moves it into target.
func decode(target reflect.Value, read func(fresh any) error, at *yaml.Node) error {
	fresh := reflect.New(target.Type().Elem())
	if err := read(fresh.Interface()); err != nil {
		return causedBy(at, err)
	}
	target.Elem().Set(fresh.Elem())
	return nil
}

// parse returns the root of the only document in data.
func parse(data []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF):
		return nil, &Error{Line: 1, Column: 1, Code: CodeDocument, Message: "the document is empty", Err: io.EOF}
	case err != nil:
		return nil, syntaxError(data, err)
	}
	err = dec.Decode(&second)
	switch {
	case err == nil:
		return nil, &Error{Line: second.Line, Column: second.Column, Code: CodeDocument, Message: "a second document"}
	case !errors.Is(err, io.EOF):
		return nil, syntaxError(data, err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, &Error{Line: 1, Column: 1, Code: CodeDocument, Message: "not exactly one value in the document"}
	}
	return doc.Content[0], nil
}
