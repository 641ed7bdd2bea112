package inspect

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxFields is how many fields of one document are kept; the rest is counted.
const maxFields = 20_000

// flatten lists every value of a JSON text with its path, in the order of the
// text.
func flatten(raw []byte) ([]Field, error) {
	f := &flattener{decoder: json.NewDecoder(bytes.NewReader(raw))}
	f.decoder.UseNumber()
	if err := f.value(""); err != nil {
		return nil, verdict.Wrap(verdict.StatementParse, "document", err)
	}
	return f.list(), nil
}

type flattener struct {
	decoder *json.Decoder
	fields  []Field
	left    int
}

func (f *flattener) add(path, value string) {
	if len(f.fields) == maxFields {
		f.left++
		return
	}
	f.fields = append(f.fields, Field{path, value})
}

func (f *flattener) list() []Field {
	if f.left > 0 {
		f.fields = append(f.fields, Field{"left out", fmt.Sprintf("%d more values", f.left)})
	}
	return f.fields
}

func (f *flattener) value(path string) error {
	token, err := f.decoder.Token()
	if err != nil {
		return err
	}
	switch t := token.(type) {
	case json.Delim:
		if err := f.inside(path, t == '['); err != nil {
			return err
		}
		_, err = f.decoder.Token() // the closing bracket
		return err
	case nil:
		f.add(path, "null")
	default:
		f.add(path, fmt.Sprint(t))
	}
	return nil
}

func (f *flattener) inside(path string, list bool) error {
	i := 0
	for ; f.decoder.More(); i++ {
		at := fmt.Sprintf("%s[%d]", path, i)
		if !list {
			key, err := f.decoder.Token()
			if err != nil {
				return err
			}
			at = strings.TrimPrefix(fmt.Sprintf("%s.%s", path, key), ".")
		}
		if err := f.value(at); err != nil {
			return err
		}
	}
	if i == 0 && path != "" {
		f.add(path, "nothing")
	}
	return nil
}

// flattenYAML lists every value of a YAML document with its path. A strict
// reader has accepted the document, so it has no aliases.
func flattenYAML(raw []byte) ([]Field, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, "document", err)
	}
	f := &flattener{}
	for _, n := range document.Content {
		f.node("", n)
	}
	return f.list(), nil
}

func (f *flattener) node(path string, n *yaml.Node) {
	switch {
	case n.Kind == yaml.ScalarNode:
		f.add(path, n.Value)
	case len(n.Content) == 0:
		f.add(path, "nothing")
	case n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			f.node(strings.TrimPrefix(path+"."+n.Content[i].Value, "."), n.Content[i+1])
		}
	default:
		for i, c := range n.Content {
			f.node(fmt.Sprintf("%s[%d]", path, i), c)
		}
	}
}

// digestsOf prints a digest set in a fixed order; it is never empty.
func digestsOf(set map[string]string) []string {
	words := make([]string, 0, len(set))
	for _, algorithm := range slices.Sorted(maps.Keys(set)) {
		words = append(words, algorithm+":"+set[algorithm])
	}
	return append(words, "without a digest")[:max(1, len(words))]
}
