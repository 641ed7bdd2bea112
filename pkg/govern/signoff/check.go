package signoff

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Question asks whether a set of enhancements may be released.
type Question struct {
	Set *Set
	// Template says which sections are required.
	Template *Template
	// Stage is the stage to check for; "" checks each document for the stage in
	// its kep.yaml.
	Stage Stage
	// Milestone leaves out documents that target another one; "" leaves none out.
	Milestone string
	// Hosts are the hosts that links may point to.
	Hosts Hosts
	// Record has approvals and exceptions; the zero Record has none.
	Record Record
	// Registry has the gates and metrics of the release; nil compares nothing.
	Registry *Registry
	Now      time.Time
}

// Report has the result for every document, including excepted findings.
type Report struct {
	Documents  []Checked
	Exceptions []Exception // that set a finding aside
	Left       []string    // what was not checked
	Skipped    []string    // documents of other milestones, or without one
	untargeted int         // number of skipped documents without a milestone
	unmeasured bool        // a document names metrics, but the registry has none
}

// Checked is the result for one enhancement.
type Checked struct {
	Dir, Number, Title string
	Stage              Stage
	Status             string
	Readme, KEP        digest.Digest // zero where there is none
	Sections           []Judged
	Boxes              []Box
	ReviewRequired     bool
	ReviewApproved     bool
	Gates              []string
	Unapproved         []Approval        // missing approvals, if no record lists any
	Findings           []verdict.Finding // not excepted
	Warnings           []verdict.Finding
	Excepted           []verdict.Finding
}

// Check checks the documents. It accepts only if there is at least one, and none has a
// finding.
func Check(q Question) (*verdict.Verdict, Report) {
	v := verdict.NewCheck(q.words(), q.Now)
	v.Scope.Checks = []string{"sections", "titles", "tables of contents", "comments", "links", "kep.yaml", "production readiness", "checklists"}
	var r Report
	for _, f := range q.Template.Faults() {
		v.Warn(verdict.Find(verdict.SignoffTemplate, "template", "line %d: %s", f.Line, f.Message))
	}
	if len(q.Template.required(Stable)) == 0 {
		v.Add(verdict.Find(verdict.SignoffTemplate, "template", "the template has no directive that requires a section"))
	}
	if q.Record.Milestone != "" && q.Milestone != "" && !sameMilestone(q.Record.Milestone, q.Milestone) {
		v.Add(verdict.Find(verdict.ConfigParse, "sign-off record", "the record is of another milestone").Differ(q.Milestone, q.Record.Milestone))
	}
	v.Add(q.Set.faults...)
	for _, e := range q.Set.Enhancements {
		j := &judging{Question: &q, e: e}
		j.open()
		if j.other() {
			if r.Skipped = append(r.Skipped, e.Dir); j.k.LatestMilestone == "" {
				r.untargeted++
			}
			continue
		}
		j.atStage()
		j.judge()
		r.Documents = append(r.Documents, j.report(v))
		r.unmeasured = r.unmeasured || len(j.k.Metrics) > 0 && q.Registry != nil && q.Registry.metrics == nil
	}
	v.Add(r.twice()...)
	if len(r.Documents) == 0 {
		v.Add(verdict.Find(verdict.SignoffDocument, "documents", "no document %s", q.aim()).
			Advise("name the directory of the documents, and the milestone in their latest-milestone"))
	}
	r.Left = q.left()
	if r.untargeted > 0 {
		r.Left = append(r.Left, fmt.Sprintf("documents that name no milestone (%d)", r.untargeted))
	}
	if r.unmeasured {
		r.Left = append(r.Left, "metrics (the registry has none)")
	}
	v.Scope.Left = r.Left
	q.except(v, &r)
	r.note(v, q)
	return v, r
}

