package provenance

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of flattening nested objects. Deeper values stay whole.
const (
	flattenDepth = 8
	flattenName  = 1024
)

// whole is the name of parameters that are not an object.
const whole = "arguments"

// flatten splits a value into named parameters, sorted by name. Lists stay
// whole. name is the prefix of all names; empty for none.
func flatten(name string, raw json.RawMessage) ([]Parameter, error) {
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return nil, nil
	}
	var f flattener
	if err := f.add(name, raw, 0); err != nil {
		return nil, err
	}
	order.Sort(f.list, func(a, b Parameter) int { return strings.Compare(a.Name, b.Name) })
	return f.list, nil
}

type flattener struct{ list []Parameter }

func (f *flattener) add(name string, raw json.RawMessage, depth int) error {
	if raw[0] != '{' || depth == flattenDepth || len(name) > flattenName {
		return f.leaf(name, raw)
	}
	if 1+commas(raw, 1) > maxParameters { // at least as many as it has members
		return tooMany()
	}
	// The statement was parsed strictly down to here, and a map has no fields
	// that a key could match in another letter case.
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return verdict.Wrap(verdict.StatementParse, "provenance", err)
	}
	if len(object) == 0 && name != "" {
		return f.leaf(name, raw)
	}
	for key, value := range object {
		if err := f.add(join(name, key), value, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// anyDepth counts the commas at every depth.
const anyDepth = 0

// commas counts separators, at one depth or at every depth.
func commas(raw []byte, depth int) (count int) {
	for level, mark := range strictjson.Marks(raw) {
		if mark == ',' && (depth == anyDepth || level == depth) {
			count++
		}
	}
	return count
}

func (f *flattener) leaf(name string, raw json.RawMessage) error {
	if len(f.list) == maxParameters {
		return tooMany()
	}
	name = cmp.Or(name, whole)
	f.list = append(f.list, Parameter{Name: name, Value: slices.Clone(raw)})
	return nil
}

func tooMany() error {
	return verdict.Refuse(verdict.Limit, "provenance", "more than %d parameters", maxParameters)
}

// join makes the name of a member. Quoting makes sure that two different
// nestings have different names.
func join(name, key string) string {
	if key == "" || strings.ContainsAny(key, `."\`) {
		key = strconv.Quote(key)
	}
	if name == "" {
		return key
	}
	return name + "." + key
}
