package signoff_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The rules that templates, kep.yaml and the process of releases have, each
// with what breaks it. The good enhancement is the twin of every row.

// TestK01Directives: a directive is one line and belongs to the heading above;
// one that is not in its form is reported, read as far as it goes, and takes no
// text along.
func TestK01Directives(t *testing.T) {
	rows := []struct {
		line     string
		required bool
		from     signoff.Stage
		fault    string
	}{
		{"<!--DIRECTIVE: required: true-->", true, signoff.Alpha, ""},
		{"<!-- DIRECTIVE: required: true, stage: beta -->", true, signoff.Beta, ""},
		{"<!--DIRECTIVE: required: true,stage: stable-->", true, signoff.Stable, ""},
		{"<!--DIRECTIVE: required: false-->", false, "", ""},
		{"<!--DIRECTIVE: required: false>", false, "", `ends with ">"`},
		{"<!--DIRECTIVE: required: true,stage: beta", true, signoff.Beta, `no "-->"`},
		{"<!--DIRECTIVE: required: maybe-->", true, signoff.Alpha, "required: maybe"},
		{"<!--DIRECTIVE: required: true,stage: gamma-->", true, signoff.Alpha, "stage: gamma"},
		{"<!--DIRECTIVE: stage: beta-->", true, signoff.Beta, "required is missing"},
		{"<!--DIRECTIVE: required: true,required: false-->", true, signoff.Alpha, "twice"},
		{"<!--DIRECTIVE: required: false,stage: beta-->", false, "", "not required"},
		{"<!--DIRECTIVE-->", true, signoff.Alpha, "required is missing"},
	}
	for _, r := range rows {
		tm, err := signoff.ParseTemplate([]byte("# T\n\n## One\n" + r.line + "\n\n### Two\n<!-- three -->\n"))
		if err != nil {
			t.Fatal(err)
		}
		one := tm.Rules()[1]
		if len(tm.Rules()) != 3 || !one.Stated || one.Required != r.required || one.From != r.from {
			t.Errorf("%s: %d sections, %+v", r.line, len(tm.Rules()), one)
		}
		said := ""
		for _, f := range tm.Faults() {
			said += f.Message
		}
		if (said == "") != (r.fault == "") || !strings.Contains(said, r.fault) {
			t.Errorf("%s: faults %q, want %q", r.line, said, r.fault)
		}
	}
	for text, want := range map[string]string{
		"<!--DIRECTIVE: required: true-->\n# T\n":                                 "no heading above",
		"# T\n<!--DIRECTIVE: required: true-->\n<!--DIRECTIVE: required: true-->": "already",
		"# T\n## --\n<!--DIRECTIVE: required: true-->":                            "no words",
		"# T\n<!-- a comment\n":                                                   "has no end",
	} {
		tm, err := signoff.ParseTemplate([]byte(text))
		if err != nil || len(tm.Faults()) != 1 || !strings.Contains(tm.Faults()[0].Message, want) {
			t.Errorf("%q: %v, %v", text, tm.Faults(), err)
		}
	}
	v, _ := good(t).change(t, "template.md", "required: false-->", "required: false>").accepted(t)
	if !slices.Contains(codes(v.Warnings), verdict.SignoffTemplate) {
		t.Errorf("the fault of the template is not reported: %v", v.Warnings)
	}
}

// TestK02RequiredSections counts what the template with directives requires.
func TestK02RequiredSections(t *testing.T) {
	count := map[signoff.Stage]int{}
	none := 0
	for _, r := range seedTemplate(t, directives).Rules() {
		switch {
		case !r.Stated:
			none++
		case r.Required:
			count[r.From]++
		default:
			count[""]++
		}
	}
	if count[signoff.Alpha] != 22 || count[signoff.Beta] != 27 || count[""] != 7 || none != 1 {
		t.Errorf("from alpha %d, from beta %d, optional %d, unsaid %d", count[signoff.Alpha], count[signoff.Beta], count[""], none)
	}
}

