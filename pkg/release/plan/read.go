package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
)

// reader collects the faults of one file, to report all of them with their
// positions.
type reader struct{ faults Faults }

// text is a word of the file with its position. An absent word has no position.
type text struct {
	s  string
	at where
}

func (t text) given() bool { return t.at.line > 0 }

// pair is one member of a mapping whose keys the author chooses.
type pair struct{ key, value text }

// node is one value of the file while it is read; an absent value has no tree.
type node struct {
	r    *reader
	tree *yaml.Node
	at   where
}

// root reads the whole file strictly and returns its top.
func (r *reader) root(raw []byte) node {
	var tree yaml.Node
	if err := strictyaml.Unmarshal(raw, &tree); err != nil {
		r.faults = append(r.faults, faultOf(err, ""))
		return node{r: r}
	}
	top := &tree
	if top.Kind == yaml.DocumentNode {
		top = top.Content[0]
	}
	return node{r: r, tree: top, at: where{line: top.Line, column: top.Column}}
}

func (n node) given() bool { return n.tree != nil }

// fail adds a fault at the position of n.
func (n node) fail(format string, args ...any) {
	n.r.faults = append(n.r.faults, n.at.fault(format, args...))
}

func (n node) child(tree *yaml.Node, path string) node {
	return node{r: n.r, tree: tree, at: where{line: tree.Line, column: tree.Column, path: path}}
}

// is refuses a value of another kind than the expected one.
func (n node) is(kind yaml.Kind, what string) bool {
	switch {
	case n.tree.Kind == kind && n.tree.ShortTag() != "!!null":
		return true
	case n.tree.ShortTag() == "!!null":
		n.fail("no value; leave the key out or give it %s", what)
	default:
		n.fail("want %s", what)
	}
	return false
}

// object is a mapping while it is read.
type object struct {
	node
	members map[string]node
}

// object reads a mapping with only these keys.
func (n node) object(keys ...string) object {
	o := object{node: n, members: map[string]node{}}
	if !n.given() || !n.is(yaml.MappingNode, "a mapping of "+strings.Join(keys, ", ")) {
		return o
	}
	for i := 0; i+1 < len(n.tree.Content); i += 2 {
		key, value := n.tree.Content[i], n.tree.Content[i+1]
		at := n.child(key, n.at.path)
		if !slices.Contains(keys, key.Value) {
			at.fail("unknown key %s; known here: %s", quote(key.Value), strings.Join(keys, ", "))
			continue
		}
		o.members[key.Value] = n.child(value, join(n.at.path, key.Value))
	}
	return o
}

// get is the member of a name; absent if there is none.
func (o object) get(key string) node {
	if m, ok := o.members[key]; ok {
		return m
	}
	return node{r: o.r, at: where{path: join(o.at.path, key)}}
}

// need is a required member.
func (o object) need(key, why string) node {
	m := o.get(key)
	if !m.given() && o.given() {
		f := o.at.fault("missing; %s", why)
		f.Path = join(o.at.path, key)
		o.r.faults = append(o.r.faults, f)
	}
	return m
}

// pairs reads a mapping whose keys the author chooses, in the order of the
// text.
func (n node) pairs(what string) (keys []text, values []node) {
	if !n.given() || !n.is(yaml.MappingNode, what) {
		return nil, nil
	}
	for i := 0; i+1 < len(n.tree.Content); i += 2 {
		key := n.child(n.tree.Content[i], n.at.path).text()
		keys = append(keys, key)
		values = append(values, n.child(n.tree.Content[i+1], join(n.at.path, key.s)))
	}
	return keys, values
}

// texts reads a mapping from text to text, which must not be empty. A value may
// be.
func (n node) texts(what string) []pair {
	keys, values := n.pairs(what)
	if n.given() && n.tree.Kind == yaml.MappingNode && len(keys) == 0 {
		n.fail("empty; leave the key out or give it %s", what)
	}
	list := make([]pair, 0, len(keys))
	for i := range keys {
		list = append(list, pair{keys[i], values[i].argument()})
	}
	return list
}

// text reads one word; a number or a bool must be quoted.
func (n node) text() text {
	t := n.argument()
	if t.given() && t.s == "" {
		n.fail("empty; leave the key out or give it a value")
		return text{}
	}
	return t
}

// items reads a list. An empty list is refused: it could mean all or none.
func (n node) items(what string) []node {
	if !n.given() || !n.is(yaml.SequenceNode, "a list of "+what) {
		return nil
	}
	if len(n.tree.Content) == 0 {
		n.fail("empty; list %s or leave the key out", what)
	}
	list := make([]node, 0, len(n.tree.Content))
	for i, item := range n.tree.Content {
		list = append(list, n.child(item, n.at.path+"["+strconv.Itoa(i)+"]"))
	}
	return list
}

// words reads a list of different words.
func (n node) words(what string) (list []text) {
	first := map[string]where{}
	for _, item := range n.items(what) {
		t := item.text()
		if !t.given() {
			continue
		}
		if before, twice := first[t.s]; twice {
			item.fail("%s is listed twice, first at %d:%d", quote(t.s), before.line, before.column)
			continue
		}
		first[t.s] = t.at
		list = append(list, t)
	}
	return list
}

// wordsThat is words that all fit; otherwise the format says what is wanted.
func (n node) wordsThat(what string, fit func(string) bool, format string) []text {
	list := n.words(what)
	for _, t := range list {
		if !fit(t.s) {
			n.r.faults = append(n.r.faults, t.at.fault(format, quote(t.s)))
		}
	}
	return list
}

// arguments reads the words of a command, which may repeat and be empty.
func (n node) arguments() (list []text) {
	for _, item := range n.items("words of a command") {
		if t := item.argument(); t.given() {
			list = append(list, t)
		}
	}
	return list
}

// argument reads one word that may be empty.
func (n node) argument() text {
	s, is := scalar[string](n, "text")
	if !is {
		return text{}
	}
	return text{s: s, at: n.at}
}

// scalar reads one value; is is false for an absent one and one of another type.
func scalar[T any](n node, what string) (v T, is bool) {
	if !n.given() || !n.is(yaml.ScalarNode, what) {
		return v, false
	}
	if err := strictyaml.Decode(n.tree, &v); err != nil {
		n.r.faults = append(n.r.faults, faultOf(err, n.at.path))
		return v, false
	}
	return v, true
}

// choice reads one of these words; absent means the first.
func (n node) choice(known ...string) string {
	t := n.text()
	if !t.given() {
		return known[0]
	}
	if !slices.Contains(known, t.s) {
		n.fail("%s; want %s", quote(t.s), strings.Join(known, " or "))
		return known[0]
	}
	return t.s
}

// number reads a whole number within bounds; absent is 0.
func (n node) number(low, high int64) int64 {
	v, is := scalar[int64](n, "a whole number")
	if is && (v < low || v > high) {
		n.fail("%d; want %d to %d", v, low, high)
	}
	return v // not used if there are faults
}

// boolean reads true or false; absent is false.
func (n node) boolean() bool {
	v, _ := scalar[bool](n, "true or false")
	return v
}

// isText reports whether the short form of a value was written.
func (n node) isText() bool {
	return n.given() && n.tree.Kind == yaml.ScalarNode && n.tree.ShortTag() != "!!null"
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// quote shortens and quotes text of the file for a message.
func quote(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%q…", s[:200])
	}
	return strconv.Quote(s)
}
