package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/buildrecord"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The codes of a policy that is well formed but has a forbidden meaning.
const (
	codeEmpty = "POLICY_EMPTY" // requires nothing somewhere
	codeWeak  = "POLICY_WEAK"  // accepts more than it seems to
	codeValue = "POLICY_VALUE" // an invalid value
)

// loader converts a file to a Policy, part by part.
type loader struct {
	file
	raw      []byte
	compiler Compiler
	policy   Policy
	failed   string // code of the failure
	act      string // next act, if not that of the code
	people   int    // number of identities read
	base     []any  // path of the part of the file that is loaded
	// verifiers are those of sources, for the trust map.
	verifiers []slsa.Verifier
}

// maxEntries limits each list of a policy, and the total number of its
// identities: all of them are compared with one another.
const maxEntries = 256

// few refuses a list that is too long.
func (l *loader) few(n int, path []any) error {
	if n > maxEntries {
		return l.fail(codeValue, path, "%d entries, the limit is %d", n, maxEntries)
	}
	return nil
}

// filled refuses a list that is present and empty, or too long.
func filled[T any](l *loader, list []T, field string) error {
	if list != nil && len(list) == 0 {
		return l.fail(codeEmpty, at(field), "empty")
	}
	return l.few(len(list), at(field))
}

// The next acts of a policy that accepts more than it seems to, other than for a
// signer that is named too loosely.
const (
	fixWeak   = "change the value at the line named as the message says, or leave out what it contradicts"
	fixShared = "use another identity for one of the two: in CI, sign from two workflows (docs/how-to/github-actions.md), or give one role a key of its own"
)

func (l *loader) code() verdict.Code {
	switch l.failed {
	case codeEmpty:
		return verdict.PolicyEmpty
	case codeWeak:
		return verdict.PolicyWeak
	}
	return verdict.ConfigParse
}

// fail refuses the value at a path.
func (l *loader) fail(code string, path []any, format string, args ...any) error {
	l.failed = code
	if code == codeWeak && l.act == "" {
		l.act = fixWeak
	}
	return strictyaml.At(l.raw, append(slices.Clone(l.base), path...), code, fmt.Sprintf(format, args...))
}

func at(path ...any) []any { return path }

func (l *loader) load() (Policy, error) {
	l.policy = Policy{name: l.Name, digest: digest.Of(digest.SHA256, l.raw), validity: validity{sequence: l.Sequence}}
	for _, part := range []func() error{
		l.loadHead, l.loadRoles, l.loadSources, l.loadBuilders, func() error { return loadDeclares(l) }, func() error { return loadRebuilt(l) }, l.checkSeparate, l.loadSource, l.loadParameters,
		l.loadSummaries, l.loadThresholds, func() error { return loadInputs(l) }, l.loadLimits, l.loadPlaces, l.loadLate, l.loadSignoff, l.loadRules, l.loadRequire, l.checkPlanned, l.loadFeatures,
	} {
		if err := part(); err != nil {
			return Policy{}, err
		}
	}
	return l.policy, l.checkSaid(nil, l.tree())
}

// tree is the file as written, where an omitted value and an empty value can
// still be told apart.
func (l *loader) tree() any {
	var tree any
	if err := strictyaml.Unmarshal(l.raw, &tree); err != nil {
		return nil // parsed before as a policy
	}
	return tree
}

// checkSaid refuses values without effect: an empty text, or the number zero.
// They would read like a requirement.
func (l *loader) checkSaid(path []any, value any) error {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if err := l.checkSaid(append(slices.Clone(path), key), value[key]); err != nil {
				return err
			}
		}
	case []any:
		for i, item := range value {
			if err := l.checkSaid(append(slices.Clone(path), i), item); err != nil {
				return err
			}
		}
	case string:
		if value == "" {
			return l.fail(codeEmpty, path, "empty text; leave the key out, or set a value")
		}
	case int:
		if value == 0 {
			return l.fail(codeEmpty, path, "0; leave the key out, or set a number from 1")
		}
	}
	return nil
}

