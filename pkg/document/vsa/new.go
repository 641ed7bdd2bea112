package vsa

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// slsaWritten is the version of SLSA whose levels are written.
const slsaWritten = "1.2"

// MaxSubjects is how many subjects one summary is given: clients refuse more.
const MaxSubjects = 1000

// Claim is what a verdict does not say of itself: who judged, where what was
// judged belongs, and where the policy can be read.
type Claim struct {
	Verifier Verifier
	Resource string
	Policy   string // its address; the verdict has its digest
	Subjects []intoto.Subject
	// Artifacts is how many artifacts the verdict was to be about: a level is
	// claimed only if it is of all of them. Several subjects can be names of
	// one artifact, and several summaries can share a verdict.
	Artifacts int
	// Trace is the run that judged; it is said where it is known.
	Trace trace.IDs
}

// Waived is a finding that was set aside, as a summary shows it.
type Waived struct {
	Code    verdict.Code `json:"code"`
	Subject string       `json:"subject"`
	ID      string       `json:"id"`
	By      string       `json:"by"`
	Reason  string       `json:"reason"`
}

// written is a summary as it is encoded, once.
type written struct {
	Verifier writtenVerifier   `json:"verifier"`
	Time     string            `json:"timeVerified,omitempty"`
	Resource string            `json:"resourceUri"`
	Policy   intoto.Resource   `json:"policy"`
	Inputs   []intoto.Resource `json:"inputAttestations,omitempty"`
	Result   Result            `json:"verificationResult"`
	Levels   []Level           `json:"verifiedLevels"`
	SLSA     string            `json:"slsaVersion,omitempty"`
	Waived   []Waived          `json:"https://github.com/waybill-release/waybill/attestations/exception/v1#waived,omitempty"`
	Trace    json.RawMessage   `json:"waybill_trace,omitempty"`
}

type writtenVerifier struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version,omitempty"`
}

// New makes the summary of a verdict that accepts. It claims the level of the
// Build track that the verdict names, if that is of all the artifacts, and says
// otherwise that none was evaluated. A verdict that rests on a summary makes
// none: nobody vouches for his own word. Neither does one that accepts something
// about which nothing is signed.
func New(v verdict.Verdict, c Claim) (intoto.Statement, error) {
	if err := v.Err(); err != nil {
		return intoto.Statement{}, err
	}
	if v.Basis != verdict.Signed {
		return intoto.Statement{}, verdict.Refuse(verdict.NoProof, v.Question, "it was accepted although nothing signed speaks for it, and a summary would").
			Advise("judge it by a policy that demands a signature, provenance or a summary")
	}
	for _, p := range v.Proofs {
		if p.Statement == PredicateType {
			return intoto.Statement{}, verdict.Refuse(verdict.VSAVerifier, p.Subject, "the verdict rests on the summary of a verifier, %s; no summary is made of summaries", p.Identity).
				Advise("judge the evidence itself: leave out --accept-vsa, and a policy that asks for summaries")
		}
	}
	w := c.write(v, Passed)
	w.Levels = []Level{buildLevel(v, c.Artifacts)}
	for _, one := range v.Waived {
		w.Waived = append(w.Waived, Waived{one.Finding.Code, one.Finding.Subject, one.ID, one.By, one.Reason})
	}
	return c.statement(w)
}

func (c Claim) write(v verdict.Verdict, r Result) written {
	w := written{
		Verifier: writtenVerifier{c.Verifier.ID, c.Verifier.Version}, Time: v.Time.UTC().Format(time.RFC3339), Resource: c.Resource,
		Policy: policyOf(v, c.Policy), Result: r, SLSA: slsaWritten,
	}
	counted := map[string]bool{}
	for _, p := range v.Proofs {
		counted[p.Bundle.Hex()] = true
	}
	if len(counted) > MaxInputs {
		return w // all of them, or none
	}
	for _, hex := range slices.Sorted(maps.Keys(counted)) {
		w.Inputs = append(w.Inputs, intoto.Resource{Digest: map[string]string{"sha256": hex}})
	}
	return w
}

