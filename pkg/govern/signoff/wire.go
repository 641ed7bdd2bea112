package signoff

import (
	"strings"
	"time"
	"unicode"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Checker identifies these checks; it changes with their rules.
const Checker = "https://github.com/waybill-release/waybill/attestations/release-signoff/v1#checks"

// Signing is the content of a sign-off besides the report.
type Signing struct {
	Milestone string
	Source    releasesignoff.Source
	Version   string // of the program
	Template  releasesignoff.File
	Life      time.Duration
}

// Predicate makes the sign-off of a report. Its verdict must have accepted: a document
// with a finding cannot be signed off.
func (r Report) Predicate(v *verdict.Verdict, s Signing) (releasesignoff.Predicate, error) {
	if err := v.Err(); err != nil {
		return releasesignoff.Predicate{}, err
	}
	p := releasesignoff.Predicate{
		Milestone: s.Milestone, Source: s.Source, Checker: releasesignoff.Checker{ID: Checker, Version: s.Version},
		Template: s.Template, Checked: v.Time, Expires: v.Time.Add(s.Life), Left: r.Left, Documents: slice.Map(r.Documents, Checked.wire),
	}
	for _, x := range r.Exceptions {
		p.Exceptions = append(p.Exceptions, releasesignoff.Exception{
			Document: x.Document, Code: string(x.Code), About: plain(x.About), Reason: plain(x.Reason), Approver: plain(x.Approver),
			Filed: x.Filed, Expires: x.Expires,
		})
	}
	return p, p.Validate()
}

func (c Checked) wire() releasesignoff.Document {
	out := releasesignoff.Document{
		Directory: plain(c.Dir), Number: c.Number, Title: plain(c.Title), Stage: string(c.Stage), Status: plain(c.Status),
		Review: releasesignoff.Review{Required: c.ReviewRequired, Approved: c.ReviewApproved}, Gates: c.Gates,
	}
	for _, f := range []struct {
		name string
		sum  digest.Digest
	}{{readmeName, c.Readme}, {kepName, c.KEP}} {
		if !f.sum.IsZero() {
			out.Files = append(out.Files, releasesignoff.File{Name: f.name, Digest: f.sum})
		}
	}
	for _, s := range c.Sections {
		if out.Sections.Required++; s.State == Filled {
			out.Sections.Filled++
		}
	}
	for _, b := range c.Boxes {
		out.Checklist = append(out.Checklist, releasesignoff.Item{
			Text: plain(b.Text), Required: b.Required, Ticked: b.Ticked, Evidence: string(b.Evidence), Proof: plain(b.Proof), By: plain(b.By),
		})
	}
	say := func(list []verdict.Finding, excepted bool) {
		for _, f := range list {
			out.Findings = append(out.Findings, releasesignoff.Finding{
				Code: string(f.Code), About: c.about(f.Subject, excepted), Message: plain(f.Message), Excepted: excepted,
			})
		}
	}
	say(c.Excepted, true)
	say(c.Warnings, false)
	return out
}

// about is the part of a document that a finding is about, as an exception names it.
func (c Checked) about(subject string, excepted bool) string {
	thing := strings.TrimPrefix(subject, c.Dir+"/")
	if section, is := strings.CutPrefix(thing, readmeName+"#"); is && excepted {
		return plain(section)
	}
	return plain(thing)
}

// plain is a text as one line without invisible characters.
func plain(text string) string {
	return strings.Join(strings.FieldsFunc(mend(text), func(r rune) bool { return !unicode.IsPrint(r) || r == ' ' }), " ")
}

// Ticks are the lines of the boxes that are only ticked, not proven.
func (c Checked) Ticks() (lines []int) {
	for _, b := range c.Boxes {
		if b.Evidence == Claimed {
			lines = append(lines, b.Line)
		}
	}
	return lines
}

// Attribute records who ticked the boxes of a document, by line.
func (r Report) Attribute(dir string, by map[int]string) {
	for i := range r.Documents {
		d := &r.Documents[i]
		for n := range d.Boxes {
			if b := &d.Boxes[n]; d.Dir == dir && b.Evidence == Claimed {
				b.By = by[b.Line]
			}
		}
	}
}