func (l *loader) loadHead() (err error) {
	switch {
	case l.APIVersion != "waybill/v1" || l.Kind != "Policy":
		return l.fail(codeValue, nil, "apiVersion %.40q and kind %.40q: want waybill/v1 and Policy", l.APIVersion, l.Kind)
	case l.Name == "":
		return l.fail(codeEmpty, at("name"), "empty")
	case l.Sequence < 0:
		return l.fail(codeValue, at("sequence"), "%d, want a number from 1", l.Sequence)
	}
	if l.TrustRoot != nil {
		if l.TrustRoot.Lab != Require && l.TrustRoot.Lab != Off && l.TrustRoot.Lab != Warn {
			return l.fail(codeValue, at("trustRoot", "lab"), "%q, want warn or off", l.TrustRoot.Lab)
		}
		if l.TrustRoot.Lab == Require {
			return l.fail(codeWeak, at("trustRoot", "lab"), "an INSECURE LAB trust root cannot be required; want warn, or off to refuse it")
		}
	}
	l.policy.validity.lab = l.TrustRoot == nil || l.TrustRoot.Lab == Warn
	l.policy.unsigned = l.Unsigned
	l.policy.validity.expires, err = l.instant(l.Expires, at("expires"))
	return err
}

// instant parses a time; an empty text gives the zero time.
func (l *loader) instant(text string, path []any) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		t, err := time.Parse(layout, text)
		switch {
		case err == nil && t.IsZero(): // the zero time means that no time was set
			return time.Time{}, l.fail(codeValue, path, "%q would mean that no time is set; leave the key out, or set another time", text)
		case err == nil:
			return t.UTC(), nil
		}
	}
	return time.Time{}, l.fail(codeValue, path, "%q, want a time such as 2026-01-31 or 2026-01-31T12:00:00Z", text)
}

func (l *loader) duration(text string, path []any) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, l.fail(codeValue, path, "%q, want a duration such as 720h", text)
	}
	return d, nil
}

func (l *loader) loadRoles() error {
	l.policy.actors.roles = map[Role][]allowedSigner{}
	for _, role := range slices.Sorted(maps.Keys(l.Roles)) {
		path := at("roles", string(role))
		if role == Builder || role == sources || role == rebuilder || !slices.Contains(Roles(), role) {
			return l.fail(codeValue, path, "unknown role, want release, verifier, policy, channel, signoff, reconciler or vex")
		}
		signers, err := l.signers(l.Roles[role], path)
		if err != nil {
			return err
		}
		if n := slices.IndexFunc(signers, narrowed); n >= 0 && role != Release && role != Verifier {
			return l.fail(codeValue, append(path, n), "stages and classes limit signers of artifacts, but the role %s signs none; leave them out", role)
		}
		l.policy.actors.roles[role] = signers
		l.policy.actors.entries = append(l.policy.actors.entries, policyEntry{role: role, signers: signers})
	}
	if len(l.policy.actors.roles[Release]) == 0 {
		return l.fail(codeEmpty, at("roles", "release"), "no identity has the role release, so nothing could be accepted; add one")
	}
	return nil
}

func (l *loader) signers(list []signer, path []any) ([]allowedSigner, error) {
	if len(list) == 0 {
		return nil, l.fail(codeEmpty, path, "empty; name an identity or leave the key out")
	}
	if l.people += len(list); l.people > maxEntries {
		return nil, l.fail(codeValue, path, "the policy lists more than %d identities; split it into several policies", maxEntries)
	}
	signers := make([]allowedSigner, len(list))
	for i, s := range list {
		made, err := l.signer(s, append(slices.Clone(path), i))
		if err != nil {
			return nil, err
		}
		signers[i] = made
	}
	return signers, nil
}

