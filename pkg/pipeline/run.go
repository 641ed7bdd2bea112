package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"go.opentelemetry.io/otel/attribute"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/produce/seal"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// facts are what acts have found out about a release. An act gets them and
// returns them with its own findings; only acts change them.
type facts struct {
	source   *found               // what is built, and how isolated
	w        *workspace.Workspace // the working files
	plan     plan.Plan            // of the workspace, from its commit
	examined *sbomcheck.Examined  // which documents were made of which bytes in this run
	accepted digest.Digest        // the manifest in staging that the gate accepted: only this one is released
	verdict  *verdict.Verdict     // the newest decision
	public   bool                 // the public release was accepted
	lines    []string             // by the last act, for people and the verdict
	omitted  string               // by the act, for the journal
}

// A need is obtained for an act, unless an earlier act has it already.
type need func(context.Context, *job, facts) (facts, error)

// tools are what an act works with.
type tools struct {
	*job
	act     string       // its name
	signer  *sign.Signer // if the act signs
	summary *Summary
}

// runner performs acts.
type runner struct{ *job }

// perform performs one act, and records it in the journal that the act names.
func (r runner) perform(ctx context.Context, a act, in facts) (_ facts, err error) {
	if in.examined == nil {
		in.examined = &sbomcheck.Examined{}
	}
	switch a.journaled {
	case journalWorkspace:
		if in, err = r.find(ctx, a, in); err != nil {
			return in, err
		}
		return r.journaled(ctx, a, in.w, in)
	case journalIfPresent, journalIfFree:
		w, err := r.workspaceHere()
		if err != nil {
			return in, err
		}
		if w == nil {
			break
		}
		out, err := r.journaled(ctx, a, w, in)
		if _, ok := errors.AsType[*journal.BusyError](err); a.journaled == journalIfFree && ok {
			break // the state is not used here: the journal only informs waybill status
		}
		return out, err
	}
	ctx, end := r.beginSpan(ctx, a)
	out, err := r.execute(ctx, a, in, notes{})
	end(err)
	return out, err
}

// find obtains what an act needs.
func (r runner) find(ctx context.Context, a act, in facts) (facts, error) {
	for _, need := range a.needs {
		out, err := need(ctx, r.job, in)
		if err != nil {
			return in, err
		}
		in = out
	}
	return in, nil
}

// workspaceHere is the workspace of this release; nil if there is none.
func (r runner) workspaceHere() (*workspace.Workspace, error) {
	if !workspace.Is(r.State) {
		return nil, nil
	}
	w, err := workspace.Open(r.State)
	if err != nil || w.Identity().Version != r.Version {
		return nil, err
	}
	return w, nil
}

// beginSpan begins the span of an act, if it has one. For a command with
// several acts the command's span is used.
func (r runner) beginSpan(ctx context.Context, a act, more ...attribute.KeyValue) (context.Context, func(error)) {
	if a.span == "" {
		return ctx, func(error) {}
	}
	return r.startSpan(ctx, a.span, cmp.Or(a.task, a.name), more...)
}

// beginning is the journal's detail of an act that begins: the command line,
// and the trace IDs.
type beginning struct {
	Typed
	Trace trace.IDs `json:"trace,omitzero"`
}

// notes are the journal of the act in progress; zero notes are not recorded.
type notes struct {
	journal *journal.Journal
	typed   json.RawMessage
}

// begin records that an act, or a step of one, begins.
func (r runner) begin(ctx context.Context, n notes, what string) error {
	if n.journal == nil {
		return context.Cause(ctx)
	}
	return n.journal.Append(ctx, journal.Entry{Time: r.Clock().UTC(), Act: actBegin, Subject: what, Detail: n.typed})
}

// journaled performs one act on a workspace under its lock, in the trace of
// the release, and records the result. The journal is only a hint for people:
// resuming looks at the files.
func (r runner) journaled(ctx context.Context, a act, w *workspace.Workspace, in facts) (out facts, err error) {
	id := w.Identity()
	ctx, end := r.beginSpan(r.inTraceOf(ctx, id.Trace), a, span.HeadRevision.String(id.Commit.Commit), span.RepositoryURL.String(id.Commit.Repository))
	defer func() { end(err) }()
	j, err := journal.Open(w.Journal())
	if err != nil {
		return in, err
	}
	defer j.Close()
	now := carry.From(ctx)
	n := notes{journal: j}
	if n.typed, err = json.Marshal(beginning{r.Typed, trace.IDs{Trace: now.Trace, Span: now.Span, Initial: now.Initial}}); err != nil {
		return in, err
	}
	if err := r.begin(ctx, n, a.name); err != nil {
		return in, err
	}
	if out, err = r.execute(ctx, a, in, n); err != nil {
		why, _ := json.Marshal(verdict.FindingOf("", err).Code) // a string
		return out, errors.Join(err, j.Append(context.WithoutCancel(ctx), journal.Entry{Time: r.Clock().UTC(), Act: actFailed, Subject: a.name, Detail: why}))
	}
	done := journal.Entry{Time: r.Clock().UTC(), Act: a.name, Subject: id.Name + " " + id.Version.String()}
	if out.omitted != "" {
		done.Detail, _ = json.Marshal(out.omitted) // a string
	}
	return out, j.Append(ctx, done)
}

