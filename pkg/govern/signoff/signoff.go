// Package signoff checks enhancement documents against the requirements of the stage that
// they claim.
//
// An enhancement has a document in Markdown that follows a template, a kep.yaml, and (if
// production readiness was reviewed) a file naming the reviewer. The [Template] says which
// sections each stage requires:
//
//	## Summary
//	<!--DIRECTIVE: required: true,stage: alpha-->
//
// The line belongs to the heading above it. Stages are cumulative: what alpha requires,
// beta and stable require, too. A malformed line is reported, and read as far as possible;
// the text below it is never part of it.
//
//	t, err := signoff.ParseTemplate(raw)
//	d, err := signoff.ParseDocument(raw)
//	for _, s := range signoff.Sections(d, t, signoff.Beta) { … s.State … }
//
// [Read] reads a whole directory, and [Check] checks it: the verdict lists everything that
// violates the requirements, and the [Report] says for every document which boxes of its
// checklist are ticked, which are proven by a check, and which are only claimed. A tick is
// never evidence.
//
// Documents are foreign: sizes, lines, headings and items are bounded, and exceeding a
// bound is refused. Headings underlined with = or - are not recognised.
//
// The package opens no files but those of the given [io/fs.FS], and reads no clock.
//
// Other projects should not import this package: it changes without notice.
package signoff

import (
	_ "embed"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Stage is the maturity of a feature.
type Stage string

// The stages. Each requires everything that the one before requires.
const (
	Alpha  Stage = "alpha"
	Beta   Stage = "beta"
	Stable Stage = "stable"
)

// stages lists the stages in their order.
func stages() []Stage { return []Stage{Alpha, Beta, Stable} }

// ParseStage reads the name of a stage.
func ParseStage(text string) (Stage, error) {
	if s := Stage(text); s.known() {
		return s, nil
	}
	return "", verdict.Refuse(verdict.Usage, "stage", "%q, want alpha, beta or stable", text)
}

func (s Stage) known() bool { return slices.Contains(stages(), s) }

// reaches reports whether s requires what a stage requires.
func (s Stage) reaches(from Stage) bool {
	return s.known() && from.known() && slices.Index(stages(), from) <= slices.Index(stages(), s)
}

// The limits of documents.
const (
	MaxDocument = 2 << 20 // bytes of a document or template
	maxLines    = 50_000
	maxLine     = 64 << 10 // bytes of one
	maxHeadings = 2_000
	maxItems    = 500
	maxFile     = 256 << 10 // bytes of a YAML file
)

//go:embed rules.txt
var rules string

// Rules lists the codes of documents with their meaning, for the help of commands.
func Rules() string { return rules }
