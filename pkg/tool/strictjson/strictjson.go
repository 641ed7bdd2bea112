// Package strictjson reads JSON whose meaning does not depend on the reader.
//
// RFC 8259 leaves room for two correct parsers to disagree about one document,
// and encoding/json uses much of it: of two equal keys the last one wins, array
// elements of two equal keys are merged, SUBJECT and ſubject fill the field
// "subject", invalid UTF-8 is replaced, large integers are rounded. A document
// that was signed under one reading must not be judged under another, so this
// package refuses every document that has more than one:
//
//   - equal keys in one object, at any depth, also where the target does not
//     look (json.RawMessage, a type with its own UnmarshalJSON, unknown fields);
//     keys are compared after unescaping                       (JSON_DUP_KEY)
//   - keys the target struct does not have; letter case counts (JSON_UNKNOWN_FIELD)
//   - invalid UTF-8, unpaired surrogates, a byte order mark, and NUL, be it raw
//     or written \u0000                                        (ENCODING)
//   - anything but white space after the value                 (JSON_TRAILING)
//   - numbers that would lose value                            (JSON_NUMBER)
//   - too deep or too large input, or too many values          (LIMIT_DEPTH, LIMIT_SIZE, LIMIT_VALUES)
//   - what is no JSON, or not of the target's type             (JSON_SYNTAX, JSON_TYPE)
//
// A number loses value if the target is an integer and the text is not an
// integer literal in its range, or if the target is a float (or any, which
// becomes float64) and the text is an integer literal the float cannot hold
// exactly, or overflows, or turns into zero. Fractions may be rounded; who asks
// for a float expects that. Where there is no target to ask, an integer literal
// must fit int64 and any other number must be finite as float64.
//
// An array must have exactly as many elements as a target of array type; the
// keys of a map with integer keys must be written the shortest way.
//
//	var s Statement
//	if err := strictjson.Unmarshal(payload, &s); err != nil {
//		var e *strictjson.Error
//		errors.As(err, &e) // e.Code, e.Offset, e.Path
//	}
//
// The package judges form only. It does not require fields to be present, does
// not refuse null (which leaves a field at its zero value, as in
// encoding/json), and has no view on what values mean. Keys of a map whose key
// type has an UnmarshalText method are compared as text: two texts for one key
// are for that method to refuse.
//
// Other projects should not import this package: it changes without notice.
package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

const (
	// DefaultDepth is the maximum nesting of arrays and objects unless
	// [MaxDepth] sets another.
	DefaultDepth = 64
	// DefaultSize is the maximum number of bytes of a document unless [MaxSize]
	// sets another.
	DefaultSize = 64 << 20
)

// Limit changes one of the limits of a call.
type Limit func(*limits)

type limits struct {
	depth  int
	size   int64
	values int // 0: limited by the size only
}

// MaxDepth allows n levels of arrays and objects instead of [DefaultDepth]. It
// panics if n is below 1.
func MaxDepth(n int) Limit {
	if n < 1 {
		panic(fmt.Sprintf("strictjson: MaxDepth(%d) allows nothing", n))
	}
	return func(l *limits) { l.depth = n }
}

// MaxSize allows n bytes instead of [DefaultSize]. It panics if n is below 1.
func MaxSize(n int64) Limit {
	if n < 1 {
		panic(fmt.Sprintf("strictjson: MaxSize(%d) allows nothing", n))
	}
	return func(l *limits) { l.size = n }
}

// MaxValues allows n values, counted at every depth; otherwise their number is
// limited only by the size. An empty object takes two bytes of a document, and
// often a hundred bytes of memory when decoded. MaxValues panics if n is below
// 1.
func MaxValues(n int) Limit {
	if n < 1 {
		panic(fmt.Sprintf("strictjson: MaxValues(%d) allows nothing", n))
	}
	return func(l *limits) { l.values = n }
}

func limitsOf(opts []Limit) limits {
	l := limits{depth: DefaultDepth, size: DefaultSize}
	for _, set := range opts {
		set(&l)
	}
	return l
}

// Check refuses data for every reason that does not need a target: all except
// JSON_UNKNOWN_FIELD and JSON_TYPE. The error is an [*Error].
func Check(data []byte, opts ...Limit) error {
	s := NewScanner(data, opts...)
	s.Skip()
	s.End()
	return s.Err()
}

// Unmarshal parses data into v, which must be a non-nil pointer. The target of
// v is replaced as a whole, never merged into, and unchanged on error. The
// error is an [*Error]; Unmarshal panics if v is not a non-nil pointer.
func Unmarshal(data []byte, v any, opts ...Limit) error {
	return unmarshal(data, v, false, opts)
}

// UnmarshalOpen is [Unmarshal] for formats that others extend: keys that the
// target struct does not have are ignored. Keys that differ from a field by
// letter case only are refused, because another reader may use them for the
// field.
func UnmarshalOpen(data []byte, v any, opts ...Limit) error {
	return unmarshal(data, v, true, opts)
}

func unmarshal(data []byte, v any, open bool, opts []Limit) error {
	target := reflect.ValueOf(v)
	if target.Kind() != reflect.Pointer || target.IsNil() {
		panic(fmt.Sprintf("strictjson: cannot unmarshal into %T", v))
	}
	s := NewScanner(data, opts...)
	s.value(shapeOf(target.Type()), open)
	if s.End(); s.err != nil {
		return s.err
	}
	// A fresh value, because encoding/json merges into whatever is there.
	fresh := reflect.New(target.Type().Elem())
	if err := decode(data, fresh.Interface(), open); err != nil {
		return decodeError(err)
	}
	target.Elem().Set(fresh.Elem())
	return nil
}

// decode calls encoding/json for a checked document. Only its Decoder can
// refuse keys without a field again, at the cost of a copy of the document.
func decode(data []byte, into any, open bool) error {
	if open {
		return json.Unmarshal(data, into)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	return dec.Decode(into)
}
