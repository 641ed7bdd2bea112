package strictyaml_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
)

// Each group is one corner of YAML in which a reviewer, or another reader, may
// see another document than we do. What is refused stands beside what passes.

func TestB12Aliases(t *testing.T) {
	bomb := "any:\n- &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c <= 'i'; c++ {
		before := "*" + string(c-1)
		bomb += "- &" + string(c) + " [" + strings.Repeat(before+", ", 8) + before + "]\n"
	}
	run(t, []row{
		{"written out", "any: [[x], [x]]", "", 0, 0},
		{"anchor and alias", "any: [&a [x], *a]", strictyaml.CodeAlias, 1, 7},
		{"anchor alone", "name: &a x", strictyaml.CodeAlias, 1, 7},
		{"anchor on a mapping", "steps:\n- &a\n  on: x", strictyaml.CodeAlias, 2, 3},
		{"anchor on a key", "&a name: x", strictyaml.CodeAlias, 1, 1},
		{"alias without anchor", "name: x\nany: *a", strictyaml.CodeAlias, 2, 6},
		{"alias to itself", "any: &a [*a]", strictyaml.CodeAlias, 1, 6},
		{"alias bomb", bomb, strictyaml.CodeAlias, 2, 3},
		{"ampersand and star in text", "any: [a&b, a*b, \"&a\", '*a']", "", 0, 0},
	})
}

func TestB12MergeKeys(t *testing.T) {
	run(t, []row{
		{"plain", "env: {<<: {A: x}}", strictyaml.CodeAlias, 1, 7},
		{"in any", "any: {<<: {A: x}}", strictyaml.CodeAlias, 1, 7},
		{"with a list", "env:\n  <<: [{A: x}]\n  A: y", strictyaml.CodeAlias, 2, 3},
		{"at the root", "<<: {name: x}", strictyaml.CodeAlias, 1, 1},
		{"quoted is an ordinary key", "env: {\"<<\": x}", "", 0, 0},
		{"as a value", "name: <<", strictyaml.CodeType, 1, 7},
	})
}

func TestB12DuplicateKeys(t *testing.T) {
	run(t, []row{
		{"once", "name: a\nmode: 1", "", 0, 0},
		{"twice", "name: a\nmode: 1\nname: a", strictyaml.CodeDupKey, 3, 1},
		{"quoted differently", "name: a\n\"name\": b", strictyaml.CodeDupKey, 2, 1},
		{"escaped", "name: a\n\"n\\x61me\": b", strictyaml.CodeDupKey, 2, 1},
		{"in a map", "env: {A: a, A: b}", strictyaml.CodeDupKey, 1, 13},
		{"in any", "any:\n- {a: 1,\n   a: 1}", strictyaml.CodeDupKey, 3, 4},
		{"in a free node", "node: {a: 1, a: 1}", strictyaml.CodeDupKey, 1, 14},
		{"in two items", "steps: [{on: a}, {on: b}]", "", 0, 0},
		{"letter case in a map is no duplicate", "env: {A: a, a: b}", "", 0, 0},
		{"of an inlined struct", "extra: a\nextra: b", strictyaml.CodeDupKey, 2, 1},
	})
}

func TestB12Tags(t *testing.T) {
	run(t, []row{
		{"none", "name: x", "", 0, 0},
		{"string", "name: !!str 1", strictyaml.CodeTag, 1, 7},
		{"binary", "name: !!binary eA==", strictyaml.CodeTag, 1, 7},
		{"local", "any: !run x", strictyaml.CodeTag, 1, 6},
		{"verbatim", "any: !<tag:yaml.org,2002:str> x", strictyaml.CodeTag, 1, 6},
		{"bare", "any: ! 12", strictyaml.CodeTag, 1, 6},
		{"bare behind wide characters", "any: [é€😀, ! 12]", strictyaml.CodeTag, 1, 12},
		{"on a mapping", "any: !!map {}", strictyaml.CodeTag, 1, 6},
		{"on a set", "any: !!set {a}", strictyaml.CodeTag, 1, 6},
		{"on a key", "!!str name: x", strictyaml.CodeTag, 1, 1},
		{"at the root", "!!map\nname: x", strictyaml.CodeTag, 1, 1},
		{"exclamation mark in text", "any: [a!b, \"!!str\"]", "", 0, 0},
	})
}

