package provenance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// Note is one contradiction in a claim, or one gap that keeps a reader from
// checking it. A note needs no key and no network, and does not say who is to
// blame: it says what not to rely on.
type Note struct {
	Code    string `json:"code"`
	Subject string `json:"subject"` // the field, or the first of several
	Message string `json:"message"`
	Count   int    `json:"count"` // number of fields
}

// String formats the note on one line.
func (n Note) String() string {
	if n.Count > 1 {
		return fmt.Sprintf("%s %q and %d more: %s", n.Code, short(n.Subject), n.Count-1, n.Message)
	}
	return fmt.Sprintf("%s %q: %s", n.Code, short(n.Subject), n.Message)
}

// The codes of notes.
const (
	lintBuilderEmpty    = "LINT_BUILDER_EMPTY"
	lintBuilderMutable  = "LINT_BUILDER_MUTABLE"
	lintBuilderSelf     = "LINT_BUILDER_SELF"
	lintBuildType       = "LINT_BUILD_TYPE"
	LintCompleteness    = "LINT_COMPLETENESS"
	LintToolchain       = "LINT_TOOLCHAIN_MISSING"
	LintDependency      = "LINT_DEPENDENCY_NO_DIGEST"
	lintDefinedIn       = "LINT_DEFINED_IN"
	LintEntryMutable    = "LINT_ENTRY_POINT_MUTABLE"
	LintEntryForeign    = "LINT_ENTRY_POINT_FOREIGN"
	lintSourceMissing   = "LINT_SOURCE_MISSING"
	lintSourceMutable   = "LINT_SOURCE_MUTABLE"
	lintSourceOther     = "LINT_SOURCE_OTHER"
	lintParameterless   = "LINT_PARAMETERLESS"
	LintReproducible    = "LINT_REPRODUCIBLE"
	LintInvocation      = "LINT_INVOCATION_MISSING"
	LintTimeMissing     = "LINT_TIME_MISSING"
	LintTimeReversed    = "LINT_TIME_REVERSED"
	lintSubjectWeak     = "LINT_SUBJECT_NO_SHA256"
	lintSubjectStaging  = "LINT_SUBJECT_STAGING"
	lintSubjectNameless = "LINT_SUBJECT_NAMELESS"
	lintSubjectTwice    = "LINT_SUBJECT_TWICE"
	lintSubjectShared   = "LINT_SUBJECT_SHARED_BYTES"
)

// Lint lists everything in a claim that contradicts itself or cannot be
// checked: builder, completeness, source, run, subjects, in this order.
func Lint(c Claim) []Note {
	l := linter{notes: LintPredicate(c)}
	l.subjects(c.Statement().Resources())
	return l.notes
}

// LintPredicate is [Lint] without the subjects. It costs the same for one
// subject and for a hundred thousand.
func LintPredicate(c Claim) []Note {
	var l linter
	l.builder(c)
	l.completeness(c)
	l.dependencies(c)
	l.entryPoint(c)
	l.source(c)
	l.run(c)
	return l.notes
}

type linter struct{ notes []Note }

func (l *linter) note(code, subject, format string, args ...any) {
	l.notes = append(l.notes, Note{Code: code, Subject: subject, Message: fmt.Sprintf(format, args...), Count: 1})
}

// about adds one note for several fields.
func (l *linter) about(code string, things []string, format string, args ...any) {
	if len(things) > 0 {
		l.note(code, things[0], format, args...)
		l.notes[len(l.notes)-1].Count = len(things)
	}
}

func (l *linter) builder(c Claim) {
	id := c.Builder.ID
	switch {
	case id == "":
		l.note(lintBuilderEmpty, "builder.id", "the provenance names no builder")
	case movable(id):
		l.note(lintBuilderMutable, id, "the builder is named by a reference that can change")
	}
	if speaksForItself(id, c.Source.Repository) {
		l.note(lintBuilderSelf, id, "the builder is a workflow of the repository that it builds, so everybody who can change the source can change the builder")
	}
	if c.BuildType == "" {
		l.note(lintBuildType, "buildType", "the build type, which gives the parameters their meaning, is missing")
	}
}

// speaksForItself reports whether the builder is a file of the source
// repository, or that repository.
func speaksForItself(builder, repository string) bool {
	repo := strings.TrimPrefix(repository, "git+")
	return repo != "" && (builder == repo || builder == repository ||
		strings.HasPrefix(builder, repo+"/.github/workflows/") || strings.HasPrefix(builder, repo+"@"))
}

func (l *linter) completeness(c Claim) {
	only := onlySource(c)
	if c.Completeness.Materials == SaidYes && only {
		l.note(LintCompleteness, "materials", "claimed to be complete, but only the source is listed, no compiler; entries: %d", len(c.Dependencies))
	}
	if only && len(c.Builder.Dependencies) == 0 {
		l.note(LintToolchain, "dependencies", "no toolchain and no builder image are listed")
	}
	if c.Completeness.Parameters == SaidYes && len(c.Parameters) == 0 && c.EntryPoint == "" {
		l.note(LintCompleteness, "parameters", "claimed to be complete, but none are listed, not even an entry point")
	}
	if c.Completeness.Environment == SaidYes && len(c.Internal) == 0 {
		l.note(LintCompleteness, "environment", "claimed to be complete, but nothing is recorded")
	}
	if c.Reproducible == SaidYes && (only || c.Completeness.Materials == SaidNo) {
		l.note(LintReproducible, "reproducible", "claimed to be reproducible, but the tools of the build are not recorded")
	}
	if claimsParameterless(c) {
		var names []string
		for _, p := range c.UserParameters() {
			names = append(names, p.Name)
		}
		l.about(lintParameterless, names, "the build is claimed to be parameterless, but had parameters")
	}
}

// onlySource reports whether all dependencies are source.
func onlySource(c Claim) bool {
	return !slices.ContainsFunc(c.Dependencies, func(r intoto.Resource) bool {
		return r.Commit() == "" && !strings.HasPrefix(r.URI, "git+")
	})
}

func claimsParameterless(c Claim) bool {
	return slices.ContainsFunc(slices.Concat(c.Parameters, c.Internal), func(p Parameter) bool {
		return (p.Name == "parameterless" || strings.HasSuffix(p.Name, ".parameterless")) && string(p.Value) == "true"
	})
}

func (l *linter) dependencies(c Claim) {
	var bare []string
	for _, r := range c.Dependencies {
		if len(r.Digest) == 0 {
			bare = append(bare, r.URI+r.Name)
		}
	}
	l.about(LintDependency, bare, "an address without a digest can have other contents later")
	if c.DefinedIn >= len(c.Dependencies) || c.DefinedIn < -1 {
		l.note(lintDefinedIn, "definedInMaterial", "material %d of %d is claimed to contain the instructions", c.DefinedIn, len(c.Dependencies))
	}
}

func (l *linter) run(c Claim) {
	if c.Run.InvocationID == "" {
		l.note(LintInvocation, "invocation id", "the run cannot be identified")
	}
	switch {
	case c.Run.Started.IsZero() || c.Run.Finished.IsZero():
		l.note(LintTimeMissing, "metadata", "the start and end times of the build are missing")
	case c.Run.Finished.Before(c.Run.Started):
		l.note(LintTimeReversed, "metadata", "the build finished before it started")
	}
}
