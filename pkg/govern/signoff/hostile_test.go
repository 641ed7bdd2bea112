package signoff_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestHostileDocuments: what is too large is refused, and everything else is
// read in bounds.
func TestHostileDocuments(t *testing.T) {
	many := func(s string) []byte { return bytes.Repeat([]byte(s), 1<<20/len(s)) }
	rows := []struct {
		name string
		raw  []byte
		code verdict.Code // "" for one that is read
	}{
		{"100 MB", make([]byte, 100<<20), verdict.Limit},
		{"as large as may be", bytes.Repeat([]byte("words and words and words\n"), 40_000), ""},
		{"too many lines", many("\n"), verdict.Limit},
		{"a line without an end", many("x"), verdict.Limit},
		{"too many headings", bytes.Repeat([]byte("# x\n"), 40_000), verdict.Limit},
		{"comments that nest", many("<!-- <!-- \n --> -->\n")[:450_000], ""},
		{"comments side by side", bytes.Repeat([]byte(strings.Repeat("<!---->", 9000)+"\n"), 10), ""},
		{"marks of code that never close", bytes.Repeat([]byte(ticks()+"\n"), 20), ""},
		{"fences in fences", bytes.Repeat([]byte("```\n~~~~\n"), 20_000), ""},
		{"no UTF-8", bytes.Repeat([]byte("\xff\xfe # x\n"), 40_000), ""},
		{"boxes", bytes.Repeat([]byte("- [x] x\n"), 40_000), ""},
		{"nothing", nil, ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			bounds.Within(t, len(r.raw), func() {
				_, err := signoff.ParseDocument(r.raw)
				if (err == nil) != (r.code == "") || err != nil && verdict.FindingOf("", err).Code != r.code {
					t.Errorf("%v, want %q", err, r.code)
				}
			})
		})
	}
}

// TestLongLine: the refusal names the line and its length.
func TestLongLine(t *testing.T) {
	_, err := signoff.ParseDocument([]byte("# T\n" + strings.Repeat("x", 100_000)))
	if err == nil || !strings.Contains(err.Error(), "line 2 has 100000 bytes") {
		t.Error(err)
	}
}

// ticks are runs of back ticks, each shorter than the one before, so that none
// is closed by another.
func ticks() string {
	var out strings.Builder
	for n := 300; n > 0; n-- {
		out.WriteString(strings.Repeat("`", n) + " ")
	}
	return out.String()
}

