package cel_test

import (
	"strings"
	"testing"
)

// TestCompileRefuses plants one fault in each rule. The twin differs in that
// one thing and compiles.
func TestCompileRefuses(t *testing.T) {
	c := compiler(t)
	for _, row := range []struct {
		fault, twin  string
		line, column int
		want         string
	}{
		// Names and types.
		{`artfact.name == "a"`, `artifact.name == "a"`, 1, 1, "undeclared reference to 'artfact'"},
		{"stage == \"release\" &&\n  artifact.nam == \"a\"", "stage == \"release\" &&\n  artifact.name == \"a\"", 2, 11, "undefined field 'nam'"},
		{`evidence.exists(e, e.provenance.levl >= 3)`, `evidence.exists(e, e.provenance.level >= 3)`, 1, 32, "undefined field 'levl'"},
		{`evidence.exists(e, e.provenance.Level >= 3)`, `evidence.exists(e, e.provenance.level >= 3)`, 1, 32, "undefined field 'Level'"},
		{`evidence.exists(e, e.provenance.level >= "3")`, `evidence.exists(e, e.provenance.level >= 3)`, 1, 39, "no matching overload"},
		{`evidence.name == "a"`, `artifact.name == "a"`, 1, 9, "does not support field selection"},
		{`artifact.name = "a"`, `artifact.name == "a"`, 1, 15, "token recognition error"},
		{`artifact.name == "a" &&`, `artifact.name == "a"`, 1, 24, "mismatched input"},
		{`version < "v1.10.0"`, `version != "v1.10.0"`, 1, 9, "no matching overload"},
		{`time < "2027-01-01"`, `time < timestamp("2027-01-01T00:00:00Z")`, 1, 6, "no matching overload"},
		{`time < timestamp("2027-01-01")`, `time < timestamp("2027-01-01T00:00:00Z")`, 1, 18, "invalid timestamp argument"},
		{`time - timestamp("2027-01-01T00:00:00Z") < duration("1 day")`, `time - timestamp("2027-01-01T00:00:00Z") < duration("24h")`, 1, 53, "invalid duration argument"},
		// The answer.
		{`artifact.name`, `artifact.name == "a"`, 1, 1, "the result is of type string"},
		{`size(evidence)`, `size(evidence) > 0`, 1, 1, "the result is of type int"},
		{`evidence.filter(e, e.role == "builder")`, `evidence.exists(e, e.role == "builder")`, 1, 1, "the result is of type list"},
		{`dyn(stage == "release")`, `stage == "release"`, 1, 4, "dyn is not available in rules"},
		{`artifact.name in ["a", 1]`, `artifact.name in ["a", "1"]`, 1, 18, "the type is not known at compile time"},
		// Always the same.
		{`true`, `stage == "release"`, 1, 1, "depends on no input"},
		{`1 == 1`, `size(evidence) == 1`, 1, 3, "compared with itself"},
		{`1 == 2`, `size(evidence) == 2`, 1, 3, "depends on no input"},
		{`stage == "release" || true`, `stage == "release" || has(artifact.name)`, 1, 23, "depends on no input"},
		{`stage == "release" || 1 < 2`, `stage == "release" || size(evidence) < 2`, 1, 25, "depends on no input"},
		{`stage == "release" || ["a"].exists(x, x == "a")`, `stage == "release" || ["a"].exists(x, x == artifact.name)`, 1, 35, "depends on no input"},
		{`stage == "release" ? true : has(artifact.commit)`, `stage != "release" || has(artifact.commit)`, 1, 22, "depends on no input"},
		{`artifact.name == artifact.name`, `artifact.name == artifact.commit`, 1, 15, "compared with itself"},
		{`evidence.exists(e, e.signed <= e.signed)`, `evidence.exists(e, e.signed <= time)`, 1, 29, "compared with itself"},
		{`size(evidence) >= size(evidence)`, `size(evidence) >= size(evidence.filter(e, e.role == "builder"))`, 1, 16, "compared with itself"},
		{`stage == "release" || !(stage == "release")`, `stage == "release" || !(version == "v0")`, 1, 20, "a condition combined with its opposite"},
		{`evidence.all(e, has(e.role)) || !evidence.all(e, has(e.role))`, `evidence.all(e, has(e.role)) || !evidence.all(e, has(e.issuer))`, 1, 30, "a condition combined with its opposite"},
		{`stage == "staging" ? has(artifact.name) : has(artifact.name)`, `stage == "staging" ? has(artifact.name) : has(artifact.commit)`, 1, 20, "both branches are the same"},
		{`artifact.name.startsWith("")`, `artifact.name.startsWith("b")`, 1, 25, "starts and ends with the empty text"},
		{`artifact.name.endsWith(artifact.name)`, `artifact.name.endsWith(version)`, 1, 23, "starts and ends with the empty text"},
		{`artifact.name in ["a", artifact.name]`, `artifact.name in ["a", version]`, 1, 15, "the list contains the same expression"},
		{`.artifact.name == artifact.name`, `artifact.commit == artifact.name`, 1, 16, "compared with itself"},
		{`size(evidence) >= 0`, `size(evidence) >= 1`, 1, 16, "a size is always 0 or more"},
		{`evidence.size() > -1`, `evidence.size() > 0`, 1, 17, "a size is always 0 or more"},
		{`0 <= size(evidence)`, `0 < size(evidence)`, 1, 3, "a size is always 0 or more"},
		{`size(artifact.sha256) < 9223372036854775807 + 1 || 9223372036854775807 >= size(evidence)`, `9223372036854775807 > size(evidence)`, 1, 72, "a size is always 0 or more"},
		{`evidence.exists(e, e.provenance.level >= 0)`, `evidence.exists(e, e.provenance.level >= 1)`, 1, 39, "a level is always between 0 and 3"},
		{`evidence.exists(e, e.provenance.level != 4)`, `evidence.exists(e, e.provenance.level != 3)`, 1, 39, "a level is always between 0 and 3"},
		{`evidence.exists(e, artifact.name == "a")`, `evidence.exists(e, e.subject == "a")`, 1, 34, "does not use e"},
		{`evidence.exists_one(e, artifact.name == "a")`, `evidence.exists_one(e, e.subject == "a")`, 1, 38, "does not use e"},
		{`evidence.filter(e, has(artifact.name)).size() > 1`, `evidence.filter(e, has(e.subject)).size() > 1`, 1, 23, "does not use e"},
		{`has(artifact.name) && artifact.name in []`, `has(artifact.name) && artifact.name in ["a"]`, 1, 40, "the list is empty"},
		{`[].all(x, x == artifact.name)`, `["a"].all(x, x == artifact.name)`, 1, 1, "the list is empty"},
		{`evidence.all(e, e.provenance != null)`, `evidence.all(e, has(e.provenance))`, 1, 33, "ever null"},
		// Words that mean something.
		{`stage != "relase"`, `stage != "release"`, 1, 10, `"relase" is not one of ["staging" "release"]`},
		{`artifact.class != "binray" || has(artifact.commit)`, `artifact.class != "binary" || has(artifact.commit)`, 1, 19, `"binray" is not one of`},
		{`"Binary" == artifact.class`, `"binary" == artifact.class`, 1, 1, `"Binary" is not one of`},
		{`!(artifact.class in ["image", "images"])`, `!(artifact.class in ["image", "image-child"])`, 1, 31, `"images" is not one of`},
		{`evidence.exists(e, e.role == "builders")`, `evidence.exists(e, e.role == "builder")`, 1, 30, `"builders" is not one of`},
		{`evidence.exists(e, e.claims["runner"] == "hosted")`, `evidence.exists(e, e.claims["runnerEnvironment"] == "hosted")`, 1, 21, `unknown claim "runner"`},
		{`evidence.exists(e, e.claims.ref == version)`, `evidence.exists(e, e.claims.sourceRepositoryRef == version)`, 1, 21, `unknown claim "ref"`},
		{`evidence.all(e, !has(e.claims.trigger))`, `evidence.all(e, !has(e.claims.buildTrigger))`, 1, 23, `unknown claim "trigger"`},
		{`evidence.all(e, !("trigger" in e.claims))`, `evidence.all(e, !("buildTrigger" in e.claims))`, 1, 33, `unknown claim "trigger"`},
		// What finds too much, sees the world, or depends on an order.
		{`artifact.name.matches("tool")`, `artifact.name.endsWith("/tool")`, 1, 22, "a pattern would match anywhere"},
		{`matches(artifact.name, "^(a+)+$")`, `artifact.name.startsWith("aaaa")`, 1, 8, "a pattern would match anywhere"},
		{`evidence.exists(e, e.subject.contains("example"))`, `evidence.exists(e, e.subject == "release@example.com")`, 1, 38, "contains would match anywhere"},
		{`now() < timestamp("2027-01-01T00:00:00Z")`, `time < timestamp("2027-01-01T00:00:00Z")`, 1, 4, "the time of verification"},
		{`time.getHours("Europe/Berlin") < 8`, `time < timestamp("2027-01-01T00:00:00Z")`, 1, 14, "getHours is not available in rules"},
		{`time.getDayOfWeek() < 5`, `time < timestamp("2027-01-01T00:00:00Z")`, 1, 18, "undeclared reference to 'getDayOfWeek'"},
		{`http("https://example.com") == "ok"`, `version == "ok"`, 1, 5, "rules only have verified inputs"},
		{`http.Get("https://example.com").status == 200`, `size(version) == 200`, 1, 1, "undeclared reference to 'http'"},
		{`env("HOME") == "a"`, `version == "a"`, 1, 4, "undeclared reference to 'env'"},
		{`evidence[0].role == "builder"`, `evidence.exists(e, e.role == "builder")`, 1, 9, "no matching overload"},
		{`evidence.exists(e, e.claims.exists(k, k == "buildTrigger"))`, `evidence.exists(e, "buildTrigger" in e.claims)`, 1, 35, "has no defined order"},
		{`evidence.exists(e, e.claims.all(k, k == "buildTrigger"))`, `evidence.exists(e, "buildTrigger" in e.claims)`, 1, 32, "has no defined order"},
		{`version.all(c, c == "v")`, `version == "v"`, 1, 12, "range of a comprehension"},
		{`evidence.exists(e, e.?role == "builder")`, `evidence.exists(e, e.role == "builder")`, 1, 21, "unsupported syntax"},
		{`string(1) == version`, `"1" == version`, 1, 7, "undeclared reference to 'string'"},
		{`2 * size(evidence) > 3`, `size(evidence) + size(evidence) > 3`, 1, 3, "undeclared reference to '_*_'"},
		{`evidence.exists(e, evidence.exists(f, e == f))`, `evidence.exists(e, evidence.exists(f, e.subject == f.issuer))`, 1, 41, "cannot be compared"},
		{`evidence.exists(e, e in evidence)`, `evidence.exists(e, e.role in ["builder"])`, 1, 22, "cannot be searched for"},
		{`evidence.map(e, e.role).exists(r, r == "builder")`, `evidence.exists(e, e.role == "builder")`, 1, 13, "map is not available in rules"},
		{`type(artifact.name) == string`, `artifact.name == "string"`, 1, 5, "type is not available in rules"},
		{`string == int || has(artifact.name)`, `has(artifact.name)`, 1, 1, "the name of a type"},
		{`evidence.exists(evidence, evidence.role == "builder")`, `evidence.exists(e, e.role == "builder")`, 1, 16, "is already defined here"},
		{`evidence.exists(e, e.provenance.dependencies.exists(e, e.name == "go"))`, `evidence.exists(e, e.provenance.dependencies.exists(d, d.name == "go"))`, 1, 52, "is already defined here"},
		{`evidence.exists(@result, @result.role == "builder")`, `evidence.exists(result, result.role == "builder")`, 1, 17, "token recognition error"},
		{`@some(evidence).exists(e, e.role == "builder")`, `evidence.exists(e, e.role == "builder")`, 1, 1, "token recognition error"},
	} {
		t.Run(row.fault, func(t *testing.T) {
			made, err := c.Compile(row.fault)
			if err == nil || made != nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("%v; want an error with %q", err, row.want)
			}
			if line, column := at(t, err); line != row.line || column != row.column {
				t.Errorf("%v; want it at %d:%d", err, row.line, row.column)
			}
			if _, err := c.Compile(row.twin); err != nil {
				t.Errorf("twin: %v", err)
			}
		})
	}
}

