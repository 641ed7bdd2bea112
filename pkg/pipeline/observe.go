package pipeline

import (
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TokenObserver is the token name of the identity that signs what it observed of
// builds.
const TokenObserver = "observer"

// DraftObserved drafts what an observer says of a build: the statement of a
// [buildrecord.Record].
func (o Officer) DraftObserved(s intoto.Statement) (Draft, error) {
	claim, err := provenance.Read(s)
	if err == nil {
		err = o.Profile.Policy.NewSession().AllowsSource(claim.Source.Repository)
	}
	return Draft{Statement: s, role: policy.Builder, accept: func(e verify.Evidence) (verdict.Proof, error) {
		if _, err := policy.States(o.Profile.Policy, e); err != nil {
			return verdict.Proof{}, err
		}
		first := s.Subjects()[0]
		return o.Profile.Policy.Judge(e, policy.Ask{Role: policy.Builder, Kind: e.Kind(), Subject: first.Name, Bytes: first.Digests})
	}}, err
}
