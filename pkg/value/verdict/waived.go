package verdict

import (
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Known is what a list of known defects says about a finding. It explains the
// finding; it does not set it aside.
type Known struct {
	ID          string `json:"id"`
	Explanation string `json:"explanation"`
	Source      string `json:"source"`
}

// The kinds of waiver: who set a finding aside.
const (
	// ByException: the policy's officer signed an exception.
	ByException = "exception"
	// ByDefect: the user accepted a known defect by its name.
	ByDefect = "known defect"
)

// Waiver is one finding that was set aside: it does not refuse, and it is
// never hidden.
type Waiver struct {
	Finding Finding `json:"finding"`
	Kind    string  `json:"kind"` // [ByException] or [ByDefect]
	// ID names the exception or the known defect.
	ID     string `json:"id"`
	Reason string `json:"reason"`
	// By is the identity that signed the exception or the list of defects.
	By      string    `json:"by"`
	Expires time.Time `json:"expires"`
	// Evidence is the bundle of what was signed.
	Evidence digest.Digest `json:"evidence,omitzero"`
}

// valid reports whether w sets its finding aside: it needs an id, a reason and a
// signer. Only refusals can be set aside; findings about unreachable services,
// malformed input and bugs cannot.
func (w Waiver) valid() bool {
	return w.Finding.Code.Outcome() == Refused &&
		(w.Kind == ByException || w.Kind == ByDefect) && w.ID != "" && w.Reason != "" && w.By != ""
}

// Warn records findings of checks for which the policy wants a warning. They do not
// prevent acceptance, but the verdict is not complete. A bug in Waybill is never
// only a warning.
func (v *Verdict) Warn(findings ...Finding) {
	for _, f := range findings {
		if f.Code.Outcome() == Internal {
			v.Add(f)
			continue
		}
		v.Warnings = append(v.Warnings, f)
	}
}

// SetAside calls waive for every finding, and moves those with a valid waiver to
// Waived. An artifact with all its findings set aside is excepted: it is not
// proven, and does not prevent acceptance. Only the subjects listed in artifacts
// can be excepted.
func (v *Verdict) SetAside(artifacts []string, waive func(Finding) (Waiver, bool)) {
	known := slice.Set(artifacts, func(name string) string { return name })
	all := v.Findings
	v.Findings, v.Counts.Missing, v.Counts.Extra = []Finding{}, 0, 0
	for _, f := range all {
		w, ok := waive(f)
		w.Finding = f
		if ok && w.valid() && known[f.Subject] {
			v.Waived = append(v.Waived, w)
			continue
		}
		v.Add(f)
	}
	v.Counts.Excepted = v.exceptedSubjects()
}

// exceptedSubjects counts the subjects whose findings are all set aside.
func (v Verdict) exceptedSubjects() int {
	standing := slice.Set(v.Findings, func(f Finding) string { return f.Subject })
	excepted := map[string]bool{}
	for _, w := range v.Waived {
		if s := w.Finding.Subject; w.valid() && !standing[s] {
			excepted[s] = true
		}
	}
	return len(excepted)
}

// excepted is the number of requirements that count as excepted: at most the
// number that the waivers in the verdict justify.
func (v Verdict) excepted() int {
	return max(0, min(v.Counts.Excepted, v.exceptedSubjects()))
}

// unwaived lists the findings that prevent acceptance: those not set aside, and
// those whose waiver is not valid.
func (v Verdict) unwaived() []Finding {
	all := slices.Clone(v.Findings)
	for _, w := range v.Waived {
		if !w.valid() {
			all = append(all, w.Finding)
		}
	}
	return all
}
