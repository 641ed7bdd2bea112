package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// Section is one part of the explanation of a policy.
type Section struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

func (s *Section) add(format string, args ...any) {
	s.Lines = append(s.Lines, fmt.Sprintf(format, args...))
}

// Explain says in plain words what the policy requires, what it refuses, what
// it does not check, and who can bypass which requirement.
func Explain(p Policy) []Section {
	all := []Section{
		p.actors.explain(), explainBuilds(p), explainInputs(p), explainSources(p), explainAsked(p), explainWhole(p), p.switches.explain(), explainLeft(p),
		{Title: "Who can bypass it", Lines: Overriders(p)},
	}
	return slices.DeleteFunc(all, func(s Section) bool { return len(s.Lines) == 0 })
}

func (a actors) explain() Section {
	s := Section{Title: "Who is trusted"}
	duties := map[Role]string{
		Release: "signs the manifest, files and images", Verifier: "signs verification summaries", Officer: "signs policies, exceptions and known defects",
		Channels: "signs the channel index", Signoffs: "signs off releases", Reconciler: "signs which requirements are switched on",
		vexSigner: "signs VEX statements, which remove no finding",
	}
	for _, role := range []Role{Release, Verifier, Officer, Channels, Signoffs, Reconciler, vexSigner} {
		if len(a.roles[role]) == 0 && (role == Release || role == Verifier || role == Officer) { // the others are optional
			s.add("no identity %s", duties[role])
		}
		for _, who := range a.roles[role] {
			duty := duties[role]
			if kept := who.extent(); kept != "" {
				duty = "signs " + kept
			}
			s.add("%s", who.describe(duty))
		}
	}
	for _, e := range a.entries {
		for _, who := range e.signers {
			if e.role == rebuilder {
				s.add("%s", who.describe("signs what it built again as rebuilder "+e.builder))
			}
		}
	}
	for _, b := range a.builders {
		for _, who := range b.signers {
			duty := fmt.Sprintf("signs for builder %s, trusted up to SLSA Build level %d", b.id, b.level)
			if b.enforced != "" {
				duty += ", because its dependencies are complete: " + b.enforced
			}
			s.add("%s", who.describe(duty))
			if b.shares && anyOf(a.roles[Release], who.exact) {
				s.add("%s signs both what was built and how: it is not kept apart from the build", who)
			}
		}
	}
	s.add("a signature by an identity of another role is refused (IDENTITY_ROLE), and so is one by an unlisted identity (IDENTITY)")
	return s
}

// describe formats a signer, what it does, its time window and its claims.
func (s allowedSigner) describe(act string) string {
	words := []string{s.String() + " " + act}
	if w := s.Window(); w != "" {
		words = append(words, w)
	}
	for _, name := range slices.Sorted(maps.Keys(s.claims)) {
		words = append(words, name+" "+s.claims[name])
	}
	return strings.Join(words, ", ")
}

// extent lists the classes and stages that the identity is limited to; empty if
// to none.
func (s allowedSigner) extent() string {
	var words []string
	if s.classes != nil {
		words = append(words, "only "+list(s.classes))
	}
	if s.stages != nil {
		words = append(words, "only at stage "+list(s.stages))
	}
	return strings.Join(words, ", ")
}

func list[T ~string](all []T) string {
	return strings.Join(slice.Map(all, func(one T) string { return string(one) }), ", ")
}

func explainBuilds(p Policy) Section {
	s := Section{Title: "What may have been built"}
	if len(p.actors.builders) == 0 {
		s.add("anything: provenance is not checked, so source, builder and parameters are unknown")
		return s
	}
	s.add("provenance must name the repository %s (SOURCE_REPOSITORY)", p.build.source.Repository)
	if ref := p.build.source.Ref; ref != "" {
		s.add("and the ref %s (SOURCE_REF)", ref)
	} else if v := p.build.source.VersionedTag; v != "" {
		s.add("and a tag that %s covers (SOURCE_REF)", v)
	}
	if p.build.types != nil {
		s.add("the build must be of type %s (BUILD_TYPE)", strings.Join(p.build.types, " or "))
	}
	for _, param := range p.build.params {
		text := "parameter " + param.Name
		if param.Name == anyOther {
			text = "every other parameter"
		}
		if param.Optional {
			text += ", if present,"
		}
		if param.Any {
			s.add("%s may have any value", text)
			continue
		}
		s.add("%s must be %s (PARAM_VALUE)", text, p.build.allowed(param, "{version}"))
	}
	if _, known := p.build.parameter(anyOther); p.build.types != nil && !known {
		s.add("every other parameter is refused (PARAM_UNKNOWN)")
	}
	if n := p.counts.builders; n > 1 {
		s.add("%d builders must have built the same bytes (THRESHOLD, REBUILD_MISMATCH)", n)
	}
	if p.rebuilt.said != "" {
		s.add("%s", p.rebuilt.said)
	}
	for _, sum := range p.summaries {
		for _, who := range sum.signers {
			s.add("%s signs for verifier %s", who, sum.Verifier)
		}
		if sum.pinned.IsZero() {
			s.add("a summary counts if verifier %s checked %s with policy %s at the Git commit that the summary names", sum.Verifier, sum.Resource, sum.Policy.URI)
			continue
		}
		s.add("a summary counts if verifier %s checked %s with policy %s (%s) at most %s ago", sum.Verifier, sum.Resource, sum.Policy.URI, sum.pinned, sum.age)
	}
	return s
}