// TestK03Stages: a stage asks for all that the one before it asks for, and
// "(Optional)" is no part of a title.
func TestK03Stages(t *testing.T) {
	at := func(s signoff.Stage) *world {
		w := good(t)
		w.q.Stage = s
		return w.change(t, kep, "stage: beta", "stage: "+string(s)).change(t, "registry.yaml", "stage: beta", "stage: "+string(s)).
			change(t, review, "beta:", string(s)+":").change(t, review, "alpha:", "alpha_before:")
	}
	at(signoff.Alpha).change(t, readme, "- 2026-01-07: drafted", "").accepted(t)
	at(signoff.Beta).change(t, readme, "- 2026-01-07: drafted", "").expect(t, verdict.SignoffEmpty, "Implementation History")
	at(signoff.Stable).expect(t, verdict.SignoffSection, "Drawbacks")
	good(t).change(t, readme, "## Design Details\n", "## Design Details (Optional)\n").
		change(t, readme, "[Design Details](#design-details)", "[Design Details (Optional)](#design-details-optional)").accepted(t)
	good(t).change(t, readme, "### Graduation Criteria\n\nTwo", "### Graduation\n\nTwo").
		change(t, readme, "[Graduation Criteria](#graduation-criteria)", "[Graduation](#graduation)").
		expect(t, verdict.SignoffSection, "Graduation Criteria: the section is missing")
}

// TestK04HiddenHeadings: what stands in a comment or a fence is no section, and
// damaged characters do not hide one.
func TestK04HiddenHeadings(t *testing.T) {
	hidden := func(before, after string) *world {
		return good(t).change(t, readme, "### Graduation Criteria\n\nTwo lighthouses use it for a year.\n", before+"### Graduation Criteria\n\nTwo lighthouses use it for a year.\n"+after).
			change(t, readme, "  - [Graduation Criteria](#graduation-criteria)\n", "")
	}
	hidden("<!--\n", "-->\n").expect(t, verdict.SignoffSection, "inside of a comment, at line")
	hidden("```\n", "```\n").expect(t, verdict.SignoffSection, "the section is missing")
	hidden("~~~ text\n", "~~~\n").expect(t, verdict.SignoffSection, "the section is missing")
	// A mark of a comment in code begins none.
	good(t).change(t, readme, "A keeper dims it", "A keeper writes `<!--` and dims it").accepted(t)
	good(t).change(t, readme, "A keeper dims it at dawn.", "```\n<!--\n```").accepted(t)
	// A fence ends at its own mark only.
	good(t).change(t, readme, "A keeper dims it at dawn.", "```\n~~~\n<!--\n```").accepted(t)
	// Marks that close a heading are not part of its name.
	good(t).change(t, readme, "### Graduation Criteria\n", "### Graduation Criteria ###\n").accepted(t)
	// Comments do not nest.
	good(t).change(t, readme, "A keeper dims", "<!-- one <!-- two -->\nA keeper dims").accepted(t)

	damaged := good(t).change(t, "template.md", "### Graduation Criteria", "### Criteria – with a “dash”").
		change(t, readme, "### Graduation Criteria", "### Criteria â€“ with a â€œdashâ€\u009d").
		change(t, readme, "[Graduation Criteria](#graduation-criteria)", "[Criteria â€“ with a â€œdashâ€\u009d](#criteria-â-with-a-âœdashâ)")
	v, _ := damaged.check(t)
	if slices.Contains(codes(v.Findings), verdict.SignoffSection) {
		t.Errorf("a damaged dash hides a section: %v", v.Findings)
	}
}

