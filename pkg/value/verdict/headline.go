package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Headline is the answer in one line. Its first word says which answer it is, and
// the rest says about what and why:
//
//	OK lantern v0.1.0: 46 of 46 objects verified, nothing extra
//	OK lantern v0.1.0, in part: 21 of 21 objects verified
//	REFUSED lantern v0.1.0: 1 file altered: bin/linux/amd64/lantern
//	UNAVAILABLE lantern v0.1.0: nothing was decided; no answer about release.yaml
//
// The name of an acceptance that rests on something unsigned is UNSIGNED. Findings
// that were set aside and warnings are part of the line.
func (v Verdict) Headline() string {
	word := "OK"
	switch o := v.Outcome(); {
	case v.Unsigned():
		word = "UNSIGNED"
	case o != Accepted:
		word = strings.ToUpper(o.String())
	}
	if v.About() != "" {
		word += " " + v.About()
	}
	return redact.Secrets(shortened(word + v.reservations() + ": " + v.reason()))
}

// About is what the verdict is about, in a few words.
func (v Verdict) About() string {
	return cmp.Or(v.Subject, v.Question)
}

// reservations says what an accepting verdict set aside, warned of and left out.
func (v Verdict) reservations() (text string) {
	aside := map[string]int{}
	for _, w := range v.Waived {
		aside[w.Kind]++
	}
	if v.Outcome() != Accepted {
		if len(v.Waived) > 0 {
			text = fmt.Sprintf(" (%d set aside)", len(v.Waived))
		}
		return text
	}
	var with []string
	for _, kind := range []struct {
		n    int
		noun string
	}{{aside[ByException], "exception"}, {aside[ByDefect], "accepted defect"}, {len(v.Warnings), "warning"}} {
		if kind.n > 0 {
			with = append(with, plural.Of(kind.n, kind.noun))
		}
	}
	if len(with) > 0 {
		text = ", with " + strings.Join(with, " and ")
	}
	left := v.Scope.Left
	if v.Scope.IsOfGivenFiles() {
		left = v.Scope.Unanswered()
	}
	if len(left) > 0 && !v.IsCheck() {
		text += ", in part"
	}
	return text
}

// reason says what was verified, or why the verdict does not accept.
func (v Verdict) reason() string {
	switch found := v.unwaived(); {
	case v.Unsigned():
		return "accepted, but nothing about it is signed, and the policy allows that"
	case v.Outcome() == Accepted:
		return v.proven()
	case v.Outcome() == Unavailable && slices.ContainsFunc(found, func(f Finding) bool { return f.Code != NotListable }):
		return "nothing was decided; no answer about " + named(subjects(found), "object")
	case v.Outcome() == Unavailable && len(found) > 0:
		return "nothing was decided; cannot be listed: " + named(subjects(found), "object")
	case len(found) == 0:
		return fmt.Sprintf("nothing was decided; %d of %s verified", v.Counts.Verified, plural.Of(v.Counts.Required, "object"))
	default:
		return v.faults(found)
	}
}

// proven says what an accepting verdict verified, and of a single subject also who
// signed it.
func (v Verdict) proven() string {
	noun := "object"
	if v.Scope.IsOfCopies() {
		noun = "copy"
	}
	done := fmt.Sprintf("%d of %s", v.Counts.Verified, plural.Of(v.Counts.Required, noun))
	signer := ""
	for _, p := range v.Proofs {
		who := p.Identity
		if !p.Key.IsZero() {
			who = "key " + p.Key.String()
		}
		if p.Role == roleOfficer || who == signer {
			continue
		}
		if signer != "" || who == "" {
			signer = ""
			break
		}
		signer = who
	}
	switch {
	case v.IsCheck():
		return fmt.Sprintf("%d of %s passed", v.Counts.Verified, plural.Of(v.Counts.Required, "check"))
	case v.Scope.IsOfGivenFiles() && signer == "":
		return "verified"
	case len(v.Groups) > 0 || signer == "" || noun == "copy":
		if v.Complete() && slices.Contains(v.Scope.Checks, closedPlaces) {
			return done + " verified, nothing extra"
		}
		return done + " verified"
	case v.Counts.Required == 1, v.Scope.IsOfGivenFiles(): // the list that names a given file is counted, too
		return "signed by " + signer
	}
	return done + " signed by " + signer
}

