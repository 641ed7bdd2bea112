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

// facts are what is known of a release while acts are done. An act gets them
// and returns them with what it found; nobody else changes them.
type facts struct {
	source   *found               // what is built, and behind which walls
	w        *workspace.Workspace // where it comes into being
	plan     plan.Plan            // of what is there, from its commit
	examined *sbomcheck.Examined  // which documents were made of which bytes, in this run
	accepted digest.Digest        // the manifest in staging that the gate accepted: no other is released
	verdict  *verdict.Verdict     // the newest decision
	public   bool                 // and that it was accepted where users find it
	lines    []string             // by the last act, for people and the verdict
	left     string               // out by the act, in a word for the journal
}

// A need is found for an act, unless an act before has found it.
type need func(context.Context, *job, facts) (facts, error)

// tools are what an act is done with.
type tools struct {
	*job
	signer  *sign.Signer // of an act that signs
	summary *Summary
}

// runner does acts.
type runner struct{ *job }

// perform does one act, and remembers that where the act says.
func (r runner) perform(ctx context.Context, a act, in facts) (_ facts, err error) {
	if in.examined == nil {
		in.examined = &sbomcheck.Examined{}
	}
	switch a.noted {
	case inWorkspace:
		if in, err = r.find(ctx, a, in); err != nil {
			return in, err
		}
		return r.journaled(ctx, a, in.w, in)
	case ifThere, ifFree:
		w, err := r.workspaceHere()
		if err != nil {
			return in, err
		}
		if w == nil {
			break
		}
		out, err := r.journaled(ctx, a, w, in)
		var busy *journal.BusyError
		if a.noted == ifFree && errors.As(err, &busy) {
			break // it needs nothing of the state: the note is for status alone
		}
		return out, err
	}
	ctx, end := r.beginSpan(ctx, a)
	out, err := r.doing(ctx, a, in, notes{})
	end(err)
	return out, err
}

// find finds what an act needs.
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

// beginSpan begins the span of an act, if it has one. A command that does
// several acts is their span itself.
func (r runner) beginSpan(ctx context.Context, a act, more ...attribute.KeyValue) (context.Context, func(error)) {
	if a.span == "" {
		return ctx, func(error) {}
	}
	return r.spanning(ctx, a.span, cmp.Or(a.task, a.name), more...)
}

// beginning is what the journal keeps of an act that begins: the command that did
// it, and its ids.
type beginning struct {
	Typed
	Trace trace.IDs `json:"trace,omitzero"`
}

// notes are the journal of the act that is under way; zero notes are kept
// nowhere.
type notes struct {
	journal *journal.Journal
	typed   json.RawMessage
}

// begin notes that an act, or a step of one, begins.
func (r runner) begin(ctx context.Context, n notes, what string) error {
	if n.journal == nil {
		return context.Cause(ctx)
	}
	return n.journal.Append(ctx, journal.Entry{Time: r.Clock().UTC(), Act: actBegin, Subject: what, Detail: n.typed})
}

// journaled does one act on a workspace, alone, in the life of the release that
// the workspace holds, and remembers that it was done. The journal is a hint
// for people; what resumes looks at the files.
func (r runner) journaled(ctx context.Context, a act, w *workspace.Workspace, in facts) (out facts, err error) {
	id := w.Identity()
	ctx, end := r.beginSpan(r.inLife(ctx, id.Trace), a, span.HeadRevision.String(id.Commit.Commit), span.RepositoryURL.String(id.Commit.Repository))
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
	if out, err = r.doing(ctx, a, in, n); err != nil {
		why, _ := json.Marshal(verdict.FindingOf("", err).Code) // a word
		return out, errors.Join(err, j.Append(context.WithoutCancel(ctx), journal.Entry{Time: r.Clock().UTC(), Act: actFailed, Subject: a.name, Detail: why}))
	}
	done := journal.Entry{Time: r.Clock().UTC(), Act: a.name, Subject: id.Name + " " + id.Version.String()}
	if out.left != "" {
		done.Detail, _ = json.Marshal(out.left) // a word
	}
	return out, j.Append(ctx, done)
}

// doing does an act, or its steps, once what it needs is found.
func (r runner) doing(ctx context.Context, a act, in facts, n notes) (facts, error) {
	in, err := r.find(ctx, a, in)
	switch {
	case err != nil:
		return in, err
	case len(a.steps) > 0:
		return r.inSteps(ctx, a, in, n)
	case a.signs.role != "":
		return r.signing(ctx, a, in)
	}
	return a.do(ctx, tools{job: r.job}, in)
}

// inSteps does the steps of an act. What they say is told, and noted in the
// verdict. After the release is public it stays what it is, whatever fails.
func (r runner) inSteps(ctx context.Context, a act, in facts, n notes) (facts, error) {
	for _, step := range a.steps {
		r.Report(ctx, "— %s", step.name)
		if err := r.begin(ctx, n, a.name+": "+step.name); err != nil {
			return in, err
		}
		out, err := r.perform(ctx, step, in)
		for _, line := range out.lines {
			r.Report(ctx, "%s", line)
		}
		if err != nil && step.span == span.Gate { // a decision says itself what it is about
			return out, err
		}
		if err != nil && in.public {
			r.Report(ctx, "the release is public and was verified there; this failed after it, and the same command goes on with it")
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

// signing does an act on a workspace with a signer that finishes what an earlier
// run has begun to sign. What it did is summed up, however it ends.
func (r runner) signing(ctx context.Context, a act, in facts) (out facts, err error) {
	work, end := watched(r.World, a.name)
	defer end()
	j, err := journal.Open(in.w.Signatures())
	if err != nil {
		return in, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	if work.Kept, err = sign.Keep(j); err != nil {
		return in, err
	}
	if in.source != nil {
		a.signs.token = a.signs.tokenIn(in.source.walls.Mode)
	}
	signer, err := r.signer(a.signs, work, in.source != nil)
	if err != nil {
		return in, err
	}
	s := Summary{Act: a.name}
	began := r.Clock()
	out, err = a.do(ctx, tools{r.job, signer, &s}, in)
	s = r.sum(s, signer, began)
	if err == nil || s.Signed+s.Reused+s.Retries > 0 { // else it was refused before anything
		r.Report(ctx, "%s", s)
	}
	return out, err
}

// decided is the verdict that acts ended with, if they ended with one.
func decided(out facts, err error) (*verdict.Verdict, error) {
	var judged *verdict.NotAcceptedError
	if err != nil && (out.verdict == nil || out.verdict.Err() == nil || !errors.As(err, &judged)) {
		return nil, err
	}
	return out.verdict, err
}

// lifeOf is the life of the release that a manifest lists, and the last act on it.
func lifeOf(m manifest.Manifest) trace.IDs {
	if len(m.Runs) == 0 {
		return trace.IDs{}
	}
	last := manifest.IDsOf(m.Runs[len(m.Runs)-1])
	last.Initial = manifest.OriginOf(m)
	return last
}

// historyOf is which runs had a hand in the release of a workspace, by its
// journal. A journal is a hint: what it does not say is not known, and nothing
// that is signed rests on it but where to look.
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

// command is what was typed, without its arguments.
func (t Typed) command() string {
	if len(t.Args) < 2 {
		return ""
	}
	return filepath.Base(t.Args[0]) + " " + t.Args[1]
}
