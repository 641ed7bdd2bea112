package gate

import (
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PlacedFile is a file in a remote place, with the digests of its bytes and the
// bundle beside it. Its name comes from a reviewed list, so evidence is bound
// by digest.
type PlacedFile struct {
	Name    string
	Class   plan.Class
	Digests digest.Set
	Bundle  []byte // empty if there is none
}

// Placed decides about a file in a remote place. Without evidence it is
// refused, whatever the policy requires of its class.
func (r PolicyRequest) Placed(f PlacedFile) *verdict.Verdict {
	j := r.begin(string(f.Class)+" "+f.Name, "", f.Class)
	j.addCounted(r.collectPlaced(f), "")
	return j.endCounted()
}

func (r PolicyRequest) collectPlaced(file PlacedFile) (f facts) {
	i := item{question: r.question(file.Class, file.Name, file.Digests)}
	f.addInputs(verdict.Input{Name: file.Name, Digest: file.Digests.SHA256})
	e, err := r.readBeside(file)
	if err == nil {
		f.addInputs(verdict.Input{Name: file.Name + BundleSuffix, Digest: e.Bundle()})
		i.question.ByDigest = !e.Statement().IsZero() // a plain signature gives no name
	}
	i.evidence, i.err = []verify.Evidence{e}, err
	f.items = []item{i}
	return f
}

// readBeside verifies the bundle beside the file.
func (r PolicyRequest) readBeside(f PlacedFile) (verify.Evidence, error) {
	if len(f.Bundle) == 0 {
		return verify.Evidence{}, verdict.Refuse(verdict.EvidenceMissing, f.Name, "no bundle is beside the file, so it is unsigned")
	}
	e, err := r.verify(f.Bundle, f.Digests)
	if err == nil && !e.Statement().IsZero() && !e.CoversBytes(f.Digests.SHA256) {
		err = verdict.Refuse(verdict.NotBound, f.Name, "the attestation beside the file is valid, but for other bytes; its subjects: %s", subjects(e))
	}
	return e, err
}
