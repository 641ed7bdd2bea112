package policy

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// cell is one class of artifacts at one stage.
type cell struct {
	stage Stage
	class plan.Class
}

// demand lists the requirements of a cell.
type demand struct {
	modes  map[Check]Mode
	level  int           // of the Build track
	others []slsa.Demand // levels of other tracks
	whole  bool          // SBOMs must be complete
	items  []item

	profile string // the elements that SBOMs must give, or ""
}

// loadRequire fills every cell exactly once, so that an omission never means
// "not required".
func (l *loader) loadRequire() error {
	l.policy.cells = map[cell]demand{}
	if len(l.Require) == 0 {
		return l.fail(codeEmpty, at("require"), "empty, so no evidence is required; add rows")
	}
	if err := l.few(len(l.Require), at("require")); err != nil {
		return err
	}
	for i, r := range l.Require {
		if err := l.loadRow(r, at("require", i)); err != nil {
			return err
		}
	}
	for _, stage := range stages() {
		for _, class := range Judged() {
			if _, there := l.policy.cells[cell{stage, class}]; !there {
				return l.fail(codeEmpty, at("require"), "no row for %s at stage %s; every class needs a row for every stage", class, stage)
			}
		}
	}
	return nil
}

func (l *loader) loadRow(r fileRequire, path []any) error {
	if len(r.Stages) == 0 || len(r.Classes) == 0 || len(r.Checks) == 0 {
		return l.fail(codeEmpty, path, "want stages, classes and checks, all non-empty")
	}
	for n, stage := range r.Stages {
		if !slices.Contains(stages(), stage) || slices.Contains(r.Stages[:n], stage) {
			return l.fail(codeValue, append(path, "stages", n), "%q is not staging or release, or is listed twice", stage)
		}
	}
	if r.Level < 0 || r.Level > 4 {
		return l.fail(codeValue, append(path, "level"), "%d, want 1, 2, 3 or 4", r.Level)
	}
	for n, class := range r.Classes {
		if !isJudged(class) {
			return l.fail(codeValue, append(path, "classes", n), "%q, want one of %v", class, judgeable())
		}
		d, err := l.demand(r, class, path)
		if err != nil {
			return err
		}
		for _, stage := range r.Stages {
			if _, twice := l.policy.cells[cell{stage, class}]; twice {
				return l.fail(codeValue, append(path, "classes", n), "%s at stage %s already has a row", class, stage)
			}
			l.policy.cells[cell{stage, class}] = l.policy.rebuilt.in(d, stage, class)
		}
	}
	return nil
}

// demand checks the modes of one class and compiles its requirements.
func (l *loader) demand(r fileRequire, class plan.Class, path []any) (demand, error) {
	others, err := otherLevels(l, r.Levels, append(slices.Clone(path), "levels"))
	if err != nil {
		return demand{}, err
	}
	d := demand{modes: map[Check]Mode{}, level: r.Level, others: others, profile: r.Profile}
	known := checksOf(class)
	if all := sbomcheck.Profiles(); r.Profile != "" && !slices.Contains(all, r.Profile) {
		return demand{}, l.fail(codeValue, append(path, "profile"), "%.40q, want %s", r.Profile, strings.Join(all, " or "))
	}
	for _, check := range slices.Sorted(maps.Keys(r.Checks)) {
		mode, at := r.Checks[check], append(slices.Clone(path), "checks", string(check))
		if check == SBOM && mode == complete {
			mode, d.whole = Require, true
		}
		switch {
		case mode == ifPresent && (check == Provenance || check == Summary):
		case !mode.known():
			return demand{}, l.fail(codeValue, at, "%q, want require, warn or off", mode)
		}
		switch {
		case !slices.Contains(known, check):
			return demand{}, l.fail(codeValue, at, "not a check for %s, want one of %v", class, known)
		case check == Provenance && mode != Off && len(l.policy.actors.builders) == 0:
			return demand{}, l.fail(codeEmpty, []any{"builders"}, "empty, but %s requires provenance, so none could be accepted; add a builder", class)
		case check == Summary && mode != Off && len(l.policy.summaries) == 0:
			return demand{}, l.fail(codeEmpty, at, "set, but the policy lists no verifier under summaries")
		}
		d.modes[check] = mode
	}
	for _, check := range known {
		if _, said := d.modes[check]; said {
			continue
		}
		if check != Summary {
			return demand{}, l.fail(codeEmpty, append(path, "checks"), "no mode for %s of %s; want require, warn or off", check, class)
		}
		d.modes[check] = Off
	}
	if d.profile != "" && d.modes[SBOM] != Require {
		return demand{}, l.fail(codeWeak, append(path, "profile"), "it is about SBOMs of %s, which are not required", class)
	}
	if len(d.demands()) > 0 && d.modes[Provenance] != Require {
		key := "level"
		if d.level == 0 {
			key = "levels"
		}
		return demand{}, l.fail(codeWeak, append(path, key), "the level of %s comes from provenance, which is not required", class)
	}
	if err := l.compile(&d, class, path); err != nil {
		return demand{}, err
	}
	if len(d.items) == 0 {
		return demand{}, l.fail(codeEmpty, append(path, "checks"), "all checks of %s are off; use warn if nothing can be required", class)
	}
	return d, l.checkSigned(d, class, append(path, "checks"))
}

