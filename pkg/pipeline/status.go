package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// StatusSchema names the form of a status' JSON.
const StatusSchema = "waybill/status/v1"

// Status says where a release stands. It is read from the places themselves,
// not from what a run believed that it had done.
type Status struct {
	Schema  string `json:"schema"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Trace is the run that began the release here, and the trace in which the
	// release came to be.
	Trace  trace.IDs `json:"trace,omitzero"`
	Stages []Stage   `json:"stages"`
	// Last is the newest line of the journal, for people.
	Last string `json:"last,omitempty"`
	// Busy says that a run is at work on it now; Broken names the act that the
	// last one was in when it ended, if that was not done.
	Busy   bool   `json:"busy,omitempty"`
	Broken string `json:"broken,omitempty"`
	// Failed is the code of the error that it ended with, if it said one.
	Failed verdict.Code `json:"failed,omitempty"`
	Public Public       `json:"public"`
	// Markers are where the version markers of the release point, if it is
	// public and the profile says where they are.
	Markers []Marker `json:"markers,omitempty"`
	// Safe is what can be repeated; Next is the command to type now, as it is,
	// and Why says what it does.
	Safe string `json:"safe"`
	Next string `json:"next"`
	Why  string `json:"why"`
}

// Public says whether users can take the release for one.
type Public string

// The answers. A place that does not answer makes it unknown, never no.
const (
	IsPublic  Public = "yes"
	NotPublic Public = "no"
	Unknown   Public = "unknown"
	Revoked   Public = "withdrawn"
)

// Stage is one stage of the way and how far it got; Of is 0 where nothing of it
// is wanted. A stage that is Down could not be looked at.
type Stage struct {
	Name string `json:"name"`
	Done int    `json:"done"`
	Of   int    `json:"of"`
	Down bool   `json:"down,omitempty"`
	Note string `json:"note,omitempty"`
}

// Err is the unavailability of a stage that could not be looked at.
func (s Status) Err() error {
	for _, stage := range s.Stages {
		if stage.Down {
			return &verdict.UnavailableError{Place: stage.Name, Op: "looking", Err: errors.New(stage.Note)}
		}
	}
	return nil
}

// looking is a status while it is made.
type looking struct {
	*job
	status *Status
	t      standing
	here   facts // of the state directory, if something was begun there
	there  manifest.Manifest
}

// Status looks at workspace, staging and release place. Nothing is changed, and
// a run that is at work is not disturbed.
func (p *Pipeline) Status(ctx context.Context) (Status, error) {
	s := Status{Schema: StatusSchema, Version: p.Version.String()}
	l := &looking{job: p.job, status: &s}
	if workspace.Is(p.State) {
		if err := l.atHome(ctx); err != nil {
			return Status{}, err
		}
	}
	for _, a := range way() {
		if a.progress == nil {
			continue
		}
		if err := a.progress(ctx, l); err != nil {
			return Status{}, err
		}
	}
	l.t.other = l.t.begun && l.there.Name != "" && !isOf(l.there, l.t.run)
	switch {
	case l.t.released.Down:
		s.Public = Unknown
	case l.there.Withdrawn != nil, l.there.Name != "" && len(l.t.withdrawn) > 0:
		s.Public = Revoked
	case l.there.Name != "":
		s.Public = IsPublic
	default:
		s.Public = NotPublic
	}
	s.advise(p.job, l.t)
	return s, nil
}

// put adds a line to the status.
func (l *looking) put(s Stage) { l.status.Stages = append(l.status.Stages, s) }

// atHome looks at the state directory and its journal.
func (l *looking) atHome(ctx context.Context) (err error) {
	if l.here, err = built(ctx, l.job, facts{}); err != nil {
		return err
	}
	id, s := l.here.w.Identity(), l.status
	s.Name, s.Commit, s.Trace = id.Name, id.Commit.Commit, id.Trace
	l.t = standing{begun: true, run: id.Invocation, given: l.here.plan.IsGiven(), source: id.Commit.Repository + "@" + id.Commit.AskedFor()}
	s.Busy = journal.Busy(l.here.w.Journal())
	entries, err := journal.Read(l.here.w.Journal())
	if err != nil {
		return err
	}
	l.t.typed, l.t.unsummarized = s.read(entries)
	return nil
}

// countOf counts the artifacts of a class that are in the state directory.
func countOf(name string, class plan.Class) func(context.Context, *looking) error {
	return func(ctx context.Context, l *looking) error {
		if l.here.w == nil {
			return nil
		}
		objects, err := l.here.w.Files().List(ctx)
		if err != nil {
			return err
		}
		there := map[string]bool{}
		for _, o := range objects {
			there[o.Name] = true
		}
		stage := Stage{Name: name}
		for _, a := range l.here.plan.Artifacts {
			if a.Class != class || a.IsStatement() { // which is signed with the manifest
				continue
			}
			stage.Of++
			if there[a.Name] {
				stage.Done++
			}
		}
		if stage.Of > 0 {
			l.put(stage)
		}
		return nil
	}
}

// sealedHere looks for the manifest in the state directory.
func sealedHere(ctx context.Context, l *looking) error {
	if l.here.w == nil {
		return nil
	}
	sealed, _ := l.manifestAt(ctx, "seal", l.here.w.Files())
	l.t.sealed, l.t.digest = sealed.Done == 1, sealed.digest
	l.put(sealed.Stage)
	return nil
}

// isAt looks at a stage for the manifest that was sealed here. What a list of
// known defects withdraws of it is told.
func isAt(s profile.Stage) func(context.Context, *looking) error {
	return func(ctx context.Context, l *looking) error {
		found, m := l.manifestOf(ctx, s)
		l.put(found.Stage)
		if s == profile.Staging {
			l.t.staged, l.there = found, m
			return nil
		}
		of := l.there
		if l.t.released, l.there = found, m; m.Name != "" {
			of = m
		}
		for _, f := range l.withdrawn(of) {
			l.t.withdrawn = append(l.t.withdrawn, f.Subject+" was "+f.Message)
		}
		return nil
	}
}

// isPublic reports whether users may take what is public.
func (l *looking) isPublic() bool { return l.there.Name != "" && l.there.Withdrawn == nil }

// recordsProgress looks for the summary of a release that is public.
func recordsProgress(ctx context.Context, l *looking) error {
	at, err := l.filesAt(profile.Release)
	if err != nil || !l.isPublic() {
		return nil //nolint:nilerr // what is wrong was said of the place
	}
	found := records{l.job}.progress(ctx, l.there, at)
	if found.Done == 0 && l.Profile.Records.Verifier == "" {
		return nil
	}
	if found.Done == 0 && !found.Down && (l.t.unsummarized || !l.Ways.Summarize()) {
		found.Of, found.Note = 0, unsummarized+": "+at.URI()
	}
	l.put(found)
	return nil
}

// markersProgress looks where the markers of a release that is public point.
func markersProgress(ctx context.Context, l *looking) error {
	at, err := l.filesAt(profile.Release)
	if err != nil || !l.isPublic() {
		return nil //nolint:nilerr // as above
	}
	if l.status.Markers, l.t.behind, err = (markers{l.job}).read(ctx, l.there, at); err != nil {
		l.put(Stage{Name: stepMarkers, Of: 1, Down: verdict.OutcomeOf(err) == verdict.Unavailable, Note: fmt.Sprintf("not known: %v", err)})
		return nil
	}
	if len(l.status.Markers) == 0 {
		return nil
	}
	stage := Stage{Name: stepMarkers, Of: len(l.status.Markers), Note: l.Profile.Markers}
	for _, m := range l.status.Markers {
		if m.Problem == "" && !m.Version.IsZero() && !m.Version.Less(l.Version) {
			stage.Done++
		}
	}
	l.put(stage)
	return nil
}

// read finds in the journal what was done last, and what was begun and never
// ended, with the command that did; and whether the last release was told to
// make no summary.
func (s *Status) read(entries []journal.Entry) (typed Typed, without bool) {
	begun := ""
	for _, e := range entries {
		switch e.Act {
		case actBegin:
			begun, typed, s.Failed = e.Subject, Typed{}, ""
			_ = json.Unmarshal(e.Detail, &typed) // a journal is a hint: without it there is only less to say
		case actFailed:
			_ = json.Unmarshal(e.Detail, &s.Failed) // as above
		default:
			begun, s.Failed = "", ""
			if e.Act == ActRelease {
				var left string
				_ = json.Unmarshal(e.Detail, &left) // as above
				without = left == leftSummaries
			}
		}
		s.Last = fmt.Sprintf("%s, %s", e.Act, e.Time.Format(time.RFC3339))
		if e.Act == actBegin || e.Act == actFailed {
			s.Last = fmt.Sprintf("%s %s, %s", e.Act, e.Subject, e.Time.Format(time.RFC3339))
		}
	}
	if !s.Busy {
		s.Broken = begun
	}
	return typed, without
}

// at is a stage of which the manifest was looked for, and the digest of the one
// that is there.
type at struct {
	Stage
	digest digest.Digest
}

// manifestOf looks at a stage for the manifest that was sealed here, and
// returns the one that is there.
func (l *looking) manifestOf(ctx context.Context, s profile.Stage) (at, manifest.Manifest) {
	place, err := l.filesAt(s)
	if err != nil {
		return at{Stage: Stage{Name: string(s), Of: 1, Note: err.Error()}}, manifest.Manifest{}
	}
	found, m := l.manifestAt(ctx, string(s), place)
	if sealed := l.t.digest; found.Done == 1 && !sealed.IsZero() && !sealed.Equal(found.digest) {
		found.Done, found.Note = 0, "another manifest than the one sealed here: "+revisionOf(m)+", "+place.URI()
	}
	return found, m
}

// manifestAt reports whether a place holds a manifest of this release that
// verifies: the commit point of every place. What it lists is not looked at.
func (l *looking) manifestAt(ctx context.Context, name string, place store.Place) (at, manifest.Manifest) {
	stage := Stage{Name: name, Of: 1, Note: place.URI()}
	m, raw, err := l.manifest(ctx, place)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if objects, err := place.List(ctx); err == nil && len(objects) > 0 && name != ActSeal {
			stage.Note = fmt.Sprintf("%s without a manifest, so nobody can verify them: %s", plural.Of(len(objects), "file"), place.URI())
		}
	case err != nil && verdict.OutcomeOf(err) == verdict.Unavailable:
		stage.Down, stage.Note = true, fmt.Sprintf("does not answer: %v", err)
	case err != nil:
		stage.Note = fmt.Sprintf("holds a manifest that is refused: %v", err)
	case m.Version != l.Version:
		stage.Note = fmt.Sprintf("holds the manifest of %s: %s", m.Version, place.URI())
	default:
		stage.Done, stage.Note = 1, revisionOf(m)+" verified, files not looked at: "+place.URI()
		return at{stage, digest.Of(digest.SHA256, raw)}, m
	}
	return at{Stage: stage}, manifest.Manifest{}
}

// revisionOf says which manifest it is, and loudly that it withdraws.
func revisionOf(m manifest.Manifest) string {
	switch {
	case m.Withdrawn != nil:
		return fmt.Sprintf("WITHDRAWN (%s): revision %d of the manifest", m.Withdrawn.Reason, m.Revision)
	case m.Revision > 1:
		return fmt.Sprintf("revision %d of the manifest", m.Revision)
	}
	return "manifest"
}