// TestK05PresentIsNotFilled: a heading, a placeholder and the template's own
// words fill nothing; comments that are left are said.
func TestK05PresentIsNotFilled(t *testing.T) {
	with := func(text string) *world {
		return good(t).change(t, readme, "- dimmer_test.go: every step of the wheel.", text)
	}
	with("").expect(t, verdict.SignoffEmpty, "Test Plan")
	with("---\n[x]: https://k8s.io/x").expect(t, verdict.SignoffEmpty, "Test Plan")
	for _, text := range []string{"TBD", "todo", "- **TODO**", "_To be defined._", "Some words.\n\nTBD"} {
		with(text).expect(t, verdict.SignoffPlaceholder, "Test Plan")
	}
	with("We do not use TBD here.").accepted(t)
	with("[ ]  We test what we ship.\n\n- <test>: <link to test coverage>").expect(t, verdict.SignoffUnchanged, "Test Plan")
	with("- dim: <link to test coverage>").accepted(t)

	v, _ := with("<!-- look here -->\nWords.").accepted(t)
	if !slices.Contains(codes(v.Warnings), verdict.SignoffGuidance) {
		t.Errorf("a comment that is left is not said: %v", v.Warnings)
	}
	stable := func(text string) *world {
		w := with(text).change(t, readme, "## Implementation History", "## Drawbacks\n\nIt costs.\n\n## Implementation History").
			change(t, readme, "- [Implementation History]", "- [Drawbacks](#drawbacks)\n- [Implementation History]").
			change(t, kep, "stage: beta", "stage: stable").change(t, "registry.yaml", "stage: beta", "stage: stable").
			change(t, review, "beta:", "stable:")
		return w
	}
	stable("<!-- look here -->\nWords.").expect(t, verdict.SignoffGuidance, "comments remain")
	stable("Words.").accepted(t)
	w := good(t).change(t, readme, "- 2026-01-07: drafted", "- 2026-01-07: drafted\n<!-- and more")
	w.expect(t, verdict.SignoffGuidance, "has no end")
}

// TestK06Names: title, number, directory and table of contents.
func TestK06Names(t *testing.T) {
	title := func(text string) *world { return good(t).change(t, readme, "# KEP-7001: Dim the lantern", text) }
	title("# KEP-7001: Dim the  lantern").accepted(t)
	title("# Dim the lantern").expect(t, verdict.SignoffTitle, "want KEP-7001:")
	title("# KEP-7002: Dim the lantern").expect(t, verdict.SignoffTitle, "number in the title")
	title("# KEP-NNNN: Dim the lantern").expect(t, verdict.SignoffTitle, "number in the title")
	title("# KEP-7001: Your short, descriptive title").expect(t, verdict.SignoffTitle, "that of the template")
	title("").expect(t, verdict.SignoffTitle, "no title")
	for title, warned := range map[string]bool{"# KEP-7001: Dimmer \u00c3\u00a0 deux": false, "# KEP-7001: Dimmer a deux": true} { // the first is UTF-8 that was read as Windows-1252
		w := good(t).change(t, readme, "# KEP-7001: Dim the lantern", title).change(t, kep, "title: Dim the lantern", "title: Dimmer \u00e0 deux")
		if v, _ := w.accepted(t); slices.Contains(codes(v.Warnings), verdict.SignoffTitle) != warned {
			t.Errorf("%s: warnings %v", title, v.Warnings)
		}
	}
	good(t).change(t, kep, "kep-number: 7001", "kep-number: 7002").expect(t, verdict.SignoffTitle, "the number differs")

	for _, name := range []string{"07001-lantern-dimmer", "7001_lantern", "7001-Lantern"} {
		w := good(t)
		for file, text := range w.files {
			if rest, ok := strings.CutPrefix(file, dir); ok {
				delete(w.files, file)
				w.files["keps/sig-release/"+name+rest] = text
			}
		}
		v, _ := w.check(t)
		if !slices.Contains(codes(v.Findings), verdict.SignoffTitle) {
			t.Errorf("directory %s: %v", name, v.Findings)
		}
	}

	toc := func(before, after string) *world { return good(t).change(t, readme, before, after) }
	toc("- [Design Details](#design-details)\n", "").expect(t, verdict.SignoffTOC, "Design Details")
	toc("- [Summary](#summary)", "- [Summary](#summry)").expect(t, verdict.SignoffTOC, "is #summry, want #summary")
	toc("- [Implementation History](#implementation-history)\n", "- [Implementation History](#implementation-history)\n- [Alternatives](#alternatives)\n").
		expect(t, verdict.SignoffTOC, "Alternatives")
	toc("- [Implementation History](#implementation-history)\n", "").expect(t, verdict.SignoffTOC, "is missing")
	// A program that writes such tables writes code and signs so.
	toc("- [Summary](#summary)", "- [Summary &amp; <code>more</code>](#summary--more)").change(t, readme, "## Summary\n", "## Summary & `more`\n").
		change(t, "template.md", "## Summary\n", "## Summary & more\n").accepted(t)
	// Two headings of one title have two names.
	toc("A keeper dims it at dawn.", "A keeper dims it.\n\n#### Story\n\nOne.\n\n#### Story\n\nTwo.").
		change(t, readme, "- [Design Details]", "- [Story](#story)\n- [Story](#story-1)\n- [Design Details]").accepted(t)
}