// checkSigned refuses a cell that would accept an artifact without any signed
// evidence. SBOMs are unsigned, and a rule need not look at signed evidence; so
// at least one of provenance, signature and summary is required, unless the
// policy says insecureAcceptUnsigned.
func (l *loader) checkSigned(d demand, class plan.Class, path []any) error {
	switch {
	case !d.requires():
		if class == plan.Sums || class == plan.SBOM { // they accept no other artifact
			return nil
		}
		return l.fail(codeEmpty, path, "nothing is required of %s, so everything would be accepted", class)
	case !d.requiresSigned() && !l.Unsigned:
		return l.fail(codeEmpty, path, "no signed evidence is required of %s, so it would be accepted from anybody: require provenance, signature or summary, or set insecureAcceptUnsigned: true", class)
	}
	return nil
}

// requires reports whether a cell requires anything.
func (d demand) requires() bool {
	return slices.ContainsFunc(d.items, func(it item) bool { return it.mode == Require })
}

// requiresSigned reports whether a cell requires signed evidence.
func (d demand) requiresSigned() bool {
	return slices.ContainsFunc([]Check{Provenance, Signature, Summary}, func(c Check) bool { return d.modes[c] == Require })
}

// checkPlanned refuses a policy that requires provenance but not the plan. Then
// the release identity alone decides what needs no provenance: it could list a
// program as a checksum file.
func (l *loader) checkPlanned() error {
	if l.policy.whole.plan == Require {
		return nil
	}
	for _, stage := range stages() {
		for _, class := range Judged() {
			if l.policy.cells[cell{stage, class}].modes[Provenance] == Require {
				return l.fail(codeWeak, at("plan"), "%q, but %s requires provenance at stage %s, and the release identity could list it as another class without it; want require", l.Plan, class, stage)
			}
		}
	}
	return nil
}

func (l *loader) loadPlaces() error {
	if l.policy.whole.plan = l.Plan; !l.Plan.known() {
		return l.fail(codeValue, at("plan"), "%q, want require, warn or off", l.Plan)
	}
	if l.policy.whole.digests = l.Digests == "all"; !l.policy.whole.digests && l.Digests != "" && l.Digests != "sha256" {
		return l.fail(codeValue, at("digests"), "%q, want sha256 or all", l.Digests)
	}
	if l.policy.byIndex = l.Children == "index"; !l.policy.byIndex && l.Children != "" && l.Children != "own" {
		return l.fail(codeValue, at("children"), "%q, want own or index", l.Children)
	}
	if l.policy.whole.earlier = cmp.Or(l.Regression, Require); !l.policy.whole.earlier.known() {
		return l.fail(codeValue, at("regression"), "%q, want require, warn or off", l.Regression)
	}
	l.policy.whole.closed = l.Closed
	for _, place := range []string{Files, Images} {
		if _, said := l.Closed[place]; !said {
			return l.fail(codeEmpty, at("closed"), "no mode for %s: want require, warn or off for files beside those of the release", place)
		}
	}
	for _, place := range slices.Sorted(maps.Keys(l.Closed)) {
		if place != Files && place != Images && place != inputs || !l.Closed[place].known() {
			return l.fail(codeValue, at("closed", place), "want files, images and inputs, each require, warn or off")
		}
		if place == inputs && len(l.Inputs) == 0 {
			return l.fail(codeEmpty, at("closed", place), "set, but the policy lists no inputs; add a row or leave it out")
		}
	}
	return nil
}

