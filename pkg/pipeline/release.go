package pipeline

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/trace/span"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// The act that lets a release out, and its steps, as the journal has them.
const (
	ActRelease  = "release"
	stepGate    = "gate"
	stepPromote = "promote"
	stepVerify  = "verify"
	stepRecord  = "record"
	stepMarkers = "markers"
)

// Release takes a staged release to the public: the gate decides about what
// lies in staging, the promotion copies exactly that, the release is verified
// where users will find it, the verifier records that, and the markers move.
// Each step asks what is there already, so that a run that was interrupted
// anywhere is gone on with by running it again.
func (p *Pipeline) Release(ctx context.Context) (v *verdict.Verdict, err error) {
	err = p.noted(ctx, ActRelease, func(ctx context.Context) (err error) {
		if v, err = p.publish(ctx); err == nil {
			err = v.Err()
		}
		return err
	})
	return v, err
}

func (p *Pipeline) publish(ctx context.Context) (*verdict.Verdict, error) {
	if err := p.step(ctx, stepGate); err != nil {
		return nil, err
	}
	v, err := p.Decide(ctx, profile.Staging)
	if err != nil || v.Err() != nil {
		return v, err
	}
	if err := p.step(ctx, stepPromote); err != nil {
		return nil, err
	}
	if err := p.within(ctx, span.Promote, actToRelease, p.promoteToRelease); err != nil {
		return nil, fmt.Errorf("promote: %w", err)
	}
	if err := p.step(ctx, stepVerify); err != nil {
		return nil, err
	}
	if v, err = p.Decide(ctx, profile.Release); err != nil || v.Err() != nil {
		return v, err
	}
	return p.conclude(ctx, v)
}

// conclude does what comes after a release is public and was verified there.
// What it has done is noted in the verdict; what failed of it is an error, and
// the release stays what it is.
func (p *Pipeline) conclude(ctx context.Context, v *verdict.Verdict) (*verdict.Verdict, error) {
	for _, s := range []struct {
		name string
		span span.Name
		do   func(context.Context, *verdict.Verdict) ([]string, error)
	}{
		{stepRecord, span.Record, p.record}, {stepMarkers, span.Mark, p.moveMarkers},
	} {
		if err := p.step(ctx, s.name); err != nil {
			return nil, err
		}
		var said []string
		err := p.within(ctx, s.span, s.name, func(ctx context.Context) (err error) {
			said, err = s.do(ctx, v)
			return err
		})
		for _, line := range said {
			p.Report(ctx, "%s", line)
		}
		if err != nil {
			p.Report(ctx, "the release is public and was verified there; this failed after it, and the same command goes on with it")
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		for _, line := range said {
			v.Note("%s", line)
		}
	}
	return v, nil
}

// Afterwards says what [Pipeline.Release] would do once what lies in staging is
// public: what it would record, and which markers it would move.
func (p *Pipeline) Afterwards(ctx context.Context) ([]string, error) {
	lines := []string{"the verifier would record it"}
	if why := p.unrecorded(); why != "" {
		lines[0] = "no record would be written: " + why
	} else if !p.Ways.Summarize() {
		lines[0] += ", without a summary"
	}
	at, err := p.place(profile.Staging)
	if err != nil {
		return nil, err
	}
	m, _, err := p.promotable(ctx, at.files)
	if err != nil {
		return nil, err
	}
	markers, _, err := p.lookAtMarkers(ctx, m, at.files)
	if err != nil {
		return lines, err
	}
	if len(markers) == 0 {
		return append(lines, "no marker would be moved"), nil
	}
	for _, one := range markers {
		switch {
		case one.Problem != "":
			return lines, verdict.Refuse(verdict.FileConflict, one.Name, "%s", one.Problem)
		case one.Version.IsZero():
			lines = append(lines, "marker "+one.Name+" would be new")
		case one.Version.Less(p.Version):
			lines = append(lines, "marker "+one.Name+" would move from "+one.Version.String())
		default:
			lines = append(lines, "marker "+one.Name+" would stay at "+one.Version.String())
		}
	}
	return lines, nil
}

// diary is the journal of the act that is under way; the zero diary is none.
type diary struct {
	journal *journal.Journal
	act     string
	typed   json.RawMessage
	left    string // out by the act, in a word for its end
}

// leftSummaries says of a release that no summary of it was wanted.
const leftSummaries = "no summary"

// step tells people, and the journal if there is one, which step of the act
// begins.
func (p *Pipeline) step(ctx context.Context, name string) error {
	p.Report(ctx, "— %s", name)
	if p.diary.journal == nil {
		return context.Cause(ctx)
	}
	return p.diary.journal.Append(ctx, journal.Entry{Time: p.Clock().UTC(), Act: actBegin, Subject: p.diary.act + ": " + name, Detail: p.diary.typed})
}

// noted does an act that needs no workspace, and remembers it in the one that is
// there, if it is of this release: staging is enough to release from.
func (p *Pipeline) noted(ctx context.Context, act string, do func(context.Context) error) error {
	alone := func() error {
		name, spanned := spanOf(act)
		if !spanned {
			return do(ctx)
		}
		return p.within(ctx, name, act, do)
	}
	if !workspace.Is(p.State) {
		return alone()
	}
	w, err := workspace.Open(p.State)
	if err != nil {
		return err
	}
	if w.Identity().Version != p.Version {
		return alone()
	}
	return p.journaled(ctx, w, act, do)
}