func TestB12Norway(t *testing.T) {
	rows := []row{
		{"true", "push: true", "", 0, 0},
		{"false", "push: false", "", 0, 0},
		{"quoted true", "push: \"true\"", strictyaml.CodeType, 1, 7},
		{"number for a bool", "push: 1", strictyaml.CodeType, 1, 7},
		{"text for a bool", "push: maybe", strictyaml.CodeType, 1, 7},
		{"ordinary word", "name: norway", "", 0, 0},
		{"on as the name of a field", "steps: [{on: server}]", "", 0, 0},
		{"yes as a key", "env: {yes: a}", strictyaml.CodeType, 1, 7},
		{"quoted yes as a key", "env: {'yes': a}", "", 0, 0},
		{"folded text", "name: >-\n  no", "", 0, 0},
	}
	for _, word := range []string{"no", "No", "NO", "yes", "on", "off", "OFF", "y", "N", "True", "TRUE", "False"} {
		rows = append(rows,
			row{word + " for a bool", "push: " + word, strictyaml.CodeType, 1, 7},
			row{word + " for text", "name: " + word, strictyaml.CodeType, 1, 7},
			row{word + " in any", "any: [" + word + "]", strictyaml.CodeType, 1, 7},
			row{word + " quoted for text", "name: '" + word + "'", "", 0, 0},
		)
	}
	run(t, rows)
}

func TestB12Numbers(t *testing.T) {
	rows := []row{
		{"decimal", "mode: 420", "", 0, 0},
		{"zero", "mode: 0", "", 0, 0},
		{"negative", "mode: -1", "", 0, 0},
		{"three parts are text", "version: 1.10.0", "", 0, 0},
		{"v makes text", "version: v1.10", "", 0, 0},
		{"dates with more are text", "version: 2026-01-02-rc", "", 0, 0},
		{"number in any", "any: [1, -1.5, 1e3]", "", 0, 0},
	}
	for _, word := range []string{"017", "0o17", "0x1F", "0b11", "1_000", "+1", "00", "-017"} {
		rows = append(rows,
			row{word + " for a number", "mode: " + word, strictyaml.CodeType, 1, 7},
			row{word + " for a float", "\nratio: " + word, strictyaml.CodeType, 2, 8},
			row{word + " in any", "any: [" + word + "]", strictyaml.CodeType, 1, 7},
		)
	}
	for _, word := range []string{
		"1.10", "1", "017", "0o17", "0x1F", "1e10", "1e999", ".5", "5.", "089", "1_000", "12:30", "12:30:45.5",
		"2026-01-02", "2026-01-02T03:04:05Z", "2026-01-02 03:04:05 Z", "2026-1-2T3:04:05 +1", "2026-01-02T03:04:05.", ".inf", "-.Inf", ".NaN", "true", "Null", "~",
	} {
		rows = append(rows,
			row{word + " for text", "version: " + word, strictyaml.CodeType, 1, 10},
			row{word + " as a key", "env: {" + word + ": x}", strictyaml.CodeType, 1, 7},
			row{word + " quoted for text", "version: \"" + word + "\"", "", 0, 0},
		)
	}
	run(t, rows)
}

// TestColons: text that ends with a colon is the key of a mapping to some.
func TestColons(t *testing.T) {
	run(t, []row{
		{"at the end of a list", "any: [a:]", strictyaml.CodeType, 1, 7},
		{"in a list", "any: [a:, b]", strictyaml.CodeType, 1, 7},
		{"at the end of a key", "env: {a:: b}", strictyaml.CodeType, 1, 7},
		{"quoted", "any: [\"a:\", 'b:']", "", 0, 0},
		{"in the middle", "any: [a:b, http://a.example]", "", 0, 0},
	})
}

func TestB12Documents(t *testing.T) {
	run(t, []row{
		{"one", "name: a", "", 0, 0},
		{"one between markers", "---\nname: a\n...\n", "", 0, 0},
		{"two", "name: a\n---\nname: b", strictyaml.CodeDocument, 2, 1},
		{"two, the second empty", "name: a\n---\n", strictyaml.CodeDocument, 2, 1},
		{"two, the second broken", "name: a\n---\n\tb", strictyaml.CodeSyntax, 3, 1},
		{"text after the end", "name: a\n...\nname: b", strictyaml.CodeSyntax, 2, 1},
		{"none", "", strictyaml.CodeDocument, 1, 1},
		{"comment only", "# name: a\n", strictyaml.CodeDocument, 1, 1},
		{"empty one", "---\n", strictyaml.CodeType, 2, 1},
		{"version directive", "%YAML 1.1\n---\nname: a", strictyaml.CodeDocument, 1, 1},
		{"tag directive", "# c\n%TAG ! tag:x\n---\nname: a", strictyaml.CodeDocument, 2, 1},
		{"percent sign in text", "name: 5%\nplain: |\n  %YAML", "", 0, 0},
	})
}

func TestB12UnknownKeys(t *testing.T) {
	run(t, []row{
		{"known", "steps:\n- run: [a]", "", 0, 0},
		{"misspelled", "nmae: a", strictyaml.CodeUnknownKey, 1, 1},
		{"other case", "name: a\nName: b", strictyaml.CodeUnknownKey, 2, 1},
		{"Unicode case", "push: true\npu\u017fh: true", strictyaml.CodeUnknownKey, 2, 1},
		{"in an item", "steps:\n- run: [a]\n- runs: [a]", strictyaml.CodeUnknownKey, 3, 3},
		{"Go name of a tagged field", "Mode: 1", strictyaml.CodeUnknownKey, 1, 1},
		{"name of an untagged field", "plain: a", "", 0, 0},
		{"skipped field", "skipped: a", strictyaml.CodeUnknownKey, 1, 1},
		{"inlined struct by its name", "extra: {extra: a}", strictyaml.CodeType, 1, 8},
		{"empty", "\"\": a", strictyaml.CodeUnknownKey, 1, 1},
		{"null", "~: a", strictyaml.CodeUnknownKey, 1, 1},
	})
}

