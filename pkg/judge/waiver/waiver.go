// Package waiver decides which findings of a verdict are known, which are
// waived, and which releases are withdrawn.
//
// An [Exception] is made from verified evidence that the policy's officer
// signed. So is a [List] of known defects, or it is embedded in the program; an
// unsigned list only explains findings. [Apply] applies them to a verdict:
//
//	x, err := waiver.ParseException(evidence, p)
//	l, err := waiver.ParseList(evidence, p)
//	waiver.Apply(v, waiver.Case{Policy: p, Version: version, Subjects: …, Lists: []waiver.List{l},
//		Accept: []string{"late-signatures"}, Exceptions: []waiver.Exception{x}})
//
// One table lists the codes that can be waived: see [Exceptable]. A waiver
// never makes a verdict complete, and is never silent: the verdict lists each
// waiver, and for each exception or accepted defect without effect a note with
// the reason.
//
// Specifications: attestations/exception/v1, attestations/known-defects/v1.
package waiver

import (
	"fmt"
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Subject is an artifact that the verdict is about: only its findings can be
// excepted.
type Subject struct {
	Name    string
	Digests digest.Set
	// Destination is the canonical address of the place that it is published
	// to.
	Destination string
}

// Case is the subject of a verdict, and the lists and exceptions for its
// findings.
type Case struct {
	Policy policy.Policy
	// Version is that of the release; zero if the verdict is not about a
	// release.
	Version  version.Version
	Subjects []Subject
	Lists    []List
	// Accept names the known defects that the user accepts.
	Accept     []string
	Exceptions []Exception
}

// Apply explains the known findings of v, waives those that a valid exception
// or an accepted defect covers, and adds withdrawals. Call it once, after
// everything else has been found and counted.
func Apply(v *verdict.Verdict, c Case) {
	w := &work{Case: c, v: v, used: map[string]bool{}, at: make(map[string]int, len(c.Subjects))}
	for i, s := range c.Subjects {
		w.at[s.Name] = i
	}
	w.Exceptions = slices.Clone(c.Exceptions)
	order.Sort(w.Exceptions, func(a, b Exception) int { return slices.Compare(a.bundle.Bytes(), b.bundle.Bytes()) })
	w.by = map[about][]Exception{}
	for _, x := range w.Exceptions {
		key := about{x.said.Code, x.said.Artifact.Name}
		w.by[key] = append(w.by[key], x)
	}
	w.choose()
	w.withdraw()
	w.explain(v.Findings)
	w.explain(v.Warnings)
	v.SetAside(slices.Collect(maps.Keys(w.at)), w.waive)
	w.tellExceptions()
	w.tellAccepted()
}

// work is the application to one verdict.
type work struct {
	Case
	v    *verdict.Verdict
	used map[string]bool // exceptions and defects that had an effect, by ID
	at   map[string]int  // index of each artifact among the subjects
	by   map[about][]Exception
}

// about is the finding that an exception is for.
type about struct {
	code verdict.Code
	name string
}

func (w *work) find(name string) (Subject, bool) {
	i, there := w.at[name]
	if !there {
		return Subject{}, false
	}
	return w.Subjects[i], true
}

// waive returns the waiver for a finding: first by an exception, which names
// the very artifact, then by a defect that the user accepted.
func (w *work) waive(f verdict.Finding) (verdict.Waiver, bool) {
	if _, may := Exceptable(f.Code); !may {
		return verdict.Waiver{}, false
	}
	for _, x := range w.by[about{f.Code, f.Subject}] {
		if w.covers(x, f) == "" {
			if !w.used[x.ID()] {
				w.v.Proofs = append(w.v.Proofs, x.proof)
			}
			w.used[x.ID()] = true
			return x.waiver(), true
		}
	}
	for _, l := range w.Lists {
		for _, d := range l.said.Defects {
			if slices.Contains(w.Accept, d.ID) && w.explains(d, f) && w.idle(l) == "" {
				w.used[d.ID] = true
				return l.waiver(d), true
			}
		}
	}
	return verdict.Waiver{}, false
}

// tellExceptions adds a note for every exception without effect.
func (w *work) tellExceptions() {
	for _, x := range w.Exceptions {
		if !w.used[x.ID()] {
			w.v.Tell("The exception %s of %s is not used: %s.", x.ID(), x.said.Artifact.Name, w.unused(x))
		}
	}
}

// unused is why an exception covered nothing: what is wrong with itself, or
// with the finding that it comes nearest to.
func (w *work) unused(x Exception) string {
	if reason := w.invalid(x); reason != "" {
		return reason
	}
	same := func(f verdict.Finding) bool { return f.Code == x.said.Code && f.Subject == x.said.Artifact.Name }
	if i := slices.IndexFunc(w.v.Findings, same); i >= 0 {
		return w.covers(x, w.v.Findings[i])
	}
	return fmt.Sprintf("the verdict has no finding %s of %s", x.said.Code, x.said.Artifact.Name)
}

// tellAccepted explains, for every accepted defect that covered no finding, why; a
// defect that is in no list is wrong use.
func (w *work) tellAccepted() {
	for _, id := range w.Accept {
		if w.used[id] {
			continue
		}
		why := ""
		for _, l := range w.Lists {
			for _, d := range l.said.Defects {
				if d.ID == id && why == "" {
					why = w.idleDefect(l, d.Code)
				}
			}
		}
		if why == "" {
			w.v.Add(verdict.Find(verdict.Usage, "--accept-defect", "no list of known defects has %q", id))
			continue
		}
		w.v.Tell("The known defect %s was accepted, but waives nothing: %s.", id, why)
	}
}

// idleDefect is why an accepted defect covered nothing.
func (w *work) idleDefect(l List, code verdict.Code) string {
	if _, may := Exceptable(code); !may {
		return fmt.Sprintf("%s cannot be waived", code)
	}
	if why := w.idle(l); why != "" {
		return why
	}
	return "the defect explains no finding of this verdict"
}

// exceptable lists the codes that can be waived, with the reason. The rule:
// what is absent, or less than required, can be accepted for a while if
// somebody takes responsibility. What is present and wrong cannot, and what is
// unavailable or unreadable is not yet known. A code that is not in this table,
// including every new one, is never waived.
//
// Left out on purpose, though they sound harmless:
//
//   - BUILD_TYPE, PARAM_UNKNOWN, PARAM_VALUE and SBOM_INCOMPLETE: checks of
//     evidence stop at the first failure, so waiving one of these would skip
//     the checks after it. Change the policy instead;
//   - MISSING and EVIDENCE_MISSING: something that was sealed is gone;
//   - SBOM_SUBJECT: the SBOM is present, but describes other bytes;
//   - EXPIRED, STALE and VSA_STALE: a replayed old release looks the same;
//   - POLICY_RULE: all rules of a policy share it, so one exception would waive
//     every rule;
//   - IDENTITY_WINDOW, RUNNER and TRIGGER: they are about the signer.
var exceptable = map[verdict.Code]string{
	verdict.NoSBOM:       "only the list of contents is absent; the manifest still binds the bytes",
	verdict.NoProvenance: "no builder says how it was built; the release identity takes responsibility for the bytes",
	verdict.Unsigned:     "the artifact's own signature is absent; the signed manifest lists its bytes",
	verdict.TagConflict:  "a promoter found the tag on another image; the policy officer takes responsibility for moving it to this one only",
	verdict.Regressed:    "verified, but of fewer kinds or by another signer than in the release before; all that the policy requires is still checked",
	verdict.Level:        "the provenance is authentic and as expected, but shows a lower level; this check is the last",
}

// Exceptable says why a code can be waived, and whether it can at all.
func Exceptable(c verdict.Code) (why string, may bool) {
	why, may = exceptable[c]
	return why, may && c.Outcome() == verdict.Refused
}

// Codes lists the codes that can be waived, for documentation and help.
func Codes() []verdict.Code { return slices.Sorted(maps.Keys(exceptable)) }

// checkCode refuses a code that can never be waived.
func checkCode(c verdict.Code) error {
	if _, may := Exceptable(c); !may {
		return verdict.Refuse("NEVER_EXCEPTED", string(c), "findings of this code cannot be waived; codes that can: %v", Codes())
	}
	return nil
}