// twice finds documents with the same number: approvals and exceptions of one would also
// apply to the other.
func (r Report) twice() (found []verdict.Finding) {
	first := map[string]string{}
	for _, d := range r.Documents {
		if other, taken := first[d.Number]; taken {
			found = append(found, verdict.Find(verdict.SignoffDocument, path.Join(d.Dir, readmeName), "%s has the same number, %s", quoted(other), d.Number))
			continue
		}
		first[d.Number] = d.Dir
	}
	return found
}

func (q Question) words() string {
	words := "sign-off of documents"
	if q.Milestone != "" {
		words += " for " + q.Milestone
	}
	if q.Stage != "" {
		words += " at " + string(q.Stage)
	}
	return words
}

func (q Question) aim() string {
	if q.Milestone == "" {
		return "in the directory"
	}
	return "that targets " + q.Milestone
}

// left lists the checks that were not made.
func (q Question) left() (list []string) {
	if !q.Record.approves {
		list = append(list, "approvals (no record lists any)")
	}
	if q.Registry == nil {
		list = append(list, "feature gates and metrics (no registry was given)")
	}
	return list
}

// other reports whether a document is for another milestone, or for none. A document
// with an invalid milestone is not skipped.
func (j *judging) other() bool {
	if j.Milestone == "" || !j.said {
		return false
	}
	if j.k.LatestMilestone == "" {
		return true
	}
	_, ok := release(j.k.LatestMilestone)
	return ok && !sameMilestone(j.k.LatestMilestone, j.Milestone)
}

// sameMilestone compares milestones of which the first is known to be valid.
func sameMilestone(a, b string) bool {
	one, _ := release(a)
	other, ok := release(b)
	return ok && one == other
}

// atStage decides for which stage a document is checked; stable, the strictest, if it
// claims none.
func (j *judging) atStage() {
	j.at = j.Stage
	if j.at == "" {
		j.at = j.k.claims()
	}
	if !j.at.known() {
		j.at = Stable
		if j.said && (j.k.Stage == "" || slices.Contains(kepStages(), j.k.Stage)) {
			j.find(verdict.SignoffStatus, j.kep(), "no stage is given, so the document is checked for stable")
		}
	}
}

// report adds the findings to the verdict, and counts what was required: the document,
// its kep.yaml, and every section.
func (j *judging) report(v *verdict.Verdict) Checked {
	boxes := j.boxes()
	number, _, _ := strings.Cut(path.Base(j.e.Dir), "-")
	c := Checked{
		Dir: j.e.Dir, Number: number, Stage: j.at, Status: j.k.Status, Sections: j.sections, Boxes: boxes,
		ReviewRequired: j.k.needsReview(), ReviewApproved: j.reviewed, Gates: j.k.Gates,
		Unapproved: j.unasked, Findings: j.findings, Warnings: j.warnings,
	}
	if j.d != nil {
		c.Title = mend(j.d.Title())
	}
	if j.e.Readme != nil {
		c.Readme = digest.Of(digest.SHA256, j.e.Readme)
	}
	if j.e.KEP != nil {
		c.KEP = digest.Of(digest.SHA256, j.e.KEP)
	}
	v.Add(j.findings...)
	v.Warn(j.warnings...)
	g := verdict.Group{Name: j.e.Dir}
	for _, thing := range c.things() {
		g.Required++
		if !slices.ContainsFunc(j.findings, func(f verdict.Finding) bool { return f.Subject == thing }) {
			g.Verified++
		}
	}
	v.Groups = append(v.Groups, g)
	v.Counts.Required += g.Required
	v.Counts.Verified += g.Verified
	return c
}

// things are the names of everything that is required of a document.
func (c Checked) things() []string {
	readme := path.Join(c.Dir, readmeName)
	return append([]string{readme, path.Join(c.Dir, kepName)}, slice.Map(c.Sections, func(s Judged) string { return readme + "#" + s.Title })...)
}

