package lineage

import (
	"encoding/hex"
	"fmt"
	"strings"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Believed says whose evidence is trusted. The zero value trusts none: all
// evidence is a hint.
type Believed struct {
	// Verifier verifies signatures; nil verifies none.
	Verifier *verify.Verifier
	// Policy says which role may sign what, and which builds provenance may
	// describe; nil accepts any valid signature.
	Policy *policy.Policy
}

// unasked says why evidence is a hint if there is no verifier.
const unasked = "its signature was not verified"

type markedBundle struct {
	Signer
	said intoto.Statement // zero for a plain signature
	evid verify.Evidence  // zero if not verified
	of   digest.Digest    // the digest that a plain signature is for, by its own account
}

// readBundle reads a bundle, and verifies it if there is a verifier. Invalid evidence
// is an error; evidence by a signer who may not sign it is a hint.
func (b Believed) readBundle(raw []byte) (markedBundle, error) {
	said, err := verify.Read(raw)
	if err != nil {
		return markedBundle{}, err
	}
	if b.Verifier == nil {
		return unproven(said, raw)
	}
	var h markedBundle
	if said.IsAttestation() {
		h.evid, err = b.Verifier.Attestation(raw)
		h.said = h.evid.Statement()
	} else {
		if h.of, err = signedDigest(said); err != nil {
			return markedBundle{}, err
		}
		set := digest.Set{SHA256: h.of}
		if h.of.Algorithm() == digest.SHA512 {
			set = digest.Set{SHA512: h.of}
		}
		h.evid, err = b.Verifier.Blob(raw, set)
	}
	if err != nil {
		return markedBundle{}, err
	}
	e := h.evid
	h.Signer = Signer{
		Mark: Verified, By: e.Identity().Subject, SignedAt: e.SignedAt(), Entry: &Entry{e.Log(), e.LogIndex()}, Evidence: e.Bundle(),
	}
	if !e.Key().IsZero() {
		h.By = "key " + e.Key().String()
	}
	b.judge(&h)
	return h, nil
}

// judge asks the policy whether the signer may sign this, as the verification
// of a release does. Evidence that the policy would refuse is a hint.
func (b Believed) judge(h *markedBundle) {
	if b.Policy == nil {
		return
	}
	role, err := policy.States(*b.Policy, h.evid)
	if h.Role = string(role); err != nil {
		h.Mark, h.Why = Hint, why(err)
	}
}

// why prints a refusal on one line.
func why(err error) string {
	f := verdict.FindingOf("", err)
	return fmt.Sprintf("%s (%s)", f.Message, f.Code)
}

// unproven reads a bundle without verifying it.
func unproven(said verify.Said, raw []byte) (h markedBundle, err error) {
	h.Signer = Signer{Mark: Hint, Why: unasked, Evidence: digest.Of(digest.SHA256, raw)}
	if len(said.Certificates) > 0 {
		if who, err := verify.CertificateIdentity(said.Certificates[0]); err == nil {
			h.By = who.Subject
		}
	}
	if len(said.Entries) > 0 {
		e := said.Entries[0]
		h.Entry, h.SignedAt = &Entry{hex.EncodeToString(e.LogID), e.LogIndex}, e.Integrated
	}
	if !said.IsAttestation() {
		h.of, err = signedDigest(said)
		return h, err
	}
	if said.PayloadType != intoto.PayloadType {
		return markedBundle{}, verdict.Refuse(verdict.PayloadType, "bundle", "the bundle has payload type %.200q, not a statement", said.PayloadType)
	}
	h.said, err = intoto.ParseOpen(said.Payload)
	return h, err
}

// signedDigest is the digest that a plain signature names.
func signedDigest(said verify.Said) (digest.Digest, error) {
	for name, algorithm := range map[string]digest.Algorithm{"SHA2_256": digest.SHA256, "SHA2_512": digest.SHA512} {
		if said.Algorithm == name {
			return digest.ParseHex(algorithm, hex.EncodeToString(said.Digest))
		}
	}
	return digest.Digest{}, verdict.Refuse(verdict.DigestHint, "bundle", "the signature does not name a SHA-2 digest")
}

// act converts a statement to an act. The name is that of its file, if it has
// one.
func (h markedBundle) act(name string) (Act, error) {
	a := Act{Signer: h.Signer, Kind: Statement, Name: h.said.PredicateType()}
	a.Artifacts = slice.Map(h.said.Subjects(), func(s intoto.Subject) Artifact {
		return Artifact{Name: s.Name, SHA256: s.Digests.SHA256, SHA512: s.Digests.SHA512}
	})
	var err error
	switch h.said.PredicateType() {
	case provenance.PredicateType, provenance.PredicateTypeV01, provenance.PredicateTypeV02:
		err = a.readStep(h.said, name)
	case vsa.PredicateType:
		err = a.readSummary(h.said)
	case promotionrecord.PredicateType:
		err = a.readPromotion(h.said)
	case intoto.CosignSignature, sbomlist.PredicateType: // the list is a signature of each SBOM
		a.Kind, a.Name = Signature, ""
	}
	if err != nil {
		return Act{}, err
	}
	a.trust(a.IDs)
	return a, nil
}

// trust sets the ids from the evidence itself and their mark.
func (a *Act) trust(ids trace.IDs) {
	if a.IDs = ids; !ids.IsZero() {
		a.Traced = a.Mark
	}
}

// readStep reads provenance: ours with trace and log, or that of any builder.
func (a *Act) readStep(s intoto.Statement, name string) error {
	claim, err := provenance.Read(s)
	if err != nil {
		return err
	}
	a.Kind, a.Name = Step, claim.BuildType
	a.Invocation, a.Began, a.Ended = claim.Run.InvocationID, claim.Run.Started, claim.Run.Finished
	for _, d := range claim.Dependencies {
		if bytes := d.Strong(); !bytes.IsZero() {
			a.Uses = append(a.Uses, Artifact{Name: d.Name, SHA256: bytes.SHA256, SHA512: bytes.SHA512})
		}
	}
	ours, err := provenance.Parse(s)
	if err != nil {
		return nil //nolint:nilerr // another builder's names no trace in a form that is ours
	}
	a.Name = ours.BuildDefinition.ExternalParameters.Step
	if instance, is := strings.CutSuffix(strings.TrimPrefix(name, "provenance/"), ".sigstore.json"); is && !strings.Contains(instance, "/") {
		a.Name = instance
	}
	if log, there := provenance.LogOf(ours.Predicate); there {
		if set, err := digest.ParseMap(log.Digest); err == nil {
			a.Log = &Log{Digest: set.SHA256}
		}
	}
	a.IDs, err = provenance.TraceOf(ours.Predicate)
	return err
}

func (a *Act) readSummary(s intoto.Statement) error {
	said, err := vsa.Parse(s)
	if err != nil {
		return err
	}
	a.Kind, a.Name, a.Result = Summary, said.Verifier.ID, string(said.Result)
	a.Began, a.Route.To = said.Verified, said.ResourceURI
	a.IDs, err = vsa.TraceOf(said)
	return err
}

func (a *Act) readPromotion(s intoto.Statement) error {
	said, err := promotionrecord.Parse(s)
	if err != nil {
		return err
	}
	a.Kind, a.Name, a.Began = Promotion, said.Builder, said.Time
	a.Route = Route{From: said.Source, To: said.Destination, Tags: said.Tags}
	if ids, err := trace.ParseURI(said.Job.BuildID); err == nil { // other builders have other build ids
		a.IDs = ids
	}
	return nil
}
