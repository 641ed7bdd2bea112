package gate

import (
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PlacedFile is a file that lies somewhere else than on this machine, with the
// digests of its bytes, and the bundle beside it. A list that people reviewed
// gives it its name, so the digest is what evidence must be of.
type PlacedFile struct {
	Name    string
	Class   plan.Class
	Digests digest.Set
	Bundle  []byte // empty if there is none
}

// Placed decides about such a file. Without evidence it is refused, whatever
// the policy asks of its class.
func (r PolicyRequest) Placed(f PlacedFile) *verdict.Verdict {
	j := r.begin(string(f.Class)+" "+f.Name, "", f.Class)
	j.takeCounted(r.collectPlaced(f), "")
	return j.endCounted()
}

func (r PolicyRequest) collectPlaced(file PlacedFile) (f facts) {
	i := item{question: r.question(file.Class, file.Name, file.Digests)}
	f.read(verdict.Input{Name: file.Name, Digest: file.Digests.SHA256})
	e, err := r.readBeside(file)
	if err == nil {
		f.read(verdict.Input{Name: file.Name + BundleSuffix, Digest: e.Bundle()})
		i.question.ByDigest = !e.Statement().IsZero() // a plain signature gives no name to begin with
	}
	i.evidence, i.err = []verify.Evidence{e}, err
	f.items = []item{i}
	return f
}

// readBeside verifies the bundle of such a file.
func (r PolicyRequest) readBeside(f PlacedFile) (verify.Evidence, error) {
	if len(f.Bundle) == 0 {
		return verify.Evidence{}, verdict.Refuse(verdict.EvidenceMissing, f.Name, "nothing beside it says who made or signed it")
	}
	e, err := r.verify(f.Bundle, f.Digests)
	if err == nil && !e.Statement().IsZero() && !e.CoversBytes(f.Digests.SHA256) {
		err = verdict.Refuse(verdict.NotBound, f.Name, "the attestation beside it is genuine, and not of these bytes; its subjects: %s", subjects(e))
	}
	return e, err
}
