package gate

import (
	"cmp"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// terms are the policy, trust root, waivers and time that the judge decides by.
type terms struct {
	policy  policy.Policy
	root    trust.Root
	waivers Waivers
	now     time.Time
	sources []verify.Evidence // about source revisions
}

// judge makes one verdict from facts, by policy, waivers and time. It reads
// nothing: only what a collector found counts. All questions are judged by it:
// releases with and without a manifest, files, images and promotions differ
// only in their collector.
//
//	j := t.begin("file lantern")
//	j.addFacts(collect(ctx, …))
//	j.count(things)
//	return j.end(version, subjects)
type judge struct {
	terms
	rule     rule
	v        *verdict.Verdict
	bad      map[string]bool // subjects with a finding
	accepted map[string]bool // items that the rule accepts
	least    *verdict.Least  // of the items with a known level
	counted  []counted
	unproven map[string]bool  // of the counted items
	subjects []waiver.Subject // of the counted items
}

// rule decides about one item: a policy, a promoter's manifest, or the required
// identity.
type rule interface {
	Decide(i item) *verdict.Verdict
}

// byPolicy is the policy as the [rule] for items. It reads each piece of
// evidence once for all items.
type byPolicy struct{ session *policy.Session }

// Decide implements [rule].
func (b byPolicy) Decide(i item) *verdict.Verdict { return b.session.Decide(i.evidence, i.question) }

// begin starts a verdict by a policy, and checks at once the policy's expiry
// and its demands on the trust root.
func (t terms) begin(question string) *judge {
	session := t.policy.NewSession(t.sources...)
	j := t.beginBy(question, byPolicy{session})
	j.v.Policy, j.v.Features = t.policy.Digest(), t.policy.Features()
	j.fail("policy "+t.policy.Name(), errors.Join(t.policy.Life(t.now), t.policy.Root(t.root.IsLab(), t.root.Date(), t.now)))
	if age := session.RootAge(t.root.Date(), t.now); age != "" && !j.refused() {
		j.v.Tell("T%s.", age[1:])
	}
	return j
}

// beginBy starts a verdict by a rule other than the policy.
func (t terms) beginBy(question string, by rule) *judge {
	j := &judge{terms: t, rule: by, v: verdict.New(question, t.now), bad: map[string]bool{}, accepted: map[string]bool{}, unproven: map[string]bool{}}
	j.v.TrustRoot = t.root.Digest()
	if t.root.IsLab() {
		j.v.Tell("The trust root is an INSECURE LAB: anybody can have its keys.")
	}
	return j
}

// refused reports whether there is any finding so far.
func (j *judge) refused() bool { return len(j.v.Findings) > 0 }

// holds reports whether a subject has no finding so far.
func (j *judge) holds(subject string) bool { return !j.bad[subject] }

// tooLow reports whether there is a finding about the level of a subject.
func (j *judge) tooLow(subject string) bool {
	return slices.ContainsFunc(j.v.Findings, func(f verdict.Finding) bool { return f.Code == verdict.Level && f.Subject == subject })
}

// fail adds an error about a subject, if there is one.
func (j *judge) fail(subject string, err error) {
	if err != nil {
		j.find(verdict.FindingOf(subject, err))
	}
}

func (j *judge) find(f verdict.Finding) {
	j.bad[f.Subject] = true
	j.v.Add(f)
}

// addFacts adds the facts of a step: first the differences, then, in parallel, the
// items without a finding.
func (j *judge) addFacts(f facts) {
	j.v.Inputs = append(j.v.Inputs, f.inputs...)
	j.v.Proofs = append(j.v.Proofs, f.proofs...)
	j.v.Levels = append(j.v.Levels, f.levels...)
	j.v.VEX = append(j.v.VEX, f.vex...)
	j.v.Sentences = append(j.v.Sentences, f.told...)
	j.v.Notes = append(j.v.Notes, f.notes...)
	j.v.Scope.Checks = append(j.v.Scope.Checks, f.checks...)
	j.v.Scope.Digests = append(j.v.Scope.Digests, f.digests...)
	j.v.Scope.Left = append(j.v.Scope.Left, f.left...)
	j.v.Scope.NotRequired = append(j.v.Scope.NotRequired, f.notRequired...)
	j.counted = append(j.counted, f.counted...)
	if f.least != nil {
		j.v.Least = f.least
	}
	for _, d := range f.differences {
		j.differ(d)
	}
	for _, name := range f.spoiled {
		j.bad[name] = true
	}
	for _, i := range f.items {
		j.fail(i.question.Subject, i.err)
	}
	due := slices.DeleteFunc(slices.Clone(f.items), func(i item) bool { return i.follows || i.err != nil || j.bad[i.question.Subject] })
	answers := make([]*verdict.Verdict, len(due))
	inParallel(len(due), func(i int) {
		if answers[i] = due[i].answer; answers[i] == nil {
			answers[i] = j.rule.Decide(due[i])
		}
	})
	for i, answer := range answers {
		j.answer(due[i], answer)
	}
}

func (j *judge) differ(d difference) {
	switch {
	case d.follows != "" && j.bad[d.follows]:
	case d.mode == policy.Require:
		j.find(d.Finding)
	case d.mode == policy.Warn:
		j.v.Warn(d.Finding)
	}
}

// answer adds the rule's answer about an item.
func (j *judge) answer(i item, a *verdict.Verdict) {
	name := i.question.Subject
	if !i.question.Named { // artifacts that a manifest lists are counted by their findings
		j.accepted[name] = a.Outcome() == verdict.Accepted
	}
	j.v.Include(*a)
	j.v.Proofs = append(j.v.Proofs, a.Proofs...)
	j.v.Levels = append(j.v.Levels, a.Levels...)
	j.v.Notes = append(j.v.Notes, a.Notes...)
	j.least = lower(j.least, a.Least)
	for _, f := range a.Findings {
		j.bad[name] = true
		if f.Code != i.reported {
			j.v.Add(f)
		}
	}
	for _, f := range a.Warnings {
		if f.Code != i.reported {
			j.v.Warn(f)
		}
	}
	for _, d := range i.differences {
		j.bad[name] = j.bad[name] || d.mode == policy.Require
		j.differ(d)
	}
}

// lower returns the lower level of two groups of items.
func lower(a, b *verdict.Least) *verdict.Least {
	switch {
	case a == nil || b == nil:
		return cmp.Or(a, b)
	case b.Level < a.Level:
		a, b = b, a
	}
	return &verdict.Least{Track: a.Track, Level: a.Level, Artifacts: a.Artifacts + b.Artifacts, Path: a.Path}
}

// counted is one thing that the verdict counts.
type counted struct {
	name  string
	class plan.Class    // of its group
	bytes digest.Digest // if known
	// asked says that the rule must have accepted it; otherwise it only needs
	// to be without findings.
	asked bool
}

// good reports whether one thing is proven.
func (j *judge) good(c counted) bool { return !j.bad[c.name] && (!c.asked || j.accepted[c.name]) }

// count counts the required and the verified: the items that the facts counted,
// and more. The verdict gets the least level of the items if the level of every
// counted one is known.
func (j *judge) count(more ...iter.Seq[counted]) {
	for _, all := range append(more, slices.Values(j.counted)) {
		for c := range all {
			j.v.Counts.Required++
			if j.good(c) {
				j.v.Counts.Verified++
				continue
			}
			j.unproven[c.name] = true
		}
	}
	if j.least != nil && j.least.Artifacts >= j.v.Counts.Required {
		j.v.Least = j.least
	}
}

// classManifest is the group of the release manifest.
const classManifest = plan.Class("manifest")

// group lists everything that is counted, and counts it by class.
func (j *judge) group(artifacts iter.Seq[counted]) {
	var by groups
	for _, all := range []iter.Seq[counted]{slices.Values(j.counted), artifacts} {
		for c := range all {
			by = by.count(c.class, j.good(c))
			j.v.Objects = append(j.v.Objects, verdict.Object{Name: c.name, Class: string(c.class), Digest: c.bytes, Verified: j.good(c)})
		}
	}
	j.v.Groups = by.sorted()
}

// end applies the waivers to the findings and returns the verdict. Findings
// about a release are sorted by weight; others keep the order of the question.
func (j *judge) end(of version.Version, subjects []waiver.Subject) *verdict.Verdict {
	checkClock(j.v)
	waiver.Apply(j.v, waiver.Case{
		Policy: j.policy, Version: of, Subjects: subjects,
		Lists: j.waivers.Lists, Accept: j.waivers.Accept, Exceptions: j.waivers.Exceptions,
	})
	j.v.Counts.Excepted = j.excepted()
	if !of.IsZero() {
		slices.SortStableFunc(j.v.Findings, func(a, b verdict.Finding) int {
			return cmp.Or(cmp.Compare(weight(a.Code), weight(b.Code)), strings.Compare(a.Subject, b.Subject))
		})
	}
	return j.v
}

// excepted counts the unproven items whose findings are all set aside. An
// exception for something uncounted does not make up for another item.
func (j *judge) excepted() int {
	names := map[string]bool{}
	for _, w := range j.v.Waived {
		name := w.Finding.Subject
		if j.unproven[name] && !slices.ContainsFunc(j.v.Findings, func(f verdict.Finding) bool { return f.Subject == name }) {
			names[name] = true
		}
	}
	return len(names)
}

// addCounted adds the facts of a step and counts each item. Exceptions apply
// to the destination, if there is one.
func (j *judge) addCounted(f facts, destination string) {
	j.addFacts(f)
	for _, i := range f.items {
		j.counted = append(j.counted, counted{name: i.question.Subject, asked: !i.follows})
		if !i.question.Bytes.IsZero() {
			j.subjects = append(j.subjects, waiver.Subject{Name: i.question.Subject, Digests: i.question.Bytes, Destination: destination})
		}
	}
}

// endCounted ends a verdict about the counted items.
func (j *judge) endCounted() *verdict.Verdict {
	j.count()
	return j.end(version.Version{}, j.subjects)
}

// endUnknown ends a verdict about something that could not be read.
func (j *judge) endUnknown(subject string, err error) *verdict.Verdict {
	var f facts
	f.unknown(subject, err)
	j.addCounted(f, "")
	return j.endCounted()
}

// clockSkew is how far our clock may be behind an authority's.
const clockSkew = 5 * time.Minute

// checkClock refuses to judge at a time before something was signed: such a
// clock is wrong, so no expiry can be checked by it.
func checkClock(v *verdict.Verdict) {
	for _, p := range v.Proofs {
		if p.SignedAt.After(v.Time.Add(clockSkew)) {
			v.Add(verdict.Find(verdict.Clock, p.Subject, "signed after the time of judgement").
				Differ("a clock at or after "+p.SignedAt.Format(time.RFC3339), v.Time.Format(time.RFC3339)))
			return
		}
	}
}

// first are the codes that say what happened to the release. Their consequences
// are listed after them.
var first = []verdict.Code{
	verdict.Tampered, verdict.NameSwap, verdict.Missing, verdict.Extra, verdict.TagMoved, verdict.Platform, verdict.PlanExtra, verdict.PlanMissing,
}

func weight(c verdict.Code) int {
	if i := slices.Index(first, c); i >= 0 {
		return i
	}
	return len(first)
}

// groups are artifacts counted by class.
type groups []verdict.Group

func (all groups) count(class plan.Class, good bool) groups {
	i := slices.IndexFunc(all, func(g verdict.Group) bool { return g.Name == string(class) })
	if i < 0 {
		i = len(all)
		all = append(all, verdict.Group{Name: string(class)})
	}
	if all[i].Required++; good {
		all[i].Verified++
	}
	return all
}

// sorted puts the products of a release first and the metadata last.
func (all groups) sorted() []verdict.Group {
	order := append(append([]plan.Class{classManifest}, policy.Judged()...), plan.ConfigFile, plan.Provenance, plan.SBOM, plan.Signature, plan.Checksum)
	slices.SortStableFunc(all, func(a, b verdict.Group) int {
		return cmp.Compare(uint(slices.Index(order, plan.Class(a.Name))), uint(slices.Index(order, plan.Class(b.Name)))) // -1 is last
	})
	return all
}
