package gate

import (
	"bytes"
	"path/filepath"

	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// expected reads the list of what a release should contain. Where the policy names
// who has the role policy, the file must be signed in it; elsewhere it is the
// user's own, as a policy is.
func (g Gate) expected(path string) (list k8slayout.List, err error) {
	raw, err := store.ReadNamed(path, maxLateSize)
	if err == nil {
		list, err = k8slayout.ParseList(raw)
	}
	if err != nil || len(g.profile.Policy.Expected(policy.Officer)) == 0 {
		return list, verdict.InFile(path, err)
	}
	bundle, err := store.ReadNamed(path+signedpolicy.Suffix, verify.MaxBundle)
	if err != nil {
		return list, verdict.Refuse(verdict.Unsigned, path, "the policy names who signs such lists, and the signature cannot be read: %v", err)
	}
	e, err := g.verifier.Attestation(bundle)
	if err == nil {
		_, err = g.profile.Policy.Judge(e, policy.Ask{Role: policy.Officer, Kind: signedpolicy.PredicateType, Subject: path, Whole: true})
	}
	var want intoto.Statement
	if err == nil {
		want, err = list.Statement(filepath.Base(path), raw)
	}
	if err == nil && !bytes.Equal(e.Statement().Raw(), want.Raw()) {
		err = verdict.Refuse(verdict.PolicySig, path, "the signature is for a file with another name or content")
	}
	return list, err
}
