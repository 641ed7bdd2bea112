package strictyaml

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// At makes an error for a reader that parsed a document and refuses its
// contents: it has the line and column of the value at the path, or of the
// deepest existing part of the path. Keys are strings and list indexes are
// ints. The text must be one that [Unmarshal] accepted.
func At(data []byte, path []any, code, message string) *Error {
	node := &yaml.Node{Line: 1, Column: 1}
	if root, err := parse(data); err == nil {
		node = follow(root, path)
	}
	where := ""
	for _, step := range path {
		switch step := step.(type) {
		case int:
			where += "[" + strconv.Itoa(step) + "]"
		case string:
			if where != "" {
				where += "."
			}
			where += tame(step)
		}
	}
	if where != "" {
		message = where + ": " + message
	}
	return &Error{Line: max(node.Line, 1), Column: max(node.Column, 1), Code: code, Message: message}
}

// follow walks a path as far as it exists.
func follow(n *yaml.Node, path []any) *yaml.Node {
	for _, step := range path {
		next := child(n, step)
		if next == nil {
			return n
		}
		n = next
	}
	return n
}

func child(n *yaml.Node, step any) *yaml.Node {
	switch step := step.(type) {
	case int:
		if n.Kind == yaml.SequenceNode && step < len(n.Content) {
			return n.Content[step]
		}
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == step {
				return n.Content[i+1]
			}
		}
	}
	return nil
}
