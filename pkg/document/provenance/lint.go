package provenance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
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
		names := slice.Map(c.UserParameters(), func(p Parameter) string { return p.Name })
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

var (
	// revision matches a Git object name.
	revision = pattern.Lazy(`\A([0-9a-f]{40}|[0-9a-f]{64})\z`)
	// versioned matches a ref that projects do not move by convention.
	versioned = pattern.Lazy(`\A(refs/tags/.+|v?[0-9]+(\.[0-9]+)*([-+.].+)?)\z`)
	// described matches what git describe appends to a version.
	described = pattern.Lazy(`\+([0-9a-f]{7,40})\b|-g([0-9a-f]{7,40})\b`)
)

// movable reports whether the name ends with a ref that is a branch.
func movable(id string) bool {
	_, ref := splitRef(id)
	return ref != "" && !revision().MatchString(ref) && !versioned().MatchString(ref)
}

func (l *linter) entryPoint(c Claim) {
	entry := c.EntryPoint
	if !strings.Contains(entry, "://") {
		return // a path in the source
	}
	if !hasRevision(entry) {
		l.note(LintEntryMutable, entry, "the instructions are named by an address whose contents can change")
	}
	repo := strings.TrimPrefix(c.Source.Repository, "git+")
	if repo != "" && !strings.HasPrefix(entry, repo+"/") && !strings.HasPrefix(entry, repo+"@") {
		l.note(LintEntryForeign, entry, "the instructions are not in the named source, %q", short(c.Source.Repository))
	}
}

// hasRevision reports whether a part of an address is a Git object name.
func hasRevision(address string) bool {
	pieces := strings.FieldsFunc(address, func(r rune) bool { return strings.ContainsRune("/@?#=&", r) })
	return slices.ContainsFunc(pieces, revision().MatchString)
}

func (l *linter) source(c Claim) {
	s := c.Source
	switch {
	case s.Repository == "":
		l.note(lintSourceMissing, "source", "the provenance names no source")
	case s.Commit == "":
		l.note(lintSourceMutable, s.Repository, "the source is named by ref %q without a commit", short(s.Ref))
	}
	if s.Commit == "" {
		return
	}
	for _, p := range c.Parameters {
		var text string
		if json.Unmarshal(p.Value, &text) != nil {
			continue
		}
		if named := commitIn(text); !strings.HasPrefix(s.Commit, named) {
			l.note(lintSourceOther, p.Name, "the value %q names a commit other than that of the source, %s", short(text), s.Commit)
		}
	}
}

// commitIn is the commit in a version, or "". Digits alone are more often a
// date than a commit.
func commitIn(version string) string {
	m := described().FindStringSubmatch(version)
	if len(m) < 3 {
		return ""
	}
	if named := m[1] + m[2]; strings.ContainsAny(named, "abcdef") {
		return named
	}
	return ""
}

func (l *linter) subjects(list []intoto.Resource) {
	var weak, staging, nameless, twice, shared []string
	names := make(map[string]bool, len(list))
	bytes := make(map[string]bool, len(list))
	for _, r := range list {
		name := cmp.Or(r.Name, r.URI)
		sum := r.Digest["sha256"]
		if sum == "" {
			weak = append(weak, name)
		}
		if strings.HasPrefix(name, "gs://") && strings.Contains(name, "/stage/") {
			staging = append(staging, name)
		}
		switch {
		case name == "" || name == "_":
			nameless = append(nameless, name)
		case names[name]:
			twice = append(twice, name)
		case sum != "" && bytes[sum]:
			shared = append(shared, name)
		}
		names[name], bytes[sum] = true, true
	}
	l.about(lintSubjectWeak, weak, "the subject has no SHA-256")
	l.about(lintSubjectNameless, nameless, "the subject has no name")
	l.about(lintSubjectTwice, twice, "two subjects have this name")
	l.about(lintSubjectStaging, staging, "the subject is named by its staging address, not by the published one")
	l.about(lintSubjectShared, shared, "other subjects have the same bytes, so a digest alone cannot show that a file has the right name")
}
