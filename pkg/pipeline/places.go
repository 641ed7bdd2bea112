package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/promote"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/trace/span"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// place is one end of a promotion.
type place struct {
	files  store.Place
	writer store.Writer
	images promote.Registry
}

// place opens the places of a stage, for reading and writing.
func (p *Pipeline) place(s profile.Stage) (place, error) {
	uri, err := p.Profile.Files(s, p.Version)
	if err != nil {
		return place{}, err
	}
	var out place
	if out.files, err = p.openPlace(uri); err != nil {
		return place{}, err
	}
	if out.writer, err = p.OpenWriter(uri); err != nil {
		return place{}, err
	}
	prefix, err := p.Profile.Images(s, p.Version)
	if err != nil || prefix == "" {
		return out, err
	}
	out.images, err = registry.OpenRemote(prefix, p.Transport)
	return out, err
}

// openPlace opens a place that may demand credentials.
func (w World) openPlace(uri string) (store.Place, error) {
	if w.OpenPlace != nil {
		return w.OpenPlace(uri)
	}
	return store.Open(uri, w.Transport)
}

// Decide asks the gate about the release at a stage.
func (p *Pipeline) Decide(ctx context.Context, s profile.Stage) (*verdict.Verdict, error) {
	ctx, end := p.spanning(ctx, span.Gate, "decide about "+string(s))
	v, err := p.gate(ctx, s)
	if err != nil {
		end(err)
		return nil, err
	}
	end(v.Err())
	return v, nil
}

func (p *Pipeline) gate(ctx context.Context, s profile.Stage) (*verdict.Verdict, error) {
	at, _, err := p.Gate.Places(p.Version, s, gate.Elsewhere{})
	if err != nil {
		return nil, err
	}
	req := p.Gate.Release(p.Version, s, at, p.Clock())
	req.Options.AllDigests = true // whoever makes a release answers for all that it lists
	decided, err := p.Gate.Decide(ctx, req)
	if err != nil {
		return nil, err
	}
	v := decided.Verdict
	if s == profile.Staging && v.Err() == nil {
		p.decided = manifestIn(v)
	}
	for i, f := range v.Findings {
		if s == profile.Staging && f.Code == verdict.EvidenceMissing && f.Subject == releasemanifest.Name {
			v.Findings[i].Fix = before(at.Files, p.State)
		}
	}
	return v, nil
}

// manifestIn is the manifest that a verdict rests on.
func manifestIn(v *verdict.Verdict) digest.Digest {
	for _, in := range v.Inputs {
		if in.Name == releasemanifest.Name {
			return in.Digest
		}
	}
	return digest.Digest{}
}

// PlanPromotion plans the promotion to a stage, without doing it. What the gate
// refuses to let out is not planned.
func (p *Pipeline) PlanPromotion(ctx context.Context, to profile.Stage) (promote.Plan, error) {
	if to == profile.Staging {
		w, err := workspace.Open(p.State)
		if err != nil {
			return promote.Plan{}, err
		}
		return p.promotion(ctx, w.Files())
	}
	if err := p.mayGoOut(ctx); err != nil {
		return promote.Plan{}, err
	}
	staging, err := p.place(profile.Staging)
	if err != nil {
		return promote.Plan{}, err
	}
	return p.promotion(ctx, staging.files)
}

// PromoteToStaging copies the sealed release from the workspace to staging.
func (p *Pipeline) PromoteToStaging(ctx context.Context) error {
	w, err := workspace.Open(p.State)
	if err != nil {
		return err
	}
	return p.journaled(ctx, w, actToStaging, func(ctx context.Context) error {
		return p.promote(ctx, promote.From{Files: w.Files(), Images: w.Images()}, profile.Staging)
	})
}

// PromoteToRelease copies the release from staging to where users find it, if
// the gate accepts it there: what was decided about before, or what is there
// now. A withdrawal, which no gate accepts, goes where the release is public
// already, and brings nothing new.
func (p *Pipeline) PromoteToRelease(ctx context.Context) error {
	act := func(ctx context.Context) error {
		if err := p.mayGoOut(ctx); err != nil {
			return err
		}
		return p.promoteToRelease(ctx)
	}
	err := p.noted(ctx, actToRelease, act)
	var busy *journal.BusyError
	if errors.As(err, &busy) { // it needs nothing of the state: the note is for status alone
		return p.within(ctx, span.Promote, actToRelease, act)
	}
	return err
}

// mayGoOut asks the gate about what is staged, unless it accepted that before.
func (p *Pipeline) mayGoOut(ctx context.Context) error {
	if !p.decided.IsZero() {
		return nil
	}
	v, err := p.Decide(ctx, profile.Staging)
	if err != nil {
		return err
	}
	if err = v.Err(); err == nil || !refusedAsWithdrawn(v) || !p.onlyWithdraws(ctx) {
		return err
	}
	p.decided = manifestIn(v)
	return nil
}

// refusedAsWithdrawn reports whether a withdrawal is all that was found.
func refusedAsWithdrawn(v *verdict.Verdict) bool {
	return v.Outcome() == verdict.Refused && !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code != verdict.Withdrawn })
}