func TestB12TabsAndLineBreaks(t *testing.T) {
	run(t, []row{
		{"spaces", "steps:\n- on: a\n  run: [b]", "", 0, 0},
		{"tab before a key", "steps:\n- on: a\n\trun: [b]", strictyaml.CodeSyntax, 3, 1},
		{"tab behind spaces", "steps:\n- on: a\n \trun: [b]", strictyaml.CodeSyntax, 3, 2},
		{"tab before an item", "steps:\n\t- on: a", strictyaml.CodeSyntax, 2, 1},
		{"tab in block text", "name: |\n  a\n  \tb", "", 0, 0},
		{"CRLF", "name: a\r\nmode: 1\r\n", "", 0, 0},
		{"lone CR hides a key", "# x\rpush: true\nname: a", strictyaml.CodeEncoding, 1, 4},
		{"U+2028 hides a key", "# é\u2028push: true\nname: a", strictyaml.CodeEncoding, 1, 4},
		{"U+2029 hides a key", "# x\u2029push: true\nname: a", strictyaml.CodeEncoding, 1, 4},
		{"U+0085 hides a key", "# x\u0085push: true\nname: a", strictyaml.CodeEncoding, 1, 4},
		{"bidi override in a comment", "name: a\n# \u202e x", strictyaml.CodeEncoding, 2, 3},
	})
}

// TestB12Hidden: a name with a character that is not seen looks like another.
func TestB12Hidden(t *testing.T) {
	rows := []row{
		{"letters of other scripts", "name: é漢字ไทยअ", "", 0, 0},
		{"a combining accent", "name: e\u0301", "", 0, 0},
		{"an emoji", "name: 😀", "", 0, 0},
		{"an ideographic full stop", "name: a\u3002", "", 0, 0},
	}
	for _, r := range []rune{
		0xAD, 0xA0, 0x34F, 0x61C, 0x115F, 0x1160, 0x180B, 0x180E, 0x17B4, 0x2000, 0x2009, 0x200A, 0x200B, 0x200C, 0x200D, 0x200E, 0x200F,
		0x202A, 0x202E, 0x202F, 0x205F, 0x2060, 0x2061, 0x2064, 0x2066, 0x2069, 0x206A, 0x2800, 0x3000, 0x3164, 0xFE00, 0xFE0F, 0xFFA0, 0xFFF9,
		0x1D173, 0xE0001, 0xE0041, 0xE007F, 0xE0100, 0xE01EF,
	} {
		rows = append(rows, row{fmt.Sprintf("%U in a name", r), "name: a" + string(r) + "b", strictyaml.CodeEncoding, 1, 8},
			row{fmt.Sprintf("%U in a key", r), "env: {a" + string(r) + ": b}", strictyaml.CodeEncoding, 1, 8},
			row{fmt.Sprintf("%U in a comment", r), "name: a # " + string(r), strictyaml.CodeEncoding, 1, 11})
	}
	run(t, rows)
}

func TestB12Encoding(t *testing.T) {
	run(t, []row{
		{"UTF-8", "name: é€😀", "", 0, 0},
		{"invalid UTF-8", "name: é\xff", strictyaml.CodeEncoding, 1, 8},
		{"byte order mark", "\ufeffname: a", strictyaml.CodeEncoding, 1, 1},
		{"byte order mark inside", "name: a\n\ufeffmode: 1", strictyaml.CodeEncoding, 2, 1},
		{"UTF-16", "\xff\xfen\x00", strictyaml.CodeEncoding, 1, 1},
		{"NUL", "name: a\x00", strictyaml.CodeEncoding, 1, 8},
		{"NUL written", `name: "a\0"`, strictyaml.CodeEncoding, 1, 7},
		{"NUL written in a key", `env: {"\x00": a}`, strictyaml.CodeEncoding, 1, 7},
		{"escape character", "name: \x1b[2J", strictyaml.CodeEncoding, 1, 7},
		{"delete character", "name: \x7f", strictyaml.CodeEncoding, 1, 7},
		{"a zero-width space written", `name: "a\u200b"`, strictyaml.CodeEncoding, 1, 7},
		{"a zero-width space written in a key", `env: {"a\u200b": a}`, strictyaml.CodeEncoding, 1, 7},
		{"bidi override written", `name: "a\u202e"`, strictyaml.CodeEncoding, 1, 7},
		{"escapes that are text", `name: "a\u00e9\t\\0"`, "", 0, 0},
	})
}
