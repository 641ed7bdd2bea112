package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// An act is one thing that is done to a release.
type act struct {
	// name is what the journal and people call it.
	name string
	// run is what a manifest calls a run of it; empty where none is listed.
	run string
	// span is its span in a trace, and task the task of that, if it is not the
	// name; no span where it is empty.
	span span.Name
	task string
	// noted says which journal remembers it.
	noted noting
	// needs are found before do is called, in this order.
	needs []need
	// places are those that it reads or writes.
	places []visit
	// signs says as whom it signs what; zero for an act that signs nothing, or
	// only if somebody signs for it.
	signs signs
	// progress adds how far it got to a status; nil where nothing shows that.
	progress func(context.Context, *looking) error
	// ahead says what it would do once the release is public.
	ahead func(context.Context, *job) ([]string, error)
	// do does it; an act of several steps has those instead.
	do    func(context.Context, tools, facts) (facts, error)
	steps []act
}

// noting says which journal remembers an act.
type noting int

const (
	nowhere     noting = iota // it is a step of another, or only looks
	inWorkspace               // it needs a workspace
	ifThere                   // the workspace of this release, if there is one
	ifFree                    // as ifThere, if no other run holds that
)

// signs says as whom an act signs, and what.
type signs struct {
	role  policy.Role
	token string
	// orders counts what it signs, and returns the orders that are known before
	// anything is done.
	orders func(context.Context, *outlook) ([]Heap, []sign.Order)
}

// tokenIn is the name of the token, which for a builder depends on its walls:
// one identity must not speak for two builders.
func (s signs) tokenIn(mode sandbox.Mode) string {
	if s.role == policy.Builder && mode != sandbox.Isolated {
		return TokenUnisolated
	}
	return s.token
}

// visit is a stage whose places an act needs.
type visit struct {
	stage profile.Stage
	write bool
}

// The names of acts, as the journal has them.
const (
	ActBuild    = "build"
	ActSign     = "sign"
	ActSeal     = "seal"
	ActRelease  = "release"
	actSBOM     = "sbom"
	actSealFrom = "seal from " // a place
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
		name: ActBuild, run: manifest.RunBuild, span: span.Build, noted: inWorkspace,
		needs:    []need{sourceFor(doctor.Build), begun},
		signs:    signs{policy.Builder, TokenBuilder, provenanceOf},
		progress: countOf("build", plan.Provenance), do: runSteps,
	}
}

func sbomAct() act {
	return act{name: actSBOM, span: span.SBOM, noted: inWorkspace, needs: []need{built}, progress: countOf("sbom", plan.SBOM), do: describe}
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

// asRelease signs what was built as the release identity.
func asRelease(name, run string, orders func(context.Context, *outlook) ([]Heap, []sign.Order)) act {
	return act{
		name: name, run: run, span: span.Seal, noted: inWorkspace, needs: []need{legacyLog, built},
		signs: signs{policy.Release, TokenRelease, orders},
	}
}

func toStaging() act {
	return act{
		name: actToStaging, span: span.Promote, noted: inWorkspace, needs: []need{opened},
		places: []visit{{profile.Staging, true}}, progress: isAt(profile.Staging), do: copyTo(profile.Staging),
	}
}

// decide asks the gate about a stage.
func decide(s profile.Stage) act {
	a := act{name: "gate", span: span.Gate, task: "decide about " + string(s), places: []visit{{s, false}}, do: askGate(s)}
	if s == profile.Release {
		a.name = stepVerify
	}
	return a
}

// toRelease is the promotion by itself, and publish as a step of a release.
func toRelease() act {
	a := publish()
	a.name, a.noted, a.needs = actToRelease, ifFree, []need{accepted}
	return a
}

func publish() act {
	return act{
		name: stepPromote, task: actToRelease, span: span.Promote, places: []visit{{profile.Release, true}},
		progress: isAt(profile.Release), do: copyTo(profile.Release),
	}
}

func recordAct() act {
	return act{name: stepRecord, span: span.Record, progress: recordsProgress, ahead: wouldRecord, do: writeRecords}
}

func markersAct() act {
	return act{name: stepMarkers, span: span.Mark, progress: markersProgress, ahead: wouldMark, do: moveMarkers}
}

// stageAct and releaseAct are the way of a release, in order.
func stageAct() act {
	return act{
		name: "stage", needs: []need{sourceFor(doctor.Stage)},
		steps: []act{buildAct(), sbomAct(), signAct(), sealAct(), toStaging(), decide(profile.Staging)},
	}
}

func releaseAct() act {
	return act{
		name: ActRelease, noted: ifThere,
		steps: []act{decide(profile.Staging), publish(), decide(profile.Release), recordAct(), markersAct()},
	}
}

// sealFrom seals what another tool made.
func sealFrom() act {
	a := sealAct()
	a.name = actSealFrom
	return a
}

// revision signs the next revision of a sealed release.
func revision(name, run string) act { return asRelease(name, run, oneOf("revision of the manifest")) }

// pointChannels signs an index of channels, which is of no single release.
func pointChannels() act {
	return act{name: actChannel, signs: signs{policy.Channels, TokenChannel, oneOf("channel index")}}
}

// way is every act that takes a release from its source to its users.
func way() []act { return slices.Concat(stageAct().steps, releaseAct().steps) }

// allActs is the way, and the acts beside it.
func allActs() []act {
	return append(way(), toRelease(), sealFrom(), revision(actAmend, manifest.RunAmend), revision(actWithdraw, manifest.RunWithdraw), pointChannels())
}

// actNamed finds an act by its name in a journal; a name that is none gives the
// zero act.
func actNamed(name string) act {
	for _, a := range allActs() {
		if a.name == name || a.name == actSealFrom && strings.HasPrefix(name, actSealFrom) {
			return a
		}
	}
	return act{}
}

// actsFor are the acts that a purpose is about.
func actsFor(purpose doctor.Purpose) []act {
	switch purpose {
	case doctor.Build:
		return []act{buildAct()}
	case doctor.Stage:
		return stageAct().steps
	case doctor.Release:
		return releaseAct().steps
	case doctor.Verify:
		return []act{decide(profile.Release)}
	}
	return nil
}
