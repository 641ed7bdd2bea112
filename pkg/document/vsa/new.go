package vsa

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// slsaWritten is the SLSA version of the levels that are written.
const slsaWritten = "1.2"

// MaxSubjects is the number of subjects in one summary: clients refuse more.
const MaxSubjects = 1000

// Claim is what a verdict does not contain: the verifier, the published address
// of the artifacts, and the address of the policy.
type Claim struct {
	Verifier Verifier
	Resource string
	Policy   string // its address; the verdict has its digest
	Subjects []intoto.Subject
	// Artifacts is the number of artifacts that the verdict should cover: a
	// level is claimed only if it was found for all of them. Several subjects
	// can be names of one artifact, and several summaries can share a verdict.
	Artifacts int
	// Trace is the verifying run; included if known.
	Trace trace.IDs
}

// waivedFinding is a waived finding, as a summary shows it.
type waivedFinding struct {
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
	Waived   []waivedFinding   `json:"https://github.com/waybill-release/waybill/attestations/exception/v1#waived,omitempty"`
	Trace    json.RawMessage   `json:"waybill_trace,omitempty"`
}

type writtenVerifier struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version,omitempty"`
}

// New makes the summary of an accepting verdict. It claims the SLSA Build level
// in the verdict if that was found for all artifacts, and says otherwise that
// none was evaluated. It refuses a verdict that is based on a summary, because
// a verifier must not confirm its own statements, and one that accepts unsigned
// artifacts.
func New(v verdict.Verdict, c Claim) (intoto.Statement, error) {
	if err := v.Err(); err != nil {
		return intoto.Statement{}, err
	}
	if v.Basis != verdict.Signed {
		return intoto.Statement{}, verdict.Refuse(verdict.NoProof, v.Question, "no summary is made of a verdict that accepts unsigned artifacts").
			Advise("use a policy that requires a signature, provenance or a summary")
	}
	for _, p := range v.Proofs {
		if p.Statement == PredicateType {
			return intoto.Statement{}, verdict.Refuse(verdict.VSAVerifier, p.Subject, "the verdict is based on a summary by the verifier %s, and a summary must not be based on another summary", p.Identity).
				Advise("verify the evidence itself: leave out --accept-vsa, and do not use a policy that requires summaries")
		}
	}
	w := c.write(v, Passed)
	w.Levels = []Level{buildLevel(v, c.Artifacts)}
	if reproduced(v, c.Artifacts) {
		w.Levels = append(w.Levels, "SLSA_BUILD_REPRODUCED")
	}
	w.Waived = slice.Map(v.Waived, func(one verdict.Waiver) waivedFinding {
		return waivedFinding{one.Finding.Code, one.Finding.Subject, one.ID, one.By, one.Reason}
	})
	return c.statement(w)
}

// Source makes the summary of a source revision that a reference has in its
// history, without the subjects of the claim. It states no more than a clone
// shows, level 1: what the summaries of others state is theirs to say.
func (c Claim) Source(v verdict.Verdict, commit, ref string) (intoto.Statement, error) {
	if err := v.Err(); err != nil {
		return intoto.Statement{}, err
	}
	if !slices.ContainsFunc(v.Levels, func(l verdict.Levels) bool { return l.Track == "source" && l.Level > 0 && l.Subject == commit }) {
		return intoto.Statement{}, refuse("the verdict states no level of the Source track of commit %q", commit)
	}
	w := c.write(v, Passed)
	w.Inputs, w.Levels = nil, []Level{"SLSA_SOURCE_LEVEL_1"}
	raw, err := json.Marshal(map[string]any{"_type": intoto.TypeV1, "predicateType": PredicateType, "predicate": w, "subject": []any{map[string]any{
		"digest": map[string]string{"gitCommit": commit}, "annotations": map[string]any{"sourceRefs": []string{ref}},
	}}})
	if err != nil {
		return intoto.Statement{}, fmt.Errorf("encoding the summary of a source revision: %w", err)
	}
	s, err := intoto.ParseOpen(raw)
	if err == nil {
		_, err = Parse(s)
	}
	return s, err
}