// TestCompileRefusesText is about the characters of a rule.
func TestCompileRefusesText(t *testing.T) {
	c := compiler(t)
	const ok = `stage == "release"`
	for name, row := range map[string]struct{ fault, twin, want string }{
		"empty":              {"", ok, "the rule is empty"},
		"blank":              {" \n\t\n", " \n\t" + ok + "\n", "the rule is empty"},
		"long":               {ok + strings.Repeat(" ", 4096), ok + strings.Repeat(" ", 4096-len(ok)), "the limit is 4096"},
		"template":           {`version == "{{ .Version }}"`, `version == "Version"`, "placeholders are not replaced in rules"},
		"placeholder":        {`version != "{version}"`, `version != "version"`, "line 1, column 13"},
		"closing":            {`version != "version}"`, `version != "version"`, "line 1, column 20"},
		"shell":              {`version != "${VERSION}"`, `version != "$VERSION"`, "placeholders are not replaced in rules"},
		"map":                {`{"a": version}["a"] == "v1"`, `version == "v1"`, "line 1, column 1 "},
		"message":            {`policy.ArtifactView{name: "a"}.name == version`, `artifact.name == version`, "placeholders are not replaced in rules"},
		"comment":            {ok + ` // || ` + ok, ok + ` || has(artifact.name)`, "comments are not allowed in a rule"},
		"comment line":       {ok + "\n// why\n", ok + "\n", "line 2, column 1 "},
		"comment after text": {`version == "\"//" // x`, `version == "\"//"`, "line 1, column 19 "},
		"comment after raw":  {`version == r"\" // x`, `version == r"\\//"`, "line 1, column 17 "},
		"slashes in text":    {`version == 'https://a' // `, `version == 'https://a'`, "column 24 "},
		"three quotes":       {`version == """a"""`, `version == "a"`, "not triple ones"},
		"homoglyph in name":  {"artif\u0430ct.name == \"a\"", `artifact.name == "a"`, "byte 0xd0"},
		"homoglyph in text":  {"version == \"\u0430\"", `version == "\u0430"`, `write \u and four digits`},
		"right to left":      {"version == \"a\u202e\"", `version == "a\u202e"`, "byte 0xe2"},
		"no-break space":     {"stage ==\u00a0\"release\"", ok, "byte 0xc2"},
		"zero width":         {"stage\u200b == \"release\"", ok, "byte 0xe2"},
		"byte order mark":    {"\ufeff" + ok, ok, "line 1, column 1 "},
		"bad UTF-8":          {"version == \"\xff\"", `version == "\u00ff"`, "byte 0xff"},
		"NUL":                {ok + "\x00", ok, "byte 0x00"},
		"carriage return":    {ok + "\r\n", ok + "\n", "byte 0x0d"},
	} {
		t.Run(name, func(t *testing.T) {
			if made, err := c.Compile(row.fault); err == nil || made != nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v; want an error with %q", err, row.want)
			}
			if _, err := c.Compile(row.twin); err != nil {
				t.Errorf("twin: %v", err)
			}
		})
	}
}

