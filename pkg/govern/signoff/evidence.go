package signoff

import (
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Evidence is the kind of proof of a box of a checklist.
type Evidence string

// The kinds of evidence. A tick alone is only a claim.
const (
	ByMachine Evidence = "machine" // proven by a check, ticked or not
	Claimed   Evidence = "claimed" // ticked, not proven
	ByNobody  Evidence = "none"    // neither ticked nor proven
)

// Box is an item of a checklist with its evidence.
type Box struct {
	Item
	Evidence Evidence
	// Proof describes what a check found.
	Proof string
	// By is who ticked it, if known: see [Report.Attribute].
	By string
}

// provable is an item that a check can prove, identified by words in its text.
type provable struct {
	words string
	prove func(*judging) (proof string, holds, known bool)
}

// proofs lists the provable items, the longest words first.
func proofs() []provable {
	filled := func(titles ...string) func(*judging) (string, bool, bool) {
		return func(j *judging) (string, bool, bool) {
			for _, t := range titles {
				if s := j.d.judge(t, j.Template); s.State != Filled {
					return fmt.Sprintf("the section %s is %s", quoted(t), s.State), false, true
				}
			}
			return "the section " + strings.Join(titles, ", ") + " is filled", true, true
		}
	}
	return []provable{
		{"production readiness review completed", (*judging).questionnaire},
		{"production readiness review approved", func(j *judging) (string, bool, bool) {
			if !j.k.needsReview() {
				return "", false, false
			}
			return either(j.reviewed, "production readiness is approved at "+string(j.at), "production readiness is not approved at "+string(j.at)), j.reviewed, true
		}},
		{"approvers have approved the kep status", func(j *judging) (string, bool, bool) {
			if !j.Record.approves || !j.said {
				return "", false, false
			}
			return either(j.approved, "each approver approved the current README.md and kep.yaml", "not every approver approved the current README.md and kep.yaml"), j.approved, true
		}},
		{"implementation history", filled("Implementation History")},
		{"graduation criteria is in place", filled("Graduation Criteria")},
		{"design details are appropriately documented", filled("Design Details")},
		{"test plan is in place", filled("Test Plan")},
	}
}

func either(holds bool, yes, no string) string {
	if holds {
		return yes
	}
	return no
}

// questionnaire checks that the production-readiness questionnaire is answered as far as
// the stage requires.
func (j *judging) questionnaire() (string, bool, bool) {
	t := j.Template
	of, there := t.find("Production Readiness Review Questionnaire")
	if !there {
		return "", false, false
	}
	n := 0
	for _, r := range t.required(j.at) {
		if r.from < of.from || r.from > of.end {
			continue
		}
		if s := j.d.judge(r.Title, t); s.State != Filled {
			return fmt.Sprintf("the section %s is %s", quoted(r.Title), s.State), false, true
		}
		n++
	}
	return fmt.Sprintf("all %d sections of the questionnaire that %s requires are filled", n, j.at), n > 0, n > 0
}

// boxes determines the evidence of every box, and finds false ticks.
func (j *judging) boxes() []Box {
	if j.d == nil {
		return nil
	}
	list, err := j.d.Checklist()
	if err != nil {
		j.findings = append(j.findings, at(j.readme(), err))
		return nil
	}
	if len(list.Items) == 0 {
		j.warn(verdict.SignoffChecklist, j.readme(), "no sign-off checklist")
	}
	open, all := 0, 0
	boxes := make([]Box, len(list.Items))
	for i, it := range list.Items {
		b := Box{Item: it, Evidence: ByNobody}
		if it.Ticked {
			b.Evidence = Claimed
		}
		j.prove(&b)
		if it.Required {
			if all++; b.Evidence == ByNobody {
				open++
			}
		}
		boxes[i] = b
	}
	if open > 0 {
		j.warn(verdict.SignoffChecklist, j.readme(), "%d of %d items marked (R) are neither ticked nor proven", open, all)
		j.warnings[len(j.warnings)-1].Fix = "tick each item when it is done; the milestone may be targeted when all are"
	}
	return boxes
}

// prove checks one item.
func (j *judging) prove(b *Box) {
	words := key(b.Text)
	for _, p := range proofs() {
		if !strings.Contains(words, key(p.words)) {
			continue
		}
		proof, holds, known := p.prove(j)
		switch {
		case !known:
		case holds:
			b.Evidence, b.Proof = ByMachine, proof
		case b.Ticked:
			b.Evidence = ByNobody
			j.find(verdict.SignoffChecklist, j.readme(), "line %d is ticked, but that is false: %s", b.Line, proof)
		}
		return
	}
}
