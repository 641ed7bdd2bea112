package slsa

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/tool/plural"
)

// v01 is SLSA v0.1, the levels that KEP-3027 counts by.
func v01() []requirement {
	return []requirement{
		{V01, "build.scripted", 1, false, "All steps are in a build script", (*facts).instructed},
		{V01, "provenance.available", 1, false, "Provenance is available", (*facts).available},
		{V01, "content.artifact", 1, false, "It identifies the artifact by hash", (*facts).available},
		{V01, "content.builder", 1, false, "It identifies the builder", (*facts).builderNamed},
		{V01, "content.instructions", 1, false, "It identifies the build instructions", (*facts).instructed},
		{V01, "content.metadata", 1, true, "It has times and an invocation", (*facts).metadata},

		{V01, "source.version-controlled", 2, false, "The source is version controlled", (*facts).versionControlled},
		{V01, "build.service", 2, false, "A build service ran it", atLeast(2, "is a build service")},
		{V01, "provenance.authenticated", 2, false, "Provenance is authenticated", (*facts).authentic},
		{V01, "provenance.service-generated", 2, false, "The service generated it", atLeast(2, "generates provenance itself")},
		{V01, "content.source", 2, false, "It identifies the source by an immutable reference", (*facts).sourceNamed},

		{V01, "source.verified-history", 3, false, "Every change has an authenticated actor", sourceLevel(2)},
		{V01, "source.retained", 3, false, "The source is retained for 18 months", (*facts).retained},
		{V01, "build.as-code", 3, false, "The build definition is in version control", (*facts).asCode},
		{V01, "build.ephemeral", 3, false, "The environment is made for the build", atLeast(3, "makes an environment for each build")},
		{V01, "build.isolated", 3, false, "Builds cannot influence each other", (*facts).isolated},
		{V01, "provenance.non-falsifiable", 3, false, "Users of the service cannot falsify it", atLeast(3, "keeps its key out of reach of build steps")},
		{V01, "content.source-authenticated", 3, false, "The service found the source itself", (*facts).sourceAuthenticated},
		{V01, "content.entry-point", 3, false, "It identifies the entry point", (*facts).entryPoint},
		{V01, "content.parameters", 3, false, "It includes all build parameters", (*facts).enumerated},

		{V01, "source.two-person", 4, false, "Two people agreed to every change", (*facts).twoPerson},
		{V01, "source.retained-indefinitely", 4, false, "The source is retained indefinitely", (*facts).retained},
		{V01, "build.parameterless", 4, false, "Only the source and the entry point can change the output", (*facts).parameterless},
		{V01, "build.hermetic", 4, false, "Steps have no network, inputs are declared before", (*facts).hermetic},
		{V01, "build.reproducible", 4, true, "Building again gives the same bytes", (*facts).reproducible},
		{V01, "provenance.dependencies", 4, false, "All dependencies are recorded", (*facts).dependencies},
		{V01, "content.dependencies", 4, false, "It includes all transitive dependencies", (*facts).dependencies},
		{V01, "content.reproducible", 4, false, "It says whether it can be reproduced", (*facts).reproducibleSaid},
		{V01, "common.security", 4, false, "The platform meets a security standard", (*facts).human},
		{V01, "common.access", 4, false, "Access to the platform is rare, logged and for few", (*facts).human},
		{V01, "common.superusers", 4, false, "Few can override, and only two of them together", (*facts).human},
	}
}

func (f *facts) builderNamed() Answer {
	switch {
	case !f.exists:
		return missing("provenance of this artifact")
	case f.claim.Builder.ID == "":
		return notMet(f.evidence, "it names nobody as the builder")
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
		return met("a trusted verifier says so of this revision", f.source.evidence)
	}
	if a := f.sourceNamed(); a.State != Met || !f.local() {
		return a
	}
	return missing(noCanonicalSource)
}

// sourceNamed: a service names a commit. Anybody could have written what
// nobody trusted signed.
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