// TestCompileRefusesBombs is about rules that are small and cost much.
func TestCompileRefusesBombs(t *testing.T) {
	c := compiler(t)
	deps := "evidence.exists(e, e.provenance.dependencies.exists(d, "
	digits := `"0"` + strings.Repeat(`,"0"`, 90)
	for name, row := range map[string]struct{ fault, twin, want string }{
		"loops in loops": {
			`evidence.exists(a, evidence.exists(b, evidence.exists(c, evidence.exists(d, a.role == b.role && c.role == d.role))))`,
			`evidence.exists(a, evidence.exists(b, evidence.exists(c, a.role == b.role && b.role == c.role)))`, "more than 3 nested loops"},
		"dependencies in dependencies": {
			deps + `e.provenance.dependencies.exists(f, f.name == d.uri)))`,
			deps + `d.name == e.subject && d.uri == e.provenance.builder))`, "the rule may cost"},
		"literals in literals": {
			`[` + digits + `].exists(a, [` + digits + `].exists(b, [` + digits + `].exists(c, a + b + c == version)))`,
			`[` + digits + `].exists(a, [` + digits + `].exists(b, a + b == version))`, "the rule may cost"},
		"parentheses": {
			strings.Repeat("(", 200) + `stage == "release"` + strings.Repeat(")", 200),
			strings.Repeat("(", 10) + `stage == "release"` + strings.Repeat(")", 10), "recursion"},
		"negations": {
			strings.Repeat("!(", 200) + `stage == "release"` + strings.Repeat(")", 200),
			strings.Repeat("!", 200) + `(stage == "release")`, "recursion"},
		"choices": {
			strings.Repeat(`stage=="release"?has(version.a):`, 100) + `has(version.a)`,
			strings.Repeat(`stage=="release"?version=="a":`, 4) + `version=="b"`, "recursion"},
		"conditions": {
			strings.Repeat(`has(e.role)||`, 400) + `has(artifact.name)`,
			strings.Repeat(`has(artifact.commit)||`, 50) + `has(artifact.name)`, "4096"},
		"fields": {`has(artifact` + strings.Repeat(".a", 1500) + `)`, `has(artifact.name)`, "recursion"},
		"sums":   {`version == "a"` + strings.Repeat(`+"a"`, 1000), `version == "a"` + strings.Repeat(`+"a"`, 20), "recursion"},
		"many":   {`version in ["a"` + strings.Repeat(`,"a"`, 1000) + `]`, `version in ["a"` + strings.Repeat(`,"a"`, 500) + `]`, "node count"},
	} {
		t.Run(name, func(t *testing.T) {
			if made, err := c.Compile(row.fault); err == nil || made != nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v; want an error with %q", err, row.want)
			}
			if _, err := c.Compile(row.twin); err != nil {
				t.Errorf("twin: %v", err)
			}
		})
	}
}
