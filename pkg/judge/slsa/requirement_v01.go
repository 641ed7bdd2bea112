package slsa

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// v01 is SLSA v0.1, whose levels KEP-3027 uses.
func v01() []requirement {
	return []requirement{
		{V01, "build.scripted", 1, false, "All steps are in a build script", (*facts).instructed},
		{V01, "provenance.available", 1, false, "Provenance is available", (*facts).available},
		{V01, "content.artifact", 1, false, "Provenance identifies the artifact by hash", (*facts).available},
		{V01, "content.builder", 1, false, "Provenance identifies the builder", (*facts).builderNamed},
		{V01, "content.instructions", 1, false, "Provenance identifies the build instructions", (*facts).instructed},
		{V01, "content.metadata", 1, true, "Provenance has times and an invocation", (*facts).metadata},

		{V01, "source.version-controlled", 2, false, "The source is version controlled", (*facts).versionControlled},
		{V01, "build.service", 2, false, "A build service ran the build", atLeast(2, "is a build service")},
		{V01, "provenance.authenticated", 2, false, "Provenance is authenticated", (*facts).authentic},
		{V01, "provenance.service-generated", 2, false, "The service generated the provenance", atLeast(2, "generates provenance itself")},
		{V01, "content.source", 2, false, "Provenance identifies the source by an immutable reference", (*facts).sourceNamed},

		{V01, "source.verified-history", 3, false, "Every change has an authenticated actor", sourceLevel(2)},
		{V01, "source.retained", 3, false, "The source is retained for 18 months", (*facts).retained},
		{V01, "build.as-code", 3, false, "The build definition is in version control", (*facts).asCode},
		{V01, "build.ephemeral", 3, false, "The environment is made for the build", atLeast(3, "makes an environment for each build")},
		{V01, "build.isolated", 3, false, "Builds cannot influence each other", (*facts).isolated},
		{V01, "provenance.non-falsifiable", 3, false, "Users of the service cannot falsify provenance", atLeast(3, "keeps its key out of reach of build steps")},
		{V01, "content.source-authenticated", 3, false, "The service found the source itself", (*facts).sourceAuthenticated},
		{V01, "content.entry-point", 3, false, "Provenance identifies the entry point", (*facts).entryPoint},
		{V01, "content.parameters", 3, false, "Provenance includes all build parameters", (*facts).enumerated},

		{V01, "source.two-person", 4, false, "Two people approved every change", (*facts).twoPerson},
		{V01, "source.retained-indefinitely", 4, false, "The source is retained indefinitely", (*facts).retained},
		{V01, "build.parameterless", 4, false, "Only the source and the entry point can change the output", (*facts).parameterless},
		{V01, "build.hermetic", 4, false, "Steps have no network, and inputs are declared in advance", (*facts).hermetic},
		{V01, "build.reproducible", 4, true, "Building again gives the same bytes", (*facts).reproducible},
		{V01, "provenance.dependencies", 4, false, "All dependencies are recorded", (*facts).dependencies},
		{V01, "content.dependencies", 4, false, "Provenance includes all transitive dependencies", (*facts).dependencies},
		{V01, "content.reproducible", 4, false, "Provenance says whether the build can be reproduced", (*facts).reproducibleSaid},
		{V01, "common.security", 4, false, "The platform meets a security standard", (*facts).human},
		{V01, "common.access", 4, false, "Few people can access the platform, rarely, and access is logged", (*facts).human},
		{V01, "common.superusers", 4, false, "Few people can override, and only two together", (*facts).human},
	}
}

func (f *facts) builderNamed() Answer {
	switch {
	case !f.exists:
		return missing("provenance of this artifact")
	case f.claim.Builder.ID == "":
		return notMet(f.evidence, "the provenance names no builder")
	}
	return met("builder "+quote(f.claim.Builder.ID), f.evidence)
}

func (f *facts) metadata() Answer {
	switch {
	case !f.exists:
		return missing("provenance of this artifact")
	case f.noted(provenance.LintTimeReversed):
		return notMet(f.evidence, "the build finished before it started")
	case f.noted(provenance.LintInvocation), f.noted(provenance.LintTimeMissing):
		return missing("the times of the build, or an invocation id")
	}
	return met("times and invocation", f.evidence)
}

func (f *facts) versionControlled() Answer {
	if f.source.level >= 1 {
		return met("a trusted verifier confirms it for this revision", f.source.evidence)
	}
	if a := f.sourceNamed(); a.State != Met || !f.local() {
		return a
	}
	return missing(noCanonicalSource)
}

// sourceNamed: a hosted service names a commit. In provenance by other signers
// anybody could have written it.
func (f *facts) sourceNamed() Answer {
	a := atLeast(2, "names the source that it built")(f)
	switch {
	case a.State != Met:
		return a
	case f.claim.Source.Repository == "" || f.claim.Source.Commit == "":
		return notMet(f.evidence, "the provenance names no commit")
	}
	return met("commit "+quote(f.claim.Source.Commit), f.evidence)
}

