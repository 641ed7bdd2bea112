package gate

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// facts are what one step of a collector found out. A step returns them as a
// value and the judge takes them; a step neither sees nor changes what another
// one found, unless that is an argument of it.
type facts struct {
	differences []difference
	items       []item
	counted     []counted       // besides the artifacts, such as a sign-off
	spoiled     []string        // names that are part of something that has a finding
	proofs      []verdict.Proof // of what is no item, such as the manifest
	inputs      []verdict.Input
	levels      []verdict.Levels
	least       *verdict.Least
	checks      []string // what was looked at
	digests     []digest.Algorithm
	notes       []string
	left        []string // what was not asked, or could not be found out
}

// difference is something that is not as a signed document or the policy wants
// it.
type difference struct {
	verdict.Finding
	// mode is how much it counts. It is dropped where that is [policy.Off].
	mode policy.Mode
	// follows names what it may be a mere consequence of: it is dropped where that
	// has a finding already.
	follows string
}

// item is one thing that is judged by itself: a file, an image, one platform of
// an image.
type item struct {
	question policy.Question // what it is, and why evidence of it is missing
	evidence []verify.Evidence
	// answer is what the rule says of it, where the collector had to know that
	// before it went on. The judge asks the rule about all others.
	answer *verdict.Verdict
	// invalid is why other evidence about it does not hold.
	invalid []error
	// chosen says that the caller named this very evidence. Evidence that was
	// merely found may say something else; then what was asked is missing.
	chosen bool
	// err is why nothing is known of it. It is not judged then, and not accepted.
	err error
	// follows says that the answer about another item is about this one, too.
	follows bool
	// differences were found when the item was compared with other documents.
	// They count for nothing where the item is not judged.
	differences []difference
	// reported is the code of a finding that was reported of what the evidence
	// is, and is not repeated for each item that rests on it.
	reported verdict.Code
}

// refuse adds a difference that stands against acceptance.
func (f *facts) refuse(found ...verdict.Finding) { f.weigh(policy.Require, found...) }

// weigh adds differences that count as much as their check does.
func (f *facts) weigh(mode policy.Mode, found ...verdict.Finding) {
	for _, one := range found {
		f.differences = append(f.differences, difference{Finding: one, mode: mode})
	}
}

// follow adds a difference that is only reported where nothing was found about an
// artifact already.
func (f *facts) follow(artifact string, mode policy.Mode, found verdict.Finding) {
	f.differences = append(f.differences, difference{Finding: found, mode: mode, follows: artifact})
}

// fail adds an error about a subject, if there is one. It counts against the
// subject also where the finding names a part of it.
func (f *facts) fail(subject string, err error) {
	if err != nil {
		f.refuse(verdict.FindingOf(subject, err))
		f.spoiled = append(f.spoiled, subject)
	}
}

// unknown adds an item of which nothing is known.
func (f *facts) unknown(subject string, err error) {
	f.items = append(f.items, item{question: policy.Question{Subject: subject}, err: err})
}

// prove adds proofs of what is no item.
func (f *facts) prove(proofs ...verdict.Proof) { f.proofs = append(f.proofs, proofs...) }

// read adds documents and places that the answer rests on.
func (f *facts) read(inputs ...verdict.Input) { f.inputs = append(f.inputs, inputs...) }

// note adds something worth reading.
func (f *facts) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// leave adds what the answer does not cover.
func (f *facts) leave(what ...string) { f.left = append(f.left, what...) }