func (l *loader) loadLate() error {
	if err := filled(l, l.Late, "late"); err != nil {
		return err
	}
	for i, late := range l.Late {
		path := at("late", i)
		switch {
		case late.Predicate == "":
			return l.fail(codeEmpty, append(path, "predicate"), "empty")
		case late.Role == Channels, late.Role == rebuilder, late.Role == Signoffs, late.Role == Reconciler, late.Role == vexSigner && Owner(late.Predicate) != vexSigner, late.Role == sources && late.Predicate != vsa.PredicateType, late.Role == Builder && l.policy.counts.builders < 2 && isProvenance(late.Predicate), len(l.policy.actors.holders(late.Role)) == 0:
			return l.fail(codeValue, append(path, "role"), "%q, want a role that has signers, other than channel, signoff, reconciler and rebuilder; builder only for what is no provenance, and vex only for OpenVEX", late.Role)
		case len(late.Stages) == 0:
			return l.fail(codeEmpty, append(path, "stages"), "empty")
		}
		for n, stage := range late.Stages {
			if !slices.Contains(stages(), stage) || slices.Contains(late.Stages[:n], stage) {
				return l.fail(codeValue, append(path, "stages", n), "%q is not staging or release, or is listed twice", stage)
			}
		}
	}
	l.policy.whole.late = l.Late
	return nil
}

func (l *loader) loadSource() error {
	switch {
	case len(l.policy.actors.builders) == 0 && l.Source == (fileSource{}) && l.Build == nil:
		return nil // no requirements on builds
	case len(l.policy.actors.builders) == 0:
		return l.fail(codeEmpty, at("builders"), "empty, so source and build apply to nothing; add a builder or remove them")
	case l.Source.Repository == "":
		return l.fail(codeEmpty, at("source", "repository"), "empty, so a build of any source would be accepted; set it")
	}
	if err := l.template(l.Source.Ref, at("source", "ref")); err != nil {
		return err
	}
	if v := l.Source.VersionedTag; v != "" && (l.Source.Ref != "" || (provenance.Source{Ref: "refs/tags/" + v}).Tagged(v) != nil) {
		return l.fail(codeValue, at("source", "versionedTag"), "%q, want a version such as v14 or v14.2, and no ref beside it", v)
	}
	l.policy.build.source = l.Source
	return nil
}

// template refuses an unknown placeholder.
func (l *loader) template(text string, path []any) error {
	left := text
	for _, name := range []string{"{version}", "{repository}", "{ref}"} {
		left = strings.ReplaceAll(left, name, "")
	}
	if strings.ContainsAny(left, "{}") {
		return l.fail(codeValue, path, "%q has a placeholder other than {version}, {repository} and {ref}", text)
	}
	return nil
}

func (l *loader) loadParameters() error {
	if l.Build == nil {
		return nil
	}
	if len(l.Build.Types) == 0 {
		return l.fail(codeEmpty, at("build", "types"), "empty; list the expected build types")
	}
	if err := errors.Join(l.few(len(l.Build.Types), at("build", "types")), l.few(len(l.Build.Parameters), at("build", "parameters"))); err != nil {
		return err
	}
	for i, t := range l.Build.Types {
		if t == "" || slices.Contains(l.Build.Types[:i], t) {
			return l.fail(codeValue, at("build", "types", i), "%q is empty or occurs twice", t)
		}
	}
	if len(l.Build.Parameters) == 0 {
		return l.fail(codeEmpty, at("build", "parameters"), "empty; list every parameter that a build may have")
	}
	for i, p := range l.Build.Parameters {
		if err := l.checkParameter(i, p); err != nil {
			return err
		}
	}
	l.policy.build.types, l.policy.build.params = l.Build.Types, l.Build.Parameters
	return nil
}

