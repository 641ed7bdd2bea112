package signoff

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkApprovals checks that each listed approver who is not an author approved the
// current document, if its status is implementable or implemented.
func (j *judging) checkApprovals() {
	if j.k.Status != "implementable" && j.k.Status != "implemented" {
		return
	}
	named := j.approvers()
	if j.e.Readme == nil {
		return // a missing document is already a finding
	}
	lacking := 0
	for _, who := range named {
		a := j.approvalBy(who)
		if !j.Record.approves {
			j.unasked = append(j.unasked, a)
			continue
		}
		if word := j.Record.word(a); word != "" {
			j.find(verdict.SignoffApproval, j.kep(), "%s %s", who, word)
			j.findings[len(j.findings)-1].Fix = fmt.Sprintf("have %s read both files, and add to approvals of the record: %s", who, a.Line())
			lacking++
		}
	}
	j.approved = j.Record.approves && lacking == 0 && len(named) > 0
}

// approvers are those who must approve. Authors among the listed approvers are left out:
// an author cannot approve their own work.
func (j *judging) approvers() (others []string) {
	examples := 0
	for _, who := range j.k.Approvers {
		switch {
		case example().MatchString(who):
			examples++
		case !wrote(who, j.k.Authors):
			others = append(others, who)
		}
	}
	switch {
	case examples > 0:
		j.find(verdict.SignoffApproval, j.kep(), "status %s, but approvers still has the example of the template", j.k.Status)
	case len(j.k.Approvers) == 0:
		j.find(verdict.SignoffApproval, j.kep(), "status %s, but no approvers are named", j.k.Status)
	case len(others) == 0:
		j.find(verdict.SignoffApproval, j.kep(), "status %s, but all approvers are authors, who cannot approve their own work", j.k.Status)
		j.findings[len(j.findings)-1].Fix = "name an approver in " + kepName + " who is not an author, and have them approve"
	}
	return others
}

// approvalBy is the approval of the current files by a person.
func (j *judging) approvalBy(who string) Approval {
	number, _, _ := strings.Cut(path.Base(j.e.Dir), "-")
	return Approval{number, who, digest.Of(digest.SHA256, j.e.Readme), digest.Of(digest.SHA256, j.e.KEP)}
}

// word says what is wrong with an approval in the record, "" if it is there.
func (r Record) word(want Approval) string {
	word := "has not approved it"
	for _, a := range r.Approvals {
		if a.Document != want.Document || !same(a.Approver, want.Approver) {
			continue
		}
		var others []string
		if !a.Readme.Equal(want.Readme) {
			others = append(others, readmeName)
		}
		if !a.KEP.Equal(want.KEP) {
			others = append(others, kepName)
		}
		if len(others) == 0 {
			return ""
		}
		word = fmt.Sprintf("approved another %s than there is now", strings.Join(others, " and another "))
	}
	return word
}

// same reports whether two handles are equal.
func same(a, b string) bool {
	return handle(a) != "" && handle(a) == handle(b)
}

// handle is a handle in comparable form: lower case, without @ and invisible characters.
func handle(who string) string {
	seen := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, who)
	return strings.ToLower(strings.TrimPrefix(strings.TrimSpace(seen), "@"))
}

// among reports whether a person is on a list.
func among(who string, list []string) bool {
	return slices.ContainsFunc(list, func(o string) bool { return same(who, o) })
}

// mention matches a handle or an address in a text.
var mention = pattern.Lazy(`[\w.+/-]*@[\w./-]+`)

// wrote reports whether a person is an author. Authors are free text, such as
// "A. Keeper (@keeper)"; one common handle or address is enough.
func wrote(who string, authors []string) bool {
	mine := handles(who)
	return slices.ContainsFunc(authors, func(author string) bool {
		return slices.ContainsFunc(handles(author), func(h string) bool { return slices.Contains(mine, h) })
	})
}

// handles are the handles and addresses in a text, and the text itself.
func handles(text string) (list []string) {
	for _, name := range append(mention().FindAllString(text, -1), text) {
		if h := strings.TrimRight(handle(name), "."); h != "" {
			list = append(list, h)
		}
	}
	return list
}
