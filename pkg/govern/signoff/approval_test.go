package signoff_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// unticked takes back the tick that says that the approvers approved.
func unticked(t testing.TB, w *world) *world {
	return w.change(t, readme, "- [x] (R) KEP approvers", "- [ ] (R) KEP approvers")
}

// TestK13Approvals: each approver approved both files as they are.
func TestK13Approvals(t *testing.T) {
	open := func(w *world) *world { return unticked(t, w) }
	open(good(t).change(t, kep, "  - \"@harbour\"", "  - \"@harbour\"\n  - \"@mayor\"")).expect(t, verdict.SignoffApproval, "@mayor has not approved")
	open(good(t).change(t, "record.yaml", "{readme}", strings.Repeat("0", 64))).expect(t, verdict.SignoffApproval, "@harbour approved another README.md than")
	open(good(t).change(t, kep, "  - \"@harbour\"", "  - TBD")).expect(t, verdict.SignoffApproval, "example of the template")
	open(good(t).change(t, kep, "approvers:\n  - \"@harbour\"\n", "")).expect(t, verdict.SignoffApproval, "no approvers are named")
	v, r := good(t).change(t, "record.yaml", "approvals:\n- {document: \"7001\", approver: \"@harbour\", files: {README.md: \"sha256:{readme}\", kep.yaml: \"sha256:{kep}\"}}\n", "").accepted(t)
	if v.Complete() || !slices.ContainsFunc(r.Left, func(s string) bool { return strings.HasPrefix(s, "approvals") }) {
		t.Errorf("approvals were not looked at, and nobody says so: %q", r.Left)
	}
}

// TestApprovedFiles: who approved the text has not approved another stage, gate,
// milestone or approver, and the verdict says which file is another.
func TestApprovedFiles(t *testing.T) {
	approved := func() *world {
		w := unticked(t, good(t))
		for name, file := range map[string]string{"{readme}": readme, "{kep}": kep} {
			w.change(t, "record.yaml", name, digest.Of(digest.SHA256, []byte(w.files[file])).Hex())
		}
		return w
	}
	approved().accepted(t)
	const another = "@harbour approved another kep.yaml than there is now"
	changed := func(before, after string) *world { return approved().change(t, kep, before, after) }
	changed("disable-supported: true", "disable-supported: true\n# words").expect(t, verdict.SignoffApproval, another)
	changed("    components:\n      - lantern\n", "").expect(t, verdict.SignoffApproval, another)
	earlier := changed(`latest-milestone: "v1.37"`, `latest-milestone: "v1.36"`)
	earlier.q.Milestone = "v1.36"
	earlier.change(t, "record.yaml", "milestone: v1.37", "milestone: v1.36").expect(t, verdict.SignoffApproval, another)
	both := changed("- lantern\n", "- lamp\n").change(t, readme, "A keeper dims it at dawn.", "A keeper dims it at dusk.")
	both.expect(t, verdict.SignoffApproval, "approved another README.md and another kep.yaml than")

	// The fix is the line with which the record is right.
	v, _ := both.check(t)
	_, line, there := strings.Cut(v.Findings[0].Fix, "record: ")
	if !there {
		t.Fatalf("the fix names no line: %s", v.Findings[0].Fix)
	}
	both.change(t, "record.yaml", "approvals:\n", "approvals:\n"+line+"\n").accepted(t)
}

// TestLinesToApprove: without a record the verdict has the line that each
// approver adds to one.
func TestLinesToApprove(t *testing.T) {
	w := good(t)
	head, _, _ := strings.Cut(w.files["record.yaml"], "approvals:\n")
	w.files["record.yaml"] = head
	v, r := w.accepted(t)
	if len(r.Documents[0].Unapproved) != 1 {
		t.Fatalf("%+v", r.Documents[0].Unapproved)
	}
	line := r.Documents[0].Unapproved[0].Line()
	if !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, dir) && strings.HasSuffix(n, line) }) {
		t.Errorf("no note has %s: %q", line, v.Notes)
	}
	w.files["record.yaml"] += "approvals:\n" + line + "\n"
	v, _ = w.accepted(t)
	if len(v.Scope.Left) > 0 {
		t.Errorf("left %q", v.Scope.Left)
	}
	if strings.Contains(strings.Join(v.Notes, ""), line) {
		t.Errorf("what is approved is to be approved: %q", v.Notes)
	}
	w.change(t, kep, "status: implementable", "status: provisional")
	w.q.Milestone, w.files["record.yaml"] = "", head
	if _, r := unticked(t, w).accepted(t); len(r.Documents[0].Unapproved) != 0 {
		t.Errorf("what is provisional is to be approved: %+v", r.Documents[0].Unapproved)
	}
	strange := signoff.Approval{Document: "7001", Approver: "@a\"b\\c: {d}\n#", Readme: digest.Of(digest.SHA256, nil), KEP: digest.Of(digest.SHA256, nil)}
	got, err := signoff.ParseRecord([]byte(head + "approvals:\n" + strange.Line() + "\n"))
	if err != nil || len(got.Approvals) != 1 || got.Approvals[0] != strange {
		t.Errorf("%+v, %v", got.Approvals, err)
	}
}

