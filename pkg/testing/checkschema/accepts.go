package checkschema

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Accepts judges a document; like our readers it takes YAML.
func (s Schema) Accepts(text string) error {
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return err
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return err
	}
	var plain any
	if err := json.Unmarshal(raw, &plain); err != nil {
		return err
	}
	return s.judge(s.root, "", plain)
}

// judge is why a value does not follow a rule, which can be true or false.
func (s Schema) judge(rule any, at string, value any) error {
	node, is := rule.(map[string]any)
	if !is {
		if rule == true {
			return nil
		}
		return fmt.Errorf("%s: not allowed here", at)
	}
	if _, is := node["$ref"]; is {
		if err := s.judge(s.resolve(node), at, value); err != nil {
			return err
		}
	}
	for _, keyword := range slices.Sorted(maps.Keys(node)) {
		var why string
		switch want := node[keyword]; keyword {
		case "$schema", "$id", "$defs", "$ref", "title", "description", "default", "then", "else":
		case "anyOf", "oneOf", "not", "if":
			why = s.combined(node, keyword, at, value)
		case "properties", "additionalProperties", "items", "required", "dependentRequired", "propertyNames":
			if err := s.inside(node, keyword, at, value); err != nil {
				return err
			}
		default:
			why = s.scalar(keyword, want, value)
		}
		if why != "" {
			return fmt.Errorf("%s: %s", at, why)
		}
	}
	return nil
}

func (s Schema) combined(node map[string]any, keyword, at string, value any) string {
	if keyword == "if" || keyword == "not" {
		held := s.judge(node[keyword], at, value) == nil
		switch then, is := node["then"]; {
		case keyword == "not" && held:
			return "not allowed"
		case keyword == "if" && held && is:
			if err := s.judge(then, at, value); err != nil {
				return err.Error()
			}
		}
		return ""
	}
	var why []string
	held := 0
	for _, rule := range node[keyword].([]any) {
		if err := s.judge(rule, at, value); err != nil {
			why = append(why, err.Error())
		} else {
			held++
		}
	}
	if held == 0 || keyword == "oneOf" && held > 1 {
		return fmt.Sprintf("%d of the forms of %s hold; %s", held, keyword, strings.Join(why, "; "))
	}
	return ""
}

func (s Schema) scalar(keyword string, want, value any) string {
	text, isText := value.(string)
	number, isNumber := value.(float64)
	list, isList := value.([]any)
	object, isObject := value.(map[string]any)
	holds := true
	switch keyword {
	case "type":
		kinds, many := want.([]any)
		if !many {
			kinds = []any{want}
		}
		holds = slices.ContainsFunc(kinds, func(k any) bool { return kindOf(value, k.(string)) })
	case "const":
		holds = value == want
	case "enum":
		holds = slices.Contains(want.([]any), value)
	case "pattern":
		holds = !isText || regexp.MustCompile(want.(string)).MatchString(text)
	case "minLength":
		holds = !isText || float64(utf8.RuneCountInString(text)) >= want.(float64)
	case "maxLength":
		holds = !isText || float64(utf8.RuneCountInString(text)) <= want.(float64)
	case "minimum":
		holds = !isNumber || number >= want.(float64)
	case "maximum":
		holds = !isNumber || number <= want.(float64)
	case "minItems":
		holds = !isList || float64(len(list)) >= want.(float64)
	case "maxItems":
		holds = !isList || float64(len(list)) <= want.(float64)
	case "minProperties":
		holds = !isObject || float64(len(object)) >= want.(float64)
	case "uniqueItems":
		seen := map[string]bool{}
		for _, v := range list {
			holds = holds && !seen[fmt.Sprint(v)]
			seen[fmt.Sprint(v)] = true
		}
	default:
		s.t.Fatalf("keyword %s is not known here", keyword)
	}
	if holds {
		return ""
	}
	return fmt.Sprintf("%v does not satisfy %s %v", value, keyword, want)
}

func kindOf(value any, kind string) bool {
	switch v := value.(type) {
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case []any:
		return kind == "array"
	case map[string]any:
		return kind == "object"
	}
	return false
}

// inside judges the parts of an object or of a list.
func (s Schema) inside(node map[string]any, keyword, at string, value any) error {
	object, _ := value.(map[string]any)
	list, _ := value.([]any)
	properties, _ := node["properties"].(map[string]any)
	required := []any{}
	switch want := node[keyword]; keyword {
	case "required":
		required = want.([]any)
	case "dependentRequired":
		for name := range object {
			more, _ := want.(map[string]any)[name].([]any)
			required = append(required, more...)
		}
	case "items":
		for i, v := range list {
			if err := s.judge(want, fmt.Sprintf("%s[%d]", at, i), v); err != nil {
				return err
			}
		}
	case "propertyNames", "properties", "additionalProperties":
		for _, name := range slices.Sorted(maps.Keys(object)) {
			rule, known := properties[name]
			judged := object[name]
			switch {
			case keyword == "propertyNames":
				rule, judged = want, any(name)
			case known != (keyword == "properties"):
				continue
			case !known:
				rule = want
			}
			if err := s.judge(rule, at+"."+name, judged); err != nil {
				return err
			}
		}
	}
	for _, name := range required {
		if _, there := object[name.(string)]; !there && object != nil {
			return fmt.Errorf("%s: no %s", at, name)
		}
	}
	return nil
}