// onlyWithdraws reports whether what is staged takes back what is public, and
// lists nothing that is not public already.
func (p *Pipeline) onlyWithdraws(ctx context.Context) bool {
	staging, err := p.place(profile.Staging)
	if err != nil {
		return false
	}
	m, _, err := p.promotable(ctx, staging.files)
	if err != nil || m.Withdrawn == nil {
		return false
	}
	there, _, err := p.public(ctx, p.Version)
	if err != nil || len(m.Pages) != len(there.Pages) {
		return false
	}
	for i, page := range m.Pages {
		if page.Name != there.Pages[i].Name || !page.Digests.Equal(there.Pages[i].Digests) {
			return false
		}
	}
	for _, a := range m.Artifacts {
		if known, is := there.Find(a.Name); !is || !known.Digests.Equal(a.Digests) {
			return false
		}
	}
	return len(m.Artifacts)+len(m.Pages) > 0
}

func (p *Pipeline) promoteToRelease(ctx context.Context) error {
	staging, err := p.place(profile.Staging)
	if err != nil {
		return err
	}
	return p.promote(ctx, promote.From{Files: staging.files, Images: staging.images}, profile.Release)
}

// promotion plans the promotion of what a place holds, from its verified
// manifest.
func (p *Pipeline) promotion(ctx context.Context, from store.Place) (promote.Plan, error) {
	m, bundle, err := p.promotable(ctx, from)
	if err != nil {
		return promote.Plan{}, err
	}
	return promote.Make(m, bundle), nil
}

// promotable is the verified manifest of a place, if it is of this release.
func (p *Pipeline) promotable(ctx context.Context, from store.Place) (release.Manifest, []byte, error) {
	m, bundle, err := p.own(ctx, from)
	if errors.Is(err, store.ErrNotFound) {
		err = verdict.Refuse(verdict.EvidenceMissing, from.URI(), "there is no signed manifest, so nothing to promote").Advise(before(from, p.State))
	}
	if err != nil {
		return release.Manifest{}, nil, err
	}
	return m, bundle, nil
}

// own is the verified manifest of a place, which must be of this release.
func (p *Pipeline) own(ctx context.Context, from store.Place) (release.Manifest, []byte, error) {
	m, bundle, err := p.manifest(ctx, from)
	if err == nil && m.Version != p.Version {
		err = verdict.Refuse(verdict.Version, from.URI(), "it holds %s, not %s", m.Version, p.Version)
	}
	if err != nil {
		return release.Manifest{}, nil, err
	}
	return m, bundle, nil
}

// before is what comes before a promotion from a place.
func before(from store.Place, state string) string {
	if w, err := filepath.Abs(state); err == nil && strings.Contains(from.URI(), w) {
		return "sign and seal first: waybill status VERSION says what is missing"
	}
	return "nothing is staged there: waybill stage VERSION --confirm does it all, waybill promote VERSION --to staging --confirm only that"
}

func (p *Pipeline) promote(ctx context.Context, from promote.From, s profile.Stage) error {
	m, bundle, err := p.promotable(ctx, from.Files)
	if err != nil {
		return err
	}
	if got := digest.Of(digest.SHA256, bundle); s == profile.Release && !p.decided.IsZero() && !p.decided.Equal(got) {
		return &verdict.Error{Finding: verdict.Find(verdict.PlanStale, from.Files.URI(), "another manifest came there since the release was decided about").
			Differ(p.decided.String(), got.String())}
	}
	ctx = p.inLife(ctx, lifeOf(m)) // before anything is done with it
	to, err := p.place(s)
	if err != nil {
		return err
	}
	target := promote.To{Files: to.files, Writer: to.writer, Images: to.images, Left: func(tag, why string) {
		p.Report(ctx, "%s was left behind: a tag for evidence must hold evidence; %s", tag, why)
	}}
	if s == profile.Release && p.Lease != "" {
		held, err := p.claim(ctx, p.Exclusion, fmt.Sprintf("%s-%s.lease.json", m.Name, m.Version))
		if err != nil {
			return err
		}
		defer func() { _ = held.Release(ctx) }() // else it runs out
		target.Exclusive = held.Held
	}
	if target.Replaces, err = p.replaces(ctx, m, bundle, to.files); err != nil {
		return err
	}
	planned := promote.Make(m, bundle)
	signed, err := p.signoffsOf(ctx, from.Files, to.files)
	if err != nil {
		return err
	}
	planned.Files = append(planned.Files, signed...)
	if err := promote.Apply(ctx, planned, from, target); err != nil {
		return err
	}
	p.Report(ctx, "%s is at %s: %s", planned.Name, to.files.URI(), planned.Extent())
	return nil
}

// pagesAt opens the pages of a manifest that lies at a place.
func pagesAt(ctx context.Context, from store.Place) release.Opener {
	return func(name string) ([]byte, error) { return store.Read(ctx, from, name, release.MaxPage) }
}

// manifest reads and verifies the manifest of a place.
func (p *Pipeline) manifest(ctx context.Context, from store.Place) (release.Manifest, []byte, error) {
	raw, err := store.Read(ctx, from, releasemanifest.Name, verify.MaxBundle)
	if err != nil {
		return release.Manifest{}, nil, fmt.Errorf("reading the manifest of %s: %w", from.URI(), err)
	}
	e, err := p.verifier.Attestation(raw)
	if err != nil {
		return release.Manifest{}, nil, err
	}
	m, _, err := p.Profile.Policy.ManifestFrom(e, pagesAt(ctx, from))
	if err != nil {
		return release.Manifest{}, nil, err
	}
	return m, raw, nil
}