func (l *loader) checkParameter(i int, p fileParameter) error {
	path := at("build", "parameters", i)
	if err := l.few(len(p.OneOf), append(path, "oneOf")); err != nil {
		return err
	}
	ways := slice.Count([]bool{p.Is != "", p.OneOf != nil, p.Any}, func(said bool) bool { return said })
	switch {
	case p.Name == "" || slices.ContainsFunc(l.Build.Parameters[:i], func(o fileParameter) bool { return o.Name == p.Name }):
		return l.fail(codeValue, append(path, "name"), "%q is empty or occurs twice", p.Name)
	case p.Name == anyOther && (!p.Any || !p.Optional):
		return l.fail(codeValue, append(path, "name"), "%q stands for parameters that are not listed; want any: true and optional: true", p.Name)
	case p.Name == anyOther && slices.ContainsFunc(l.Builders, func(b fileBuilder) bool { return b.Level > 2 }):
		return l.fail(codeWeak, append(path, "name"), "%q accepts parameters that the policy does not list, so no builder may be trusted above level 2; list the parameters", p.Name)
	case ways != 1:
		return l.fail(codeEmpty, path, "%s: want exactly one of is, oneOf and any: true", p.Name)
	case p.OneOf != nil && (len(p.OneOf) == 0 || slices.Contains(p.OneOf, "")):
		return l.fail(codeEmpty, append(path, "oneOf"), "empty")
	}
	return slice.Check(append(slices.Clone(p.OneOf), p.Is), func(text string) error { return l.template(text, path) })
}

func (l *loader) loadSummaries() error {
	if err := filled(l, l.Summaries, "summaries"); err != nil {
		return err
	}
	for i, s := range l.Summaries {
		path := at("summaries", i)
		pinned, age, err := pin(l, s, path)
		switch {
		case len(l.policy.actors.roles[Verifier]) == 0:
			return l.fail(codeEmpty, path, "a summary is required, but no identity has the role verifier; add one")
		case s.Verifier == "" || s.Resource == "" || s.Policy.URI == "":
			return l.fail(codeEmpty, path, "want verifier, resource and policy")
		case err != nil:
			return err
		case len(s.Levels) == 0 && !pinned.IsZero():
			return l.fail(codeEmpty, append(path, "levels"), "empty")
		}
		if err := l.template(strings.ReplaceAll(s.Resource, imageOf, ""), append(path, "resource")); err != nil {
			return err
		}
		for _, track := range slices.Sorted(maps.Keys(s.Levels)) {
			if n := s.Levels[track]; track != strings.ToUpper(track) || track == "" || n < 1 || n > 4 {
				return l.fail(codeValue, append(path, "levels", track), "%d, want a track in capitals, such as BUILD, and a level from 1", n)
			}
		}
		who, err := l.speakers(s, path)
		if err != nil {
			return err
		}
		l.policy.summaries = append(l.policy.summaries, summary{s, pinned, age, who})
	}
	return nil
}

// imageOf is the placeholder in the resource of a summary for the repository of
// the image and its digest.
const imageOf = "{image}"

// pin returns the digest of a verifier's policy and the maximum age of its
// summaries. With commit: any, there is no such digest, and no age unless the
// policy sets one: such a verifier writes one summary for each artifact, once,
// by the policy as it was at a commit.
func pin(l *loader, s fileSummary, path []any) (pinned digest.Digest, age time.Duration, err error) {
	anyCommit := s.Policy.Commit == "any"
	switch {
	case s.Policy.Commit != "" && (!anyCommit || s.Policy.SHA256 != ""):
		return pinned, 0, l.fail(codeValue, append(path, "policy", "commit"), "%q, want any and no sha256, or sha256 alone", s.Policy.Commit)
	case !anyCommit:
		if pinned, err = digest.Parse("sha256:" + s.Policy.SHA256); err != nil {
			return pinned, 0, l.fail(codeValue, append(path, "policy", "sha256"), "%v", err)
		}
	}
	if !anyCommit || s.MaxAge != "" {
		age, err = l.duration(s.MaxAge, append(slices.Clone(path), "maxAge"))
	}
	return pinned, age, err
}

// speakers returns the identities that may sign for a verifier. With several
// identities and several verifiers the policy must list them; otherwise each
// could sign for every verifier.
func (l *loader) speakers(s fileSummary, path []any) ([]allowedSigner, error) {
	known := l.policy.actors.roles[Verifier]
	if s.Signers == nil {
		if len(known) > 1 && slices.ContainsFunc(l.Summaries, func(o fileSummary) bool { return o.Verifier != s.Verifier }) {
			return nil, l.fail(codeWeak, path, "the role verifier has several identities and there are several verifiers; list in signers which identities sign for %s", s.Verifier)
		}
		return nil, nil
	}
	who, err := l.signers(s.Signers, append(path, "signers"))
	if err != nil {
		return nil, err
	}
	for n, one := range who {
		if one.exact == (identity.Identity{}) || !anyOf(known, one.exact) {
			return nil, l.fail(codeValue, append(path, "signers", n), "%s is not an exact identity of the role verifier", one)
		}
	}
	return who, nil
}