func (l *loader) signer(s signer, path []any) (made allowedSigner, err error) {
	switch {
	case s.Key != "":
		made.exact, made.matcher, err = l.key(s, path)
	case (s.Subject == "") == (s.Pattern == ""):
		return allowedSigner{}, l.fail(codeEmpty, path, "want exactly one of subject, pattern and key")
	case s.Pattern != "":
		made.matcher, err = identity.Pattern(s.Issuer, s.Pattern, s.Type)
	default:
		made.exact = identity.Identity{Issuer: s.Issuer, Subject: s.Subject, Type: s.Type}
		made.matcher, err = identity.Exact(made.exact)
	}
	if err != nil && l.failed == "" {
		l.act = verdict.PolicyWeak.Fix()
		return allowedSigner{}, l.fail(codeWeak, path, "%v", err)
	}
	if err != nil {
		return allowedSigner{}, err
	}
	if made.from, err = l.instant(s.From, append(path, "from")); err != nil {
		return allowedSigner{}, err
	}
	if made.until, err = l.instant(s.Until, append(path, "until")); err != nil {
		return allowedSigner{}, err
	}
	if !made.until.IsZero() && !made.from.Before(made.until) {
		return allowedSigner{}, l.fail(codeValue, path, "until is not after from, so the identity is never valid")
	}
	made.claims, made.stages, made.classes = s.Claims, s.Stages, s.Classes
	if err := l.checkExtent(s, path); err != nil {
		return allowedSigner{}, err
	}
	return made, l.checkClaims(s, path)
}

// checkExtent refuses stages and classes that are empty, unknown or repeated.
func (l *loader) checkExtent(s signer, path []any) error {
	if s.Stages != nil && len(s.Stages) == 0 || s.Classes != nil && len(s.Classes) == 0 {
		return l.fail(codeEmpty, path, "stages or classes are empty; leave the key out to allow all")
	}
	for i, stage := range s.Stages {
		if !slices.Contains(stages(), stage) || slices.Contains(s.Stages[:i], stage) {
			return l.fail(codeValue, append(path, "stages", i), "%q is not staging or release, or is listed twice", stage)
		}
	}
	for i, class := range s.Classes {
		if !isJudged(class) || slices.Contains(s.Classes[:i], class) {
			return l.fail(codeValue, append(path, "classes", i), "%q is not one of %v, or is listed twice", class, judgeable())
		}
	}
	return nil
}

func (l *loader) checkClaims(s signer, path []any) error {
	if s.Claims != nil && len(s.Claims) == 0 {
		return l.fail(codeEmpty, append(path, "claims"), "empty")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Claims)) {
		if !slices.Contains(identity.ClaimNames(), name) {
			return l.fail(codeValue, append(path, "claims", name), "unknown claim, want one of %v", identity.ClaimNames())
		}
		if s.Claims[name] == "" {
			return l.fail(codeEmpty, append(path, "claims", name), "empty")
		}
		if strings.ContainsAny(strings.Replace(s.Claims[name], versionPlaceholder, "", 1), "{}") {
			return l.fail(codeValue, append(path, "claims", name), "%q has a placeholder other than one %s", s.Claims[name], versionPlaceholder)
		}
	}
	return nil
}