// TestApprovalOfLess: an approval that leaves a file open is refused, and says
// what to do.
func TestApprovalOfLess(t *testing.T) {
	record := func(approval string) string {
		return "apiVersion: waybill/v1\nkind: SignoffRecord\nmilestone: v1.37\napprovals:\n- {document: \"1\", approver: \"@a\", " + approval + "}\n"
	}
	sum := `"sha256:` + strings.Repeat("0", 64) + `"`
	if r, err := signoff.ParseRecord([]byte(record("files: {README.md: " + sum + ", kep.yaml: " + sum + "}"))); err != nil || len(r.Approvals) != 1 {
		t.Errorf("both files: %v, %v", r.Approvals, err)
	}
	for approval, words := range map[string]string{
		"digest: " + sum:                  "covers only README.md, not kep.yaml",
		"files: {README.md: " + sum + "}": "want files",
		"files: {kep.yaml: " + sum + "}":  "want files",
		"files: {README.md: " + sum + ", kep.yaml: " + sum + "}, digest: " + sum:               "covers only README.md, not kep.yaml",
		"files: {README.md: " + sum + ", kep.yaml: " + sum + ", prr: " + sum + "}":             "prr",
		`files: {README.md: ` + sum + `, kep.yaml: "sha512:` + strings.Repeat("0", 128) + `"}`: "want files",
	} {
		_, err := signoff.ParseRecord([]byte(record(approval)))
		if f := verdict.FindingOf("", err); f.Code != verdict.ConfigParse || !strings.Contains(f.Message, words) {
			t.Errorf("%s: %v, want %q", approval, err, words)
		}
	}
}

// TestAuthorsApproveNothing: an author among the approvers is asked for nothing
// and counts for nothing.
func TestAuthorsApproveNothing(t *testing.T) {
	const approver = "  - \"@harbour\""
	with := func(approvers, authors string) *world {
		return unticked(t, good(t)).change(t, kep, approver, approvers).change(t, kep, "  - \"@keeper\"", authors)
	}
	const keeper, own = "  - \"@keeper\"", "all approvers are authors"
	with(keeper, keeper).change(t, "record.yaml", "@harbour", "@keeper").expect(t, verdict.SignoffApproval, own)
	with(keeper, keeper+"\n"+approver).change(t, "record.yaml", "@harbour", "@keeper").expect(t, verdict.SignoffApproval, own)
	with(approver, keeper+"\n"+approver).expect(t, verdict.SignoffApproval, own)
	with(keeper+"\n"+approver, keeper).accepted(t)
	with(keeper+"\n"+approver, keeper).change(t, "record.yaml", "@harbour", "@keeper").expect(t, verdict.SignoffApproval, "@harbour has not approved it")
	for _, author := range []string{"Harbour", "'@HARBOUR'", "A. Harbour (@harbour)", "'@harbour, the master'", "see @harbour.", "'@keeper and @harbour'"} {
		with(approver, "  - "+author).expect(t, verdict.SignoffApproval, own)
	}
	for _, author := range []string{"'@harbour-master'", "A. Harbour", "keeper@harbour", "'@the/harbour'"} {
		with(approver, "  - "+author).accepted(t)
	}
	// Who may say so without a record is known, too.
	w := with(keeper, keeper)
	w.files["record.yaml"], _, _ = strings.Cut(w.files["record.yaml"], "approvals:")
	w.expect(t, verdict.SignoffApproval, own)
	// One address in two forms is one person.
	w = with("  - harbour@example.test", "  - A. Harbour <Harbour@example.test>")
	w.expect(t, verdict.SignoffApproval, own)
}
