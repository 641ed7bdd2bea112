package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/workspace"
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

// Status looks at workspace, staging and release place. Nothing is changed, and
// a run that is at work is not disturbed.
func (p *Pipeline) Status(ctx context.Context) (Status, error) {
	s := Status{Schema: StatusSchema, Version: p.Version.String()}
	t := standing{}
	if workspace.Is(p.State) {
		var err error
		if t, err = p.atHome(ctx, &s); err != nil {
			return Status{}, err
		}
	}
	var staged release.Manifest
	t.staged, staged = p.manifestOf(ctx, profile.Staging, t.digest)
	var there release.Manifest
	t.released, there = p.manifestOf(ctx, profile.Release, t.digest)
	s.Stages = append(s.Stages, t.staged.Stage, t.released.Stage)
	if there.Name != "" && there.Withdrawn == nil {
		s.after(ctx, p, there, &t)
	}
	if there.Name != "" {
		staged = there
	}
	for _, f := range p.withdrawn(staged) {
		t.withdrawn = append(t.withdrawn, f.Subject+" was "+f.Message)
	}
	t.other = t.begun && there.Name != "" && !isOf(there, t.run)
	switch {
	case t.released.Down:
		s.Public = Unknown
	case there.Withdrawn != nil, there.Name != "" && len(t.withdrawn) > 0:
		s.Public = Revoked
	case there.Name != "":
		s.Public = IsPublic
	default:
		s.Public = NotPublic
	}
	s.advise(p, t)
	return s, nil
}

// after looks at what comes after a release is public.
func (s *Status) after(ctx context.Context, p *Pipeline, m release.Manifest, t *standing) {
	uri, err := p.Profile.Files(profile.Release, p.Version)
	if err != nil {
		return // which was said of the place
	}
	at, err := p.openPlace(uri)
	if err != nil {
		return // as above
	}
	if found := p.recorded(ctx, m, at); found.Done > 0 || p.Profile.Records.Verifier != "" {
		if found.Done == 0 && !found.Down && (t.unsummarized || !p.Ways.Summarize()) {
			found.Of, found.Note = 0, unsummarized+": "+at.URI()
		}
		s.Stages = append(s.Stages, found)
	}
	if s.Markers, t.behind, err = p.lookAtMarkers(ctx, m, at); err != nil {
		s.Stages = append(s.Stages, Stage{Name: stepMarkers, Of: 1, Down: verdict.OutcomeOf(err) == verdict.Unavailable, Note: fmt.Sprintf("not known: %v", err)})
		return
	}
	if len(s.Markers) == 0 {
		return
	}
	stage := Stage{Name: stepMarkers, Of: len(s.Markers), Note: p.Profile.Markers}
	for _, m := range s.Markers {
		if m.Problem == "" && !m.Version.IsZero() && !m.Version.Less(p.Version) {
			stage.Done++
		}
	}
	s.Stages = append(s.Stages, stage)
}

// atHome looks at the state directory.
func (p *Pipeline) atHome(ctx context.Context, s *Status) (standing, error) {
	planned, w, err := p.resume(ctx)
	if err != nil {
		return standing{}, err
	}
	id := w.Identity()
	s.Name, s.Commit, s.Trace = id.Name, id.Commit.Commit, id.Trace
	for _, class := range []struct {
		name  string
		class plan.Class
	}{{"build", plan.Provenance}, {"sbom", plan.SBOM}, {"sign", plan.Signature}} {
		stage, err := count(ctx, class.name, planned, w.Files(), class.class)
		if err != nil {
			return standing{}, err
		}
		if stage.Of > 0 {
			s.Stages = append(s.Stages, stage)
		}
	}
	t := standing{begun: true, run: id.Invocation, given: planned.IsGiven(), source: id.Commit.Repository + "@" + id.Commit.AskedFor()}
	var sealed at
	sealed, _ = p.manifestAt(ctx, "seal", w.Files())
	t.sealed, t.digest = sealed.Done == 1, sealed.digest
	s.Stages = append(s.Stages, sealed.Stage)
	s.Busy = journal.Busy(w.Journal())
	entries, err := journal.Read(w.Journal())
	if err != nil {
		return standing{}, err
	}
	t.typed, t.unsummarized = s.read(entries)
	return t, nil
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

func count(ctx context.Context, name string, planned plan.Plan, files store.Place, class plan.Class) (Stage, error) {
	objects, err := files.List(ctx)
	if err != nil {
		return Stage{}, err
	}
	there := map[string]bool{}
	for _, o := range objects {
		there[o.Name] = true
	}
	stage := Stage{Name: name}
	for _, a := range planned.Artifacts {
		if a.Class != class || a.IsStatement() { // which is signed with the manifest
			continue
		}
		stage.Of++
		if there[a.Name] {
			stage.Done++
		}
	}
	return stage, nil
}

// at is a stage of which the manifest was looked for, and the digest of the one
// that is there.
type at struct {
	Stage
	digest digest.Digest
}

// manifestOf looks at a place for the manifest that was sealed here, and
// returns the one that is there.
func (p *Pipeline) manifestOf(ctx context.Context, where profile.Stage, sealed digest.Digest) (at, release.Manifest) {
	uri, err := p.Profile.Files(where, p.Version)
	if err != nil {
		return at{Stage: Stage{Name: string(where), Of: 1, Note: err.Error()}}, release.Manifest{}
	}
	place, err := p.openPlace(uri)
	if err != nil {
		return at{Stage: Stage{Name: string(where), Of: 1, Note: err.Error()}}, release.Manifest{}
	}
	found, m := p.manifestAt(ctx, string(where), place)
	if found.Done == 1 && !sealed.IsZero() && !sealed.Equal(found.digest) {
		found.Done, found.Note = 0, "another manifest than the one sealed here: "+revisionOf(m)+", "+place.URI()
	}
	return found, m
}

// manifestAt reports whether a place holds a manifest of this release that
// verifies: the commit point of every place. What it lists is not looked at.
func (p *Pipeline) manifestAt(ctx context.Context, name string, place store.Place) (at, release.Manifest) {
	stage := Stage{Name: name, Of: 1, Note: place.URI()}
	m, raw, err := p.manifest(ctx, place)
	switch {
	case errors.Is(err, store.ErrNotFound):
		if objects, err := place.List(ctx); err == nil && len(objects) > 0 && name != ActSeal {
			stage.Note = fmt.Sprintf("%d files without a manifest, so nobody can verify them: %s", len(objects), place.URI())
		}
	case err != nil && verdict.OutcomeOf(err) == verdict.Unavailable:
		stage.Down, stage.Note = true, fmt.Sprintf("does not answer: %v", err)
	case err != nil:
		stage.Note = fmt.Sprintf("holds a manifest that is refused: %v", err)
	case m.Version != p.Version:
		stage.Note = fmt.Sprintf("holds the manifest of %s: %s", m.Version, place.URI())
	default:
		stage.Done, stage.Note = 1, revisionOf(m)+" verified, files not looked at: "+place.URI()
		return at{stage, digest.Of(digest.SHA256, raw)}, m
	}
	return at{Stage: stage}, release.Manifest{}
}

// revisionOf says which manifest it is, and loudly that it withdraws.
func revisionOf(m release.Manifest) string {
	switch {
	case m.Withdrawn != nil:
		return fmt.Sprintf("WITHDRAWN (%s): revision %d of the manifest", m.Withdrawn.Reason, m.Revision)
	case m.Revision > 1:
		return fmt.Sprintf("revision %d of the manifest", m.Revision)
	}
	return "manifest"
}
