package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// An act is one thing that is done to a release.
type act struct {
	// name is used by the journal and in messages.
	name string
	// run is the kind under which a manifest lists a run of this act; empty
	// if manifests do not list it.
	run string
	// span is the name of the act's trace span, empty for none. task is the
	// span's task name; the default is name.
	span span.Name
	task string
	// journaled says which journal records the act.
	journaled journaling
	// needs are obtained in this order before do is called.
	needs []need
	// places are the stages whose places the act reads or writes.
	places []placeUse
	// signs is the signing role and what it signs; zero for an act that signs
	// nothing, or signs only if the role's identity was given.
	signs signs
	// progress adds this act's progress to a status; nil if it shows none.
	progress func(context.Context, *statusReader) error
	// preview describes what the act would do after the release is public.
	preview func(context.Context, *job) ([]string, error)
	// do performs the act. An act with steps has no do.
	do    func(context.Context, tools, facts) (facts, error)
	steps []act
}

// journaling says which journal records an act.
type journaling int

const (
	journalNone      journaling = iota // a step of another act, or read-only
	journalWorkspace                   // the workspace's, which must exist
	journalIfPresent                   // the workspace's, if one for this release exists
	journalIfFree                      // as journalIfPresent, unless another run has locked it
)

// signs is the role in which an act signs, and what it signs.
type signs struct {
	role  policy.Role
	token string
	// orders counts what the act signs, and returns the orders that are known
	// in advance.
	orders func(context.Context, *outlook) ([]KindCount, []sign.Order)
}

// placeUse is a stage whose places an act reads or writes.
type placeUse struct {
	stage profile.Stage
	write bool
}

// The names of acts in the journal.
const (
	actBuild    = "build"
	ActSign     = "sign"
	ActSeal     = "seal"
	actRelease  = "release"
	actSBOM     = "sbom"
	actSealFrom = "seal from " // followed by a place
	actAmend    = "amend"
	actWithdraw = "withdraw"
	actChannel  = "channel"

	actToStaging = "promote to staging"
	actToRelease = "promote to release"
	stepPromote  = "promote"
	stepVerify   = "verify"
	stepRecord   = "record"
	stepMarkers  = "markers"
)

func buildAct() act {
	return act{
		name: actBuild, run: manifest.RunBuild, span: span.Build, journaled: journalWorkspace,
		needs:    []need{sourceFor(doctor.Build), begun},
		signs:    signs{policy.Builder, TokenBuilder, provenanceOf},
		progress: countOf("build", plan.Provenance), do: runSteps,
	}
}

func sbomAct() act {
	return act{name: actSBOM, span: span.SBOM, journaled: journalWorkspace, needs: []need{built}, progress: countOf("sbom", plan.SBOM), do: describe}
}

func signAct() act {
	a := asRelease(ActSign, manifest.RunSign, signaturesOf)
	a.span, a.progress, a.do = span.Sign, countOf("sign", plan.Signature), sealing(signAll)
	return a
}

func sealAct() act {
	a := asRelease(ActSeal, manifest.RunSeal, manifestOf)
	a.progress, a.do = sealedHere, sealing(sealAll)
	return a
}

// asRelease is an act that signs what was built as the release identity.
func asRelease(name, run string, orders func(context.Context, *outlook) ([]KindCount, []sign.Order)) act {
	return act{
		name: name, run: run, span: span.Seal, journaled: journalWorkspace, needs: []need{legacyLog, ownClone, built},
		signs: signs{policy.Release, TokenRelease, orders},
	}
}

func toStaging() act {
	return act{
		name: actToStaging, span: span.Promote, journaled: journalWorkspace, needs: []need{opened},
		places: []placeUse{{profile.Staging, true}}, progress: isAt(profile.Staging), do: copyTo(profile.Staging),
	}
}

// gateAct asks the gate about a stage.
func gateAct(s profile.Stage) act {
	a := act{name: "gate", span: span.Gate, task: "decide about " + string(s), places: []placeUse{{s, false}}, do: askGate(s)}
	if s == profile.Release {
		a.name = stepVerify
	}
	return a
}

// toRelease is the promotion as a command of its own; publish is the same as
// a step of a release.
func toRelease() act {
	a := publish()
	a.name, a.journaled, a.needs = actToRelease, journalIfFree, []need{accepted}
	return a
}

func publish() act {
	return act{
		name: stepPromote, task: actToRelease, span: span.Promote, places: []placeUse{{profile.Release, true}},
		progress: isAt(profile.Release), do: copyTo(profile.Release),
	}
}

// stageAct and releaseAct have the steps from source to users, in order.
func stageAct() act {
	return act{
		name: "stage", needs: []need{sourceFor(doctor.Stage)},
		steps: []act{buildAct(), sbomAct(), signAct(), sealAct(), toStaging(), gateAct(profile.Staging)},
	}
}

func releaseAct() act {
	return act{
		name: actRelease, journaled: journalIfPresent,
		steps: []act{
			gateAct(profile.Staging), publish(), gateAct(profile.Release),
			{name: stepRecord, span: span.Record, progress: recordsProgress, preview: wouldRecord, do: writeRecords},
			{name: stepMarkers, span: span.Mark, progress: markersProgress, preview: wouldMark, do: moveMarkers},
		},
	}
}

// sealFrom seals what another tool built.
func sealFrom() act {
	a := sealAct()
	a.name = actSealFrom
	return a
}

// revision signs the next revision of a sealed release.
func revision(name, run string) act { return asRelease(name, run, oneOf("revision of the manifest")) }

// pointChannels signs a channel index, which belongs to no single release.
func pointChannels() act {
	return act{name: actChannel, signs: signs{policy.Channels, TokenChannel, oneOf("channel index")}}
}

// mainActs are the acts from source to users, in order.
func mainActs() []act { return slices.Concat(stageAct().steps, releaseAct().steps) }

// allActs are the main acts and the optional ones.
func allActs() []act {
	return append(mainActs(), toRelease(), sealFrom(), revision(actAmend, manifest.RunAmend), revision(actWithdraw, manifest.RunWithdraw), pointChannels())
}

// actNamed finds an act by its name in a journal. An unknown name gives the
// zero act.
func actNamed(name string) act {
	return slice.First(allActs(), func(a act) bool {
		return a.name == name || a.name == actSealFrom && strings.HasPrefix(name, actSealFrom)
	})
}

func actsFor(purpose doctor.Purpose) []act {
	switch purpose {
	case doctor.Build:
		return []act{buildAct()}
	case doctor.Stage:
		return stageAct().steps
	case doctor.Release:
		return releaseAct().steps
	case doctor.Verify:
		return []act{gateAct(profile.Release)}
	}
	return nil
}