// explainAsked lists the requirements by class; classes with equal requirements
// share a line.
func explainAsked(p Policy) Section {
	s := Section{Title: "What each artifact needs"}
	for _, stage := range stages() {
		var texts []string
		classes := map[string][]string{}
		for _, class := range judgedBy(p, stage) {
			text := p.cells[cell{stage, class}].describe()
			if classes[text] == nil {
				texts = append(texts, text)
			}
			classes[text] = append(classes[text], string(class))
		}
		for _, text := range texts {
			s.add("at stage %s, %s: %s", stage, strings.Join(classes[text], ", "), text)
		}
	}
	r := p.counts.rules
	s.add("every signature is recorded in %s and timestamped by %s, and its certificate is recorded in %s",
		count(r.Logs, "transparency log"), count(r.Times, "trusted authority"), count(r.SCTs, "certificate log"))
	var names []string
	for _, key := range r.Witnesses {
		name, _, _ := strings.Cut(key, "+")
		names = append(names, name)
	}
	if len(names) > 0 {
		s.add("%d of these witnesses have cosigned each checkpoint of a log (WITNESS_FEW, WITNESS_SIG): %s", r.Cosigned, strings.Join(names, ", "))
	}
	return s
}

func count(n int, what string) string {
	if n > 1 {
		what = "different " + what
	}
	return plural.Of(n, what)
}

func (d demand) describe() string {
	var words []string
	for _, it := range d.items {
		word := it.name
		if it.name == string(SBOM) && d.whole {
			word += " (complete)"
		}
		if it.name == string(SBOM) && d.profile != "" {
			word += " (with the elements of " + d.profile + ")"
		}
		switch it.mode {
		case Warn:
			word += " (only a warning)"
		case ifPresent:
			word += " (if there is any)"
		}
		words = append(words, word)
	}
	text := strings.Join(words, ", ")
	if len(words) == 0 {
		text = "nothing beyond the manifest"
	}
	if d.level > 0 {
		text += fmt.Sprintf(", at SLSA Build level %d", d.level)
	}
	for _, other := range d.others {
		text += fmt.Sprintf(", at %s", other)
	}
	return text
}

func explainWhole(p Policy) Section {
	s := Section{Title: "The release as a whole"}
	s.add("every file and image in the manifest is present under its name, with the listed digests: always required")
	s.add("the manifest lists what release.yaml plans: %s (PLAN_MISSING, PLAN_EXTRA)", p.whole.plan.plainly())
	for _, place := range []string{Files, Images} {
		s.add("no %s beside those of the release: %s (EXTRA)", map[string]string{Files: "files", Images: "image tags"}[place], p.whole.closed[place].plainly())
	}
	if p.whole.digests {
		s.add("files must match every digest in the manifest (TAMPERED)")
	}
	s.add("the kinds of evidence and the signers of the release before, if it is remembered: %s (EVIDENCE_REGRESSED)", p.whole.earlier.plainly())
	if p.byIndex {
		s.add("for an image judged alone, evidence about its index counts for the manifests that the index lists; in a release each needs its own")
	}
	for _, late := range p.whole.late {
		s.add("%s signed by the %s role may be added after sealing, at stage %v", late.Predicate, late.Role, late.Stages)
	}
	if text := p.signoff.explain(); text != "" {
		s.add("%s", text)
	}
	if p.validity.manifest > 0 {
		s.add("the manifest must be signed at most %s ago (STALE)", p.validity.manifest)
	}
	if p.validity.defects > 0 {
		s.add("a list of known defects with number %d or higher is required", p.validity.defects)
	}
	if !p.validity.lab {
		s.add("trust roots of labs are refused (TRUST_LAB)")
	}
	if !p.validity.expires.IsZero() {
		s.add("the policy itself is valid until %s (POLICY_EXPIRED)", p.validity.expires.Format(time.DateOnly))
	}
	return s
}