// TestK07Fields: what a kep.yaml says at least, by stage, and not in the words
// of the template.
func TestK07Fields(t *testing.T) {
	without := func(line string) *world { return good(t).change(t, kep, line, "") }
	without("title: Dim the lantern\n").expect(t, verdict.SignoffField, "title")
	without("authors:\n  - \"@keeper\"\n").expect(t, verdict.SignoffField, "authors")
	without("creation-date: 2026-01-07\n").expect(t, verdict.SignoffField, "creation-date")
	without("disable-supported: true\n").expect(t, verdict.SignoffField, "disable-supported")
	without("metrics:\n  - lantern_dimmed_total\n").expect(t, verdict.SignoffField, "metrics")
	without("feature-gates:\n  - name: LanternDimmer\n    components:\n      - lantern\n").expect(t, verdict.SignoffField, "feature-gates")
	good(t).change(t, kep, "metrics:\n  - lantern_dimmed_total\n", "metrics: []\n").accepted(t)
	good(t).change(t, kep, "disable-supported: true", "disable-supported: perhaps").expect(t, verdict.SignoffField, "perhaps")
	good(t).change(t, kep, `"@keeper"`, `"@jane.doe"`).expect(t, verdict.SignoffField, "example of the template")
	good(t).change(t, kep, "title: Dim the lantern", "title: \"\"").expect(t, verdict.SignoffField, "title is empty")
}

// TestK08Unresolved: what is argued about stands in provisional documents only;
// the example in a comment or a fence is none.
func TestK08Unresolved(t *testing.T) {
	with := func(text string) *world {
		return good(t).change(t, readme, "A keeper dims it at dawn.", "A keeper dims it.\n\n"+text)
	}
	block := "<<[UNRESOLVED keeper, pilot ]>>\nAt dusk?\n<<[/UNRESOLVED]>>"
	with(block).expect(t, verdict.SignoffUnresolved, "line")
	with("```\n" + block + "\n```").accepted(t)
	with("<!--\n" + block + "\n-->").accepted(t)
	w := with(block).change(t, kep, "status: implementable", "status: provisional").change(t, readme, "- [x] (R) KEP approvers", "- [ ] (R) KEP approvers")
	w.q.Milestone = ""
	w.accepted(t)
}

// TestK09Words: status and stage are words that there are, and fit.
func TestK09Words(t *testing.T) {
	status := func(word string) *world { return good(t).change(t, kep, "status: implementable", "status: "+word) }
	for word, words := range map[string]string{"imlpemented": "did you mean implemented?", "superseded": "want one of", "removed": "want one of"} {
		w := status(word)
		w.change(t, readme, "- [x] (R) KEP approvers", "- [ ] (R) KEP approvers")
		w.expect(t, verdict.SignoffStatus, words)
	}
	status("implemented").expect(t, verdict.SignoffStatus, "only a stable feature is implemented")
	if v, _ := status("implemented").change(t, kep, "stage: beta", "stage: stable").check(t); slices.Contains(codes(v.Findings), verdict.SignoffStatus) {
		t.Errorf("a stable feature may not be implemented: %v", v.Findings)
	}
	status("withdrawn").change(t, readme, "- [x] (R) KEP approvers", "- [ ] (R) KEP approvers").expect(t, verdict.SignoffStatus, "targets v1.37")
	w := good(t).change(t, kep, "stage: beta", "stage: gamma")
	w.q.Stage = signoff.Beta
	w.expect(t, verdict.SignoffStatus, "gamma")
	w = good(t).change(t, kep, "stage: beta", "stage: stable")
	w.q.Stage = signoff.Beta
	w.expect(t, verdict.SignoffStatus, "which requires less")
	good(t).change(t, kep, `latest-milestone: "v1.37"`, `latest-milestone: "next"`).expect(t, verdict.SignoffStatus, "next")
}

