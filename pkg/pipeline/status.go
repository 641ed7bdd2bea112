package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// Status says where a release stands. It is read from the places themselves,
// not from what a run believed that it had done.
type Status struct {
	Name    string  `json:"name"`
	Version string  `json:"version"`
	Commit  string  `json:"commit"`
	Stages  []Stage `json:"stages"`
	Last    string  `json:"last,omitempty"`
	Public  Public  `json:"public"`
	Next    string  `json:"next"`
}

// Public says whether users can take the release for one.
type Public string

// The answers. A place that does not answer makes it unknown, never no.
const (
	IsPublic  Public = "yes"
	NotPublic Public = "no"
	Unknown   Public = "unknown"
)

// Stage is one stage of the way and how far it got. A stage that is Down could
// not be looked at.
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

// Status looks at workspace, staging and release place.
func (p *Pipeline) Status(ctx context.Context) (Status, error) {
	w, err := workspace.Open(p.State)
	if err != nil {
		return Status{}, err
	}
	planned, _, err := p.resume(ctx)
	if err != nil {
		return Status{}, err
	}
	id := w.Identity()
	s := Status{Name: id.Name, Version: id.Version.String(), Commit: id.Commit.Commit}
	for _, class := range []struct {
		name  string
		class plan.Class
	}{{"build", plan.Provenance}, {"sbom", plan.SBOM}, {"sign", plan.Signature}} {
		stage, err := count(ctx, class.name, planned, w.Files(), class.class)
		if err != nil {
			return Status{}, err
		}
		s.Stages = append(s.Stages, stage)
	}
	sealed, digest := p.manifestAt(ctx, "seal", w.Files())
	staged := p.manifestOf(ctx, profile.Staging, digest)
	released := p.manifestOf(ctx, profile.Release, digest)
	s.Stages = append(s.Stages, sealed, staged, released)
	switch {
	case released.Down:
		s.Public, s.Next = Unknown, "the same again, when the place answers"
	case released.Done == 1:
		s.Public, s.Next = IsPublic, fmt.Sprintf("k8s-verify-release %s --profile PROFILE   (verify it as users will)", p.Version)
	default:
		s.Public, s.Next = NotPublic, p.next(staged)
	}
	s.Last, err = last(w)
	return s, err
}

// last is the newest line of the journal, for people.
func last(w *workspace.Workspace) (string, error) {
	j, err := journal.Open(w.Journal())
	var held *journal.UnavailableError
	if errors.As(err, &held) {
		return "another run is at work here now", nil
	}
	if err != nil {
		return "", err
	}
	defer j.Close()
	entries := j.Entries()
	if len(entries) == 0 {
		return "", nil
	}
	e := entries[len(entries)-1]
	return fmt.Sprintf("%s, %s", e.Act, e.Time.Format(time.RFC3339)), nil
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
		if a.Class != class {
			continue
		}
		stage.Of++
		if there[a.Name] {
			stage.Done++
		}
	}
	return stage, nil
}

// manifestOf looks at a place for the manifest that was sealed here.
func (p *Pipeline) manifestOf(ctx context.Context, at profile.Stage, sealed digest.Digest) Stage {
	uri, err := p.Profile.Files(at, p.Version)
	if err != nil {
		return Stage{Name: string(at), Of: 1, Note: err.Error()}
	}
	place, err := store.Open(uri, p.Transport)
	if err != nil {
		return Stage{Name: string(at), Of: 1, Note: err.Error()}
	}
	stage, found := p.manifestAt(ctx, string(at), place)
	if stage.Done == 1 && !sealed.IsZero() && !sealed.Equal(found) {
		stage.Done, stage.Note = 0, "another manifest than the one sealed here: "+place.URI()
	}
	return stage
}

// manifestAt reports whether a place holds a manifest of this release that
// verifies: the commit point of every place. What it lists is not looked at.
func (p *Pipeline) manifestAt(ctx context.Context, name string, place store.Place) (Stage, digest.Digest) {
	stage := Stage{Name: name, Of: 1, Note: place.URI()}
	m, raw, err := p.manifest(ctx, place)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil && verdict.OutcomeOf(err) == verdict.Unavailable:
		stage.Down, stage.Note = true, fmt.Sprintf("does not answer: %v", err)
	case err != nil:
		stage.Note = fmt.Sprintf("holds a manifest that is refused: %v", err)
	case m.Version != p.Version:
		stage.Note = fmt.Sprintf("holds the manifest of %s: %s", m.Version, place.URI())
	default:
		stage.Done, stage.Note = 1, revisionOf(m)+" verified, files not looked at: "+place.URI()
		return stage, digest.Of(digest.SHA256, raw)
	}
	return stage, digest.Digest{}
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

// next is the command to type now. Every stage can be repeated safely.
func (p *Pipeline) next(staged Stage) string {
	if staged.Done == 1 {
		return fmt.Sprintf("waybill release %s --profile PROFILE --state %s", p.Version, p.State)
	}
	return fmt.Sprintf("waybill stage %s --profile PROFILE --state %s   (safe to repeat: it takes over what is done)", p.Version, p.State)
}
