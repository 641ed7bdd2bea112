package gate

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// byIdentity is the [rule] of a required identity or key: some evidence must be
// signed by it, have the required type, and be about the item.
type byIdentity struct{ ask Ask }

// proven is evidence that meets the request, and its proof.
type proven struct {
	verdict.Proof
	evidence verify.Evidence
}

// miss is evidence that does not meet the request, and why.
type miss struct {
	verdict.Finding
	foreign bool // valid, but signed by another identity
	at      time.Time
}

// Decide implements [rule]. Evidence by other signers is counted and does not
// block.
func (b byIdentity) Decide(i item) *verdict.Verdict {
	name := i.question.Subject
	v := verdict.New(name, time.Time{})
	v.Counts.Required = 1
	var found []proven
	var misses []miss
	for _, e := range i.evidence {
		proof, err := b.ask.judge(e, i)
		if err != nil {
			misses = append(misses, miss{verdict.FindingOf(name, err), !b.ask.Signer.made(e), e.SignedAt()})
			continue
		}
		found = append(found, proven{proof, e})
	}
	for _, err := range i.invalid {
		misses = append(misses, miss{Finding: verdict.FindingOf(name, err)})
	}
	if len(found) == 0 {
		v.AddError(name, nearest(name, b.ask.Type, misses))
		return v
	}
	for _, m := range misses { // a summary that passed does not excuse a later one that did not
		if m.Code == verdict.VSAResult && !slices.ContainsFunc(found, func(p proven) bool { return p.evidence.SignedAt().After(m.at) }) {
			v.Add(m.Finding)
			return v
		}
	}
	if len(misses) > 0 {
		v.Note("%s: ignored %s (%s)", name, plural.Of(len(misses), "other bundle"), countByReason(misses))
	}
	noteTimestamps(v, name, i.evidence)
	proof, err := b.ask.rate(v, i, found)
	if err != nil {
		v.AddError(name, err)
		return v
	}
	v.Counts.Verified, v.Proofs = 1, []verdict.Proof{proof}
	return v
}

// noteTimestamps says which timestamps of verified evidence prove nothing.
func noteTimestamps(v *verdict.Verdict, name string, evidence []verify.Evidence) {
	for _, e := range evidence {
		if n := e.UnknownTimestamps(); n > 0 {
			v.Note("%s: ignored %s by an authority that the trust root does not name", name, plural.Of(n, "timestamp"))
		}
	}
}

// nearest explains why nothing was proven, by the evidence that came closest.
func nearest(name, kind string, misses []miss) error {
	if len(misses) == 0 {
		return verdict.Refuse(verdict.EvidenceMissing, name, "no evidence of type %s is attached", kind)
	}
	best := misses[0].Finding
	for _, code := range []verdict.Code{verdict.PredicateNone, verdict.Identity, verdict.NotBound, verdict.LogUnasked, verdict.PlaceDown} {
		if i := slices.IndexFunc(misses, func(m miss) bool { return m.Code == code }); i >= 0 {
			best = misses[i].Finding
		}
	}
	if len(misses) > 1 {
		best.Message += fmt.Sprintf(" (of %d bundles: %s)", len(misses), countByReason(misses))
	}
	return about(name, &verdict.Error{Finding: best})
}

