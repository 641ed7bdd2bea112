package gate

import (
	"context"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Depth is how much evidence about the artifacts is checked.
type Depth int

// The depths. The zero Depth checks all evidence that manifest and policy
// require; any other makes the verdict partial.
const (
	allEvidence Depth = iota
	// OnlyFiles checks that the bytes are those that were sealed.
	OnlyFiles
	// OnlySignatures also checks the signatures.
	OnlySignatures
)

// Scope narrows a decision to a part of the release, or adds requirements. The
// zero Scope is the whole release. The verdict names everything that is left
// out.
type Scope struct {
	Depth Depth
	// Platform leaves out artifacts of other platforms; for example
	// linux/amd64.
	Platform string
	// Only is [policy.Files] or [policy.Images]: the other place is left out.
	Only string
	// Given are files on this machine. Only they are judged, in place of those
	// in the file place; their evidence is read from there.
	Given []string
	// Levels are the SLSA levels that everything must have, with all inputs.
	Levels []slsa.Demand
	// Manifest is the digest of the bundle that a channel index names, if one
	// does.
	Manifest digest.Set
}

// check refuses a scope that contradicts itself or the release.
func (s Scope) check(m manifest.Manifest) error {
	switch {
	case s.Only == policy.Images && len(m.Images()) == 0:
		return verdict.Refuse(verdict.Usage, "--only", "the release has no images").Advise("leave out --only: the release has files only")
	case s.Only == policy.Images && len(s.Given) > 0:
		return verdict.Refuse(verdict.Usage, "--only", "files were given, but only images are in scope")
	case len(s.Levels) > 0 && s.Depth != allEvidence:
		return verdict.Refuse(verdict.Usage, "--require-level", "levels are read from provenance, which --depth leaves out")
	}
	var files, images []string
	for _, a := range m.Artifacts {
		if a.IsImage() {
			images = append(images, a.Platform)
			continue
		}
		files = append(files, a.Platform)
	}
	return s.checkPlatform(files, images)
}

// checkPlatform refuses a platform that no artifact in scope has: nothing would
// be checked. Its arguments are the platforms of the files and of the images of
// the release.
func (s Scope) checkPlatform(files, images []string) error {
	what, there := "artifact", slices.Concat(files, images)
	switch s.Only {
	case policy.Files:
		what, there = "file", files
	case policy.Images:
		what, there = "image", images
	}
	if s.Platform == "" || slices.Contains(there, s.Platform) {
		return nil
	}
	act := "name one of these platforms, or leave out --platform"
	if s.Only != "" {
		act += " or --only"
	}
	there = slices.DeleteFunc(slice.Unique(there), func(p string) bool { return p == "" })
	return verdict.Refuse(verdict.Usage, "--platform", "no %s in the release is for platform %q; platforms: %s", what, s.Platform, strings.Join(there, ", ")).
		Advise(act)
}

// narrow decides which artifacts are in scope and which part of the policy
// applies, and reports what is left out.
func narrow(ctx context.Context, req Request, m signedManifest) (*sealed, facts, error) {
	var f facts
	s := &sealed{
		Request: req, manifest: m,
		reader: &imageReader{source: req.Images, verifier: req.Verifier, platform: req.Options.Scope.Platform},
	}
	scope := req.Options.Scope
	if req.Options.AcceptSummaries {
		vouching, err := takesSummaries(req)
		if err != nil {
			return nil, f, err
		}
		s.Policy = vouching
	}
	if err := scope.check(m.Manifest); err != nil {
		return nil, f, err
	}
	if _, judges := s.Policy.JudgesInputs(); judges && scope.Depth != allEvidence {
		f.leave("inputs")
	}
	more := scope.Depth != allEvidence && hasMore(s.Policy, s.Stage)
	switch scope.Depth {
	case OnlyFiles:
		s.Policy = s.Policy.Narrow()
		f.leave("signatures", "provenance", "SBOMs", "plan")
	case OnlySignatures:
		s.Policy = s.Policy.Narrow(policy.Signature)
		f.leave("provenance", "SBOMs", "plan")
	case allEvidence:
	}
	if more {
		f.leave("rules and summaries of the policy")
	}
	s.session = s.Policy.NewSession(allSources(ctx, s, &f)...)
	if scope.Platform != "" {
		f.leave("other platforms than " + scope.Platform)
	}
	switch {
	case len(scope.Given) > 0:
		f.leave("the rest of the release")
	case scope.Only == policy.Files && len(m.Images()) > 0:
		f.leave("images")
	case scope.Only == policy.Images:
		f.leave("files")
	}
	f.checks = req.Options.checks()
	switch {
	case len(scope.Given) > 0:
		s.given, s.asked = s.checkGivenFiles(ctx, &f)
	case scope.Only != "" || scope.Platform != "":
		s.asked = m.chosen(scope)
	}
	s.builds = s.openProvenances(ctx)
	return s, f, nil
}

// hasMore reports whether the policy has requirements that only the full depth
// checks.
func hasMore(p policy.Policy, stage policy.Stage) bool {
	return p.HasRules() || slices.ContainsFunc(policy.Judged(), func(c plan.Class) bool {
		return p.Asks(stage, c, policy.Summary) != policy.Off
	})
}

func (s *sealed) covers(a manifest.Artifact) bool { return s.asked == nil || s.asked[a.Name] }

// chosen returns the artifacts in scope: those of the place and the platform,
// and those of no platform. Evidence is in scope if its artifact is.
func (m signedManifest) chosen(scope Scope) map[string]bool {
	out, needed := map[string]bool{}, map[string]bool{}
	for _, a := range m.Artifacts {
		if scope.Only == "" || a.IsImage() == (scope.Only == policy.Images) {
			out[a.Name] = m.isForPlatform(a, scope.Platform)
		}
		if len(policy.ChecksOf(a.Class)) == 0 {
			continue
		}
		for _, name := range m.belonging(a) {
			needed[name] = needed[name] || m.isForPlatform(a, scope.Platform)
		}
	}
	for name, is := range needed {
		out[name] = out[name] && is
	}
	return out
}

// isForPlatform reports whether an artifact is for a platform. An index is for the
// platforms isForPlatform its children; an artifact without a platform is for all.
func (m signedManifest) isForPlatform(a manifest.Artifact, platform string) bool {
	if children := m.Children(a.Name); a.Class == plan.Image && len(children) > 0 {
		return platform == "" || slices.ContainsFunc(children, func(c manifest.Artifact) bool { return c.Platform == platform })
	}
	return platform == "" || a.Platform == "" || a.Platform == platform
}

// belonging returns the listed names of an artifact's own evidence.
func (m signedManifest) belonging(a manifest.Artifact) []string {
	names := []string{a.Provenance, a.SBOM, a.Signature}
	for _, suffix := range []string{".sha256", ".sha512", BundleSuffix} {
		names = append(names, a.Name+suffix, a.Provenance+suffix, a.SBOM+suffix, a.Signature+suffix)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		of, listed := m.Find(name)
		return !listed || of.IsImage() || len(policy.ChecksOf(of.Class)) > 0
	})
}

