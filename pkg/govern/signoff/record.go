package signoff

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Record has the decisions of people about the documents of a milestone: approvals,
// exceptions with expiry, and freeze dates. It is a reviewed file.
type Record struct {
	Milestone  string
	Freezes    map[Freeze]time.Time
	Approvals  []Approval
	Exceptions []Exception

	approves bool // the file has a list of approvals
}

// Freeze is a date of a milestone after which some parts must not change.
type Freeze string

// The freezes, in their order.
const (
	ReviewFreeze      Freeze = "prr"
	EnhancementFreeze Freeze = "enhancements"
	CodeFreeze        Freeze = "code"
	DocsFreeze        Freeze = "docs"
)

// freezes lists the freezes in their order.
func freezes() []Freeze { return []Freeze{ReviewFreeze, EnhancementFreeze, CodeFreeze, DocsFreeze} }

// grace is how long after a freeze an exception can still be filed.
const grace = 3 * 24 * time.Hour

// maxLife is the longest life of an exception: about one release.
const maxLife = 120 * 24 * time.Hour

// Approval is one person's approval of the bytes of README.md and kep.yaml.
type Approval struct {
	Document    string
	Approver    string
	Readme, KEP digest.Digest
}

// Line is the line of a record with the approval.
func (a Approval) Line() string {
	return fmt.Sprintf("- {document: %q, approver: %q, files: {%s: %q, %s: %q}}", a.Document, a.Approver, readmeName, a.Readme, kepName, a.KEP)
}

// Exception sets aside one kind of finding about one section or file until a date.
type Exception struct {
	Document string
	Code     verdict.Code
	About    string
	Reason   string
	Approver string
	Filed    time.Time
	Expires  time.Time
}

type recordFile struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Milestone  string            `yaml:"milestone"`
	Freezes    map[Freeze]string `yaml:"freezes"`
	Approvals  []approvalEntry   `yaml:"approvals"`
	Exceptions []struct {
		Document string       `yaml:"document"`
		Code     verdict.Code `yaml:"code"`
		About    string       `yaml:"about"`
		Reason   string       `yaml:"reason"`
		Approver string       `yaml:"approver"`
		Filed    string       `yaml:"filed"`
		Expires  string       `yaml:"expires"`
	} `yaml:"exceptions"`
}

type approvalEntry struct {
	Document string `yaml:"document"`
	Approver string `yaml:"approver"`
	Files    struct {
		Readme string `yaml:"README.md"`
		KEP    string `yaml:"kep.yaml"`
	} `yaml:"files"`
	// Digest is the older form, of README.md alone.
	Digest string `yaml:"digest"`
}

// approval reads one entry. An approval that does not cover both files is refused.
func (e approvalEntry) approval() (Approval, error) {
	a := Approval{Document: e.Document, Approver: e.Approver}
	if e.Digest != "" {
		return Approval{}, fmt.Errorf("digest covers only %s, not %s; %s must approve both: waybill signoff check without --record prints the line", readmeName, kepName, quoted(e.Approver))
	}
	for _, f := range []struct {
		text string
		to   *digest.Digest
	}{{e.Files.Readme, &a.Readme}, {e.Files.KEP, &a.KEP}} {
		sum, err := digest.Parse(f.text)
		if err != nil || sum.Algorithm() != digest.SHA256 {
			return Approval{}, fmt.Errorf("want files with the sha256:… digests of %s and of %s, as waybill signoff check without --record prints them", readmeName, kepName)
		}
		*f.to = sum
	}
	if a.Document == "" || a.Approver == "" {
		return Approval{}, fmt.Errorf("want document, approver and files")
	}
	return a, nil
}

// recordKind is the kind of a file that is a [Record].
const recordKind = "SignoffRecord"

// ParseRecord reads a record strictly.
func ParseRecord(raw []byte) (Record, error) {
	fail := func(format string, args ...any) (Record, error) {
		return Record{}, verdict.Refuse(verdict.ConfigParse, "sign-off record", format, args...)
	}
	var f recordFile
	if err := strictyaml.Unmarshal(raw, &f, strictyaml.MaxSize(maxFile)); err != nil {
		return Record{}, verdict.Wrap(verdict.ConfigParse, "sign-off record", err)
	}
	if _, ok := release(f.Milestone); !ok || f.APIVersion != "waybill/v1" || f.Kind != recordKind {
		return fail("apiVersion %.40q, kind %.40q and milestone %.40q: want waybill/v1, %s and a milestone such as v1.37", f.APIVersion, f.Kind, f.Milestone, recordKind)
	}
	r := Record{Milestone: f.Milestone, Freezes: map[Freeze]time.Time{}, approves: f.Approvals != nil}
	for _, name := range freezes() {
		text, said := f.Freezes[name]
		if !said {
			continue
		}
		day, err := dayOf(text)
		if err != nil {
			return fail("freeze %s: %q, want a day such as 2026-01-31", name, text)
		}
		r.Freezes[name] = day
	}
	if len(r.Freezes) != len(f.Freezes) {
		return fail("freezes: want any of %v", freezes())
	}
	for i, e := range f.Approvals {
		a, err := e.approval()
		if err != nil {
			return fail("approval %d: %v", i+1, err)
		}
		r.Approvals = append(r.Approvals, a)
	}
	for i, x := range f.Exceptions {
		e := Exception{Document: x.Document, Code: x.Code, About: x.About, Reason: x.Reason, Approver: x.Approver}
		if err := e.date(x.Filed, x.Expires); err != nil {
			return fail("exception %d: %v", i+1, err)
		}
		r.Exceptions = append(r.Exceptions, e)
	}
	return r, nil
}

