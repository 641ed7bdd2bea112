package signoff

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
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
	Approvers        []string
	Stage            string
	LatestMilestone  string
	Gates            []string
	DisableSupported string // true or false; "" if absent
	Metrics          []string

	said map[string]bool // keys that are present
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
	k := KEP{said: map[string]bool{}}
	r := reader{file: "kep.yaml"}
	fields := map[string]any{
		"title": &k.Title, "kep-number": &k.Number, "authors": &k.Authors, "owning-sig": &k.OwningSIG, "status": &k.Status,
		"creation-date": &k.CreationDate, "last-updated": new(string), "approvers": &k.Approvers, "stage": &k.Stage,
		"latest-milestone": &k.LatestMilestone, "disable-supported": &k.DisableSupported, "metrics": &k.Metrics,
	}
	for name, n := range pairs(root) {
		k.said[name] = true
		r.value(n, fields[name])
		switch name {
		case "milestone":
			for _, v := range pairs(n) {
				r.text(v, new(string))
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

// value reads a text or a list; there is no place for what is ignored.
func (r *reader) value(n *yaml.Node, to any) {
	switch to := to.(type) {
	case *string:
		r.text(n, to)
	case *[]string:
		r.list(n, to)
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

// gates reads the names of feature gates.
func (r *reader) gates(n *yaml.Node, to *[]string) {
	switch {
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return
	case n.Kind != yaml.SequenceNode:
		r.fail(n, "a list")
	}
	for _, item := range n.Content {
		name := ""
		if item.Kind != yaml.MappingNode {
			r.fail(item, "a gate with a name")
			continue
		}
		for key, v := range pairs(item) {
			r.value(v, map[string]any{"name": &name, "components": new([]string)}[key])
		}
		*to = append(*to, name)
	}
}

// example matches the examples in the template of kep.yaml.
var example = pattern.Lazy(`(?i)^(tbd|todo|nnnn|kep template|sig-xyz|yyyy-mm-dd|myfeature|my_feature_metric|@jane\.doe|@alice\.doe|@oscar\.doe|.*\|.*)$`)

// nearest is the known word closest to a misspelt one, "" for none.
func nearest(word string, known []string) string {
	return slice.First(known, func(k string) bool { return oneOff(word, k) || sorted(word) == sorted(k) })
}

func sorted(word string) string {
	letters := []byte(word)
	slices.Sort(letters)
	return string(letters)
}

// Review is the file with the approvers of the production readiness of an enhancement, by
// stage.
type Review struct {
	Number    string
	Approvers map[string]string
}

// ParseReview reads a production-readiness file.
func ParseReview(raw []byte) (Review, error) {
	root, err := mapping("production readiness", raw)
	if err != nil {
		return Review{}, err
	}
	v := Review{Approvers: map[string]string{}}
	r := reader{file: "production readiness"}
	for name, n := range pairs(root) {
		if name == "kep-number" {
			r.text(n, &v.Number)
			continue
		}
		for field, value := range pairs(n) {
			if slices.Contains(kepStages(), name) && field == "approver" {
				var who string
				r.text(value, &who)
				v.Approvers[name] = who
			}
		}
	}
	return v, r.err
}

// reviewers is the alias with the allowed approvers.
const reviewers = "prod-readiness-approvers"

// ParseAliases reads the allowed approvers of production readiness from OWNERS_ALIASES.
func ParseAliases(raw []byte) (list []string, err error) {
	root, err := mapping("OWNERS_ALIASES", raw)
	if err != nil {
		return nil, err
	}
	r := reader{file: "OWNERS_ALIASES"}
	for name, aliases := range pairs(root) {
		if name != "aliases" {
			continue
		}
		for alias, n := range pairs(aliases) {
			if alias == reviewers {
				r.list(n, &list)
			}
		}
	}
	return list, r.err
}

var milestone = pattern.Lazy(`^v?(\d{1,4})\.(\d{1,4})$`)

// release is a milestone as two numbers; false if invalid.
func release(text string) (n [2]int, ok bool) {
	m := milestone().FindStringSubmatch(text)
	if m == nil {
		return n, false
	}
	for i := range n {
		n[i], _ = strconv.Atoi(m[i+1]) // four digits
	}
	return n, true
}

// IsMilestone reports whether a text is a milestone, such as v1.37.
func IsMilestone(text string) bool {
	_, ok := release(text)
	return ok
}

// needsReview reports whether production readiness must be approved, as 1.21 was the first
// release to require; also if the release is unknown.
func (k KEP) needsReview() bool {
	if k.Status != "implementable" && k.Status != "implemented" {
		return false
	}
	at, known := release(k.LatestMilestone)
	return !known || slices.Compare(at[:], []int{1, 21}) >= 0
}
