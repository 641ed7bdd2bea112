package policy

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// Section is one part of what a policy demands, in plain words.
type Section struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

func (s *Section) add(format string, args ...any) {
	s.Lines = append(s.Lines, fmt.Sprintf(format, args...))
}

// Explain says in plain words what the policy demands, what it refuses, what
// it does not look at, and who can get past what.
func Explain(p Policy) []Section {
	all := []Section{
		p.actors.explain(), explainBuilds(p), explainAsked(p), explainWhole(p), p.switches.explain(), explainLeft(p),
		{Title: "Who can get past it", Lines: Overriders(p)},
	}
	return slices.DeleteFunc(all, func(s Section) bool { return len(s.Lines) == 0 })
}

func (a actors) explain() Section {
	s := Section{Title: "Who is believed"}
	duties := map[Role]string{
		Release: "signs the manifest, files and images", Verifier: "says that others checked", Officer: "signs policies, exceptions and known defects",
		Channels: "says which release a channel stands for", Signoffs: "signs releases off", Reconciler: "says which requirements are switched on",
	}
	for _, role := range []Role{Release, Verifier, Officer, Channels, Signoffs, Reconciler} {
		if len(a.roles[role]) == 0 && role != Channels && role != Signoffs && role != Reconciler { // whose word no release needs
			s.add("nobody %s", strings.Replace(duties[role], "signs", "may sign", 1))
		}
		for _, who := range a.roles[role] {
			duty := duties[role]
			if kept := who.extent(); kept != "" {
				duty = "signs " + kept
			}
			s.add("%s", who.describe(duty))
		}
	}
	for _, b := range a.builders {
		for _, who := range b.signers {
			s.add("%s", who.describe(fmt.Sprintf("speaks for builder %s, believed to level %d", b.id, b.level)))
		}
	}
	s.add("whoever signs in another's place is refused (IDENTITY_ROLE), and so is everybody else (IDENTITY)")
	return s
}

// describe says who does something, from when, and with which certificate.
func (s Signer) describe(deed string) string {
	words := []string{s.String() + " " + deed}
	if w := s.Window(); w != "" {
		words = append(words, w)
	}
	for _, name := range slices.Sorted(maps.Keys(s.claims)) {
		words = append(words, name+" "+s.claims[name])
	}
	return strings.Join(words, ", ")
}

// extent says what the identity is kept to, empty where to nothing.
func (s Signer) extent() string {
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
	var words []string
	for _, one := range all {
		words = append(words, string(one))
	}
	return strings.Join(words, ", ")
}

func explainBuilds(p Policy) Section {
	s := Section{Title: "What may have been built"}
	if len(p.actors.builders) == 0 {
		s.add("anything: no provenance is looked at, so nothing is known of source, builder and parameters")
		return s
	}
	s.add("provenance must name the repository %s (SOURCE_REPOSITORY)", p.build.source.Repository)
	if p.build.source.Ref != "" {
		s.add("and the ref %s (SOURCE_REF)", p.build.source.Ref)
	}
	if p.build.types != nil {
		s.add("the build must be of type %s (BUILD_TYPE)", strings.Join(p.build.types, " or "))
	}
	for _, param := range p.build.params {
		text := "parameter " + param.Name
		if param.Optional {
			text += ", if it is there,"
		}
		if param.Any {
			s.add("%s may have any value", text)
			continue
		}
		s.add("%s must be %s (PARAM_VALUE)", text, p.build.allowed(param, "{version}"))
	}
	if p.build.types != nil {
		s.add("any other parameter is refused (PARAM_UNKNOWN)")
	}
	if n := p.counts.builders; n > 1 {
		s.add("%d builders must have made the same bytes (THRESHOLD, REBUILD_MISMATCH)", n)
	}
	for _, sum := range p.summaries {
		for _, who := range sum.signers {
			s.add("%s speaks for verifier %s", who, sum.Verifier)
		}
		s.add("a summary counts if verifier %s judged %s by policy %s (%s), at most %s ago", sum.Verifier, sum.Resource, sum.Policy.URI, sum.pinned, sum.age)
	}
	return s
}

