package seal

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// History is the runs that worked on a release before it is sealed, for
// information only: nothing that is listed depends on it.
type History struct {
	// Earlier are the acts of earlier runs, and of this one, in the order in
	// which they began.
	Earlier []manifest.Run
	// Sealings are the acts that sealed or revised the release, completed or
	// not, including this one, in the order in which they began.
	Sealings []Sealing
	// Command is the command line of this run, without arguments.
	Command string
}

// Sealing is one act that signs a manifest, as recorded in the journal.
type Sealing struct {
	Began, Ended time.Time // Ended is zero if the journal does not say
	Run          manifest.Run
}

// records reports whether the journal explains a draft: an act was signing at
// its time, and every additional run is in the journal.
func (h History) explains(draft, now manifest.Manifest) bool {
	during := slices.ContainsFunc(h.Sealings, func(s Sealing) bool {
		return !draft.SealedOn.Before(s.Began.Truncate(time.Second)) && (s.Ended.IsZero() || !draft.SealedOn.After(s.Ended))
	})
	known := func(r manifest.Run) bool {
		return slices.Contains(now.Runs, r) || slices.ContainsFunc(h.Sealings, func(s Sealing) bool { return s.Run == r })
	}
	return during && !slices.ContainsFunc(draft.Runs, func(r manifest.Run) bool { return !known(r) })
}

// first is the run that began the release, by the workspace: the one that
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

// signedIn is the manifest with every act that led to it, the one that signs
// it last. Acts that it has already are not added again.
func (r Request) signedIn(ctx context.Context, m manifest.Manifest, kind string) manifest.Manifest {
	for _, e := range r.History.Earlier {
		if e.Kind != manifest.RunSeal { // of another manifest, or of none
			m = addRun(m, e)
		}
	}
	return SignedIn(ctx, m, kind, r.History.Command)
}

// SignedIn is a manifest that the run of the context signs. It keeps the
// trace in which the release was made, whatever trace the run was started in;
// if that is unknown, it stays unknown. Without a run the manifest is
// unchanged.
func SignedIn(ctx context.Context, m manifest.Manifest, kind, typed string) manifest.Manifest {
	now := carry.From(ctx)
	if now.IsZero() {
		return m
	}
	ids, _ := trace.Stamp(trace.Update, now, trace.IDs{Initial: manifest.OriginOf(m)})
	return addRun(m, manifest.RunOf(kind, ids.Trace.String(), ids, typed))
}

// addRun adds an act, unless the manifest has it.
func addRun(m manifest.Manifest, r manifest.Run) manifest.Manifest {
	for _, there := range m.Runs {
		if sameAct(there, r) {
			return m
		}
	}
	return manifest.By(m, r)
}

// sameAct reports whether both are the same act of the same run.
func sameAct(a, b manifest.Run) bool { return a.Kind == b.Kind && a.TraceID == b.TraceID }

// asBefore is a manifest with the runs of another, if both are of one build:
// the earlier signer of the same list worked in the same runs.
func asBefore(m, before manifest.Manifest) manifest.Manifest {
	if len(m.Runs) > 0 && len(before.Runs) > 0 && m.Runs[0].Kind == before.Runs[0].Kind && m.Runs[0].ID == before.Runs[0].ID {
		m.Runs = before.Runs
	}
	return m
}

// draftLife is how long an interrupted run can be continued with its original
// time.
const draftLife = 24 * time.Hour

// draft stores the manifest that is about to be signed until it is written,
// and returns what to sign. An interrupted run may have logged the same
// manifest with another time and run; then that one is signed, so the log
// gets no second one. An attacker who can write to the state directory cannot
// choose time or runs: both must be those of an act in the journal.
func draft(ctx context.Context, req Request, m manifest.Manifest) (manifest.Manifest, intoto.Statement, error) {
	fresh, err := m.Statement()
	if err != nil {
		return manifest.Manifest{}, intoto.Statement{}, err
	}
	if raw, err := os.ReadFile(filepath.Join(drafts(req), releasemanifest.Name)); err == nil {
		if before, s, same := redrafted(req.History, m, raw); same {
			return before, s, nil
		}
	}
	if _, err := req.Signer.As(ctx); err != nil {
		return manifest.Manifest{}, intoto.Statement{}, err // without permission to sign, no draft is left
	}
	if err := req.Workspace.Keep("drafts/"+releasemanifest.Name, fresh.Raw()); err != nil {
		return manifest.Manifest{}, intoto.Statement{}, fmt.Errorf("keeping the draft of the manifest: %w", err)
	}
	return m, fresh, nil
}

// redrafted is the manifest with the time and the runs of a draft, if the
// draft is otherwise equal.
func redrafted(h History, m manifest.Manifest, raw []byte) (manifest.Manifest, intoto.Statement, bool) {
	said, err := intoto.Parse(raw)
	if err != nil {
		return manifest.Manifest{}, intoto.Statement{}, false
	}
	before, err := manifest.ParseRoot(said)
	if age := m.SealedOn.Sub(before.Head().SealedOn); err != nil || age < 0 || age > draftLife || !h.explains(before.Head(), m) {
		return manifest.Manifest{}, intoto.Statement{}, false
	}
	m = asBefore(m, before.Head())
	m.SealedOn = before.Head().SealedOn
	again, err := m.Statement()
	return m, again, err == nil && bytes.Equal(again.Raw(), raw)
}

// drafts is the directory of drafts, outside of the files.
func drafts(req Request) string { return filepath.Join(req.Workspace.Dir(), "drafts") }

// dropDraft removes the draft of a manifest that is written. If that fails,
// the draft does no harm.
func dropDraft(req Request) { _ = os.RemoveAll(drafts(req)) }