// IsOfGivenFiles reports whether files on this machine are judged, as part of a
// release.
func (s Scope) IsOfGivenFiles() bool { return slices.Contains(s.Checks, givenFiles) }

// IsOfCopies reports whether copies are judged: the destinations of a promotion.
func (s Scope) IsOfCopies() bool { return slices.Contains(s.Checks, copies) }

// Unanswered is what the scope leaves out, besides what the policy does not require.
// A question about given files leaves out the rest of their release by its nature;
// checks of the files themselves, which a lower depth leaves out, are listed.
func (s Scope) Unanswered() []string {
	given, rest := s.IsOfGivenFiles(), []string(nil)
	if given {
		rest = []string{"the rest of the release", "a signed list of the release's contents (none exists)", "expected set: not independent of the build", "other addresses of the images"}
	}
	return slices.DeleteFunc(slices.Clone(s.Left), func(left string) bool {
		return slices.Contains(s.NotRequired, left) || slices.Contains(rest, left) || given && strings.HasPrefix(left, "other platforms than ")
	})
}

// Names of checks: that nothing is unlisted, that given files are part of a
// release, and that copies are whole.
const closedPlaces, givenFiles, copies = "closed places", "given files", "copies by digest"

// maxFaults is how many kinds of faults a headline names, maxNamed how many
// subjects of each, and maxLine how long their names may be.
const maxFaults, maxNamed, maxLine = 2, 3, 60

// faults counts the findings by what is wrong, in their order.
func (v Verdict) faults(found []Finding) string {
	var order []Code
	by := map[Code][]Finding{}
	for _, f := range found {
		if by[f.Code] = append(by[f.Code], f); len(by[f.Code]) == 1 {
			order = append(order, f.Code)
		}
	}
	var words []string
	more := 0
	for i, code := range order {
		if i >= maxFaults {
			more += len(by[code])
			continue
		}
		words = append(words, v.fault(code, subjects(by[code])))
	}
	if more > 0 {
		words = append(words, "and "+plural.Of(more, "more finding"))
	}
	return strings.Join(words, "; ")
}

// fault says what is wrong with some subjects.
func (v Verdict) fault(code Code, about []string) string {
	phrase, counted := code.brief()
	if !counted {
		return phrase + ": " + named(about, "subject")
	}
	images := slice.Count(about, v.isImage)
	noun := "object" // of several kinds
	switch {
	case v.IsCheck():
	case images == 0:
		noun = "file"
	case images == len(about):
		noun = "image"
	}
	text := plural.Of(len(about), noun) + " " + phrase
	ours := func(name string) bool { // the line begins with it, perhaps without a platform
		image, _, _ := strings.Cut(name, " ")
		return strings.HasSuffix(v.About(), name) || strings.HasSuffix(v.About(), " "+image)
	}
	switch {
	case slices.ContainsFunc(about, func(name string) bool { return !ours(name) }):
		return text + ": " + named(about, noun)
	case len(about) == 1:
		return phrase
	}
	return text
}

// isImage reports whether a subject is an image.
func (v Verdict) isImage(name string) bool {
	return strings.HasPrefix(name, "oci/") || strings.Contains(name, "@sha256:") || strings.HasPrefix(v.Question, "image ") ||
		slices.ContainsFunc(v.Objects, func(o Object) bool { return o.Name == name && strings.HasPrefix(o.Class, "image") })
}

// subjects are those of findings, each once.
func subjects(found []Finding) (names []string) {
	for _, f := range found {
		if !slices.Contains(names, f.Subject) {
			names = append(names, f.Subject)
		}
	}
	return names
}

// named names the first few and counts the rest.
func named(names []string, noun string) string {
	few, length := 0, 0
	for _, name := range names[:min(maxNamed, len(names))] {
		if length += len(name); few > 0 && length > maxLine {
			break
		}
		few++
	}
	text := strings.Join(names[:few], ", ")
	if rest := len(names) - few; rest > 0 {
		text += " and " + plural.Of(rest, "more "+noun)
	}
	return text
}
