package verdict

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Known is what a list of known defects says of a finding. It explains why the
// finding is there; it never excuses it.
type Known struct {
	ID          string `json:"id"`
	Explanation string `json:"explanation"`
	Source      string `json:"source"`
}

// WaiverKind says by whose word a finding was set aside.
type WaiverKind string

// The kinds of waiver.
const (
	// ByException: the policy's officer signed an exception.
	ByException WaiverKind = "exception"
	// ByDefect: the user accepted a known defect by its name.
	ByDefect WaiverKind = "known defect"
)

// Waiver is one finding that was set aside: it does not refuse, and it is
// never hidden.
type Waiver struct {
	Finding Finding    `json:"finding"`
	Kind    WaiverKind `json:"kind"`
	// ID names the exception or the known defect.
	ID     string `json:"id"`
	Reason string `json:"reason"`
	// By is the identity that signed the exception or the list of defects.
	By      string    `json:"by"`
	Expires time.Time `json:"expires"`
	// Evidence is the bundle of what was signed.
	Evidence digest.Digest `json:"evidence,omitzero"`
}

// holds reports whether w sets its finding aside: it says what, why and by
// whom, and nothing but a refusal is ever set aside. What could not be
// reached, could not be read or is our own fault stands.
func (w Waiver) holds() bool {
	return w.Finding.Code.Outcome() == Refused &&
		(w.Kind == ByException || w.Kind == ByDefect) && w.ID != "" && w.Reason != "" && w.By != ""
}

// Warn records findings of checks that the policy asks to be warned about.
// They do not stand against acceptance, but what they warn of is not complete.
// A bug in us is never only a warning.
func (v *Verdict) Warn(findings ...Finding) {
	for _, f := range findings {
		if f.Code.Outcome() == Internal {
			v.Add(f)
			continue
		}
		v.Warnings = append(v.Warnings, f)
	}
}

// SetAside asks waive about every finding, and moves those for which it gives
// a waiver that holds. An artifact all of whose findings are set aside is
// excepted: not proven, and not held against acceptance. Only subjects that
// artifacts names can be excepted.
func (v *Verdict) SetAside(artifacts []string, waive func(Finding) (Waiver, bool)) {
	known := make(map[string]bool, len(artifacts))
	for _, name := range artifacts {
		known[name] = true
	}
	all := v.Findings
	v.Findings, v.Counts.Missing, v.Counts.Extra = []Finding{}, 0, 0
	for _, f := range all {
		w, ok := waive(f)
		w.Finding = f
		if ok && w.holds() && known[f.Subject] {
			v.Waived = append(v.Waived, w)
			continue
		}
		v.Add(f)
	}
	v.Counts.Excepted = v.exceptedSubjects()
}

// exceptedSubjects is how many subjects have findings, all of which are set
// aside.
func (v Verdict) exceptedSubjects() int {
	standing := make(map[string]bool, len(v.Findings))
	for _, f := range v.Findings {
		standing[f.Subject] = true
	}
	excepted := map[string]bool{}
	for _, w := range v.Waived {
		if s := w.Finding.Subject; w.holds() && !standing[s] {
			excepted[s] = true
		}
	}
	return len(excepted)
}

// excepted is how many requirements count as excepted: never more than the
// waivers that the verdict shows.
func (v Verdict) excepted() int {
	return max(0, min(v.Counts.Excepted, v.exceptedSubjects()))
}

// standing lists the findings that stand against acceptance: all of them, and
// those set aside by what cannot set them aside.
func (v Verdict) standing() []Finding {
	all := slices.Clone(v.Findings)
	for _, w := range v.Waived {
		if !w.holds() {
			all = append(all, w.Finding)
		}
	}
	return all
}

// qualms says in a few words what an accepting verdict set aside, warns of and
// left out; none for a complete one.
func (v Verdict) qualms() []string {
	var words []string
	for _, kind := range []struct {
		kind      WaiverKind
		one, many string
	}{{ByException, "exception", "exceptions"}, {ByDefect, "accepted defect", "accepted defects"}} {
		var findings []Finding
		for _, w := range v.Waived {
			if w.Kind == kind.kind {
				findings = append(findings, w.Finding)
			}
		}
		if len(findings) > 0 {
			words = append(words, "with "+several(findings, kind.one, kind.many))
		}
	}
	if len(v.Warnings) > 0 {
		words = append(words, "with "+several(v.Warnings, "warning", "warnings"))
	}
	if len(v.Scope.Left) > 0 {
		words = append(words, "partial: without "+strings.Join(v.Scope.Left, ", "))
	}
	return words
}

// named is how many findings a headline names one by one.
const named = 3

// several counts findings and names them: few with their subjects, many by
// code.
func several(findings []Finding, one, many string) string {
	if len(findings) > named {
		return fmt.Sprintf("%d %s: %s", len(findings), many, reasons(findings))
	}
	words := make([]string, len(findings))
	for i, f := range findings {
		words[i] = fmt.Sprintf("%s of %s", f.Code, f.Subject)
	}
	if len(findings) > 1 {
		one = many
	}
	return fmt.Sprintf("%d %s: %s", len(findings), one, strings.Join(words, ", "))
}
