package pipeline

import (
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// actBegin is recorded in the journal before an act, with the command line.
const actBegin = "begin"

// actFailed is recorded after an act that failed, with its error code.
const actFailed = "failed"

// Typed is a command line, recorded so that it can be run again: the same
// flags, and the names of the same token files. It contains no secret.
type Typed struct {
	Args []string `json:"args,omitempty"`
	Dir  string   `json:"dir,omitempty"` // the working directory
	// Profile is the file that the command line names.
	Profile string `json:"profile,omitempty"`
}

// releaseState is what the next command depends on.
type releaseState struct {
	begun, given, sealed bool
	digest               digest.Digest // of the manifest that was sealed here
	source, run          string
	typed                Typed // by the run that ended without a result
	staged, released     manifestStage
	other                bool     // another run made the public release
	behind               bool     // a marker points to a lower version than the public one
	unsummarized         bool     // the last release was configured to make no summary
	withdrawn            []string // by lists of known defects, each with its reason
}

// advise chooses the next command. An interrupted command is simply repeated;
// otherwise it is the next step of the release.
func (s *Status) advise(p *job, t releaseState) {
	s.Safe = "every command: valid results are reused, and public files are never overwritten"
	newer := s.Public != NotPublic && t.sealed && t.released.Done == 0 // sealed here, and another one is public
	switch {
	case s.Busy:
		s.Safe = "this command; others are refused while another run is active (BUSY)"
		s.Next, s.Why = commandOn(p, "status"), "wait, then repeat this command: another run is using "+p.State
	case t.released.Down || t.staged.Down:
		s.Next, s.Why = commandOn(p, "status"), "repeat this command later: a place does not answer"
	case len(t.withdrawn) > 0:
		s.Next, s.Why = verifyCommand(p), "see what every user sees: "+strings.Join(t.withdrawn, "; ")+"; "+newVersion
		return
	case s.Public == Revoked:
		s.Next, s.Why = verifyCommand(p), "see what every user sees: the release was withdrawn; "+newVersion
		return
	case t.other:
		s.Next, s.Why = verifyCommand(p), "verify the public release, which is not the one in "+p.State+"; "+newVersion
		return
	case s.Broken != "" && len(t.typed.Args) > 0 && (s.Failed == "" || s.Failed.Outcome() == verdict.Unavailable):
		s.Next, s.Why = rerun(t.typed, p.Typed.Dir), "continue where "+s.Broken+" "+how(s.Failed)+"; fetch a new identity token first if yours has expired"
		return
	case newer && t.staged.Done == 0:
		s.Next, s.Why = commandOn(p, "promote", "--to", "staging", "--confirm"), "stage the revision that was sealed here; a different one is public"
	case newer:
		s.Next, s.Why = commandOn(p, "release", "--confirm"), "judge the staged revision and publish it; a different one is public"
	case s.Public == IsPublic && t.behind && t.staged.Done == 1:
		s.Next, s.Why = commandOn(p, "release", "--confirm"), "verify the public release and move the markers to it; nothing is copied again"
	case s.Public == IsPublic:
		s.Next, s.Why = verifyCommand(p), "verify the release as users will"
	case t.staged.Done == 1:
		s.Next, s.Why = commandOn(p, "release", "--confirm"), "judge the staged release and publish it"
	case t.sealed:
		s.Next, s.Why = commandOn(p, "promote", "--to", "staging", "--confirm"), "stage the sealed release"
	case t.given:
		s.Next, s.Why = commandOn(p, "doctor", "--for", "build"), "repeat the command waybill seal --from PLACE: nothing is sealed yet"
	case !t.begun:
		s.Next, s.Why = commandOn(p, "doctor"), "check what waybill stage needs: nothing was begun in "+p.State
	default:
		s.Next = commandOn(p, "stage", "--source", t.source)
		s.Why = "list the remaining steps; with --confirm and the tokens that it asks for, do them"
	}
	if s.Failed != "" {
		s.Why += fmt.Sprintf("; the last run: %s %s, so first: %s", s.Broken, how(s.Failed), s.Failed.Fix())
	}
}

// how says how an act ended.
func how(failed verdict.Code) string {
	if failed == "" {
		return "was interrupted"
	}
	return "failed with " + string(failed)
}

func commandOn(p *job, verb string, more ...string) string {
	program := "waybill"
	if len(p.Typed.Args) > 0 {
		program = p.Typed.Args[0]
	}
	args := append([]string{program, verb, p.Version.String(), "--profile", p.Typed.Profile, "--state", p.State}, more...)
	return render.Shell(args...)
}

// verifyCommand is how users verify the release.
func verifyCommand(p *job) string {
	return render.Shell("k8s-verify-release", p.Version.String(), "--profile", p.Typed.Profile)
}

// rerun is a command line, prefixed with cd if it was typed in another
// directory.
func rerun(t Typed, here string) string {
	line := render.Shell(t.Args...)
	if t.Dir != "" && t.Dir != here {
		line = fmt.Sprintf("cd %s && %s", render.Shell(t.Dir), line)
	}
	return line
}
