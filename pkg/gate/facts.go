package gate

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// facts are the results of one step of a collector. A step returns them as a
// value and the judge takes them. A step neither sees nor changes the facts of
// another step, except through its arguments.
type facts struct {
	differences []difference
	items       []item
	counted     []counted       // items other than artifacts, such as a sign-off
	spoiled     []string        // names with a finding about one of their parts
	proofs      []verdict.Proof // proofs that belong to no item, such as that of the manifest
	inputs      []verdict.Input
	levels      []verdict.Levels
	vex         []verdict.VEX
	vexFiles    []vexDocument // late evidence among the files
	least       *verdict.Least
	checks      []string // names of the checks that were made
	digests     []digest.Algorithm
	told        []string // sentences for every reader
	notes       []string
	left        []string // what was not checked, or could not be found out
	notRequired []string // of what was not checked, what the policy does not require
}

// difference is a deviation from a signed document or from the policy.
type difference struct {
	verdict.Finding
	// mode is how strict the finding is. [policy.Off] drops it.
	mode policy.Mode
	// follows is the subject whose findings may have caused this one: if that
	// subject has a finding already, this one is dropped.
	follows string
}

// item is one thing to judge: a file, an image, or one platform of an image.
type item struct {
	question policy.Question // what it is, and why evidence is missing
	sha384   []byte          // of a file whose evidence names such a digest
	evidence []verify.Evidence
	// answer is the answer of the rule, if the collector needed it. The judge
	// asks the rule about all other items.
	answer *verdict.Verdict
	// attached are the statements that refer to an image of a release without a
	// manifest; nil if they were not read.
	attached []verify.Evidence
	// invalid are the errors of invalid evidence.
	invalid []error
	// chosen says that the caller named this evidence. Evidence that was merely
	// found may have another type, and then the requested one is missing.
	chosen bool
	// err is why the item could not be read. It is then refused unjudged.
	err error
	// follows says that the answer about another item covers this one.
	follows bool
	// differences were found by comparing the item with other documents. They
	// are dropped if the item is not judged.
	differences []difference
	// reported is the code of a finding about the evidence itself that is
	// already reported, and not repeated for each item that uses the evidence.
	reported verdict.Code
}

// refuse adds findings that refuse the release.
func (f *facts) refuse(found ...verdict.Finding) { f.weigh(policy.Require, found...) }

// weigh adds findings as strict as their check.
func (f *facts) weigh(mode policy.Mode, found ...verdict.Finding) {
	for _, one := range found {
		f.differences = append(f.differences, difference{Finding: one, mode: mode})
	}
}

// follow adds a finding that is dropped if the artifact has one already.
func (f *facts) follow(artifact string, mode policy.Mode, found verdict.Finding) {
	f.differences = append(f.differences, difference{Finding: found, mode: mode, follows: artifact})
}

// fail adds an error about a subject, if there is one. The subject counts as
// bad even if the finding names a part of it.
func (f *facts) fail(subject string, err error) {
	if err != nil {
		f.refuse(verdict.FindingOf(subject, err))
		f.spoiled = append(f.spoiled, subject)
	}
}

// unknown adds an item that could not be read.
func (f *facts) unknown(subject string, err error) {
	f.items = append(f.items, item{question: policy.Question{Subject: subject}, err: err})
}

// prove adds proofs that belong to no item.
func (f *facts) prove(proofs ...verdict.Proof) { f.proofs = append(f.proofs, proofs...) }

// addInputs adds documents and places that the answer is based on.
func (f *facts) addInputs(inputs ...verdict.Input) { f.inputs = append(f.inputs, inputs...) }

func (f *facts) note(format string, args ...any) {
	f.notes = append(f.notes, fmt.Sprintf(format, args...))
}

// tell adds a sentence that every reader should see.
func (f *facts) tell(format string, args ...any) {
	f.told = append(f.told, fmt.Sprintf(format, args...))
}

// leave adds something that the answer does not cover.
func (f *facts) leave(what ...string) { f.left = append(f.left, what...) }

// leaveUnrequired adds checks that the policy does not require.
func (f *facts) leaveUnrequired(lacks ...string) {
	f.leave(lacks...)
	f.notRequired = append(f.notRequired, lacks...)
}