func (m Mode) plainly() string {
	return map[Mode]string{Require: "required", Warn: "only a warning", Off: "not checked"}[m]
}

func explainLeft(p Policy) Section {
	s := Section{Title: "What it does not require"}
	for _, stage := range stages() {
		if lacks := p.Lacks(stage, judgedBy(p, stage)); len(lacks) > 0 {
			s.add("at stage %s, so the verdict is partial: %s", stage, strings.Join(lacks, ", "))
		}
	}
	return s
}

// Overriders lists who can bypass which requirement: what each role could do
// alone, and what it takes to publish something that was not built from the
// source.
func Overriders(p Policy) (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if p.unsigned {
		add("anybody, where no signature is required: the policy has insecureAcceptUnsigned, and such a verdict begins with UNSIGNED")
	}
	names := func(role Role) string { return strings.Join(p.Expected(role), " or ") }
	if len(p.actors.roles[Officer]) > 0 {
		add("%s can grant exceptions for single findings of a release, for at most 30 days; verdicts show them", names(Officer))
	}
	needsBuilder := slices.ContainsFunc(Judged(), func(c plan.Class) bool { return p.Asks(Published, c, Provenance) == Require })
	if needsBuilder {
		add("%s alone cannot publish: provenance signed by a builder is also required", names(Release))
		add("%s alone cannot publish: the release identity must sign the manifest", names(Builder))
	} else {
		add("%s alone can publish anything: no provenance is required", names(Release))
	}
	for _, name := range slices.Sorted(maps.Keys(p.switches.floors)) {
		add("%s can lower %s to %s", names(Reconciler), name, p.switches.floors[name])
	}
	add("the operators of the identity providers %s can impersonate all of these", strings.Join(p.actors.issuers(), " and "))
	for _, who := range p.actors.holders(Release) {
		if who.exact.Subject == "" {
			add("everybody with an identity that matches %s can release", who)
		}
	}
	return lines
}

func (a *actors) issuers() (all []string) {
	for _, role := range Roles() {
		for _, s := range a.holders(role) {
			if issuer := s.matcher.Issuer(); !slices.Contains(all, issuer) {
				all = append(all, issuer)
			}
		}
	}
	return all
}

// Lint lists settings that are valid but perhaps not intended.
func Lint(p Policy) (notes []string) {
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if p.validity.expires.IsZero() {
		note("the policy never expires, so an old copy can be replayed forever; set expires")
	}
	if p.validity.sequence == 0 {
		note("the policy has no sequence number, so an older version cannot be detected; set sequence")
	}
	if p.unsigned {
		note("the policy accepts unsigned artifacts, and the verdict then begins with UNSIGNED; require signatures and remove insecureAcceptUnsigned before production use")
	}
	if p.build.types == nil && len(p.actors.builders) > 0 {
		note("the policy lists no build types, so builds with any parameters are accepted; set build")
	}
	if p.build.source.Ref+p.build.source.VersionedTag == "" && len(p.actors.builders) > 0 {
		note("the policy expects no ref, so a build of any branch is accepted; set source.ref, such as refs/tags/{version}")
	}
	if len(p.actors.roles[Signoffs]) > 0 && len(p.signoff.stages) == 0 {
		note("the role signoff has signers but is never required; set signoff: {stages: [staging]}")
	}
	if len(p.actors.roles[Reconciler]) > 0 && len(p.switches.floors) == 0 {
		note("the role reconciler has signers but switches no feature; set features: {RequireProvenance: {floor: warn}}")
	}
	if len(p.actors.roles[vexSigner]) > 0 && !p.AllowsLate(openvex.PredicateType, vexSigner, Published) {
		note("the role vex has signers but late lists no %s, so none of its statements counts; list it", openvex.PredicateType)
	}
	if p.validity.lab {
		note("the policy accepts trust roots of labs; set trustRoot: {lab: \"off\"} before production use")
	}
	for _, role := range Roles() {
		for _, s := range p.actors.holders(role) {
			if s.exact.Subject == "" {
				note("%s is a pattern in role %s: make sure that no other person or workflow can obtain a matching identity", s, role)
			}
		}
	}
	for _, stage := range stages() {
		if lacks := p.Lacks(stage, judgedBy(p, stage)); len(lacks) > 0 {
			note("at stage %s verdicts are always partial, because these checks are not required: %s", stage, strings.Join(lacks, ", "))
		}
	}
	return notes
}
