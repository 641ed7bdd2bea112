// Package coverage is what a feature that requires evidence does before it is
// turned on: it looks whether everything that is public already has it.
//
// An [Audit] is the task of such a feature. It asks about every image in the
// scope what the gate will be asked, and is done when all would be accepted; so
// turning the feature on refuses nothing that is there today. What would be
// refused is named, for as long as the feature only warns.
//
//	by := gate.PolicyRequest{Policy: written, Verifier: v, Stage: policy.Staging}
//	deeds := reconcile.Deeds{
//		Sweeps: map[string]reconcile.Sweep{coverage.AuditTask: coverage.Provenance(
//			coverage.Registries{Repositories: public, Transport: rt}, by)},
//		Dangling: reconcile.Nothing{}, // it writes nothing that could stay behind
//	}
//
// [Signoffs] is the same for releases and their sign-offs. Who judges is the gate
// itself, by the policy as it is written: that is what counts when everything in
// it is on.
//
// Three things are not done, and never taken for it: an audit of nothing, which
// proves nothing; one of a place that cannot be listed; and one in which anything
// could not be decided.
package coverage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// AuditTask names the task.
const AuditTask = "CoverageAudit"

// Image is one image that is public, and what it is called.
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

// others says which tags the image has besides the one in its name.
func (i Image) others() string {
	switch n := len(i.Tags); {
	case n < 2:
		return ""
	case n-1 > maxTags:
		return fmt.Sprintf(", also tagged %s and %d more", strings.Join(i.Tags[1:1+maxTags], ", "), n-1-maxTags)
	}
	return ", also tagged " + strings.Join(i.Tags[1:], ", ")
}

// Listed is what is public in a scope.
type Listed struct {
	Images []Image // each once
	// Empty are the parts of the scope, and the repositories, in which there is
	// no image: they were misspelled, or are not used yet.
	Empty []string
}

// Public lists what is public in a scope. What it cannot list is an error: an
// image that nobody asked about would be refused later.
type Public interface {
	Images(ctx context.Context, s feature.Scope) (Listed, error)
}

// Judge answers nil of an image that the gate would accept with the feature on,
// and else why not.
type Judge interface {
	Judge(ctx context.Context, i Image) error
}

// Audit implements [reconcile.Sweep].
type Audit struct {
	Public Public
	Judge  Judge
	// AtOnce is how many images are asked about at the same time. Default 32.
	AtOnce int
}

const (
	atOnce    = 32 // a far registry answers slowly, and most of the time is waiting for it
	maxImages = 2_000_000
	maxTags   = 5 // of one image are named
)

// Sweep asks about every image. One about which nothing can be decided leaves
// everything undecided. Where there is no image nothing is proven, and then the
// audit is not done.
func (a Audit) Sweep(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
	public, err := a.Public.Images(ctx, w.Scope)
	images := public.Images
	switch {
	case err != nil:
		return feature.Outcome{}, fmt.Errorf("listing what is public: %w", err)
	case len(images) == 0 && len(public.Empty) == 0:
		return feature.Outcome{Remaining: 1, Message: "nothing is public in the scope: look at its spelling"}, nil
	case len(images) > maxImages:
		return feature.Outcome{}, verdict.Refuse(verdict.Limit, w.Key.String(), "%d images, the limit is %d", len(images), maxImages)
	}
	for _, i := range images {
		if !feature.Covers(w.Scope, i.Repository) || i.Digest.IsZero() {
			return feature.Outcome{}, fmt.Errorf("listing what is public: %q is none of the scope", i.Repository)
		}
	}
	answers, err := askAll(ctx, a.AtOnce, len(images), func(ctx context.Context, n int) error {
		err := a.Judge.Judge(ctx, images[n])
		return undecided(images[n].String(), err)
	})
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
		words = append(words, "no image is public in some of the scope: look at its spelling, or leave it out until there is one")
	}
	names := refused
	for _, part := range empty {
		names = append(names, part+" (no image is public there)")
	}
	if len(names) > 0 {
		return feature.Outcome{Remaining: len(names), Message: strings.Join(words, "; "), Names: names}
	}
	return feature.Outcome{Done: true, Message: fmt.Sprintf("all of %s would be accepted", plural.Of(of, "image"))}
}

// undecidedError marks what is no answer: nothing was decided about it.
type undecidedError struct{ error }

// Unwrap returns the error itself.
func (e undecidedError) Unwrap() error { return e.error }

// undecided tells a refusal, which is an answer, from everything that is none.
func undecided(name string, err error) error {
	if err == nil || verdict.OutcomeOf(err) == verdict.Refused {
		return err
	}
	if f := verdict.FindingOf(name, err); f.Code == verdict.LogUnasked {
		err = verdict.Refuse(f.Code, f.Subject, "%s", f.Message).Advise("sign it anew, or leave it out: promotions, and the gate as a service, ask no log about it either")
	}
	return undecidedError{fmt.Errorf("judging %s: %w", name, err)}
}

// askAll asks about n things, some at a time. The first about which nothing can
// be decided ends it.
func askAll(ctx context.Context, some, n int, ask func(context.Context, int) error) ([]error, error) {
	answers := make([]error, n)
	group, ctx := errgroup.WithContext(ctx)
	if some < 1 {
		some = atOnce
	}
	group.SetLimit(some)
	for i := range n {
		group.Go(func() error {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			answers[i] = ask(ctx, i)
			if none := (undecidedError{}); errors.As(answers[i], &none) {
				return none.error
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return answers, nil
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