// explainAsked says what is asked of which class, classes alike together.
func explainAsked(p Policy) Section {
	s := Section{Title: "What each artifact needs"}
	for _, stage := range stages() {
		var texts []string
		classes := map[string][]string{}
		for _, class := range Judged() {
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
	s.add("every signature is in %s, has a time of %s, and its certificate was seen by %s",
		count(r.Logs, "transparency log"), count(r.Times, "trusted authority"), count(r.SCTs, "certificate log"))
	return s
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	if strings.HasSuffix(what, "y") {
		what = strings.TrimSuffix(what, "y") + "ie"
	}
	return fmt.Sprintf("%d different %ss", n, what)
}

func (d demand) describe() string {
	var words []string
	for _, it := range d.items {
		word := it.name
		if it.name == string(SBOM) && d.whole {
			word += " (leaving nothing unexamined)"
		}
		if it.mode == Warn {
			word += " (only warned about)"
		}
		words = append(words, word)
	}
	text := strings.Join(words, ", ")
	if len(words) == 0 {
		text = "nothing beyond the manifest"
	}
	if d.level > 0 {
		text += fmt.Sprintf(", at Build level %d", d.level)
	}
	return text
}

func explainWhole(p Policy) Section {
	s := Section{Title: "The release as a whole"}
	s.add("what the manifest lists is there, untampered, under its own name, and nothing is missing: always")
	s.add("the manifest lists what release.yaml plans: %s (PLAN_MISSING, PLAN_EXTRA)", p.whole.plan.plainly())
	for _, place := range []string{Files, Images} {
		s.add("nothing but the release is among its %s: %s (EXTRA)", map[string]string{Files: "files", Images: "images' tags"}[place], p.whole.closed[place].plainly())
	}
	if p.whole.digests {
		s.add("files are compared by every digest that is listed (TAMPERED)")
	}
	for _, late := range p.whole.late {
		s.add("%s by the %s role may be added after sealing, at stage %v", late.Predicate, late.Role, late.Stages)
	}
	if text := p.signoff.explain(); text != "" {
		s.add("%s", text)
	}
	if p.validity.manifest > 0 {
		s.add("the manifest was signed at most %s ago (STALE)", p.validity.manifest)
	}
	if p.validity.defects > 0 {
		s.add("a list of known defects numbered %d or higher is at hand", p.validity.defects)
	}
	if !p.validity.lab {
		s.add("a lab's trust root is refused (TRUST_LAB)")
	}
	if !p.validity.expires.IsZero() {
		s.add("the policy itself is valid until %s (POLICY_EXPIRED)", p.validity.expires.Format(time.DateOnly))
	}
	return s
}

func (m Mode) plainly() string {
	return map[Mode]string{Require: "required", Warn: "only warned about", Off: "not looked at"}[m]
}

func explainLeft(p Policy) Section {
	s := Section{Title: "What it does not ask"}
	for _, stage := range stages() {
		if lacks := p.Lacks(stage, Judged()); len(lacks) > 0 {
			s.add("at stage %s a verdict is partial, without: %s", stage, strings.Join(lacks, ", "))
		}
	}
	return s
}

// Overriders lists who can get past what: what each role could do alone, and
// what it takes to publish something that was never built from the source.
func Overriders(p Policy) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if p.unsigned {
		add("anybody, where nothing that is signed is required: the policy says insecureAcceptUnsigned, and such a verdict begins with UNSIGNED")
	}
	names := func(role Role) string { return strings.Join(p.Expected(role), " or ") }
	if len(p.actors.roles[Officer]) > 0 {
		add("%s can except single findings of a release for at most 30 days; every verdict shows it", names(Officer))
	}
	needsBuilder := slices.ContainsFunc(Judged(), func(c plan.Class) bool { return p.Asks(Published, c, Provenance) == Require })
	if needsBuilder {
		add("%s alone can publish nothing: provenance by a builder is required as well", names(Release))
		add("%s alone can publish nothing: the release identity must seal it", names(Builder))
	} else {
		add("%s alone can publish anything: no provenance is required", names(Release))
	}
	for _, name := range slices.Sorted(maps.Keys(p.switches.floors)) {
		add("%s can have %s count as little as %s", names(Reconciler), name, p.switches.floors[name])
	}
	add("whoever owns the identity providers %s can become any of these", strings.Join(p.actors.issuers(), " and "))
	for _, who := range p.actors.holders(Release) {
		if who.exact.Subject == "" {
			add("whoever gets an identity that matches %s can release", who)
		}
	}
	return lines
}

func (a *actors) issuers() []string {
	var all []string
	for _, role := range Roles() {
		for _, s := range a.holders(role) {
			if issuer := s.matcher.Issuer(); !slices.Contains(all, issuer) {
				all = append(all, issuer)
			}
		}
	}
	return all
}

// Lint lists what loads and might still not be what was meant.
func Lint(p Policy) []string {
	var notes []string
	note := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if p.validity.expires.IsZero() {
		note("it never expires: a replayed old policy would do forever; write expires")
	}
	if p.validity.sequence == 0 {
		note("it has no sequence: an older policy cannot be told from a newer one; write sequence")
	}
	if p.unsigned {
		note("it accepts what nothing signed speaks for, and the verdict then begins with UNSIGNED; require signatures and remove insecureAcceptUnsigned before anybody relies on it")
	}
	if p.build.types == nil && len(p.actors.builders) > 0 {
		note("it expects no build types: any parameter of a build is accepted; write build")
	}
	if p.build.source.Ref == "" && len(p.actors.builders) > 0 {
		note("it expects no ref: a build of any branch is accepted; write source.ref, such as refs/tags/{version}")
	}
	if len(p.actors.roles[Signoffs]) > 0 && len(p.signoff.stages) == 0 {
		note("the role signoff is given and its word is never asked for; write signoff: {stages: [staging]}")
	}
	if len(p.actors.roles[Reconciler]) > 0 && len(p.switches.floors) == 0 {
		note("the role reconciler is given and switches nothing; write features: {RequireProvenance: {floor: warn}}")
	}
	if p.validity.lab {
		note("it accepts a lab's trust root; write trustRoot: {lab: \"off\"} before anybody relies on it")
	}
	for _, role := range Roles() {
		for _, s := range p.actors.holders(role) {
			if s.exact.Subject == "" {
				note("%s is a pattern in role %s: make sure that nobody else can get such an identity", s, role)
			}
		}
	}
	for _, stage := range stages() {
		if lacks := p.Lacks(stage, Judged()); len(lacks) > 0 {
			note("at stage %s it can never say complete: %s", stage, strings.Join(lacks, ", "))
		}
	}
	return notes
}
