package policy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// rebuilder signs that it built the same bytes again. Its identities are listed
// by rebuilder, under rebuilt.
const rebuilder Role = rebuildrecord.Role

// fileRebuilt says where artifacts need to be built again by others, and by how
// many.
type fileRebuilt struct {
	AtLeast int             `yaml:"atLeast"`
	Stages  []Stage         `yaml:"stages"`
	Of      []fileRebuilder `yaml:"of"`
}

// fileRebuilder is a rebuilder, and who signs for it.
type fileRebuilder struct {
	ID      string   `yaml:"id"`
	Signers []signer `yaml:"signers"`
}

// rebuilt is that requirement. Without it, rule is nil.
type rebuilt struct {
	stages []Stage
	rule   requirement
	said   string
}

// loadRebuilt reads the rebuilders. They share no identity with each other, or
// with any role or builder: see checkSeparate. So distinct rebuilders are
// distinct identities.
func loadRebuilt(l *loader) error {
	if l.Rebuilt == nil {
		return nil
	}
	r, path := l.Rebuilt, at("rebuilt")
	switch {
	case len(r.Of) == 0 || len(r.Stages) == 0:
		return l.fail(codeEmpty, path, "want stages, and the rebuilders in of")
	case r.AtLeast < 1 || r.AtLeast > len(r.Of):
		return l.fail(codeValue, at("rebuilt", "atLeast"), "%d, want 1 to %d, the number of rebuilders in of", r.AtLeast, len(r.Of))
	}
	for i, stage := range r.Stages {
		if !slices.Contains(stages(), stage) || slices.Contains(r.Stages[:i], stage) {
			return l.fail(codeValue, at("rebuilt", "stages", i), "%q is not staging or release, or is listed twice", stage)
		}
	}
	var rules []requirement
	var ids []string
	for i, one := range r.Of {
		path := at("rebuilt", "of", i)
		if one.ID == "" || slices.Contains(ids, one.ID) {
			return l.fail(codeValue, append(path, "id"), "%q is empty or listed twice", one.ID)
		}
		signers, err := l.signers(one.Signers, append(path, "signers"))
		if err != nil {
			return err
		}
		if n := slices.IndexFunc(signers, func(s allowedSigner) bool { return narrowed(s) || s.exact.Type == identity.Key }); n >= 0 {
			return l.fail(codeWeak, append(path, "signers", n), "list a rebuilder by its identity, without stages and classes: a key does not identify the run that used it")
		}
		l.policy.actors.entries = append(l.policy.actors.entries, policyEntry{role: rebuilder, builder: one.ID, signers: signers})
		ids = append(ids, one.ID)
		rules = append(rules, &some{role: rebuilder, absent: verdict.EvidenceMissing, what: "statement of the rebuilder " + one.ID, clauses: []step{
			perRelease(ofKind(rebuildrecord.PredicateType)), perRelease(byRole(rebuilder)), perRelease(ofRebuilder(one.ID)), perArtifact(bound), perArtifact(byProvenance),
		}})
	}
	rule, err := threshold(r.AtLeast, rules...)
	l.policy.rebuilt = rebuilt{r.Stages, rule, fmt.Sprintf("%d of these rebuilders must have built the same bytes at stage %s: %s (THRESHOLD, EVIDENCE_MISSING)", r.AtLeast, list(r.Stages), strings.Join(ids, ", "))}
	return err
}

// in adds the requirement to the checks of a class that is built.
func (r rebuilt) in(d demand, stage Stage, class plan.Class) demand {
	if r.rule != nil && slices.Contains(r.stages, stage) && slices.Contains(ChecksOf(class), Provenance) {
		d.items = append(slices.Clone(d.items), item{"rebuilt", Require, r.rule})
	}
	return d
}

// by are the statements of the rebuilders, if there are enough.
func (r rebuilt) by(m *judgement) (list []digest.Digest) {
	if r.rule == nil {
		return nil
	}
	for _, p := range r.rule.judge(m).proofs { // an answer that is not met has none
		list = append(list, p.Bundle)
	}
	return list
}

// ofRebuilder checks that a statement is one of this rebuilder.
func ofRebuilder(id string) clause {
	return func(m *judgement, f *fact) error {
		at, err := m.policy.actors.entryOf(f)
		if err == nil && at.builder == id {
			return nil
		}
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.Identity, m.q.Subject, "a statement of another rebuilder").Differ(id, at.builder)
		})
	}
}

// byProvenance checks that a statement names the provenance of the artifact. The
// same bytes in another release were built from something else.
func byProvenance(m *judgement, f *fact) error {
	said, err := rebuildrecord.Parse(f.said)
	if err != nil {
		return err
	}
	var of []string
	for _, p := range m.facts {
		if isProvenance(p.kind) && byRole(Builder)(m, p) == nil && fromSource(m, p) == nil && bound(m, p) == nil {
			of = append(of, p.bundle.Hex())
		}
	}
	if slices.ContainsFunc(of, func(hex string) bool { return slices.Contains(said.Provenance, hex) }) {
		return nil
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(verdict.NotBound, m.q.Subject, "built again by other provenance than that of this artifact").Differ(strings.Join(of, " or "), said.Provenance[0])
	})
}

// rebuilds checks that a statement names the rebuilder that its signer may speak
// for.
func rebuilds(f *fact, id string) error {
	said, err := rebuildrecord.Parse(f.said)
	if err != nil || said.Rebuilder.ID == id {
		return err
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(rebuildrecord.Other, said.Rebuilder.ID, "%s may not sign for this rebuilder", f.signer()).Differ(id, said.Rebuilder.ID)
	})
}