func (f *facts) human() Answer { return missing("a declaration of the policy; no tool can look at it") }

// asCode: the definition is a file of the commit that was built.
func (f *facts) asCode() Answer {
	a := atLeast(3, "reads the build definition itself")(f)
	switch {
	case a.State != Met:
		return a
	case f.claim.Source.Commit == "" || f.claim.EntryPoint == "":
		return notMet(f.evidence, "no build definition in a commit is named")
	case f.noted(provenance.LintEntryMutable), f.noted(provenance.LintEntryForeign):
		return notMet(f.evidence, "the build definition %s is not in the commit that is named", quote(f.claim.EntryPoint))
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
		return notMet(f.evidence, "no entry point is named")
	}
	return a
}

func (f *facts) twoPerson() Answer {
	if f.source.reviewed {
		return met("a trusted verifier says that two parties reviewed this revision", f.source.evidence)
	}
	return sourceLevel(4)(f)
}

func (f *facts) parameterless() Answer {
	a := f.enumerated()
	if a.State != Met {
		return a
	}
	var names []string
	for _, p := range f.claim.UserParameters() {
		names = append(names, quote(p.Name))
	}
	if n := len(names); n > 0 {
		return notMet(f.evidence, "it took %s: %s", plural.Of(n, "parameter"), strings.Join(names[:min(n, 8)], ", "))
	}
	return met("no parameter but the source and the entry point", f.evidence)
}

func (f *facts) hermetic() Answer {
	a := f.isolated()
	switch said := f.saidHermetic(); {
	case a.State != Met:
		return a
	case said == provenance.SaidYes:
		return met("the builder looked: no network, and nothing that no digest fixes", f.evidence)
	case said == provenance.SaidNo:
		return notMet(f.evidence, "the builder says that this step could use what no digest fixes: a network, the machine's programs, or a tool that is not locked")
	case !f.pair.Hermetic:
		return missing("an assessment in the trust map that the builder's steps have no network")
	case f.dependencies().State != Met:
		return missing("dependencies that are complete")
	}
	return met("the builder's steps have no network, says the trust map", f.evidence)
}

func (f *facts) reproducible() Answer {
	if len(f.rebuilds) == 0 {
		return missing("provenance of another trusted builder for the same bytes from the same source")
	}
	return met("others built the same bytes", f.rebuilds)
}

// dependencies: the builder can list all, and the list does not contradict it.
func (f *facts) dependencies() Answer {
	a := atLeast(3, "records what it fetched")(f)
	switch {
	case a.State != Met:
		return a
	case f.claim.Completeness.Materials == provenance.SaidNo:
		return notMet(f.evidence, "the provenance says that its materials are not complete")
	case f.noted(provenance.LintToolchain), f.noted(provenance.LintCompleteness):
		return notMet(f.evidence, "no toolchain or builder image is among %d dependencies", len(f.claim.Dependencies))
	case f.noted(provenance.LintDependency):
		return notMet(f.evidence, "a dependency has no digest")
	case f.saidHermetic() == provenance.SaidYes && f.isolated().State == Met:
		return met("a hermetic step has nothing else than what is listed", f.evidence)
	case !f.pair.Complete:
		return missing("an assessment in the trust map that the builder lists everything that it fetches")
	}
	return met("the builder lists everything that it fetches, says the trust map", f.evidence)
}

func (f *facts) reproducibleSaid() Answer {
	a := atLeast(3, "records whether a build can be reproduced")(f)
	switch {
	case len(f.rebuilds) > 0:
		return met("others built the same bytes", f.rebuilds)
	case a.State != Met:
		return a
	case f.claim.Reproducible == provenance.NotSaid:
		return missing("a statement whether the build can be reproduced, or a rebuild")
	case f.noted(provenance.LintReproducible):
		return notMet(f.evidence, "it is said to be reproducible without what that takes")
	}
	return met("it is said", f.evidence)
}