// TestK10Review: production readiness is approved for the stage, by one who
// may.
func TestK10Review(t *testing.T) {
	open := func(w *world) *world { return w.change(t, readme, "- [x] (R) Production", "- [ ] (R) Production") }
	w := open(good(t))
	delete(w.files, review)
	w.expect(t, verdict.SignoffApproval, "the review prod-readiness/sig-release/7001.yaml is missing")
	open(good(t).change(t, review, "beta:", "gamma:")).expect(t, verdict.SignoffApproval, "no approver for beta")
	open(good(t).change(t, review, "beta:\n  approver: \"@pilot\"", "beta:\n  approver: \"@stranger\"")).expect(t, verdict.SignoffApproval, "@stranger")
	open(good(t).change(t, review, "kep-number: 7001", "kep-number: 7002")).expect(t, verdict.SignoffApproval, "7002")
	open(good(t).change(t, kep, "owning-sig: sig-release", "owning-sig: sig-light")).expect(t, verdict.SignoffApproval, "sig-light")
	open(good(t).change(t, kep, "@keeper", "@pilot")).expect(t, verdict.SignoffApproval, "author")
	w = open(good(t))
	delete(w.files, "OWNERS_ALIASES")
	w.expect(t, verdict.SignoffApproval, "list of allowed approvers is missing")
	w = open(good(t)).change(t, kep, "stage: beta", "stage: deprecated").change(t, "registry.yaml", "stage: beta", "stage: stable") // on its way out
	if v, _ := w.check(t); !strings.Contains(fmt.Sprint(v.Findings), "no approver for deprecated") {
		t.Errorf("%v", v.Findings)
	}
	w.change(t, review, "beta:", "deprecated:")
	if v, _ := w.check(t); slices.Contains(codes(v.Findings), verdict.SignoffApproval) {
		t.Errorf("%v", v.Findings)
	}
	w = open(good(t).change(t, kep, "status: implementable", "status: implemented"))
	delete(w.files, review)
	if v, _ := w.check(t); !slices.Contains(codes(v.Findings), verdict.SignoffApproval) {
		t.Errorf("an implemented feature without a review: %v", v.Findings)
	}
	w = open(good(t)) // before it was asked for
	delete(w.files, review)
	w.q.Milestone = ""
	w.change(t, kep, `latest-milestone: "v1.37"`, `latest-milestone: "v1.20"`).accepted(t)
}

