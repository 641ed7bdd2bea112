package signoff

import (
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// KEP is the content of a kep.yaml. Other keys are ignored, because the format grows.
type KEP struct {
	Title            string
	Number           string
	Authors          []string
	OwningSIG        string
	Status           string
	CreationDate     string
	LastUpdated      string
	Approvers        []string
	Stage            string
	LatestMilestone  string
	Milestones       map[string]string // by stage
	Gates            []Gate
	DisableSupported string // true or false; "" if absent
	Metrics          []string

	said map[string]bool // keys that are present
}

// Gate is a feature gate that a kep.yaml names.
type Gate struct {
	Name       string
	Components []string
}

// statuses and kepStages are the valid values.
func statuses() []string {
	return []string{"provisional", "implementable", "implemented", "deferred", "rejected", "withdrawn", "replaced"}
}

func kepStages() []string {
	return []string{"alpha", "beta", "stable", "deprecated", "disabled", "removed"}
}

// ParseKEP reads a kep.yaml. Scalars are read as text, because dates and numbers are
// usually not quoted.
func ParseKEP(raw []byte) (KEP, error) {
	root, err := mapping("kep.yaml", raw)
	if err != nil {
		return KEP{}, err
	}
	k := KEP{said: map[string]bool{}, Milestones: map[string]string{}}
	r := reader{file: "kep.yaml"}
	for name, n := range pairs(root) {
		k.said[name] = true
		switch name {
		case "title":
			r.text(n, &k.Title)
		case "kep-number":
			r.text(n, &k.Number)
		case "authors":
			r.list(n, &k.Authors)
		case "owning-sig":
			r.text(n, &k.OwningSIG)
		case "status":
			r.text(n, &k.Status)
		case "creation-date":
			r.text(n, &k.CreationDate)
		case "last-updated":
			r.text(n, &k.LastUpdated)
		case "approvers":
			r.list(n, &k.Approvers)
		case "stage":
			r.text(n, &k.Stage)
		case "latest-milestone":
			r.text(n, &k.LatestMilestone)
		case "disable-supported":
			r.text(n, &k.DisableSupported)
		case "metrics":
			r.list(n, &k.Metrics)
		case "milestone":
			for stage, v := range pairs(n) {
				var at string
				r.text(v, &at)
				k.Milestones[stage] = at
			}
		case "feature-gates":
			r.gates(n, &k.Gates)
		}
	}
	return k, r.err
}

// mapping parses YAML whose root is a mapping. Aliases, tags, duplicate keys and invalid
// text are refused: see [strictyaml].
func mapping(file string, raw []byte) (*yaml.Node, error) {
	var root yaml.Node
	if err := strictyaml.Unmarshal(raw, &root, strictyaml.MaxSize(maxFile)); err != nil {
		return nil, verdict.Wrap(verdict.SignoffDocument, file, err)
	}
	n := &root
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	if n.Kind != yaml.MappingNode {
		return nil, verdict.Refuse(verdict.SignoffDocument, file, "not a YAML mapping")
	}
	return n, nil
}

// pairs iterates over a mapping; any other node has no pairs.
func pairs(n *yaml.Node) func(func(string, *yaml.Node) bool) {
	return func(yield func(string, *yaml.Node) bool) {
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if !yield(n.Content[i].Value, n.Content[i+1]) {
				return
			}
		}
	}
}

// reader reads values, and keeps the first error.
type reader struct {
	file string
	err  error
}

func (r *reader) fail(n *yaml.Node, want string) {
	if r.err == nil {
		r.err = verdict.Refuse(verdict.SignoffDocument, r.file, "line %d: want %s", n.Line, want)
	}
}

func (r *reader) text(n *yaml.Node, to *string) {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
	case n.Kind == yaml.ScalarNode:
		*to = strings.TrimSpace(n.Value)
	default:
		r.fail(n, "a text")
	}
}

func (r *reader) list(n *yaml.Node, to *[]string) {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
	case n.Kind != yaml.SequenceNode:
		r.fail(n, "a list")
	default:
		for _, item := range n.Content {
			var text string
			if r.text(item, &text); text != "" {
				*to = append(*to, text)
			}
		}
	}
}

func (r *reader) gates(n *yaml.Node, to *[]Gate) {
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		r.fail(n, "a list")
		return
	}
	for _, item := range n.Content {
		var g Gate
		if item.Kind != yaml.MappingNode {
			r.fail(item, "a gate with a name")
			continue
		}
		for name, v := range pairs(item) {
			switch name {
			case "name":
				r.text(v, &g.Name)
			case "components":
				r.list(v, &g.Components)
			}
		}
		*to = append(*to, g)
	}
}

// example matches the examples in the template of kep.yaml.
var example = regexp.MustCompile(`(?i)^(tbd|todo|nnnn|kep template|sig-xyz|yyyy-mm-dd|myfeature|my_feature_metric|@jane\.doe|@alice\.doe|@oscar\.doe|.*\|.*)$`)

// nearest is the known word closest to a misspelt one, "" for none.
func nearest(word string, known []string) string {
	for _, k := range known {
		if oneOff(word, k) || sorted(word) == sorted(k) {
			return k
		}
	}
	return ""
}

func sorted(word string) string {
	letters := []byte(word)
	slices.Sort(letters)
	return string(letters)
}
