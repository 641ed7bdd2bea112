package strictyaml

import (
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// tree checks everything that does not depend on the target.
type tree struct {
	lines   [][]byte // the text, for what the parser does not keep
	maxKeys int      // limit for one mapping

	// The last position of startsWith. Nodes are in the order of the text, so
	// no line is searched twice; a line may be the whole document.
	line, column int
	rest         []byte
}

// check refuses n and everything in it with a hidden meaning. n has the given
// depth; the root has depth 1.
func (t *tree) check(n *yaml.Node, depth int) error {
	switch {
	case n.Kind == yaml.AliasNode:
		return refuse(n, CodeAlias, "an alias; write the value itself")
	case n.Anchor != "":
		return refuse(n, CodeAlias, "the anchor %s; aliases are not supported", quote(n.Anchor))
	case n.Style&yaml.TaggedStyle != 0, t.startsWith(n, '!'):
		return refuse(n, CodeTag, "an explicit tag; the type follows from the key")
	case n.Kind == yaml.ScalarNode && (strings.ContainsRune(n.Value, 0) || !utf8.ValidString(n.Value)):
		return refuse(n, CodeEncoding, "a NUL or broken character in the value")
	case n.Kind == yaml.ScalarNode && strings.ContainsFunc(n.Value, hidden):
		return refuse(n, CodeEncoding, "an invisible or misleading character in the value %s", quote(n.Value))
	case n.Kind != yaml.ScalarNode && depth > maxDepth:
		return refuse(n, CodeDepth, "nested more than %d levels deep", maxDepth)
	case n.Kind == yaml.MappingNode:
		if err := t.keys(n); err != nil {
			return err
		}
	}
	for _, child := range n.Content {
		if err := t.check(child, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// keys compares the keys of a mapping with each other.
func (t *tree) keys(n *yaml.Node) error {
	if len(n.Content) > 2*t.maxKeys {
		return refuse(n, CodeSize, "more than %d keys", t.maxKeys)
	}
	first := make(map[string]*yaml.Node, len(n.Content)/2)
	for i := 0; i < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			continue // refused with the children
		}
		if key.Kind != yaml.ScalarNode {
			return refuse(key, CodeType, "a key that is a list or a mapping")
		}
		if key.ShortTag() == "!!merge" {
			return refuse(key, CodeAlias, "a merge key; write the values themselves")
		}
		if before := first[key.Value]; before != nil {
			return refuse(key, CodeDupKey, "duplicate key %s, first at %d:%d", quote(key.Value), before.Line, before.Column)
		}
		first[key.Value] = key
	}
	return nil
}

// startsWith reports whether the text of n starts with c. The parser drops the
// bare tag "!", but the position of a node is that of its tag.
func (t *tree) startsWith(n *yaml.Node, c byte) bool {
	if n.Line < 1 || n.Line > len(t.lines) {
		return false
	}
	if n.Line != t.line || n.Column < t.column {
		t.line, t.column, t.rest = n.Line, 1, t.lines[n.Line-1]
	}
	for t.column < n.Column && len(t.rest) > 0 {
		_, size := utf8.DecodeRune(t.rest)
		t.rest = t.rest[size:]
		t.column++
	}
	return t.column == n.Column && len(t.rest) > 0 && t.rest[0] == c
}
