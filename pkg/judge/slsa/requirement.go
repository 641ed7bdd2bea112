package slsa

import (
	"slices"
	"strconv"

	"github.com/waybill-release/waybill/pkg/document/provenance"
)

// requirement is one row of a specification: the lowest level that requires it,
// and how to answer it. Optional rows are shown, but not counted.
type requirement struct {
	track    Track
	id       string
	level    int
	optional bool
	title    string
	ask      func(*facts) Answer
}

// requirements returns all rows, in the order of the report.
func requirements() []requirement {
	return slices.Concat(v01(), build(), source())
}

// build is the Build track of SLSA v1.2, with level 4 as drafted for the version
// after it.
func build() []requirement {
	return []requirement{
		{Build, "build.exists", 1, false, "Provenance exists and identifies the output by digest", (*facts).available},
		{Build, "build.process", 1, false, "Provenance says how the output was built", (*facts).instructed},
		{Build, "build.builder", 1, false, "Provenance names the builder", (*facts).builderNamed},
		{Build, "build.authentic", 2, false, "Provenance is signed by a trusted signer of the builder", (*facts).authentic},
		{Build, "build.hosted", 2, false, "A hosted platform ran the build", atLeast(2, "ran on a hosted platform")},
		{Build, "build.unforgeable", 3, false, "Build steps cannot reach the signing key", atLeast(3, "keeps its key out of reach of build steps")},
		{Build, "build.isolated", 3, false, "Builds cannot influence each other", (*facts).isolated},
		{Build, "build.parameters", 3, false, "External parameters are complete", (*facts).enumerated},
		{Build, "build.dependencies", 4, false, "The builder ensures that the recorded dependencies are complete", (*facts).ensured},
	}
}

// source is the Source track of SLSA v1.2.
func source() []requirement {
	return []requirement{
		{Source, "source.level-1", 1, false, "The source is version controlled", sourceLevel(1)},
		{Source, "source.level-2", 2, false, "Its history is kept, with provenance", sourceLevel(2)},
		{Source, "source.level-3", 3, false, "Technical controls are continuous", sourceLevel(3)},
		{Source, "source.level-4", 4, false, "Two parties reviewed it", sourceLevel(4)},
	}
}

// available: there is provenance for these bytes.
func (f *facts) available() Answer {
	switch {
	case !f.given:
		return missing("provenance of this artifact")
	case !f.exists:
		return notMet(f.evidence, "the provenance is of another artifact")
	}
	return met("provenance names this artifact by digest", f.evidence)
}

// instructed: the provenance names a build type and its inputs.
func (f *facts) instructed() Answer {
	switch {
	case !f.exists:
		return missing("provenance of this artifact")
	case f.claim.BuildType == "":
		return notMet(f.evidence, "the provenance has no build type")
	case f.claim.EntryPoint == "" && len(f.claim.Parameters) == 0:
		return notMet(f.evidence, "the provenance names neither an entry point nor a parameter")
	}
	return met("build type "+quote(f.claim.BuildType), f.evidence)
}

// authentic: signer and builder are a pair of the trust map.
func (f *facts) authentic() Answer {
	switch {
	case !f.exists:
		return missing("provenance of this artifact")
	case !f.signed:
		return missing("a signature over the provenance")
	case f.level() == 0 && f.known:
		return notMet(f.evidence, "%s may not sign for builder %s", quote(f.signer), quote(f.claim.Builder.ID))
	case f.level() == 0:
		return missing("an entry of the policy or the command that trusts builder %s with the signer %s", quote(f.claim.Builder.ID), quote(f.signer))
	}
	return met("this signer may sign for the builder", f.evidence)
}

// atLeast requires a builder that is trusted up to a level.
func atLeast(level int, what string) func(*facts) Answer {
	return func(f *facts) Answer {
		a := f.authentic()
		switch {
		case a.State != Met:
			return a
		case f.level() < level:
			return notMet(f.evidence, "the builder is trusted up to Build level %d, which does not imply that it %s", f.level(), what)
		}
		return met("the builder "+what+": it is trusted up to Build level "+strconv.Itoa(f.level()), f.evidence)
	}
}

// isolated: the builder can isolate, and does not say that it did not.
func (f *facts) isolated() Answer {
	a := atLeast(3, "isolates builds from each other")(f)
	if a.State == Met && f.unisolated() {
		return notMet(f.evidence, "the provenance says that the steps were not isolated")
	}
	return a
}

// enumerated: a builder of level 3 lists all parameters, unless it says that it
// did not.
func (f *facts) enumerated() Answer {
	a := atLeast(3, "records every external parameter")(f)
	if a.State == Met && f.claim.Completeness.Parameters == provenance.SaidNo {
		return notMet(f.evidence, "the provenance says that its parameters are not complete")
	}
	return a
}

// ensured: the builder makes sure that steps use only what it recorded. A step
// of our build type that had a network, or an input without a digest, did not.
func (f *facts) ensured() Answer {
	if a := atLeast(4, "ensures that the recorded dependencies are complete")(f); a.State != Met {
		return a
	}
	switch said := f.saidHermetic(); {
	case said == provenance.SaidNo:
		return f.hermetic()
	case f.isolated().State != Met:
		return f.isolated()
	case f.dependencies().State != Met:
		return f.dependencies()
	}
	return met("the builder ensures it: "+quote(f.pair.Enforced), f.evidence)
}

// sourceLevel requires a level of the Source track.
func sourceLevel(level int) func(*facts) Answer {
	return func(f *facts) Answer {
		if f.source.level < level {
			if level == 1 && f.source.clone != "" {
				return met(f.source.clone, nil)
			}
			return missing("%s", f.source.why)
		}
		return met("a trusted verifier confirms it for this revision", f.source.evidence)
	}
}
