package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/order"
)

// The types of parameters.
const (
	typeChoice = "choice"
	typeBool   = "bool"
	typeInt    = "int"
)

// Parameter is one value that the caller of a build may choose, with all
// allowed values: a verifier must know them, to refuse others.
type Parameter struct {
	Name     string
	Type     string
	Values   []string // for type choice
	Min, Max int64    // for type int
	Default  string
	Required bool // has no default
}

func readParameters(n node) []Parameter {
	keys, values := n.pairs("a mapping from names to parameters, or {}")
	list := make([]Parameter, 0, len(keys))
	for i, key := range keys {
		if key.given() && !isName(key.s) {
			values[i].fail("parameter %s: want a name of lower-case letters, digits and dashes", quote(key.s))
		}
		list = append(list, readParameter(key.s, values[i]))
	}
	order.Sort(list, func(a, b Parameter) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func readParameter(name string, n node) Parameter {
	o := n.object("type", "values", "min", "max", "default")
	p := Parameter{Name: name, Type: o.get("type").choice(typeChoice, typeBool, typeInt)}
	fallback := o.get("default")
	p.Required = !fallback.given()
	switch p.Type {
	case typeBool:
		if fallback.given() {
			p.Default = strconv.FormatBool(fallback.boolean())
		}
	case typeInt:
		p.Min = o.need("min", "name the lowest allowed value").number(-1<<53, 1<<53)
		p.Max = o.need("max", "name the highest allowed value").number(-1<<53, 1<<53)
		if p.Min > p.Max {
			n.fail("min %d is above max %d", p.Min, p.Max)
		} else if fallback.given() {
			p.Default = strconv.FormatInt(fallback.number(p.Min, p.Max), 10)
		}
	default:
		p.Values = wordsOf(o.need("values", "list the allowed values").words("every value that is allowed"))
		if t := fallback.text(); t.given() {
			p.Default = t.s
			if !slices.Contains(p.Values, t.s) {
				fallback.fail("%s is not an allowed value", quote(t.s))
			}
		}
	}
	for key, of := range map[string]string{"values": typeChoice, "min": typeInt, "max": typeInt} {
		if m := o.get(key); m.given() && p.Type != of {
			m.fail("only for a parameter of type %s", of)
		}
	}
	return p
}

// accepts says why a value is not allowed, or "".
func (p Parameter) accepts(value string) string {
	switch p.Type {
	case typeBool:
		if value != "true" && value != "false" {
			return "want true or false"
		}
	case typeInt:
		v, err := strconv.ParseInt(value, 10, 64)
		if err != nil || strconv.FormatInt(v, 10) != value || v < p.Min || v > p.Max {
			return "want " + strconv.FormatInt(p.Min, 10) + " to " + strconv.FormatInt(p.Max, 10)
		}
	default:
		if !slices.Contains(p.Values, value) {
			return "want " + strings.Join(p.Values, " or ")
		}
	}
	return ""
}

// chosen makes the complete set of parameters: the given ones, and defaults for
// the rest. Undeclared parameters are refused.
func (c Config) chosen(given map[string]string) (map[string]string, error) {
	all := map[string]string{}
	for _, p := range c.parameters {
		value, ok := given[p.Name]
		switch {
		case !ok && p.Required:
			return nil, invalid("parameter "+p.Name, "the parameter has no default; give it a value with --parameter %s=VALUE", p.Name)
		case !ok:
			value = p.Default
		default:
			if why := p.accepts(value); why != "" {
				return nil, invalid("parameter "+p.Name, "%s: %s", quote(value), why)
			}
		}
		all[p.Name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if _, declared := all[name]; !declared {
			return nil, invalid("parameter "+name, "release.yaml declares no such parameter")
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}
