package pipeline

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/seal"
	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/trace/carry"
	"github.com/waybill-release/waybill/pkg/trace/span"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// begun is what the journal keeps of an act that begins: the command that did
// it, and its ids.
type begun struct {
	Typed
	Trace trace.IDs `json:"trace,omitzero"`
}

// origin is what a release that begins in this run remembers of it.
func origin(ctx context.Context) trace.IDs {
	_, ids, _ := span.Stamp(ctx, trace.Create, trace.IDs{})
	return ids
}

// inLife returns a context in which what is done belongs to the life of what is
// acted on, as that says itself: it keeps the trace in which it came to be,
// whatever the run came with, and where it does not know it, nobody else does.
// That a run came with another is told, once.
func (p *Pipeline) inLife(ctx context.Context, of trace.IDs) context.Context {
	ctx, ids, conflict := span.Stamp(ctx, trace.Update, of)
	if conflict != nil && !p.told {
		p.told = true
		p.Report(ctx, "WARNING: %v", conflict)
	}
	return carry.WithInitial(ctx, ids.Initial)
}

// lifeOf is the life of the release that a manifest lists, and the last act on it.
func lifeOf(m release.Manifest) trace.IDs {
	if len(m.Runs) == 0 {
		return trace.IDs{}
	}
	last := release.IDsOf(m.Runs[len(m.Runs)-1])
	last.Initial = release.OriginOf(m)
	return last
}

// spanOf is the span of an act on a workspace. A command that does several acts
// is their span itself.
func spanOf(act string) (span.Name, bool) {
	switch act {
	case ActBuild:
		return span.Build, true
	case actSBOM:
		return span.SBOM, true
	case ActSign:
		return span.Sign, true
	case ActSeal, actAmend, actWithdraw:
		return span.Seal, true
	case actToStaging, actToRelease:
		return span.Promote, true
	}
	if strings.HasPrefix(act, actSealFrom) {
		return span.Seal, true
	}
	return "", false
}

// acting begins an act on a workspace: its span, in the life of the release that
// the workspace holds.
func (p *Pipeline) acting(ctx context.Context, w *workspace.Workspace, act string) (context.Context, func(error)) {
	id := w.Identity()
	ctx = p.inLife(ctx, id.Trace)
	name, spanned := spanOf(act)
	if !spanned {
		return ctx, func(error) {}
	}
	return p.spanning(ctx, name, act, span.HeadRevision.String(id.Commit.Commit), span.RepositoryURL.String(id.Commit.Repository))
}

// spanning begins a span of the release.
func (p *Pipeline) spanning(ctx context.Context, name span.Name, task string, more ...attribute.KeyValue) (context.Context, func(error)) {
	return span.Start(ctx, name, append(more, span.PipelineTaskName.String(task), span.ArtifactVersion.String(p.Version.String()))...)
}

// within does something as a span of the release.
func (p *Pipeline) within(ctx context.Context, name span.Name, task string, do func(context.Context) error) error {
	ctx, end := p.spanning(ctx, name, task)
	err := do(ctx)
	end(err)
	return err
}

// history is which runs had a hand in the release of a workspace, by its
// journal. A journal is a hint: what it does not say is not known, and nothing
// that is signed rests on it but where to look.
func (p *Pipeline) history(w *workspace.Workspace) seal.History {
	h := seal.History{Command: p.Typed.command()}
	entries, err := journal.Read(w.Journal())
	if err != nil {
		return h
	}
	id := w.Identity()
	for i, e := range entries {
		var b begun
		if e.Act != actBegin || json.Unmarshal(e.Detail, &b) != nil {
			continue
		}
		b.Trace.Initial = id.Trace.Initial
		traced, kind := !b.Trace.Trace.IsZero(), runKind(e.Subject)
		run := release.RunOf(kind, b.Trace.Trace.String(), b.Trace, b.command())
		switch kind {
		case release.RunBuild, release.RunSign:
			if kind == release.RunBuild {
				run.ID = id.Invocation
			}
			if traced {
				h.Earlier = append(h.Earlier, run)
			}
		case release.RunSeal, release.RunAmend, release.RunWithdraw:
			s := seal.Sealing{Began: e.Time}
			if traced {
				s.Run = run
			}
			if i+1 < len(entries) {
				s.Ended = entries[i+1].Time
			}
			h.Sealings = append(h.Sealings, s)
		}
	}
	return h
}

// runKind is what a manifest calls the run of an act; empty for others.
func runKind(act string) string {
	switch {
	case act == ActBuild:
		return release.RunBuild
	case act == ActSign:
		return release.RunSign
	case act == ActSeal || strings.HasPrefix(act, actSealFrom):
		return release.RunSeal
	case act == actAmend:
		return release.RunAmend
	case act == actWithdraw:
		return release.RunWithdraw
	}
	return ""
}

// command is what was typed, without its arguments.
func (t Typed) command() string {
	if len(t.Args) < 2 {
		return ""
	}
	return filepath.Base(t.Args[0]) + " " + t.Args[1]
}