// table summarises the required sections in a line.
func (c Checked) table() string {
	if len(c.Sections) == 0 {
		return ""
	}
	count := map[State]int{}
	for _, s := range c.Sections {
		count[s.State]++
	}
	var words []string
	for _, state := range []State{Missing, Commented, Empty, Placeholder, Unchanged} {
		if n := count[state]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, state))
		}
	}
	line := fmt.Sprintf("%s: %d of %d sections required at %s are filled", c.Dir, count[Filled], len(c.Sections), c.Stage)
	if len(words) > 0 {
		line += "; " + strings.Join(words, ", ")
	}
	return line
}

// except sets aside the findings that exceptions cover, and notes why an exception covers
// none.
func (q Question) except(v *verdict.Verdict, r *Report) {
	used, why := make([]bool, len(q.Record.Exceptions)), make([]string, len(q.Record.Exceptions))
	var things []string
	for i := range r.Documents {
		things = append(things, r.Documents[i].things()...)
	}
	v.SetAside(things, func(f verdict.Finding) (verdict.Waiver, bool) {
		for i, x := range q.Record.Exceptions {
			if !x.about(f) {
				continue
			}
			fault := q.Record.refuses(x, q.kepOf(f.Subject), q.Now)
			if fault != "" {
				why[i] = fault
				continue
			}
			used[i] = true
			return verdict.Waiver{
				Kind: verdict.ByException, ID: fmt.Sprintf("%s %s", x.Document, x.About), Reason: x.Reason, By: x.Approver, Expires: x.Expires,
			}, true
		}
		return verdict.Waiver{}, false
	})
	for i, x := range q.Record.Exceptions {
		switch {
		case used[i]:
			r.Exceptions = append(r.Exceptions, x)
		case why[i] != "":
			v.Note("the exception of %s for %s about %s does not count: %s", x.Document, x.Code, quoted(x.About), why[i])
		default:
			v.Note("the exception of %s for %s about %s covers no finding", x.Document, x.Code, quoted(x.About))
		}
	}
	for i := range r.Documents {
		d := &r.Documents[i]
		is := func(f verdict.Finding) bool {
			return slices.ContainsFunc(v.Waived, func(w verdict.Waiver) bool {
				return w.Finding.Code == f.Code && w.Finding.Subject == f.Subject && w.Finding.Message == f.Message
			})
		}
		for _, f := range d.Findings {
			if is(f) {
				d.Excepted = append(d.Excepted, f)
			}
		}
		d.Findings = slices.DeleteFunc(slices.Clone(d.Findings), is)
	}
}

// kepOf is the kep.yaml of the document with a finding.
func (q Question) kepOf(subject string) KEP {
	for _, e := range q.Set.Enhancements {
		if rest, ok := strings.CutPrefix(subject, e.Dir+"/"); ok && (strings.HasPrefix(rest, readmeName) || rest == kepName) {
			k, err := ParseKEP(e.KEP)
			if err == nil {
				return k
			}
		}
	}
	return KEP{}
}

func (r Report) note(v *verdict.Verdict, q Question) {
	for _, d := range r.Documents {
		if line := d.table(); line != "" {
			v.Note("%s", line)
		}
		if len(d.Boxes) == 0 {
			continue
		}
		ticked, required, proven := 0, 0, 0
		for _, b := range d.Boxes {
			if b.Ticked {
				ticked++
			}
			if b.Required {
				required++
			}
			if b.Evidence == ByMachine {
				proven++
			}
		}
		v.Note("%s: %d of %d items ticked, %d marked (R), %d proven by these checks; a tick is a claim", d.Dir, ticked, len(d.Boxes), required, proven)
	}
	for _, d := range r.Documents {
		for _, a := range d.Unapproved {
			v.Note("%s: for %s to approve the current files, add this line to the record: %s", d.Dir, plain(a.Approver), a.Line())
		}
	}
	for _, line := range q.Record.passed(v.Findings, q.Now) {
		v.Note("%s", line)
	}
	if n := len(r.Skipped); n > 0 {
		v.Note("documents left out because they target other milestones than %[2]s: %[1]d", n, q.Milestone)
	}
}
