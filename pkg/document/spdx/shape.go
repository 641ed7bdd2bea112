package spdx

import (
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// maxUnknown is how many properties outside of the schema one object may have.
const maxUnknown = 1000

// kind is the required type of a property.
type kind uint8

const (
	text kind = iota + 1
	texts
	flag
	number
	object
	objects
)

// demand says when a property is required.
type demand uint8

const (
	optional demand = iota
	required
	requiredIn22
)

// property is one row of the schema of an object.
type property struct {
	name   string
	kind   kind
	demand demand
	of     *shape               // for object and objects
	among  []string             // the allowed values of a text
	each   func(at, val string) // called for a text, or for each text of a list
	least  int                  // the minimum number of elements
	word   string               // key and colon, as almost all documents write them
}

// shape is the schema of one kind of object: its properties, and what to do
// after parsing one. It has at most 64 properties.
type shape struct {
	properties []property
	index      map[string]int
	demanded   uint64 // a bit for each property that is not optional
	order      []int  // of the properties of the previous object
	asked      []int  // the properties that get asks for, in order
	begin      func()
	done       func(v *values)
	open       bool // other properties are allowed
}

func shaped(begin func(), done func(v *values), rows ...property) *shape {
	sh := &shape{properties: rows, index: make(map[string]int, len(rows)), begin: begin, done: done}
	for i, p := range rows {
		sh.index[p.name] = i
		rows[i].word = `"` + p.name + `":`
		if p.demand != optional {
			sh.demanded |= 1 << i
		}
	}
	return sh
}

// values are the plain properties of one object.
type values struct {
	shape *shape
	text  [48]string
	have  uint64
	extra []string // properties outside of the schema
	gets  int      // number of calls of get
}

// get returns a property by name. All objects of a shape are asked for the same
// properties, most of them in one order.
func (v *values) get(name string) string {
	sh, n := v.shape, v.gets
	v.gets++
	if n < len(sh.asked) && sh.properties[sh.asked[n]].name == name {
		return v.text[sh.asked[n]]
	}
	i := sh.index[name]
	if n == len(sh.asked) {
		sh.asked = append(sh.asked, i)
	}
	return v.text[i]
}

func (v *values) has(name string) bool { return v.have&(1<<v.shape.index[name]) != 0 }

// object parses one object of a shape. Violations of the schema are recorded
// and parsing continues; syntax errors end it.
func (r *reader) object(sh *shape) {
	if r.Peek() != '{' {
		r.mistyped("an object")
		return
	}
	v := r.frame(sh)
	if sh.begin != nil {
		sh.begin()
	}
	r.Open('{')
	for n := 0; r.Next(n == 0, '}'); n++ {
		i, k, known := r.property(sh, n)
		if !known {
			r.unknown(v, k)
			continue
		}
		if v.have&(1<<i) != 0 {
			r.Fail(strictjson.CodeDupKey, "duplicate key %s", quote(k))
			return
		}
		v.have |= 1 << i
		r.at(k)
		r.value(v, i)
		r.leave()
	}
	if r.Failed() {
		return
	}
	r.missing(v)
	if sh.done != nil {
		sh.done(v)
	}
	r.frames--
}

// property reads the key of member n and finds its property. The objects of one
// document usually have their properties in the same order.
func (r *reader) property(sh *shape, n int) (i int, key string, known bool) {
	if n < len(sh.order) {
		if p := &sh.properties[sh.order[n]]; r.Take(p.word) {
			return sh.order[n], p.name, true
		}
	}
	key = r.Key()
	i, known = sh.index[key]
	if known && n <= len(sh.order) {
		sh.order = append(sh.order[:n], i)
	}
	return i, key, known
}

// frame takes an empty set of values off the stack.
func (r *reader) frame(sh *shape) *values {
	if r.frames == len(r.stack) {
		r.stack = append(r.stack, &values{})
	}
	v := r.stack[r.frames]
	v.shape, v.have, v.gets, v.extra = sh, 0, 0, v.extra[:0]
	clear(v.text[:len(sh.properties)])
	r.frames++
	return v
}

// unknown skips a property that is not in the schema. One that differs from a
// known property by letter case only ends parsing, because another reader takes
// it for that property.
func (r *reader) unknown(v *values, key string) {
	for _, p := range v.shape.properties {
		if strings.EqualFold(p.name, key) {
			r.Fail(strictjson.CodeUnknownField, "the property %s must be spelled %s", quote(key), quote(p.name))
			return
		}
	}
	switch {
	case slices.Contains(v.extra, key):
		r.Fail(strictjson.CodeDupKey, "duplicate key %s", quote(key))
	case len(v.extra) == maxUnknown:
		r.Fail(strictjson.CodeSize, "more than %d unknown properties in one object", maxUnknown)
	case !v.shape.open && !r.Failed():
		r.fault(ruleProperty, "the schema has no property %s here", quote(key))
	}
	v.extra = append(v.extra, key)
	r.Skip()
}

// value parses the value of property i.
func (r *reader) value(v *values, i int) {
	p := &v.shape.properties[i]
	switch p.kind {
	case text:
		if r.Peek() != '"' {
			r.mistyped("a text")
			return
		}
		v.text[i] = r.Text()
		r.judge(p, v.text[i])
	case flag:
		if c := r.Peek(); c != 't' && c != 'f' {
			r.mistyped("true or false")
			return
		}
		v.text[i] = strconv.FormatBool(r.Bool())
	case number:
		if c := r.Peek(); c != '-' && (c < '0' || c > '9') {
			r.mistyped("a number")
			return
		}
		r.Skip()
	case object:
		r.object(p.of)
	case texts, objects:
		r.array(p)
	}
}

func (r *reader) array(p *property) {
	if r.Peek() != '[' {
		r.mistyped("an array")
		return
	}
	outer := r.from
	r.Open('[')
	r.from = r.Offset()
	n := 0
	for ; r.Next(n == 0, ']'); n++ {
		r.element(n)
		switch {
		case p.kind == objects:
			r.object(p.of)
		case r.Peek() != '"':
			r.mistyped("a text")
		default:
			r.judge(p, r.Text())
		}
	}
	r.element(-1)
	if n < p.least && !r.Failed() {
		r.fault(ruleSchema, "want %d or more elements", p.least)
	}
	r.from = outer
}

// judge checks one text.
func (r *reader) judge(p *property, val string) {
	if p.among != nil && !slices.Contains(p.among, val) {
		r.fault(ruleSchema, "%s is not one of the values in the schema", quote(val))
	}
	if p.each != nil {
		p.each(p.name, val)
	}
}

func (r *reader) missing(v *values) {
	if v.have&v.shape.demanded == v.shape.demanded {
		return
	}
	for i, p := range v.shape.properties {
		switch {
		case v.have&(1<<i) != 0 || p.demand == optional:
		case p.demand == required:
			r.fault(ruleSchema, "property %s is missing", p.name)
		default:
			r.in22.add(ruleSchema, r.where(), "property %s is missing", p.name)
		}
	}
}

// mistyped skips a value of another type. Its syntax is valid, so parsing
// continues, but its meaning is not.
func (r *reader) mistyped(want string) {
	if r.Skip(); !r.Failed() {
		r.fault(ruleType, "want %s (JSON_TYPE)", want)
	}
}