func (f *facts) retained() Answer {
	return missing("a declaration of the policy that the source is retained")
}

func (f *facts) human() Answer {
	return missing("a declaration of the policy; a program cannot check this")
}

// asCode: the definition is a file of the commit that was built.
func (f *facts) asCode() Answer {
	a := atLeast(3, "reads the build definition itself")(f)
	switch {
	case a.State != Met:
		return a
	case f.claim.Source.Commit == "" || f.claim.EntryPoint == "":
		return notMet(f.evidence, "the provenance names no build definition in a commit")
	case f.noted(provenance.LintEntryMutable), f.noted(provenance.LintEntryForeign):
		return notMet(f.evidence, "the build definition %s is not in the named commit", quote(f.claim.EntryPoint))
	}
	return met("definition "+quote(f.claim.EntryPoint)+" of the commit", f.evidence)
}

func (f *facts) sourceAuthenticated() Answer {
	if a := f.sourceNamed(); a.State != Met {
		return a
	}
	if f.local() {
		return missing(noCanonicalSource)
	}
	return atLeast(3, "resolves the source itself")(f)
}

func (f *facts) entryPoint() Answer {
	a := atLeast(3, "records the entry point")(f)
	if a.State == Met && f.claim.EntryPoint == "" {
		return notMet(f.evidence, "the provenance names no entry point")
	}
	return a
}

func (f *facts) twoPerson() Answer {
	if f.source.reviewed {
		return met("a trusted verifier confirms that two parties reviewed this revision", f.source.evidence)
	}
	return sourceLevel(4)(f)
}

func (f *facts) parameterless() Answer {
	a := f.enumerated()
	if a.State != Met {
		return a
	}
	names := slice.Map(f.claim.UserParameters(), func(p provenance.Parameter) string { return quote(p.Name) })
	if n := len(names); n > 0 {
		return notMet(f.evidence, "%s besides source and entry point: %s", plural.Of(n, "parameter"), strings.Join(names[:min(n, 8)], ", "))
	}
	return met("no parameters besides source and entry point", f.evidence)
}

func (f *facts) hermetic() Answer {
	a := f.isolated()
	switch said := f.saidHermetic(); {
	case a.State != Met:
		return a
	case said == provenance.SaidYes:
		return met("the builder reports no network, and inputs that are all fixed by digest", f.evidence)
	case said == provenance.SaidNo:
		return notMet(f.evidence, "the builder reports that this step could use inputs without a fixed digest: a network, the machine's programs, or a tool that is not locked")
	case !f.pair.Hermetic:
		return missing("an assessment that the builder's steps have no network (hermetic of the builder in the policy)")
	case f.dependencies().State != Met:
		return missing("a complete list of dependencies")
	}
	return met("the builder's steps have no network: it is assessed so", f.evidence)
}

func (f *facts) reproducible() Answer {
	if len(f.rebuilt) == 0 {
		return missing("statements of as many rebuilders as the policy asks for")
	}
	return met("as many rebuilders as the policy asks for built the same bytes", f.rebuilt)
}

// dependencies: the builder can list all, and the list does not contradict
// that.
func (f *facts) dependencies() Answer {
	a := atLeast(3, "records what it fetched")(f)
	switch {
	case a.State != Met:
		return a
	case f.claim.Completeness.Materials == provenance.SaidNo:
		return notMet(f.evidence, "the provenance says that its materials are not complete")
	case f.noted(provenance.LintToolchain), f.noted(provenance.LintCompleteness):
		return notMet(f.evidence, "the dependencies include no toolchain or builder image; listed: %d", len(f.claim.Dependencies))
	case f.noted(provenance.LintDependency):
		return notMet(f.evidence, "a dependency has no digest")
	case f.saidHermetic() == provenance.SaidYes && f.isolated().State == Met:
		return met("the step was hermetic, so it used only the listed dependencies", f.evidence)
	case !f.pair.Complete:
		return missing("an assessment that the builder lists everything that it fetches (complete of the builder in the policy)")
	}
	return met("the builder lists everything that it fetches: it is assessed so", f.evidence)
}

func (f *facts) reproducibleSaid() Answer {
	a := atLeast(3, "records whether a build can be reproduced")(f)
	switch {
	case a.State != Met:
		return a
	case len(f.rebuilt) > 0:
		return met("it was built again with the same bytes", f.rebuilt)
	case f.claim.Reproducible == provenance.NotSaid:
		return missing("a statement whether the build can be reproduced, or a rebuild")
	case f.noted(provenance.LintReproducible):
		return notMet(f.evidence, "the provenance claims reproducibility, but lacks what that requires")
	}
	return met("the provenance states it", f.evidence)
}
