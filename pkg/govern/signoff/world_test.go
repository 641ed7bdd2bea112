package signoff_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The names of the files of the good enhancement.
const (
	dir    = "keps/sig-release/7001-lantern-dimmer"
	readme = dir + "/README.md"
	kep    = dir + "/kep.yaml"
	review = "keps/prod-readiness/sig-release/7001.yaml"
)

// today is a day between the freezes.
func today() time.Time { return time.Date(2026, 2, 10, 12, 0, 0, 0, time.UTC) }

// world is the good enhancement, with what is asked about it.
type world struct {
	files map[string]string
	q     signoff.Question
}

func good(t testing.TB) *world {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{files: map[string]string{}, q: signoff.Question{
		Milestone: "v1.37", Now: today(), Hosts: signoff.Hosts{Allowed: signoff.Canonical()},
	}}
	for _, f := range archive.Files {
		w.files[f.Name] = string(f.Data)
	}
	return w
}

// change replaces a text in a file, which must be there.
func (w *world) change(t testing.TB, file, before, after string) *world {
	t.Helper()
	if !strings.Contains(w.files[file], before) {
		t.Fatalf("%s has no %q", file, before)
	}
	w.files[file] = strings.Replace(w.files[file], before, after, 1)
	return w
}

// check judges, with an approval of both files as they are.
func (w *world) check(t testing.TB) (*verdict.Verdict, signoff.Report) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range w.files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	var err error
	if w.q.Template, err = signoff.ParseTemplate([]byte(w.files["template.md"])); err != nil {
		t.Fatal(err)
	}
	if w.q.Set, err = signoff.Read(fsys, "enhancements"); err != nil {
		t.Fatal(err)
	}
	sum := func(file string) string { return digest.Of(digest.SHA256, []byte(w.files[file])).Hex() }
	sums := strings.NewReplacer("{readme}", sum(readme), "{kep}", sum(kep))
	if w.q.Record, err = signoff.ParseRecord([]byte(sums.Replace(w.files["record.yaml"]))); err != nil {
		t.Fatal(err)
	}
	if w.q.Registry, err = signoff.ParseRegistry([]byte(w.files["registry.yaml"])); err != nil {
		t.Fatal(err)
	}
	return signoff.Check(w.q)
}

// codes lists the codes of findings.
func codes(list []verdict.Finding) (out []verdict.Code) {
	for _, f := range list {
		out = append(out, f.Code)
	}
	return out
}

// expect demands exactly one finding, with its code and words.
func (w *world) expect(t *testing.T, code verdict.Code, words string) {
	t.Helper()
	v, _ := w.check(t)
	if len(v.Findings) != 1 || v.Findings[0].Code != code || !strings.Contains(v.Findings[0].Subject+": "+v.Findings[0].Message, words) || v.Outcome() != verdict.Refused {
		t.Errorf("%s: %v, want only %s with %q", v.Headline(), v.Findings, code, words)
	}
}

// accepted demands that nothing stands against the enhancement.
func (w *world) accepted(t *testing.T) (*verdict.Verdict, signoff.Report) {
	t.Helper()
	v, r := w.check(t)
	if v.Outcome() != verdict.Accepted {
		t.Errorf("%s: %v", v.Headline(), v.Findings)
	}
	return v, r
}

// TestGood: the twin of everything that is refused here.
func TestGood(t *testing.T) {
	v, r := good(t).accepted(t)
	if len(v.Warnings) != 0 && !slices.Equal(codes(v.Warnings), []verdict.Code{verdict.SignoffChecklist}) {
		t.Errorf("warnings %v", v.Warnings)
	}
	if len(r.Documents) != 1 || len(r.Left) != 0 || v.Counts.Verified != v.Counts.Required || v.Counts.Required != 11 {
		t.Errorf("%d documents, %s, left %q", len(r.Documents), v.Counts, r.Left)
	}
}

// TestNothingProvesNothing: no document, no template and no rule are refused.
func TestNothingProvesNothing(t *testing.T) {
	w := good(t)
	delete(w.files, readme)
	delete(w.files, kep)
	w.expect(t, verdict.SignoffDocument, "no document that targets v1.37")
	good(t).change(t, kep, `latest-milestone: "v1.37"`, `latest-milestone: "v1.36"`).expect(t, verdict.SignoffDocument, "no document")
	w = good(t).change(t, kep, "latest-milestone: \"v1.37\"\n", "")
	w.expect(t, verdict.SignoffDocument, "no document")
	if v, _ := w.check(t); len(v.Scope.Left) != 1 || v.Scope.Left[0] != "documents that name no milestone (1)" {
		t.Errorf("left %q", v.Scope.Left)
	}

	w = good(t)
	w.files["template.md"] = "# KEP-NNNN: Title\n\n## Summary\n"
	w.expect(t, verdict.SignoffTemplate, "no directive")
	if _, err := signoff.ParseTemplate([]byte("no heading\n")); verdict.FindingOf("", err).Code != verdict.SignoffTemplate {
		t.Errorf("a template without headings: %v", err)
	}
	w = good(t)
	w.q.Stage = signoff.Beta
	delete(w.files, kep)
	w.expect(t, verdict.SignoffDocument, kep)
	for _, approved := range []string{"{readme}", strings.Repeat("0", 64)} { // who approved a document that is gone is no second finding
		w = good(t).change(t, "record.yaml", "{readme}", approved)
		delete(w.files, readme)
		w.expect(t, verdict.SignoffDocument, readme)
	}
	var zero verdict.Verdict
	if _, err := (signoff.Report{}).Predicate(&zero, signoff.Signing{}); err == nil {
		t.Error("a verdict that nobody filled in is signed off")
	}
}