// execute performs an act or its steps, after obtaining what it needs.
func (r runner) execute(ctx context.Context, a act, in facts, n notes) (facts, error) {
	if len(a.steps) == 0 {
		defer show(r.World, a.name)()
	}
	in, err := r.find(ctx, a, in)
	switch {
	case err != nil:
		return in, err
	case len(a.steps) > 0:
		return r.executeSteps(ctx, a, in, n)
	case a.signs.role != "":
		return r.executeSigned(ctx, a, in)
	}
	return a.do(ctx, tools{job: r.job, act: a.name}, in)
}

// executeSteps performs the steps of an act. Their messages are reported and
// noted in the verdict. A release that is public stays public, whatever fails
// later.
func (r runner) executeSteps(ctx context.Context, a act, in facts, n notes) (facts, error) {
	for _, step := range a.steps {
		r.Report(ctx, "— %s", step.name)
		if step.name == actBuild && in.source != nil && in.source.built {
			r.Report(ctx, "build: all %d steps were run before, and no builder identity was given; their provenance is verified before anything is signed", len(provenances(in.source.plan)))
			continue
		}
		if err := r.begin(ctx, n, a.name+": "+step.name); err != nil {
			return in, err
		}
		out, err := r.perform(ctx, step, in)
		for _, line := range out.lines {
			r.Report(ctx, "%s", line)
		}
		if err != nil && step.span == span.Gate { // the verdict names its subject
			return out, err
		}
		if err != nil && in.public {
			r.Report(ctx, "the release is public and verified; a later step failed: run the same command again to continue")
		}
		if err != nil {
			return out, fmt.Errorf("%s: %w", step.name, err)
		}
		for _, line := range out.lines {
			out.verdict.Note("%s", line)
		}
		out.lines = nil
		in = out
	}
	return in, nil
}

// executeSigned performs an act on a workspace with a signer, reusing what an
// earlier run signed. The summary is reported even if the act fails.
func (r runner) executeSigned(ctx context.Context, a act, in facts) (out facts, err error) {
	work := watched(r.World, a.name)
	j, err := journal.Open(in.w.Signatures())
	if err != nil {
		return in, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if work.Kept, err = sign.Keep(j); err != nil {
		return in, err
	}
	if in.source != nil && a.signs.role == policy.Builder {
		a.signs.token = in.source.builder
	}
	signer, err := r.signer(a.signs, work, in.source != nil)
	if err != nil {
		return in, err
	}
	s := Summary{Act: a.name}
	began := r.Clock()
	out, err = a.do(ctx, tools{r.job, a.name, signer, &s}, in)
	s = r.addSummary(s, signer, began)
	if err == nil || s.Signed+s.Reused+s.Retries > 0 { // otherwise it was refused at once
		r.Report(ctx, "%s", s)
	}
	return out, err
}

// decided is the verdict that acts ended with, if any.
func decided(out facts, err error) (*verdict.Verdict, error) {
	if _, is := errors.AsType[*verdict.NotAcceptedError](err); err != nil && (out.verdict == nil || out.verdict.Err() == nil || !is) {
		return nil, err
	}
	return out.verdict, err
}

// traceOf is the trace of the release in a manifest, and the last act on it.
func traceOf(m manifest.Manifest) trace.IDs {
	if len(m.Runs) == 0 {
		return trace.IDs{}
	}
	last := manifest.IDsOf(m.Runs[len(m.Runs)-1])
	last.Initial = manifest.OriginOf(m)
	return last
}

// historyOf lists the runs that worked on the release, by the journal of its
// workspace. The journal is only a hint: signed history uses it to find runs,
// and proves nothing by it.
func historyOf(w *workspace.Workspace, typed Typed) seal.History {
	h := seal.History{Command: typed.command()}
	entries, err := journal.Read(w.Journal())
	if err != nil {
		return h
	}
	id := w.Identity()
	for i, e := range entries {
		var b beginning
		if e.Act != actBegin || json.Unmarshal(e.Detail, &b) != nil {
			continue
		}
		b.Trace.Initial = id.Trace.Initial
		traced, kind := !b.Trace.Trace.IsZero(), actNamed(e.Subject).run
		run := manifest.RunOf(kind, b.Trace.Trace.String(), b.Trace, b.command())
		switch kind {
		case manifest.RunBuild, manifest.RunSign:
			if kind == manifest.RunBuild {
				run.ID = id.Invocation
			}
			if traced {
				h.Earlier = append(h.Earlier, run)
			}
		case manifest.RunSeal, manifest.RunAmend, manifest.RunWithdraw:
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

// command is the command line without its arguments.
func (t Typed) command() string {
	if len(t.Args) < 2 {
		return ""
	}
	return filepath.Base(t.Args[0]) + " " + t.Args[1]
}
