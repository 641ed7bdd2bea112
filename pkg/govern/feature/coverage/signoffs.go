package coverage

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Releases are releases that are public.
type Releases struct {
	Versions []version.Version
	// Open opens a place of files.
	Open func(uri string) (store.Place, error)
}

// Signoffs is the audit of the requirement that a release has a sign-off. It is done
// when each release has a valid one, by the policy of the profile as written, at the
// time of each pass. Only the signed manifest and the sign-off of a release are read.
//
// A release is no repository, so the scope of the feature does not apply.
func Signoffs(of Releases, by gate.Gate) reconcile.Sweep { return releases{of, by} }

type releases struct {
	Releases
	by gate.Gate
}

// Sweep implements [reconcile.Sweep].
func (r releases) Sweep(ctx context.Context, _ reconcile.Work) (feature.Outcome, error) {
	p, now := r.by.Profile(), time.Now()
	by, err := r.by.One(profile.Release, now)
	if err == nil {
		_, err = atPassTime(by)
	}
	switch {
	case err != nil:
		return feature.Outcome{}, err
	case p.Unsealed != nil:
		return feature.Outcome{}, verdict.Refuse(verdict.ConfigParse, "profile "+p.Name, "releases of this profile have no manifest, so they cannot have a sign-off")
	case len(r.Versions) == 0:
		return feature.Outcome{Remaining: 1, Message: "no release is listed under releases; an audit without releases proves nothing"}, nil
	}
	answers, err := askAll(ctx, r.Versions, func(ctx context.Context, v version.Version) error {
		return undecided("release "+v.String(), r.judge(ctx, now, v))
	})
	if err != nil {
		return feature.Outcome{}, err
	}
	var lacking []string
	for n, err := range answers {
		if err != nil {
			lacking = append(lacking, r.Versions[n].String()+" ("+code(err)+")")
		}
	}
	slices.Sort(lacking)
	if len(lacking) > 0 {
		return feature.Outcome{Remaining: len(lacking), Message: fmt.Sprintf("%d of %d releases have no sign-off that counts", len(lacking), len(answers)), Names: lacking}, nil
	}
	return feature.Outcome{Done: true, Message: fmt.Sprintf("all of %s signed off", plural.Of(len(answers), "release"))}, nil
}

// judge lets the gate decide about the sign-off of one published release.
func (r releases) judge(ctx context.Context, now time.Time, v version.Version) error {
	uri, err := r.by.Profile().Files(profile.Release, v)
	if err != nil {
		return undecidedError{err}
	}
	files, err := r.Open(uri)
	if err != nil {
		return undecidedError{err}
	}
	return gate.SignedOff(ctx, r.by.Release(v, profile.Release, gate.Places{Files: files}, now)).Err()
}