func (c Claim) write(v verdict.Verdict, r Result) written {
	w := written{
		Verifier: writtenVerifier{c.Verifier.ID, c.Verifier.Version}, Time: v.Time.UTC().Format(time.RFC3339), Resource: c.Resource,
		Policy: policyOf(v, c.Policy), Result: r, SLSA: slsaWritten,
	}
	counted := slice.Set(v.Proofs, func(p verdict.Proof) string { return p.Bundle.Hex() })
	if len(counted) > maxInputs {
		return w // all or none
	}
	for _, hex := range slices.Sorted(maps.Keys(counted)) {
		w.Inputs = append(w.Inputs, intoto.Resource{Digest: map[string]string{"sha256": hex}})
	}
	return w
}

// policyOf describes the policy that was used. If features lowered some of its
// requirements, it is not the policy that others pin; the features are listed.
func policyOf(v verdict.Verdict, uri string) intoto.Resource {
	policy := intoto.Resource{URI: uri}
	if !v.Policy.IsZero() {
		policy.Digest = digest.Set{SHA256: verdict.InForce(v.Policy, v.Features)}.Map()
	}
	if len(v.Features) > 0 {
		raw, err := json.Marshal(map[string]any{"policy": v.Policy, "features": v.Features})
		if err != nil {
			panic("vsa: " + err.Error()) // none of its fields can fail to encode
		}
		policy.Annotations = raw
	}
	return policy
}

// statement encodes a summary, and parses the result as any consumer will.
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
	slices.SortFunc(subjects, func(a, b intoto.Subject) int { return strings.Compare(a.Name, b.Name) })
	return intoto.NewFor(Parse, PredicateType, subjects, w)
}

// buildLevel is the SLSA Build level that a verdict found for this number of
// artifacts.
func buildLevel(v verdict.Verdict, artifacts int) Level {
	if v.Least == nil || v.Least.Level < 0 || v.Least.Artifacts < artifacts {
		return "SLSA_BUILD_LEVEL_UNEVALUATED"
	}
	return Level(fmt.Sprintf("SLSA_BUILD_LEVEL_%d", v.Least.Level))
}

// reproduced reports whether every artifact was built again with the same bytes,
// by as many rebuilders as the policy asks for: a proof of it that was not
// required is none of the verdict's. Subjects alone do not tell, because the
// manifests of an image have more than one: nothing else was built, or waived.
func reproduced(v verdict.Verdict, artifacts int) bool {
	again := map[string]bool{}
	for _, p := range v.Proofs {
		again[p.Subject] = again[p.Subject] || p.Statement == rebuildrecord.PredicateType
	}
	if slices.ContainsFunc(v.Proofs, func(p verdict.Proof) bool {
		return strings.HasPrefix(p.Statement, "https://slsa.dev/provenance/") && !again[p.Subject]
	}) || slices.ContainsFunc(v.Waived, func(w verdict.Waiver) bool { return !again[w.Finding.Subject] }) {
		return false
	}
	maps.DeleteFunc(again, func(_ string, is bool) bool { return !is })
	return len(again) > 0 && len(again) >= artifacts
}

// Gist is the digest of the essence of a summary: the subject, the policy and
// the result. It excludes the time, the run, the evidence and the program
// version, so that a repeated verification can be recognized as already
// recorded.
func Gist(s intoto.Statement) (digest.Digest, error) {
	said, err := Parse(s)
	if err != nil {
		return digest.Digest{}, err
	}
	var w written
	if err := strictjson.UnmarshalOpen(s.Predicate(), &w, strictjson.MaxSize(maxPredicate)); err != nil {
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

// Name is the n-th name, from 1, of a summary of a release, beside its
// manifest.
func Name(n int) string {
	if n == 1 {
		return "release.vsa.sigstore.json"
	}
	return fmt.Sprintf("release.vsa-%d.sigstore.json", n)
}