func (l *loader) loadBuilders() error {
	if l.Builders != nil && len(l.Builders) == 0 {
		return l.fail(codeEmpty, at("builders"), "empty, so no provenance could be accepted; add a builder or leave the key out")
	}
	var pairs []slsa.Pair
	for i, b := range l.Builders {
		path := at("builders", i)
		if b.ID == "" || slices.ContainsFunc(l.policy.actors.builders, func(o builder) bool { return o.id == b.ID }) {
			return l.fail(codeValue, append(path, "id"), "%q is empty or occurs twice", b.ID)
		}
		if b.Level < 1 || b.Level > 4 {
			return l.fail(codeValue, append(path, "level"), "%d, want the highest SLSA Build level that this builder is trusted for: 1, 2, 3, or 4 as drafted", b.Level)
		}
		if asked := b.Complete && strings.TrimSpace(b.Enforced) != ""; asked != (b.Level == 4) && (b.Level == 4 || b.Enforced != "") {
			return l.fail(codeWeak, append(path, "level"), "%d: level 4, and no other, needs complete: true and, in enforced, by what means the builder ensures that its list of dependencies is complete", b.Level)
		}
		signers, err := l.signers(b.Signers, append(path, "signers"))
		if err != nil {
			return err
		}
		if n := slices.IndexFunc(signers, narrowed); n >= 0 {
			return l.fail(codeValue, append(path, "signers", n), "stages and classes cannot limit a builder, which signs for everything that it built; leave them out")
		}
		if n := slices.IndexFunc(signers, func(s allowedSigner) bool { return s.exact.Type == identity.Key }); n >= 0 {
			return l.fail(codeWeak, append(path, "signers", n), "a key does not identify the run that used it; list the builder by identity")
		}
		if b.SharesRelease && b.Level > 2 {
			return l.fail(codeWeak, append(path, "level"), "%d, but the builder shares its signers with the role release, so they are not kept apart from the build; want 1 or 2", b.Level)
		}
		if most := buildrecord.MostLevel(b.ID, ""); b.Level > most || most < 3 && (b.SharesRelease || b.Hermetic || b.Complete) {
			return l.fail(codeWeak, path, "an observer knows only what a service recorded: its level is at most %d, it is not hermetic or complete, and never the release identity", most)
		}
		l.policy.actors.builders = append(l.policy.actors.builders, builder{b.ID, b.Level, b.Enforced, b.SharesRelease, signers})
		l.policy.actors.entries = append(l.policy.actors.entries, policyEntry{role: Builder, builder: b.ID, shares: b.SharesRelease, signers: signers})
		for _, s := range signers {
			pairs = append(pairs, slsa.Pair{Signer: s.matcher, BuilderID: b.ID, Level: b.Level, Hermetic: b.Hermetic, Complete: b.Complete, Enforced: b.Enforced})
		}
	}
	var err error
	if l.policy.actors.trust, err = slsa.NewTrust(pairs, l.verifiers); err != nil {
		return l.fail(codeWeak, at("builders"), "%v", err)
	}
	return nil
}

// place is the location of a signer in the file.
type place struct {
	allowedSigner
	path   []any
	role   string
	shares bool // a builder that shares its signers with the role release
}

// checkSeparate refuses an identity that appears in two roles or for two
// builders, and a pattern that matches such an identity: its holder could act
// for both.
func (l *loader) checkSeparate() error {
	var all []place
	for _, role := range slices.Sorted(maps.Keys(l.policy.actors.roles)) {
		for i, s := range l.policy.actors.roles[role] {
			all = append(all, place{s, at("roles", string(role), i), "role " + string(role), false})
		}
	}
	for n, b := range l.policy.actors.builders {
		for i, s := range b.signers {
			all = append(all, place{s, at("builders", n, "signers", i), "builder " + b.id, b.shares})
		}
	}
	for n := range l.Sources {
		entry := l.policy.actors.entries[slices.IndexFunc(l.policy.actors.entries, func(e policyEntry) bool { return e.role == sources && e.builder == l.Sources[n].ID })]
		for i, s := range entry.signers {
			all = append(all, place{s, at("sources", n, "signers", i), entry.String(), false})
		}
	}
	for _, entry := range l.policy.actors.entries {
		for i, s := range entry.signers {
			if entry.role == rebuilder {
				n := slices.IndexFunc(l.Rebuilt.Of, func(r fileRebuilder) bool { return r.ID == entry.builder })
				all = append(all, place{s, at("rebuilt", "of", n, "signers", i), entry.String(), false})
			}
		}
	}
	for i, one := range all {
		for _, other := range all[:i] {
			if one.overlaps(other) && (!one.shares || other.role != "role "+string(Release)) {
				l.act = fixShared
				return l.fail(codeWeak, one.path, "%s is listed in %s and in %s; each needs its own identity", one, other.role, one.role)
			}
		}
	}
	return nil
}

// overlaps reports whether one identity is known to match both places. Two
// different patterns are not compared: whether some text matches both is not
// decided here.
func (p place) overlaps(other place) bool {
	switch {
	case p.exact != identity.Identity{}:
		return other.matcher.Match(p.exact)
	case other.exact != identity.Identity{}:
		return p.matcher.Match(other.exact)
	}
	return p.String() == other.String()
}

