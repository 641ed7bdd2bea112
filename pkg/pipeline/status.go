package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/store"
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
	Public  bool    `json:"public"`
	Next    string  `json:"next"`
}

// Stage is one stage of the way and how far it got.
type Stage struct {
	Name string `json:"name"`
	Done int    `json:"done"`
	Of   int    `json:"of"`
	Note string `json:"note,omitempty"`
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
	sealed := manifestAt(ctx, "seal", w.Files())
	s.Stages = append(s.Stages, sealed, p.manifestOf(ctx, "staging", profile.Staging), p.manifestOf(ctx, "release", profile.Release))
	s.Public = s.Stages[len(s.Stages)-1].Done == 1
	s.Next = p.next(s)
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

func (p *Pipeline) manifestOf(ctx context.Context, name string, s profile.Stage) Stage {
	uri, err := p.Profile.Files(s, p.Version)
	if err != nil {
		return Stage{Name: name, Of: 1, Note: err.Error()}
	}
	place, err := store.Open(uri, p.Transport)
	if err != nil {
		return Stage{Name: name, Of: 1, Note: err.Error()}
	}
	return manifestAt(ctx, name, place)
}

// manifestAt reports whether a place holds the manifest's bundle, the commit
// point of every place.
func manifestAt(ctx context.Context, name string, place store.Place) Stage {
	stage := Stage{Name: name, Of: 1, Note: place.URI()}
	body, _, err := place.Open(ctx, releasemanifest.Name)
	switch {
	case errors.Is(err, store.ErrNotFound):
	case err != nil:
		stage.Note = fmt.Sprintf("does not answer: %v", err)
	default:
		_, _ = io.Copy(io.Discard, io.LimitReader(body, 1))
		_ = body.Close()
		stage.Done = 1
	}
	return stage
}

// next is the command to type now. Every stage can be repeated safely.
func (p *Pipeline) next(s Status) string {
	staged := s.Stages[len(s.Stages)-2].Done == 1
	switch {
	case s.Public:
		return fmt.Sprintf("k8s-verify-release %s --profile PROFILE   (the release is public; verify it as users will)", p.Version)
	case staged:
		return fmt.Sprintf("waybill release %s --profile PROFILE --state %s", p.Version, p.State)
	}
	return fmt.Sprintf("waybill stage %s --profile PROFILE --state %s   (safe to repeat: it takes over what is done)", p.Version, p.State)
}
