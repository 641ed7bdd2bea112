package provenance

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
)

var (
	// revision matches a Git object name.
	revision = regexp.MustCompile(`\A([0-9a-f]{40}|[0-9a-f]{64})\z`)
	// versioned matches a ref that projects do not move by convention.
	versioned = regexp.MustCompile(`\A(refs/tags/.+|v?[0-9]+(\.[0-9]+)*([-+.].+)?)\z`)
	// described matches what git describe appends to a version.
	described = regexp.MustCompile(`\+([0-9a-f]{7,40})\b|-g([0-9a-f]{7,40})\b`)
)

// movable reports whether the name ends with a ref that is a branch.
func movable(id string) bool {
	_, ref := splitRef(id)
	return ref != "" && !revision.MatchString(ref) && !versioned.MatchString(ref)
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
	return slices.ContainsFunc(pieces, revision.MatchString)
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
		if named := commitIn(text); named != "" && !strings.HasPrefix(s.Commit, named) {
			l.note(lintSourceOther, p.Name, "the value %q names a commit other than that of the source, %s", short(text), s.Commit)
		}
	}
}

// commitIn is the commit in a version, or "". Digits alone are more often a
// date than a commit.
func commitIn(version string) string {
	m := described.FindStringSubmatch(version)
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