func (l *loader) loadThresholds() error {
	keys := l.policy.counts.rules.Keys // set by the roles, which were loaded before
	l.policy.counts = thresholds{verify.Default(), 1}
	l.policy.counts.rules.Keys = keys
	fields := map[string]*int{
		"logs": &l.policy.counts.rules.Logs, "times": &l.policy.counts.rules.Times, "scts": &l.policy.counts.rules.SCTs,
		"builders": &l.policy.counts.builders,
	}
	if l.Thresholds != nil && len(l.Thresholds) == 0 {
		return l.fail(codeEmpty, at("thresholds"), "empty")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Thresholds)) {
		field, known := fields[name]
		n := l.Thresholds[name]
		switch {
		case !known:
			return l.fail(codeValue, at("thresholds", name), "unknown threshold, want logs, times, scts or builders")
		case n < 1 || n > 16:
			return l.fail(codeWeak, at("thresholds", name), "%d, want 1 to 16", n)
		}
		*field = n
	}
	if w := l.Witnesses; w != nil {
		l.policy.counts.rules.Cosigned, l.policy.counts.rules.Witnesses = w.AtLeast, w.Keys
		if err := l.policy.counts.rules.CheckWitnesses(); err != nil {
			return l.fail(codeValue, at("witnesses"), "%v", err)
		}
	}
	l.policy.counts.rules.Stated = l.Thresholds["logs"]+l.Thresholds["scts"] > 0
	if n := l.policy.counts.builders; n > max(1, len(l.policy.actors.builders)) {
		return l.fail(codeValue, at("thresholds", "builders"), "%d builders must agree, but only %d are listed", n, len(l.policy.actors.builders))
	}
	return nil
}

func (l *loader) loadLimits() (err error) {
	if l.Limits != nil && len(l.Limits) == 0 {
		return l.fail(codeEmpty, at("limits"), "empty")
	}
	for _, name := range slices.Sorted(maps.Keys(l.Limits)) {
		limit := &l.policy.validity.manifest
		if name == "trustRoot" {
			limit = &l.policy.validity.root
		} else if name != "manifest" {
			return l.fail(codeValue, at("limits", name), "unknown limit, want manifest or trustRoot")
		}
		if *limit, err = l.duration(l.Limits[name], at("limits", name)); err != nil {
			return err
		}
	}
	if l.Defects == nil {
		return nil
	}
	if l.policy.validity.defects = l.Defects.AtLeast; l.policy.validity.defects < 1 {
		return l.fail(codeValue, at("defects", "atLeast"), "%d, want a number from 1", l.policy.validity.defects)
	}
	return nil
}

var errNoCompiler = errors.New("this program cannot evaluate rules; use waybill, or a policy without rules")

func (l *loader) loadRules() error {
	if err := filled(l, l.Rules, "rules"); err != nil {
		return err
	}
	for i, r := range l.Rules {
		path := at("rules", i)
		switch {
		case l.compiler == nil:
			return l.fail(codeValue, path, "%v", errNoCompiler)
		case r.Name == "" || slices.ContainsFunc(l.policy.rules, func(o rule) bool { return o.name == r.Name }):
			return l.fail(codeValue, append(path, "name"), "%q is empty or occurs twice", r.Name)
		case len(r.Classes) == 0:
			return l.fail(codeEmpty, append(path, "classes"), "empty, so the rule applies to nothing; list the classes that it applies to")
		}
		for n, class := range r.Classes {
			if !slices.Contains(Judged(), class) || slices.Contains(r.Classes[:n], class) {
				return l.fail(codeValue, append(path, "classes", n), "%q is not one of %v, or is listed twice", class, Judged())
			}
		}
		made, err := l.compiler.Compile(r.Holds)
		if err != nil {
			return l.fail(codeValue, append(path, "holds"), "%v", err)
		}
		l.policy.rules = append(l.policy.rules, rule{r.Name, r.Classes, made})
	}
	return nil
}
