package signoff

import (
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rules are the codes with their meaning.
func rules() []struct {
	Code  verdict.Code
	About string
} {
	return []struct {
		Code  verdict.Code
		About string
	}{
		{verdict.SignoffSection, "a required section is missing, or in a comment"},
		{verdict.SignoffEmpty, "a required section has no text"},
		{verdict.SignoffPlaceholder, "a required section has TBD, TODO or similar"},
		{verdict.SignoffUnchanged, "a required section has only text of the template"},
		{verdict.SignoffGuidance, "comments remain (a warning before stable)"},
		{verdict.SignoffUnresolved, "an UNRESOLVED mark in a document that is not provisional"},
		{verdict.SignoffTitle, "title, number and directory do not agree"},
		{verdict.SignoffTOC, "the table of contents differs from the headings"},
		{verdict.SignoffLink, "a link to a host that looks like another, or is not allowed"},
		{verdict.SignoffStatus, "status, stage or milestone is invalid or inconsistent"},
		{verdict.SignoffField, "kep.yaml lacks a field that the stage requires"},
		{verdict.SignoffApproval, "an approval, or the production-readiness review, is missing"},
		{verdict.SignoffFeature, "the release does not have a gate or metric of the document"},
		{verdict.SignoffChecklist, "a ticked box is false"},
		{verdict.SignoffDocument, "a file is missing, ambiguous or unreadable"},
	}
}

// Rules lists the rules for documents, for the help of commands.
func Rules() string {
	var out strings.Builder
	for _, r := range rules() {
		fmt.Fprintf(&out, "  %-20s %s\n", r.Code, r.About)
	}
	return out.String()
}
