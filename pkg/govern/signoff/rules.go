package signoff

import (
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rules are the codes with what each is about, for people.
func rules() []struct {
	Code  verdict.Code
	About string
} {
	return []struct {
		Code  verdict.Code
		About string
	}{
		{verdict.SignoffSection, "a required section is missing, or in a comment"},
		{verdict.SignoffEmpty, "there is nothing under its heading"},
		{verdict.SignoffPlaceholder, "it says TBD, TODO or the like"},
		{verdict.SignoffUnchanged, "it has the words of the template"},
		{verdict.SignoffGuidance, "comments are left (a warning before stable)"},
		{verdict.SignoffUnresolved, "something is argued about, and it is not provisional"},
		{verdict.SignoffTitle, "title, number and directory do not fit"},
		{verdict.SignoffTOC, "the table of contents is not that of the headings"},
		{verdict.SignoffLink, "a link leads to a host that looks like another"},
		{verdict.SignoffStatus, "status, stage or milestone is none, or does not fit"},
		{verdict.SignoffField, "kep.yaml lacks a field that the stage needs"},
		{verdict.SignoffApproval, "an approver, or production readiness, is lacking"},
		{verdict.SignoffFeature, "the release lacks a gate or metric that is named"},
		{verdict.SignoffChecklist, "a box is ticked and is not so"},
		{verdict.SignoffDocument, "a file is missing or cannot be read without doubt"},
	}
}

// Rules lists what is asked of documents, for the help of commands.
func Rules() string {
	var out strings.Builder
	for _, r := range rules() {
		fmt.Fprintf(&out, "  %-20s %s\n", r.Code, r.About)
	}
	return out.String()
}
