package seal

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// History is which runs had a hand in a release before it is sealed, for those
// who will look for them. Nothing that is listed depends on it.
type History struct {
	// Earlier are the acts of earlier runs, and of this one, in the order in
	// which they began.
	Earlier []manifest.Run
	// Sealings are the acts that sealed or revised the release or began to, this
	// one included, in the order in which they began.
	Sealings []Sealing
	// Command is what was typed for this run, without arguments.
	Command string
}

// Sealing is one act that signs a manifest, as the journal tells of it.
type Sealing struct {
	Began, Ended time.Time // Ended is zero if the journal does not say
	Run          manifest.Run
}

// tells reports whether the journal tells of what a draft says: of an act that
// signs at its time, and of every run that the manifest of now does not name.
func (h History) tells(draft, now manifest.Manifest) bool {
	during := slices.ContainsFunc(h.Sealings, func(s Sealing) bool {
		return !draft.SealedOn.Before(s.Began.Truncate(time.Second)) && (s.Ended.IsZero() || !draft.SealedOn.After(s.Ended))
	})
	known := func(r manifest.Run) bool {
		return slices.Contains(now.Runs, r) || slices.ContainsFunc(h.Sealings, func(s Sealing) bool { return s.Run == r })
	}
	return during && !slices.ContainsFunc(draft.Runs, func(r manifest.Run) bool { return !known(r) })
}

// first is the run that began the release, by the workspace: it is the one that
// provenance names.
func (r Request) first() manifest.Run {
	id, kind := r.Workspace.Identity(), manifest.RunBuild
	if r.Plan.IsGiven() {
		kind = manifest.RunSeal // nothing was built in it: see gate.RunSeal
	}
	run := manifest.RunOf(kind, id.Invocation, id.Trace, "")
	for _, e := range r.History.Earlier {
		if sameAct(e, run) {
			return e
		}
	}
	return run
}

// signedIn is the manifest with every act that led to it, the one that signs it
// last. An act that is there already is not named again.
func (r Request) signedIn(ctx context.Context, m manifest.Manifest, kind string) manifest.Manifest {
	for _, e := range r.History.Earlier {
		if e.Kind != manifest.RunSeal { // which is of another manifest, or of none
			m = once(m, e)
		}
	}
	return SignedIn(ctx, m, kind, r.History.Command)
}

// SignedIn is a manifest that the run of the context signs. It keeps the trace
// in which the release came to be, whatever the run came with; where that is not
// known, it stays so. Without a run the manifest is as it was.
func SignedIn(ctx context.Context, m manifest.Manifest, kind, typed string) manifest.Manifest {
	now := carry.From(ctx)
	if now.IsZero() {
		return m
	}
	ids, _ := trace.Stamp(trace.Update, now, trace.IDs{Initial: manifest.OriginOf(m)})
	return once(m, manifest.RunOf(kind, ids.Trace.String(), ids, typed))
}

// once adds an act, unless the manifest names it.
func once(m manifest.Manifest, r manifest.Run) manifest.Manifest {
	for _, there := range m.Runs {
		if sameAct(there, r) {
			return m
		}
	}
	return manifest.By(m, r)
}

// sameAct reports whether two are one act of one run.
func sameAct(a, b manifest.Run) bool { return a.Kind == b.Kind && a.TraceID == b.TraceID }

// asBefore is a manifest with the runs of another, if both are of one build: who
// signed the same list before had the same hand in it.
func asBefore(m, before manifest.Manifest) manifest.Manifest {
	if len(m.Runs) > 0 && len(before.Runs) > 0 && m.Runs[0].Kind == before.Runs[0].Kind && m.Runs[0].ID == before.Runs[0].ID {
		m.Runs = before.Runs
	}
	return m
}
