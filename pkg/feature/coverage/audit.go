// Package coverage is what a feature that requires evidence does before it is
// turned on: it looks whether everything that is public already has it.
//
// An [Audit] is the task of such a feature. It asks about every image in the
// scope what the gate will be asked, and is done when all would be accepted; so
// turning the feature on refuses nothing that is there today. What would be
// refused is named, for as long as the feature only warns.
//
//	deeds := reconcile.Deeds{
//		Sweeps:   map[string]reconcile.Sweep{coverage.AuditTask: coverage.Audit{Public: places, Judge: gate}},
//		Dangling: reconcile.Nothing{}, // it writes nothing that could stay behind
//	}
//
// The package neither lists registries nor verifies evidence.
package coverage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/feature"
	"github.com/waybill-release/waybill/pkg/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// AuditTask names the task.
const AuditTask = "CoverageAudit"

// Image is one image that is public.
type Image struct {
	Repository string
	Digest     digest.Digest
}

// String is REPOSITORY@DIGEST.
func (i Image) String() string { return i.Repository + "@" + i.Digest.String() }

// Public lists the images in a scope, each once. What it cannot list is an
// error: an image that nobody asked about would be refused later.
type Public interface {
	Images(ctx context.Context, s feature.Scope) ([]Image, error)
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
	// AtOnce is how many images are asked about at the same time. Default 8.
	AtOnce int
}

const (
	atOnce    = 8
	maxImages = 2_000_000
	named     = 5 // images in a message
)

// Sweep asks about every image. One about which nothing can be decided leaves
// everything undecided. A scope without an image was misspelled, or is not used
// yet: then the audit proves nothing, and is not done.
func (a Audit) Sweep(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
	images, err := a.Public.Images(ctx, w.Scope)
	switch {
	case err != nil:
		return feature.Outcome{}, fmt.Errorf("listing what is public: %w", err)
	case len(images) == 0:
		return feature.Outcome{Remaining: 1, Message: "nothing is public in the scope: look at its spelling"}, nil
	case len(images) > maxImages:
		return feature.Outcome{}, verdict.Refuse(verdict.Limit, w.Key.String(), "%d images, the limit is %d", len(images), maxImages)
	}
	for _, i := range images {
		if !feature.Covers(w.Scope, i.Repository) || i.Digest.IsZero() {
			return feature.Outcome{}, fmt.Errorf("listing what is public: %q is none of the scope", i.Repository)
		}
	}
	refused, err := a.judge(ctx, images)
	if err != nil {
		return feature.Outcome{}, err
	}
	if len(refused) > 0 {
		return feature.Outcome{Remaining: len(refused), Message: fmt.Sprintf("%d of %d images would be refused: %s", len(refused), len(images), list(refused))}, nil
	}
	return feature.Outcome{Done: true, Message: fmt.Sprintf("all of %d images would be accepted", len(images))}, nil
}

// judge lists those that would be refused, sorted.
func (a Audit) judge(ctx context.Context, images []Image) ([]string, error) {
	answers := make([]error, len(images))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(max(a.AtOnce, 1))
	if a.AtOnce == 0 {
		group.SetLimit(atOnce)
	}
	for n, i := range images {
		group.Go(func() error {
			err := a.Judge.Judge(ctx, i)
			if err != nil && verdict.OutcomeOf(err) != verdict.Refused {
				return fmt.Errorf("judging %s: %w", i, err) // nothing was decided about it
			}
			answers[n] = err
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var refused []string
	for n, err := range answers {
		if err != nil {
			refused = append(refused, images[n].String()+" ("+code(err)+")")
		}
	}
	slices.Sort(refused)
	return refused, nil
}

// code is the reason of a refusal.
func code(err error) string {
	if of := (*verdict.NotAcceptedError)(nil); errors.As(err, &of) {
		for _, f := range of.Verdict.Findings {
			return string(f.Code)
		}
	}
	return string(verdict.FindingOf("", err).Code)
}

func list(names []string) string {
	if more := len(names) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), more)
	}
	return strings.Join(names, ", ")
}
