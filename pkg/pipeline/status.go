package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// statusSchema names the JSON schema of a status.
const statusSchema = "waybill/status/v1"

// Status is the state of a release. It is read from the places themselves,
// not from what a run reported.
type Status struct {
	Schema  string `json:"schema"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Trace is the run that began the release here, and the trace in which
	// the release was made.
	Trace  trace.IDs `json:"trace,omitzero"`
	Stages []Stage   `json:"stages"`
	// Last is the newest line of the journal, for people.
	Last string `json:"last,omitempty"`
	// Busy means that a run is active now; Broken names the act in which the
	// last run ended without finishing it.
	Busy   bool   `json:"busy,omitempty"`
	Broken string `json:"broken,omitempty"`
	// Failed is the error code with which it ended, if known.
	Failed verdict.Code `json:"failed,omitempty"`
	Public Public       `json:"public"`
	// Markers are where the version markers of the release point, if it is
	// public and the profile names their place.
	Markers []Marker `json:"markers,omitempty"`
	// Safe says what can be repeated; Next is the exact command to run now,
	// and Why says what it does.
	Safe string `json:"safe"`
	Next string `json:"next"`
	Why  string `json:"why"`
}

// Public says whether the release is public.
type Public string

// The answers. A place that does not answer gives Unknown, never NotPublic.
const (
	IsPublic  Public = "yes"
	NotPublic Public = "no"
	Unknown   Public = "unknown"
	Revoked   Public = "withdrawn"
)

// Stage is the progress of one stage; Of is 0 if none of it is wanted. Down
// means that it could not be read.
type Stage struct {
	Name string `json:"name"`
	Done int    `json:"done"`
	Of   int    `json:"of"`
	Down bool   `json:"down,omitempty"`
	Note string `json:"note,omitempty"`
}

// Err is the unavailability of a stage that could not be read.
func (s Status) Err() error {
	for _, stage := range s.Stages {
		if stage.Down {
			return &verdict.UnavailableError{Place: stage.Name, Op: "looking", Err: errors.New(stage.Note)}
		}
	}
	return nil
}

type statusReader struct {
	*job
	status *Status
	t      releaseState
	here   facts // of the state directory, if there is a workspace
	there  manifest.Manifest
}

// Status reads the workspace, staging and the release place. It changes
// nothing and does not disturb an active run.
func (p *Pipeline) Status(ctx context.Context) (Status, error) {
	s := Status{Schema: statusSchema, Version: p.Version.String()}
	l := &statusReader{job: p.job, status: &s}
	if workspace.Is(p.State) {
		if err := l.readState(ctx); err != nil {
			return Status{}, err
		}
	}
	for _, a := range mainActs() {
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

func (l *statusReader) add(s Stage) { l.status.Stages = append(l.status.Stages, s) }

// readState reads the state directory and its journal.
func (l *statusReader) readState(ctx context.Context) (err error) {
	if l.here, err = built(ctx, l.job, facts{}); err != nil {
		return err
	}
	id, s := l.here.w.Identity(), l.status
	s.Name, s.Commit, s.Trace = id.Name, id.Commit.Commit, id.Trace
	l.t = releaseState{begun: true, run: id.Invocation, given: l.here.plan.IsGiven(), source: sourceOf(id.Commit)}
	s.Busy = journal.Busy(l.here.w.Journal())
	entries, err := journal.Read(l.here.w.Journal())
	if err != nil {
		return err
	}
	l.t.typed, l.t.unsummarized = s.readJournal(entries)
	return nil
}

// sourceOf is a commit as it is named on a command line.
func sourceOf(c git.Commit) string {
	repository := c.Repository
	if c.Clone != "" { // as a path, so that its origin is recorded again
		repository = strings.TrimPrefix(c.Clone, "git+file://")
	}
	return repository + "@" + c.AskedFor()
}

// countOf counts the artifacts of a class that exist in the state directory.
func countOf(name string, class plan.Class) func(context.Context, *statusReader) error {
	return func(ctx context.Context, l *statusReader) error {
		if l.here.w == nil {
			return nil
		}
		objects, err := l.here.w.Files().List(ctx)
		if err != nil {
			return err
		}
		there := slice.Set(objects, func(o store.Object) string { return o.Name })
		stage := Stage{Name: name}
		for _, a := range l.here.plan.Artifacts {
			if a.Class != class || a.IsStatement() { // signed with the manifest
				continue
			}
			stage.Of++
			if there[a.Name] {
				stage.Done++
			}
		}
		if stage.Of > 0 {
			l.add(stage)
		}
		return nil
	}
}

// sealedHere looks for the manifest in the state directory.
func sealedHere(ctx context.Context, l *statusReader) error {
	if l.here.w == nil {
		return nil
	}
	sealed, _ := l.manifestAt(ctx, "seal", l.here.w.Files())
	l.t.sealed, l.t.digest = sealed.Done == 1, sealed.digest
	l.add(sealed.Stage)
	return nil
}

// isAt looks for the manifest that was sealed here at a stage, and for
// withdrawals of it in the lists of known defects.
func isAt(s profile.Stage) func(context.Context, *statusReader) error {
	return func(ctx context.Context, l *statusReader) error {
		found, m := l.manifestOf(ctx, s)
		l.add(found.Stage)
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

// isPublic reports whether the release is public and not withdrawn.
func (l *statusReader) isPublic() bool { return l.there.Name != "" && l.there.Withdrawn == nil }

// recordsProgress looks for the summary of a public release.
func recordsProgress(ctx context.Context, l *statusReader) error {
	at, err := l.filesAt(profile.Release)
	if err != nil || !l.isPublic() {
		return nil //nolint:nilerr // the progress of the place reports the error
	}
	found := records{l.job}.progress(ctx, l.there, at)
	if found.Done == 0 && l.Profile.Records.Verifier == "" {
		return nil
	}
	if found.Done == 0 && !found.Down && (l.t.unsummarized || !l.RecordOptions.Summarize()) {
		found.Of, found.Note = 0, unsummarized+": "+at.URI()
	}
	l.add(found)
	return nil
}

// markersProgress reads where the markers of a public release point.
func markersProgress(ctx context.Context, l *statusReader) error {
	at, err := l.filesAt(profile.Release)
	if err != nil || !l.isPublic() {
		return nil //nolint:nilerr // as above
	}
	if l.status.Markers, l.t.behind, err = (markers{l.job}).read(ctx, l.there, at); err != nil {
		l.add(Stage{Name: stepMarkers, Of: 1, Down: verdict.OutcomeOf(err) == verdict.Unavailable, Note: fmt.Sprintf("unknown: %v", err)})
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
	l.add(stage)
	return nil
}

// readJournal finds the last act, and an act that was begun and not finished,
// with its command line; and whether the last release was configured to make
// no summary.
func (s *Status) readJournal(entries []journal.Entry) (typed Typed, without bool) {
	begun := ""
	for _, e := range entries {
		switch e.Act {
		case actBegin:
			begun, typed, s.Failed = e.Subject, Typed{}, ""
			_ = json.Unmarshal(e.Detail, &typed) // the journal is a hint: without the detail there is less to report
		case actFailed:
			_ = json.Unmarshal(e.Detail, &s.Failed) // as above
		default:
			begun, s.Failed = "", ""
			if e.Act == actRelease {
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

// manifestStage is the progress of a stage, and the digest of its manifest.
type manifestStage struct {
	Stage
	digest digest.Digest
}

// manifestOf looks for the manifest that was sealed here at a stage, and
// returns the one that it finds.
func (l *statusReader) manifestOf(ctx context.Context, s profile.Stage) (manifestStage, manifest.Manifest) {
	place, err := l.filesAt(s)
	if err != nil {
		return manifestStage{Stage: Stage{Name: string(s), Of: 1, Note: err.Error()}}, manifest.Manifest{}
	}
	found, m := l.manifestAt(ctx, string(s), place)
	if sealed := l.t.digest; found.Done == 1 && !sealed.IsZero() && !sealed.Equal(found.digest) {
		found.Done, found.Note = 0, "a different manifest than the one sealed here: "+revisionOf(m)+", "+place.URI()
	}
	if s == profile.Release && found.Done == 0 && !found.Down && m.Name == "" {
		found.Note = cmp.Or(l.draft(ctx), found.Note)
	}
	return found, m
}

// draft describes what a broken release left at a place that shows nothing
// before its publication; empty if there is nothing.
func (l *statusReader) draft(ctx context.Context) string {
	at, err := l.place(profile.Release)
	whole, is := at.writer.(promote.Publisher)
	if err != nil || !is {
		return ""
	}
	objects, err := whole.List(ctx)
	if err != nil || len(objects) == 0 {
		return ""
	}
	return fmt.Sprintf("a draft with %s, which is not public; tags of its images may be: %s", plural.Of(len(objects), "file"), whole.URI())
}

// manifestAt reports whether a place has a manifest of this release that
// verifies; every place is complete once it has one. The files that it lists
// are not read.
func (l *statusReader) manifestAt(ctx context.Context, name string, place store.Place) (manifestStage, manifest.Manifest) {
	stage := Stage{Name: name, Of: 1, Note: place.URI()}
	m, raw, err := l.manifest(ctx, place)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if objects, err := place.List(ctx); err == nil && len(objects) > 0 && name != ActSeal {
			stage.Note = fmt.Sprintf("%s without a manifest, so the place cannot be verified: %s", plural.Of(len(objects), "file"), place.URI())
		}
	case isAbsent(place, err):
		stage.Note = "does not exist yet: " + place.URI()
	case err != nil && verdict.OutcomeOf(err) == verdict.Unavailable:
		stage.Down, stage.Note = true, fmt.Sprintf("does not answer: %v", err)
	case err != nil:
		stage.Note = fmt.Sprintf("the manifest is refused: %v", err)
	case m.Version != l.Version:
		stage.Note = fmt.Sprintf("the manifest is of %s: %s", m.Version, place.URI())
	default:
		stage.Done, stage.Note = 1, revisionOf(m)+" verified, files not checked: "+place.URI()
		return manifestStage{stage, digest.Of(digest.SHA256, raw)}, m
	}
	return manifestStage{Stage: stage}, manifest.Manifest{}
}

// isAbsent reports whether a place is a directory that does not exist yet. Other
// places need credentials, whose file can be missing too.
func isAbsent(place store.Place, err error) bool {
	return errors.Is(err, fs.ErrNotExist) && strings.HasPrefix(place.URI(), "file:")
}

// revisionOf names the revision of a manifest, and whether it is a
// withdrawal.
func revisionOf(m manifest.Manifest) string {
	switch {
	case m.Withdrawn != nil:
		return fmt.Sprintf("WITHDRAWN (%s): revision %d of the manifest", m.Withdrawn.Reason, m.Revision)
	case m.Revision > 1:
		return fmt.Sprintf("revision %d of the manifest", m.Revision)
	}
	return "manifest"
}