// isNamed compares the manifest with the one that a channel index names: the
// same bundle, or the next revision of it.
func (m signedManifest) isNamed(want digest.Set) error {
	if want.IsZero() || want.Equal(m.bundle) || m.Supersedes.Equal(want.SHA256) {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.Equivocation, releasemanifest.Name, "the channel index names another manifest of this version").
		Differ(want.SHA256.String(), m.bundle.SHA256.String())}
}

// checks are the names of the checks that are made.
func (o Options) checks() []string {
	list := []string{"manifest", "files", "closed places"}
	if len(o.Scope.Given) > 0 {
		list = []string{"manifest", "given files"}
	}
	if o.Scope.Depth == allEvidence {
		list = append(list, "plan", "provenance")
	}
	if o.Scope.Depth != OnlyFiles {
		list = append(list, "signatures")
	}
	if o.Scope.Depth == allEvidence {
		list = append(list, "sboms")
	}
	list = append(list, "images")
	if o.Inside != nil {
		list = append(list, "contents")
	}
	drop := map[string]bool{
		"files": o.Scope.Only == policy.Images, "images": o.Scope.Only == policy.Files || len(o.Scope.Given) > 0,
	}
	return slices.DeleteFunc(list, func(check string) bool { return drop[check] })
}

// asks reports whether artifacts of a class have any check in this scope.
func (s *sealed) asks(class plan.Class) bool {
	checks := policy.ChecksOf(class)
	if class == plan.SBOM { // only if the policy has a row for it
		return s.Policy.Asks(s.Stage, class, policy.Signature) != policy.Off
	}
	if s.Options.Scope.Depth == allEvidence {
		return len(checks) > 0
	}
	return slices.ContainsFunc(checks, func(c policy.Check) bool { return s.Policy.Asks(s.Stage, class, c) != policy.Off })
}