// TestK11Freezes: exceptions are dated, and asked for within three days of the
// freeze; the verdict lists who is late.
func TestK11Freezes(t *testing.T) {
	with := func(change ...string) *world {
		x := `{document: "7001", code: SIGNOFF_EMPTY, about: "Test Plan", reason: "the wheel is being made", approver: "@harbour", filed: "2026-02-09", expires: "2026-03-09"}`
		x = strings.NewReplacer(change...).Replace(x)
		return good(t).change(t, readme, "- dimmer_test.go: every step of the wheel.", "").
			change(t, "record.yaml", "approvals:", "exceptions:\n- "+x+"\napprovals:")
	}
	v, r := with().accepted(t)
	if len(v.Waived) != 1 || v.Complete() || len(r.Exceptions) != 1 || len(r.Documents[0].Excepted) != 1 || len(r.Documents[0].Findings) != 0 {
		t.Errorf("%s, waived %v, documents %+v", v.Headline(), v.Waived, r.Documents)
	}
	if !strings.Contains(strings.Join(v.Notes, "\n"), "are filled; 1 empty") {
		t.Errorf("notes %q", v.Notes)
	}
	p, err := r.Predicate(v, signoff.Signing{
		Milestone: "v1.37", Source: releasesignoff.Source{Repository: "git+https://example.test/enhancements", Commit: strings.Repeat("c", 40)}, Version: "v1.0.0",
		Template: releasesignoff.File{Name: "template.md", Digest: digest.Of(digest.SHA256, nil)}, Life: time.Hour,
	})
	if err != nil || len(p.Exceptions) != 1 || p.Exceptions[0].About != "Test Plan" || p.Exceptions[0].Approver != "@harbour" {
		t.Errorf("the sign-off has the exceptions %+v: %v", p.Exceptions, err)
	}
	for _, row := range []struct{ before, after, words string }{
		{`filed: "2026-02-09"`, `filed: "2026-02-12"`, "in the future"},
		{`expires: "2026-03-09"`, `expires: "2026-02-10"`, "expired"},
		{"@harbour", "@keeper", "an author"},
		{"@harbour", "@stranger", "not an approver"},
		{"Test Plan", "Summary", "covers no finding"},
		{"SIGNOFF_EMPTY", "SIGNOFF_PLACEHOLDER", "covers no finding"},
		{`document: "7001"`, `document: "7002"`, "covers no finding"},
	} {
		w := with(row.before, row.after)
		w.expect(t, verdict.SignoffEmpty, "Test Plan")
		if v, _ := w.check(t); !strings.Contains(strings.Join(v.Notes, "\n"), row.words) {
			t.Errorf("%s: notes %q, want %q", row.after, v.Notes, row.words)
		}
	}
	late := with().change(t, "record.yaml", `enhancements: "2026-02-08"`, `enhancements: "2026-02-05"`)
	late.expect(t, verdict.SignoffEmpty, "Test Plan")
	if v, _ := late.check(t); !strings.Contains(strings.Join(v.Notes, "\n"), "enhancements freeze of 2026-02-05: late documents: "+dir) {
		t.Errorf("who is late is not listed: %q", v.Notes)
	}
	for _, text := range []string{
		"exceptions: [{document: \"1\", code: SIGNOFF_DOCUMENT, about: kep.yaml, reason: r, approver: a, filed: \"2026-02-09\", expires: \"2026-03-09\"}]",
		"exceptions: [{document: \"1\", code: SIGNOFF_EMPTY, about: x, reason: r, approver: a, filed: \"2026-02-09\", expires: \"2026-12-09\"}]",
		"exceptions: [{document: \"1\", code: SIGNOFF_EMPTY, about: x, reason: r, approver: a, filed: \"0001-01-01\", expires: \"0001-01-09\"}]",
		"freezes: {code: \"0001-01-01\"}",
		"exceptions: [{document: \"1\", code: SIGNOFF_EMPTY, about: x, reason: \" \", approver: a, filed: \"2026-02-09\", expires: \"2026-03-09\"}]",
		"freezes: {thaw: \"2026-02-09\"}",
		"freezes: {code: soon}",
		"approvals: [{document: \"1\", approver: a, files: {README.md: \"sha256:00\", kep.yaml: \"sha256:00\"}}]",
		"more: true",
	} {
		_, err := signoff.ParseRecord([]byte("apiVersion: waybill/v1\nkind: SignoffRecord\nmilestone: v1.37\n" + text + "\n"))
		if verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestK12Checklist: items, their marks and how they are nested.
func TestK12Checklist(t *testing.T) {
	for name, want := range map[string][3]int{
		proposal3027: {14, 10, 2}, proposal3920: {14, 10, 2}, directives: {14, 10, 2}, logTracking: {10, 6, 0}, webPage: {14, 10, 0},
	} {
		d, err := signoff.ParseDocument(seed(t, name))
		if err != nil {
			t.Fatal(err)
		}
		list, err := d.Checklist()
		required, nested := 0, 0
		for _, it := range list.Items {
			if it.Required {
				required++
			}
			if it.Depth > 0 {
				nested++
			}
		}
		if want[2] == 2 {
			want[2] = 4 // three items below one, and one below another
		}
		if err != nil || len(list.Items) != want[0] || required != want[1] || nested != want[2] || list.Flat != (name == webPage) {
			t.Errorf("%s: %d items, %d required, %d nested, flat %t, %v", name[:3], len(list.Items), required, nested, list.Flat, err)
		}
	}
}

// TestTicksAreClaims: what the checks prove is proven, ticked or not; a tick
// alone is a claim, and one that is not so is refused.
func TestTicksAreClaims(t *testing.T) {
	v, r := good(t).accepted(t)
	if !slices.Contains(v.Notes, dir+": 5 of 10 items ticked, 8 marked (R), 6 proven by these checks; a tick is a claim") {
		t.Errorf("notes %q", v.Notes)
	}
	want := []struct {
		words    string
		evidence signoff.Evidence
		depth    int
		required bool
	}{
		{"Enhancement issue", signoff.Claimed, 0, true},
		{"KEP approvers", signoff.ByMachine, 0, true},
		{"Design details", signoff.ByMachine, 0, true},
		{"Test plan", signoff.ByMachine, 0, true},
		{"e2e tests", signoff.ByNobody, 1, false},
		{"and for those of GA", signoff.ByNobody, 2, true},
		{"Minimum two week", signoff.Claimed, 1, true},
		{"review completed", signoff.ByMachine, 0, true},
		{"review approved", signoff.ByMachine, 0, true},
		{`"Implementation History"`, signoff.ByMachine, 0, false},
	}
	boxes := r.Documents[0].Boxes
	if len(boxes) != len(want) {
		t.Fatalf("%d boxes, want %d", len(boxes), len(want))
	}
	for i, w := range want {
		if b := boxes[i]; !strings.Contains(b.Text, w.words) || b.Evidence != w.evidence || b.Depth != w.depth || b.Required != w.required {
			t.Errorf("%+v, want %+v", b, w)
		}
	}
	if !strings.HasSuffix(boxes[0].Text, "in [kubernetes/enhancements]") {
		t.Errorf("the second line of an item is lost: %q", boxes[0].Text)
	}
	if lines := r.Documents[0].Ticks(); len(lines) != 2 {
		t.Errorf("claims at %v", lines)
	}
	r.Attribute(dir, map[int]string{boxes[0].Line: "keeper", boxes[1].Line: "keeper"})
	r.Attribute(dir+"-2", map[int]string{boxes[0].Line: "pilot"}) // another document
	if boxes[0].By != "keeper" || boxes[1].By != "" {
		t.Errorf("claims by %q and %q", boxes[0].By, boxes[1].By)
	}

	w := good(t).change(t, readme, "- [ ] (R) Test plan", "- [x] (R) Test plan").change(t, readme, "- dimmer_test.go: every step of the wheel.", "")
	v, _ = w.check(t)
	if !slices.Equal(codes(v.Findings), []verdict.Code{verdict.SignoffEmpty, verdict.SignoffChecklist}) {
		t.Errorf("a tick that is not so: %v", v.Findings)
	}
	// The questionnaire ends where the next section of its level begins.
	good(t).change(t, readme, "- [ ] (R) Production readiness review completed", "- [x] (R) Production readiness review completed").
		change(t, readme, "- 2026-01-07: drafted", "").expect(t, verdict.SignoffEmpty, "Implementation History")
	v, _ = good(t).change(t, readme, "## Release Signoff Checklist", "## Checklist").change(t, readme, "[Release Signoff Checklist](#release-signoff-checklist)", "[Checklist](#checklist)").accepted(t)
	if !slices.Contains(codes(v.Warnings), verdict.SignoffChecklist) {
		t.Errorf("no checklist, and no warning: %v", v.Warnings)
	}
}
