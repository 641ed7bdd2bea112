// Package coverage audits what is public before a feature that requires evidence is
// turned on.
//
// An [Audit] is the task of such a feature. It judges every image in the scope as the
// gate will, and is done when all would be accepted: turning the feature on then
// refuses nothing that exists today. While the feature only warns, images that would
// be refused are named.
//
//	by := gate.PolicyRequest{Policy: written, Verifier: v, Stage: policy.Staging}
//	deeds := reconcile.Deeds{
//		Sweeps: map[string]reconcile.Sweep{known.CoverageAudit: coverage.Provenance(
//			coverage.Registries{Repositories: public, Transport: rt}, by)},
//		Dangling: reconcile.Nothing{}, // the requirement leaves nothing behind
//	}
//
// [Signoffs] does the same for releases and their sign-offs. The gate itself judges, by
// the policy as written: that is what counts when every feature is on.
//
// An audit is not done if it found nothing to audit, if a place could not be listed,
// or if any image could not be judged.
//
// Other projects should not import this package: it changes without notice.
package coverage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Image is one public image, with its tags.
type Image struct {
	Repository string // HOST/PATH
	Digest     digest.Digest
	Tags       []string
}

// String is REPOSITORY:TAG@DIGEST, with the first of its tags.
func (i Image) String() string {
	name := i.Repository
	if len(i.Tags) > 0 {
		name += ":" + i.Tags[0]
	}
	return name + "@" + i.Digest.String()
}

// others lists the tags of the image besides the one in its name.
func (i Image) others() string {
	switch n := len(i.Tags); {
	case n < 2:
		return ""
	case n-1 > maxTags:
		return fmt.Sprintf(", also tagged %s and %d more", strings.Join(i.Tags[1:1+maxTags], ", "), n-1-maxTags)
	}
	return ", also tagged " + strings.Join(i.Tags[1:], ", ")
}

// Listed is the public content of a scope.
type Listed struct {
	Images []Image // each once
	// Empty are the parts of the scope, and the repositories, without an image:
	// they are misspelt, or not used yet.
	Empty []string
}

// Public lists the public images in a scope. If it cannot list all of them it returns
// an error: an image that was not judged could be refused later.
type Public interface {
	Images(ctx context.Context, s feature.Scope) (Listed, error)
}

// Judge returns nil for an image that the gate would accept with the feature on, and
// otherwise the reason.
type Judge interface {
	Judge(ctx context.Context, i Image) error
}

// Audit implements [reconcile.Sweep].
type Audit struct {
	Public Public
	Judge  Judge
}

const (
	atOnce    = 32 // most of the time is waiting for a slow registry
	maxImages = 2_000_000
	maxTags   = 5 // named per image
)

// Sweep judges every image. If one cannot be judged, the audit fails. Without any
// image nothing is proven, and the audit is not done.
func (a Audit) Sweep(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
	public, err := a.Public.Images(ctx, w.Scope)
	images := public.Images
	switch {
	case err != nil:
		return feature.Outcome{}, fmt.Errorf("listing public images: %w", err)
	case len(images) == 0 && len(public.Empty) == 0:
		return feature.Outcome{Remaining: 1, Message: "no public image is in the scope; check its spelling"}, nil
	case len(images) > maxImages:
		return feature.Outcome{}, verdict.Refuse(verdict.Limit, w.Key.String(), "%d images, the limit is %d", len(images), maxImages)
	}
	for _, i := range images {
		if !feature.Covers(w.Scope, i.Repository) || i.Digest.IsZero() {
			return feature.Outcome{}, fmt.Errorf("listing public images: %q is not in the scope", i.Repository)
		}
	}
	answers, err := askAll(ctx, images, func(ctx context.Context, i Image) error { return undecided(i.String(), a.Judge.Judge(ctx, i)) })
	if err != nil {
		return feature.Outcome{}, err
	}
	var refused []string
	for n, err := range answers {
		if err != nil {
			refused = append(refused, images[n].String()+" ("+code(err)+")"+images[n].others())
		}
	}
	return told(refused, len(images), public.Empty), nil
}

// told is the outcome of an audit of images.
func told(refused []string, of int, empty []string) feature.Outcome {
	var words []string
	slices.Sort(refused)
	slices.Sort(empty)
	if len(refused) > 0 {
		words = append(words, fmt.Sprintf("%d of %d images would be refused", len(refused), of))
	}
	if len(empty) > 0 {
		words = append(words, "a part of the scope has no public image; check its spelling, or leave it out until there is one")
	}
	names := refused
	for _, part := range empty {
		names = append(names, part+" (no public image there)")
	}
	if len(names) > 0 {
		return feature.Outcome{Remaining: len(names), Message: strings.Join(words, "; "), Names: names}
	}
	return feature.Outcome{Done: true, Message: fmt.Sprintf("all of %s would be accepted", plural.Of(of, "image"))}
}

// undecidedError marks an error that is no decision about an image.
type undecidedError struct{ error }

// Unwrap returns the error itself.
func (e undecidedError) Unwrap() error { return e.error }

// undecided marks every error that is not a refusal: only a refusal is a decision.
func undecided(name string, err error) error {
	if err == nil || verdict.OutcomeOf(err) == verdict.Refused {
		return err
	}
	if f := verdict.FindingOf(name, err); f.Code == verdict.LogUnasked {
		err = verdict.Refuse(f.Code, f.Subject, "%s", f.Message).Advise("sign it again, or leave it out: promotions and the gate service do not search a log either")
	}
	return undecidedError{fmt.Errorf("judging %s: %w", name, err)}
}

// askAll judges things, some at a time. It stops at the first that cannot be judged.
func askAll[T any](ctx context.Context, things []T, ask func(context.Context, T) error) ([]error, error) {
	answers := make([]error, len(things))
	return answers, atonce.Try(ctx, atOnce, things, func(ctx context.Context, i int, thing T) error {
		answers[i] = ask(ctx, thing)
		if none := (undecidedError{}); errors.As(answers[i], &none) {
			return none.error
		}
		return nil
	})
}

// code is the reason of a refusal.
func code(err error) string {
	if of := (*verdict.NotAcceptedError)(nil); errors.As(err, &of) {
		for _, f := range of.Verdict.Findings {
			if f.Code.Outcome() == verdict.Refused {
				return string(f.Code)
			}
		}
	}
	return string(verdict.FindingOf("", err).Code)
}

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