// countByReason counts the evidence that does not meet the request, by reason.
func countByReason(misses []miss) string {
	counts := map[string]int{}
	for _, m := range misses {
		word := "invalid: " + string(m.Code)
		switch {
		case m.foreign:
			word = "by another signer"
		case m.Code == verdict.PredicateNone:
			word = "of another type"
		case m.Code == verdict.NotBound:
			word = "about another artifact"
		}
		counts[word]++
	}
	words := make([]string, 0, len(counts))
	for word, n := range counts {
		words = append(words, fmt.Sprintf("%d %s", n, word))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// Levels says up to which level each builder is trusted, and which levels are
// required. The zero Levels trusts no builder and requires nothing.
type Levels struct {
	Builders slsa.Trust
	// Known finds the entry of a list of builders for evidence, and the page
	// that the entry rests on; nil where only Builders counts.
	Known   func(verify.Evidence) (entry slsa.Pair, source string)
	Require []slsa.Demand
	// Sources are verified summaries of source revisions; they count as far as
	// Builders trusts their signers.
	Sources []verify.Evidence
}

// check refuses to require levels of other statements than provenance.
func (a Ask) check() error {
	if (len(a.Levels.Require) > 0 || len(a.Levels.Sources) > 0) && !a.Provenance() {
		return verdict.Refuse(verdict.Usage, "level", "levels are read from provenance: ask for an attestation of a provenance type")
	}
	if err := (provenance.Source{Ref: "refs/tags/" + a.VersionedTag}).Tagged(a.VersionedTag); a.VersionedTag != "" && err != nil {
		return err
	}
	if a.Package != "" && (a.Type == "" || a.Subject != "" || !packageOf(a.Package, "pkg:npm/"+a.Package)) {
		return verdict.Refuse(verdict.Usage, "package", "%.200q: want NAME@VERSION, an attestation of a type, and no subject", a.Package)
	}
	return a.Signer.check()
}

// Provenance reports whether the question is about provenance, which alone
// shows levels.
func (a Ask) Provenance() bool {
	return a.Type == provenance.PredicateType || a.Type == provenance.PredicateTypeV02 || a.Type == provenance.PredicateTypeV01
}

// rate picks from the proven evidence, of which there is at least one: the
// first that shows the required levels, else the first. The report on its
// levels goes into the verdict.
func (a Ask) rate(v *verdict.Verdict, i item, found []proven) (verdict.Proof, error) {
	if !a.Provenance() {
		return found[0].Proof, nil
	}
	best := found[0]
	report, err := a.Levels.judge(best.evidence, i)
	for _, other := range found[1:] {
		if err == nil {
			break
		}
		if r, short := a.Levels.judge(other.evidence, i); short == nil {
			best, report, err = other, r, nil
		}
	}
	if len(report.Levels) > 0 {
		v.Levels = append(v.Levels, report.On(slsa.Build), report.On(slsa.V01))
		if len(a.Levels.Sources) > 0 {
			v.Levels = append(v.Levels, report.On(slsa.Source))
		}
		if _, source := a.Levels.known(best.evidence); source != "" {
			v.Note("%s: the builder %s is in the list of known builders, because of %s", i.question.Subject, report.Builder, source)
		}
	}
	if err != nil && len(a.Levels.Require) == 0 {
		v.Note("%s: the provenance shows no level: %v", i.question.Subject, err)
		err = nil
	}
	return best.Proof, err
}

// judge reads the levels that provenance shows for an item to which it is
// bound, and compares them with the required ones.
func (l Levels) judge(e verify.Evidence, i item) (slsa.Report, error) {
	if err := contradicted(e, i.question.Subject); err != nil { // only if the question does not rely on the source
		return slsa.Report{}, err
	}
	q := slsa.Question{Name: i.question.Subject, ByDigest: true, Provenance: e, Sources: l.Sources}
	for _, s := range boundSubjects(e, i) {
		q.Bytes = s.Digests // the digests that are known here were compared
	}
	if entry, source := l.known(e); source != "" {
		l.Builders = l.Builders.With(entry)
	}
	report, err := l.Builders.Judge(q)
	if err != nil {
		return slsa.Report{}, err
	}
	for _, d := range l.Require {
		if err := report.Meet(d); err != nil {
			return report, err
		}
	}
	return report, nil
}

func (l Levels) known(e verify.Evidence) (entry slsa.Pair, source string) {
	if l.Known == nil {
		return slsa.Pair{}, ""
	}
	return l.Known(e)
}

// boundSubjects lists the subjects of a statement that are the item's bytes. If
// only one digest of the item is known, that one must match; if the bytes were
// read, every digest of the subject must match.
func boundSubjects(e verify.Evidence, i item) (list []intoto.Subject) {
	for _, s := range e.Statement().Subjects() {
		known := s
		if i.question.Bytes.SHA256.IsZero() {
			known.Digests.SHA256 = digest.Digest{}
		}
		if i.question.Bytes.SHA512.IsZero() {
			known.Digests.SHA512 = digest.Digest{}
		}
		if known.Binds(i.question.Bytes) {
			list = append(list, s)
		}
	}
	return list
}
