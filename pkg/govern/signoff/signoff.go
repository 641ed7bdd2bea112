// Package signoff reads enhancement documents and says what they lack for the
// stage that they claim.
//
// An enhancement has a document in Markdown, which follows a template, a
// kep.yaml, and where production readiness was reviewed a file that says by
// whom. The [Template] says which sections are required from which stage on:
//
//	## Summary
//	<!--DIRECTIVE: required: true,stage: alpha-->
//
// The line belongs to the heading above it. Stages are cumulative: what is
// required at alpha is required at beta and stable too. A line that is not
// quite in this form is reported and read as far as it goes; it never takes
// the text below it along.
//
//	t, err := signoff.ParseTemplate(raw)
//	d, err := signoff.ParseDocument(raw)
//	for _, s := range signoff.Sections(d, t, signoff.Beta) { … s.State … }
//
// [Read] takes in a whole directory, and [Check] judges it: the verdict lists
// everything that stands against the claim, and the [Report] says of every
// document which boxes of its checklist are ticked, which of them the checks
// here prove, and which are only somebody's claim. A ticked box is never
// evidence.
//
// What is read is foreign: sizes, lines, headings and items are bounded, and
// passing a bound is a refusal. Headings underlined with = or - are not read.
//
// The package opens nothing but the [io/fs.FS] that it is given, and has no
// clock.
package signoff

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Stage is how far a feature has come.
type Stage string

// The stages, each of which asks for all that the one before it asks for.
const (
	Alpha  Stage = "alpha"
	Beta   Stage = "beta"
	Stable Stage = "stable"
)

// Stages lists the stages in their order.
func Stages() []Stage { return []Stage{Alpha, Beta, Stable} }

// ParseStage reads the name of a stage.
func ParseStage(text string) (Stage, error) {
	if s := Stage(text); s.known() {
		return s, nil
	}
	return "", verdict.Refuse(verdict.Usage, "stage", "%q, want alpha, beta or stable", text)
}

func (s Stage) known() bool { return slices.Contains(Stages(), s) }

// reaches reports whether what is required from a stage on is required at s.
func (s Stage) reaches(from Stage) bool {
	return s.known() && from.known() && slices.Index(Stages(), from) <= slices.Index(Stages(), s)
}

// The bounds of what is read.
const (
	MaxDocument = 2 << 20 // bytes of a document or template
	maxLines    = 50_000
	maxLine     = 64 << 10 // bytes of one
	maxHeadings = 2_000
	maxItems    = 500
	maxFile     = 256 << 10 // bytes of a YAML file
)
