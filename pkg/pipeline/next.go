package pipeline

import (
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// actBegin is noted in the journal before an act, with what was typed.
const actBegin = "begin"

// actFailed is noted after an act that ended with an error, with its code.
const actFailed = "failed"

// Typed is a command line as it was typed, so that it can be typed again: the
// same flags, and the names of the same token files. No secret is in it.
type Typed struct {
	Args []string `json:"args,omitempty"`
	Dir  string   `json:"dir,omitempty"` // where it was typed
	// Profile is the file that it names.
	Profile string `json:"profile,omitempty"`
}

// standing is what the next command depends on.
type standing struct {
	begun, given, sealed bool
	digest               digest.Digest // of the manifest that was sealed here
	source, run          string
	typed                Typed // by the run that ended without saying how
	staged, released     at
	other                bool     // what is public is of another run
	behind               bool     // a marker does not point as far as what is public
	unsummarized         bool     // the last release was told to make no summary
	withdrawn            []string // by a list of known defects, each with its reason
}

// advise says what to type now. Whatever ended in the middle is taken up by the
// very same command; else it is the next one on the way.
func (s *Status) advise(p *job, t standing) {
	s.Safe = "every command: what holds is taken over, and what is public is never overwritten"
	newer := s.Public != NotPublic && t.sealed && t.released.Done == 0 // it is sealed here, and another is out
	switch {
	case s.Busy:
		s.Safe = "this command; others refuse until the run that is at work has ended (BUSY)"
		s.Next, s.Why = commandOn(p, "status"), "a run is at work in "+p.State+" now: wait, and look again"
	case t.released.Down || t.staged.Down:
		s.Next, s.Why = commandOn(p, "status"), "look again, when the place answers"
	case len(t.withdrawn) > 0:
		s.Next, s.Why = checking(p), "refuses, as it will for every user: "+strings.Join(t.withdrawn, "; ")+"; "+newVersion
		return
	case s.Public == Revoked:
		s.Next, s.Why = checking(p), "refuses, as it will for every user: the release was withdrawn; "+newVersion
		return
	case t.other:
		s.Next, s.Why = checking(p), "verifies what is public, which is not what "+p.State+" holds; "+newVersion
		return
	case s.Broken != "" && len(t.typed.Args) > 0 && (s.Failed == "" || s.Failed.Outcome() == verdict.Unavailable):
		s.Next, s.Why = again(t.typed, p.Typed.Dir), "goes on where "+s.Broken+" "+how(s.Failed)+"; an identity token may have to be fetched anew before"
		return
	case newer && t.staged.Done == 0:
		s.Next, s.Why = commandOn(p, "promote", "--to", "staging", "--confirm"), "stages the revision that was sealed here; another one is public"
	case newer:
		s.Next, s.Why = commandOn(p, "release", "--confirm"), "gates and publishes the revision that is staged; another one is public"
	case s.Public == IsPublic && t.behind && t.staged.Done == 1:
		s.Next, s.Why = commandOn(p, "release", "--confirm"), "verifies what is public and moves the markers to it; nothing is copied twice"
	case s.Public == IsPublic:
		s.Next, s.Why = checking(p), "verifies it as users will"
	case t.staged.Done == 1:
		s.Next, s.Why = commandOn(p, "release", "--confirm"), "gates what is staged and publishes it"
	case t.sealed:
		s.Next, s.Why = commandOn(p, "promote", "--to", "staging", "--confirm"), "stages what is sealed"
	case t.given:
		s.Next, s.Why = commandOn(p, "doctor", "--for", "build"), "nothing is sealed: type the command again that took the release over, waybill seal --from PLACE"
	case !t.begun:
		s.Next, s.Why = commandOn(p, "doctor"), "nothing was begun in "+p.State+": this says what waybill stage needs"
	default:
		s.Next = commandOn(p, "stage", "--source", t.source)
		s.Why = "says what is left to do and writes nothing; with --confirm and the tokens that it asks for it does that"
	}
	if s.Failed != "" {
		s.Why += fmt.Sprintf("; before that: %s %s, so %s", s.Broken, how(s.Failed), s.Failed.Fix())
	}
}

// how says how an act ended.
func how(failed verdict.Code) string {
	if failed == "" {
		return "was interrupted"
	}
	return "failed with " + string(failed)
}

// commandOn is a command on this release.
func commandOn(p *job, verb string, more ...string) string {
	program := "waybill"
	if len(p.Typed.Args) > 0 {
		program = p.Typed.Args[0]
	}
	args := append([]string{program, verb, p.Version.String(), "--profile", p.Typed.Profile, "--state", p.State}, more...)
	return quoted(args)
}

// checking is how users verify the release.
func checking(p *job) string {
	return quoted([]string{"k8s-verify-release", p.Version.String(), "--profile", p.Typed.Profile})
}

// again is a command line that was typed in some directory, for another.
func again(t Typed, here string) string {
	line := quoted(t.Args)
	if t.Dir != "" && t.Dir != here {
		line = fmt.Sprintf("cd %s && %s", quoted([]string{t.Dir}), line)
	}
	return line
}

// quoted writes words such that a shell reads them as they are.
func quoted(words []string) string {
	list := make([]string, len(words))
	for i, word := range words {
		list[i] = word
		plain := func(r rune) bool {
			return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./=:@,+%", r)
		}
		if word == "" || strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
			list[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(list, " ")
}
