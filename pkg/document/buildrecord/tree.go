package buildrecord

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// tree is a JSON value, of which facts are read by the path of their field.
type tree struct{ value any }

// at returns the value at a path of names and list indexes, joined by dots; the
// whole value if the path is empty.
func (t tree) at(path string) (found tree) {
	if path == "" {
		return t
	}
	name, rest, _ := strings.Cut(path, ".")
	switch value := t.value.(type) {
	case map[string]any:
		found.value = value[name]
	case []any:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(value) {
			found.value = value[i]
		}
	}
	return found.at(rest)
}

// text returns a string, number or bool as text; empty for anything else.
func (t tree) text(path string) string {
	switch value := t.at(path).value.(type) {
	case string, bool, json.Number:
		return fmt.Sprint(value)
	}
	return ""
}

// time reads a time; the zero time if there is none.
func (t tree) time(path string) time.Time {
	at, _ := time.Parse(time.RFC3339, t.text(path)) // the zero time on an error
	return at.UTC()
}

// field matches a field in a template.
var field = pattern.Lazy(`\{[^}]+\}`)

// fill replaces the fields of a template; the result is empty if one is missing.
func (t tree) fill(template string) string {
	for _, name := range field().FindAllString(template, -1) {
		value := t.text(strings.Trim(name, "{}"))
		if value == "" {
			return ""
		}
		template = strings.Replace(template, name, value, 1)
	}
	return template
}

// sha256 reads a digest with its algorithm, or the SHA-256 in a list of hashes
// as Google's APIs write them; the zero digest if there is none.
func (t tree) sha256() digest.Digest {
	text := t.text("")
	list, _ := t.value.([]any)
	for _, hash := range list {
		raw, err := base64.StdEncoding.DecodeString(tree{hash}.text("value"))
		if kind := (tree{hash}).text("type"); err == nil && (kind == "SHA256" || kind == "1") { // 1 in artifact manifests
			text = fmt.Sprintf("sha256:%x", raw)
		}
	}
	if sum, err := digest.Parse(text); err == nil && sum.Algorithm() == digest.SHA256 {
		return sum
	}
	return digest.Digest{}
}
