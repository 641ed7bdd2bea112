package waiver

import (
	"fmt"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// issueTolerance is the largest difference between the proven time of the
// signature and the issue time that an exception states. Exceptions cannot be
// pre-dated or post-dated.
const issueTolerance = time.Hour

// Exception is an exception that the policy's officer signed. The zero
// Exception covers nothing.
type Exception struct {
	said   exception.Exception
	bundle digest.Digest
	by     string
	proof  verdict.Proof
}

// NewException makes the statement of an exception, to be signed. It refuses an
// exception that could never be used.
func NewException(artifact intoto.Subject, p exception.Predicate) (intoto.Statement, error) {
	if err := checkCode(p.Code); err != nil {
		return intoto.Statement{}, err
	}
	return exception.New(artifact, p)
}

// ParseException reads an exception from verified evidence. It must be signed
// by the policy's officer, at the time that it states, and for a code that can
// be waived.
func ParseException(e verify.Evidence, p policy.Policy) (Exception, error) {
	proof, err := p.Judge(e, policy.Ask{Role: policy.Officer, Kind: exception.PredicateType, Subject: "exception", Whole: true})
	if err != nil {
		return Exception{}, err
	}
	said, err := exception.Parse(e.Statement())
	if err != nil {
		return Exception{}, err
	}
	if err := checkCode(said.Code); err != nil {
		return Exception{}, err
	}
	if apart := e.SignedAt().Sub(said.Issued).Abs(); apart > issueTolerance {
		f := verdict.Find(verdict.StatementParse, "exception", "the exception was not signed at its stated issue time")
		return Exception{}, &verdict.Error{Finding: f.Differ(said.Issued.Format(time.RFC3339), e.SignedAt().Format(time.RFC3339)).Citing(e.Bundle())}
	}
	proof.Subject = said.Artifact.Name
	return Exception{said: said, bundle: e.Bundle(), by: policy.Who(e).String(), proof: proof}, nil
}

// ID identifies the exception by its bundle.
func (x Exception) ID() string { return x.bundle.String() }

// Proof is what was proven about the exception, and its signer.
func (x Exception) Proof() verdict.Proof { return x.proof }

// String summarizes the exception in one line.
func (x Exception) String() string {
	return fmt.Sprintf("%s of %s at %s until %s: %s", x.said.Code, x.said.Artifact.Name, x.said.Destination, x.said.Expires.Format(time.RFC3339), x.said.Reason)
}

func (x Exception) waiver() verdict.Waiver {
	return verdict.Waiver{
		Kind: verdict.ByException, ID: x.ID(), Reason: x.said.Reason, By: x.by, Expires: x.said.Expires, Evidence: x.bundle,
	}
}

// covers says why an exception does not cover a finding; "" if it does.
func (w *work) covers(x Exception, f verdict.Finding) string {
	if reason := w.invalid(x); reason != "" {
		return reason
	}
	s, there := w.find(f.Subject)
	switch {
	case x.said.Code != f.Code || x.said.Artifact.Name != f.Subject:
		return fmt.Sprintf("the exception is for %s of %s", x.said.Code, x.said.Artifact.Name)
	case !there:
		return "the finding is not about an artifact of the release"
	case !x.said.Artifact.Binds(s.Digests):
		return fmt.Sprintf("the exception is for other bytes: %s, not %s", x.said.Artifact.Digests.SHA256, s.Digests.SHA256)
	case s.Destination == "" || x.said.Destination != s.Destination:
		return fmt.Sprintf("the exception is for the destination %q, not %q", x.said.Destination, s.Destination)
	}
	return ""
}

// invalid says why an exception covers nothing in this verdict; "" if it is
// valid.
func (w *work) invalid(x Exception) string {
	switch at := w.v.Time; {
	case x.bundle.IsZero():
		return "the exception is unsigned"
	case at.Before(x.said.Issued):
		return "the exception is not valid before " + x.said.Issued.Format(time.RFC3339)
	case !at.Before(x.said.Expires):
		return "the exception expired at " + x.said.Expires.Format(time.RFC3339)
	case !x.said.Policy.Equal(w.Policy.Digest()):
		return fmt.Sprintf("the exception is for the policy %s, but this is %s", x.said.Policy, w.Policy.Digest())
	}
	return ""
}