// policyOf names what was judged by. Where features had something of the policy
// count less, it is no longer the policy that others pin; the features are named.
func policyOf(v verdict.Verdict, uri string) intoto.Resource {
	policy := intoto.Resource{URI: uri}
	if !v.Policy.IsZero() {
		policy.Digest = digest.Set{SHA256: verdict.InForce(v.Policy, v.Features)}.Map()
	}
	if len(v.Features) > 0 {
		raw, err := json.Marshal(map[string]any{"policy": v.Policy, "features": v.Features})
		if err != nil {
			panic("vsa: " + err.Error()) // no field of it can fail
		}
		policy.Annotations = raw
	}
	return policy
}

// statement encodes a summary, and reads what it encoded as any consumer will.
func (c Claim) statement(w written) (intoto.Statement, error) {
	if !c.Trace.IsZero() {
		var err error
		if w.Trace, err = json.Marshal(c.Trace); err != nil {
			return intoto.Statement{}, fmt.Errorf("encoding the run of a summary: %w", err)
		}
	}
	if w.Policy.Digest["sha256"] == "" || c.Artifacts < 1 || len(c.Subjects) == 0 || len(c.Subjects) > MaxSubjects {
		return intoto.Statement{}, refuse("want the digest of the policy, and 1 to %d subjects; there are %d, of %d artifacts", MaxSubjects, len(c.Subjects), c.Artifacts)
	}
	subjects := slices.Clone(c.Subjects)
	slices.SortFunc(subjects, byName)
	s, err := intoto.New(PredicateType, subjects, w)
	if err != nil {
		return intoto.Statement{}, err
	}
	if _, err := Parse(s); err != nil {
		return intoto.Statement{}, err
	}
	return s, nil
}

// buildLevel is the level of the Build track that a verdict found of so many
// artifacts.
func buildLevel(v verdict.Verdict, artifacts int) Level {
	if v.Least == nil || v.Least.Level < 0 || v.Least.Artifacts < artifacts {
		return "SLSA_BUILD_LEVEL_UNEVALUATED"
	}
	return Level(fmt.Sprintf("SLSA_BUILD_LEVEL_%d", v.Least.Level))
}

// Gist is the digest of what a summary says: of what, by which policy and with
// which result. When it was judged, in which run, from which evidence and with
// which version of a program is no part of it, so that whoever judges the same
// again knows that it has been said.
func Gist(s intoto.Statement) (digest.Digest, error) {
	said, err := Parse(s)
	if err != nil {
		return digest.Digest{}, err
	}
	var w written
	if err := strictjson.UnmarshalOpen(s.Predicate(), &w, strictjson.MaxSize(MaxPredicate)); err != nil {
		return digest.Digest{}, verdict.Wrap(verdict.StatementParse, "summary", err)
	}
	w.Verifier.Version, w.Time, w.Inputs, w.Trace = nil, "", nil, nil
	w.Policy = intoto.Resource{URI: said.Policy.URI, Digest: said.Policy.Digest}
	raw, err := json.Marshal(struct {
		Subjects []intoto.Resource
		Said     written
		Depend   map[Level]int64
	}{s.Resources(), w, said.Dependencies})
	if err != nil {
		return digest.Digest{}, fmt.Errorf("encoding the gist of a summary: %w", err)
	}
	return digest.Of(digest.SHA256, raw), nil
}

func byName(a, b intoto.Subject) int {
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return 0
}

// Name is the n-th name, from 1, under which the summary of a release lies
// beside its manifest.
func Name(n int) string {
	if n == 1 {
		return "release.vsa.sigstore.json"
	}
	return fmt.Sprintf("release.vsa-%d.sigstore.json", n)
}
