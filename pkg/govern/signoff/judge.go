package signoff

import (
	"fmt"
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// judging is the state of checking one enhancement.
type judging struct {
	*Question
	e    Enhancement
	d    *Document // nil if it cannot be read
	k    KEP
	said bool // the kep.yaml could be read
	at   Stage

	reviewed bool       // production readiness is approved, if required
	approved bool       // each approver approved the current files
	unasked  []Approval // missing approvals, if there is no record
	sections []Judged
	findings []verdict.Finding
	warnings []verdict.Finding
}

func (j *judging) readme() string { return path.Join(j.e.Dir, readmeName) }
func (j *judging) kep() string    { return path.Join(j.e.Dir, kepName) }

func (j *judging) find(code verdict.Code, subject, format string, args ...any) {
	j.findings = append(j.findings, verdict.Find(code, subject, format, args...))
}

func (j *judging) warn(code verdict.Code, subject, format string, args ...any) {
	j.warnings = append(j.warnings, verdict.Find(code, subject, format, args...))
}

// judge runs all checks of one enhancement.
func (j *judging) judge() {
	j.findings = append(j.findings, j.e.faults...)
	j.checkName()
	if j.said {
		j.checkStatus()
		j.checkFields()
		j.checkReview()
		j.checkApprovals()
		if j.Registry != nil {
			j.findings = append(j.findings, j.Registry.check(j.kep(), j.k, j.at)...)
		}
	}
	if j.d != nil {
		j.checkSections()
		j.checkText()
		j.findings = append(j.findings, j.d.links(j.readme(), j.Hosts)...)
	}
}

// open parses the files of the enhancement.
func (j *judging) open() {
	if j.e.KEP == nil {
		j.lacks(j.kep())
	} else {
		k, err := ParseKEP(j.e.KEP)
		if j.said = err == nil; err != nil {
			j.findings = append(j.findings, at(j.kep(), err))
		}
		j.k = k
	}
	if j.e.Readme == nil {
		j.lacks(j.readme())
		return
	}
	d, err := ParseDocument(j.e.Readme)
	if err != nil {
		j.findings = append(j.findings, at(j.readme(), err))
		return
	}
	j.d = d
}

// lacks adds the finding of a missing file.
func (j *judging) lacks(file string) {
	f := verdict.Find(verdict.SignoffDocument, file, "there is no such file")
	f.Fix = "write the document after the template, as " + readmeName
	if path.Base(file) == kepName {
		f.Fix = "write " + kepName + " beside the document: title, authors, owning-sig, status, stage, creation-date, latest-milestone, approvers, feature-gates, disable-supported"
	}
	j.findings = append(j.findings, f)
}

// at is the finding of an error in a file.
func at(file string, err error) verdict.Finding {
	f := verdict.FindingOf(file, err)
	f.Subject = file
	return f
}

var (
	titleForm = pattern.Lazy(`^KEP-(\d+|NNNN): +(\S.*)$`)
	dirForm   = pattern.Lazy(`^([1-9]\d*)(-[a-z0-9]+)+$`)
)

// checkName compares title, directory and number.
func (j *judging) checkName() {
	dir := path.Base(j.e.Dir)
	of := dirForm().FindStringSubmatch(dir)
	number, _, _ := strings.Cut(dir, "-")
	if of == nil {
		j.find(verdict.SignoffTitle, j.readme(), "the directory is named %s, want a number without leading zeros and a short title, such as 1234-short-title", quoted(dir))
	} else {
		number = of[1]
	}
	if j.said && j.k.Number != "" && j.k.Number != number {
		j.findings = append(j.findings, verdict.Find(verdict.SignoffTitle, j.kep(), "the number differs from that of the directory").Differ(number, j.k.Number))
	}
	if j.d == nil {
		return
	}
	title := mend(j.d.Title())
	m := titleForm().FindStringSubmatch(title)
	switch {
	case title == "":
		j.find(verdict.SignoffTitle, j.readme(), "the document has no title")
	case m == nil:
		j.find(verdict.SignoffTitle, j.readme(), "the title is %s, want KEP-%s: and a title", quoted(title), number)
	case m[1] != number:
		j.findings = append(j.findings, verdict.Find(verdict.SignoffTitle, j.readme(), "the number in the title differs from that of the directory").Differ(number, m[1]))
	case key(m[2]) == key(strings.TrimPrefix(mend(j.Template.Title()), "KEP-NNNN:")):
		j.find(verdict.SignoffTitle, j.readme(), "the title is still that of the template")
	case j.said && j.k.Title != "" && key(m[2]) != key(j.k.Title):
		j.warn(verdict.SignoffTitle, j.readme(), "the title is %s, but in %s it is %s", quoted(m[2]), kepName, quoted(j.k.Title))
	}
}

// checkSections checks every section that the template requires.
func (j *judging) checkSections() {
	j.sections = Sections(j.d, j.Template, j.at)
	for _, s := range j.sections {
		code, words := verdict.SignoffSection, "the section is missing"
		switch s.State {
		case Filled:
			continue
		case Missing:
		case Commented:
			words = fmt.Sprintf("the section is inside of a comment, at line %d", s.Line)
		case Empty:
			code, words = verdict.SignoffEmpty, fmt.Sprintf("line %d: no text below the heading", s.Line)
		case Placeholder:
			code, words = verdict.SignoffPlaceholder, fmt.Sprintf("line %d: the section has a placeholder such as TBD", s.Line)
		case Unchanged:
			code, words = verdict.SignoffUnchanged, fmt.Sprintf("line %d: only text of the template below the heading", s.Line)
		}
		j.find(code, j.readme()+"#"+s.Title, "%s; required at %s", words, j.at)
	}
}

var (
	unresolved = pattern.Lazy(`<<\[UNRESOLVED\b`)
	tocMark    = pattern.Lazy(`^\s*/?toc\s*$`)
)

// checkText checks the text as a whole.
func (j *judging) checkText() {
	if n := len(j.d.page.broken); n > 0 {
		j.find(verdict.SignoffDocument, j.readme(), "line %d is not UTF-8 (%s in all)", j.d.page.broken[0], plural.Of(n, "line"))
	}
	if drift := j.d.drift(); drift != "" {
		j.find(verdict.SignoffTOC, j.readme(), "the table of contents differs from the headings: %s", drift)
	}
	for _, l := range j.d.page.lines {
		if unresolved().MatchString(l.text) && !l.fenced && j.k.Status != "provisional" {
			j.find(verdict.SignoffUnresolved, j.readme(), "line %d: an UNRESOLVED mark, which only a provisional document may have", l.number)
			break
		}
	}
	j.checkComments()
}

// checkComments finds remaining comments. Before stable they are a warning.
func (j *judging) checkComments() {
	left, first := len(j.d.page.directives), 0
	if left > 0 {
		first = j.d.page.directives[0].line
	}
	for _, b := range j.d.page.blocks {
		if !b.closed {
			j.find(verdict.SignoffGuidance, j.readme(), "the comment at line %d has no end, so the text below it is hidden", b.line)
		}
		if tocMark().MatchString(strings.TrimSuffix(b.text, "\n")) {
			continue
		}
		if left++; first == 0 || b.line < first {
			first = b.line
		}
	}
	if left == 0 {
		return
	}
	say := j.warn
	if j.at == Stable {
		say = j.find
	}
	say(verdict.SignoffGuidance, j.readme(), "comments remain, the first at line %d, %d in all", first, left)
}