// dayOf reads a date. The zero date is refused, because it means none.
func dayOf(text string) (time.Time, error) {
	day, err := time.Parse(time.DateOnly, text)
	if err == nil && day.IsZero() {
		err = errors.New("the zero date is not valid")
	}
	return day, err
}

// date reads the dates of an exception, and refuses an incomplete one.
func (x *Exception) date(filed, expires string) (err error) {
	if x.Filed, err = dayOf(filed); err != nil {
		return fmt.Errorf("filed %q, want a day such as 2026-01-31", filed)
	}
	if x.Expires, err = dayOf(expires); err != nil {
		return fmt.Errorf("expires %q, want a day such as 2026-01-31", expires)
	}
	_, can := closing(x.Code)
	switch {
	case x.Document == "" || x.About == "" || x.Approver == "" || strings.TrimSpace(x.Reason) == "":
		return fmt.Errorf("want document, code, about, reason, approver, filed and expires")
	case !can:
		return fmt.Errorf("code %q cannot be excepted", x.Code)
	case !x.Expires.After(x.Filed) || x.Expires.Sub(x.Filed) > maxLife:
		return fmt.Errorf("valid from %s to %s, want at most %d days", filed, expires, int(maxLife.Hours()/24))
	}
	return nil
}

// closing is the freeze after which a kind of finding can no longer be fixed in the
// milestone; false for codes that cannot be excepted.
func closing(code verdict.Code) (Freeze, bool) {
	switch code {
	case verdict.SignoffSection, verdict.SignoffEmpty, verdict.SignoffPlaceholder, verdict.SignoffUnchanged,
		verdict.SignoffUnresolved, verdict.SignoffTitle, verdict.SignoffStatus, verdict.SignoffField, verdict.SignoffChecklist:
		return EnhancementFreeze, true
	case verdict.SignoffApproval:
		return ReviewFreeze, true
	case verdict.SignoffFeature:
		return CodeFreeze, true
	case verdict.SignoffGuidance, verdict.SignoffTOC, verdict.SignoffLink:
		return DocsFreeze, true
	}
	return "", false
}

// about reports whether an exception matches a finding: document, code, and section or
// file.
func (x Exception) about(f verdict.Finding) bool {
	dir, thing, section := strings.Cut(f.Subject, "/"+readmeName+"#")
	if !section {
		dir, thing = path.Split(f.Subject)
	}
	number, _, _ := strings.Cut(path.Base(dir), "-")
	return x.Code == f.Code && x.Document == number && x.About == thing
}

// refuses is why an exception does not count, "" if it does.
func (r Record) refuses(x Exception, k KEP, now time.Time) string {
	freeze, _ := closing(x.Code)
	last, frozen := r.Freezes[freeze]
	switch {
	case now.Before(x.Filed):
		return "filed in the future"
	case !now.Before(x.Expires):
		return "expired on " + x.Expires.Format(time.DateOnly)
	case frozen && x.Filed.After(last.Add(grace)):
		return fmt.Sprintf("filed more than 3 days after the %s freeze", freeze)
	case wrote(x.Approver, k.Authors):
		return x.Approver + " is an author, who cannot except their own work"
	case example().MatchString(x.Approver), example().MatchString("@" + handle(x.Approver)), example().MatchString(handle(x.Approver)):
		return x.Approver + " is the example of the template"
	case !among(x.Approver, k.Approvers):
		return x.Approver + " is not an approver of the document"
	}
	return ""
}

// passed lists the past freezes, with the documents that still have findings of that
// matter.
func (r Record) passed(findings []verdict.Finding, now time.Time) (lines []string) {
	for _, name := range freezes() {
		day, there := r.Freezes[name]
		if !there || now.Before(day.Add(24*time.Hour)) {
			continue
		}
		var late []string
		for _, f := range findings {
			dir, _, _ := strings.Cut(f.Subject, "/README.md")
			dir = strings.TrimSuffix(dir, "/kep.yaml")
			if of, ok := closing(f.Code); ok && of == name && !slices.Contains(late, dir) {
				late = append(late, dir)
			}
		}
		if len(late) == 0 {
			lines = append(lines, fmt.Sprintf("%s freeze of %s: no document is late", name, day.Format(time.DateOnly)))
			continue
		}
		lines = append(lines, fmt.Sprintf("%s freeze of %s: late documents: %s", name, day.Format(time.DateOnly), strings.Join(late, ", ")))
	}
	return lines
}