// TestHostileSets: files that cannot be read without doubt are findings, and
// those beside them are judged all the same.
func TestHostileSets(t *testing.T) {
	rows := []struct {
		name, file, before, after string
		code                      verdict.Code
		words                     string
	}{
		{"an alias", kep, "authors:\n  - \"@keeper\"", "authors: &a\n  - \"@keeper\"\nreviewers: *a", verdict.SignoffDocument, "YAML_ALIAS"},
		{"a key twice", kep, "status: implementable", "status: implementable\nstatus: implemented", verdict.SignoffDocument, "YAML_DUP_KEY"},
		{"a list for a text", kep, "status: implementable", "status: [implementable]", verdict.SignoffDocument, "want a text"},
		{"a text for a list", kep, "metrics:\n  - lantern_dimmed_total", "metrics: lantern_dimmed_total", verdict.SignoffDocument, "want a list"},
		{"a gate without a mapping", kep, "  - name: LanternDimmer\n    components:\n      - lantern", "  - LanternDimmer", verdict.SignoffDocument, "want a gate"},
		{"no YAML", kep, "title: Dim", "title: [Dim", verdict.SignoffDocument, "kep.yaml"},
		{"broken UTF-8", readme, "A keeper", "A k\xffeper", verdict.SignoffDocument, "is not UTF-8"},
		{"a document that is too large", readme, "A keeper", strings.Repeat("words\n", signoff.MaxDocument/6+1), verdict.Limit, readme},
		{"a kep.yaml that is too large", kep, "title:", strings.Repeat("# words\n", 40_000) + "title:", verdict.Limit, kep},
		{"a checklist without an end", readme, "- [x] (R) Enh", strings.Repeat("- [ ] x\n", 600) + "- [x] (R) Enh", verdict.Limit, readme},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			w := good(t).change(t, r.file, r.before, r.after)
			w.q.Stage = signoff.Beta
			v, _ := w.check(t)
			if !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool {
				return f.Code == r.code && strings.Contains(f.Subject+f.Message, r.words)
			}) || v.Outcome() != verdict.Refused {
				t.Errorf("%s: %v, want %s with %q", v.Headline(), v.Findings, r.code, r.words)
			}
		})
	}
	if _, err := signoff.Read(fstest.MapFS{dir + "/README.md/x": {}, dir + "/kep.yaml": {}}, "x"); verdict.FindingOf("", err).Code != verdict.FileType {
		t.Errorf("a directory in place of a document: %v", err)
	}
	for _, text := range []string{"aliases: {prod-readiness-approvers: pilot}", "[]", "a: &x b"} {
		if _, err := signoff.ParseAliases([]byte(text)); verdict.FindingOf("", err).Code != verdict.SignoffDocument {
			t.Errorf("%s: %v", text, err)
		}
	}
	if _, err := signoff.ParseReview([]byte("beta: {approver: [a]}")); verdict.FindingOf("", err).Code != verdict.SignoffDocument {
		t.Errorf("a list of approvers: %v", err)
	}
	for _, word := range []string{"", "gamma", "Alpha"} {
		if _, err := signoff.ParseStage(word); err == nil {
			t.Errorf("%q is a stage", word)
		}
	}
}

func FuzzDocument(f *testing.F) {
	w := good(f)
	for _, text := range []string{w.files[readme], w.files["template.md"], "# a\n<!-- \n```\n-->\n- [x] (R) y\n", "# a\n## --\n<!--DIRECTIVE", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n# a\n"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() {
			tm, err := signoff.ParseTemplate(raw)
			if err != nil {
				return
			}
			d, err := signoff.ParseDocument(raw)
			if err != nil {
				t.Fatalf("a template is no document: %v", err)
			}
			for _, s := range signoff.Sections(d, tm, signoff.Stable) {
				if s.State == signoff.Filled || s.State == signoff.Missing {
					t.Errorf("%q of a template is %s in itself", s.Title, s.State)
				}
			}
			if _, err := d.Checklist(); err != nil && verdict.FindingOf("", err).Code != verdict.Limit {
				t.Error(err)
			}
		})
	})
}

func FuzzFiles(f *testing.F) {
	w := good(f)
	for _, name := range []string{kep, review, "OWNERS_ALIASES", "record.yaml", "registry.yaml"} {
		f.Add([]byte(w.files[name]))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() {
			_, _ = signoff.ParseKEP(raw)
			_, _ = signoff.ParseReview(raw)
			_, _ = signoff.ParseAliases(raw)
			_, _ = signoff.ParseRecord(raw)
			_, _ = signoff.ParseRegistry(raw)
		})
	})
}

// TestHostileSections: a document of many sections is judged in bounds.
func TestHostileSections(t *testing.T) {
	var text strings.Builder
	text.WriteString("# KEP-7001: x\n")
	for range 1900 {
		text.WriteString("## Summary\n" + strings.Repeat("<test> words\n", 24))
	}
	d, err := signoff.ParseDocument([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	tm, err := signoff.ParseTemplate([]byte(good(t).files["template.md"]))
	if err != nil {
		t.Fatal(err)
	}
	bounds.Within(t, text.Len(), func() {
		if got := signoff.Sections(d, tm, signoff.Stable); len(got) != 10 || got[0].State != signoff.Filled {
			t.Errorf("%v", got)
		}
	})
}
