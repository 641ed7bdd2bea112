package config

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Wish is what somebody wants of one feature, in the store itself. It is for
// features that the reconciler's file leaves to the store; the version to prepare
// for is for all.
type Wish struct {
	Key feature.Key
	// Desired is On or Off, or "" to leave that as it is. Scope is where, with
	// On; everything if it is empty.
	Desired feature.State
	Scope   []string
	// PrepareFor is the version of the program for which the data are to be made
	// ready; zero to leave that as it is.
	PrepareFor version.Version
}

// Check refuses a wish that wishes nothing, or what nothing could come of.
func (w Wish) Check() error {
	switch {
	case w.Desired == "" && w.PrepareFor.IsZero():
		return verdict.Refuse(verdict.Usage, Short(w.Key), "nothing is wanted of it: say On or Off, or the version to prepare for")
	case w.Desired != "" && !w.Desired.IsSteady():
		return verdict.Refuse(verdict.Usage, Short(w.Key), "%q: want On or Off", w.Desired)
	case len(w.Scope) > 0 && w.Desired != feature.On:
		return verdict.Refuse(verdict.Usage, Short(w.Key), "a scope goes with On: what is Off is off everywhere")
	}
	return w.scope().Validate()
}

func (w Wish) scope() feature.Scope {
	if len(w.Scope) == 0 {
		return feature.Scope{Everything: true}
	}
	list := slices.Clone(w.Scope)
	for i, name := range list {
		canonical, err := address.Canonical(name)
		if err == nil && (feature.Scope{Repositories: []string{name}}).Validate() == nil { // else [Wish.Check] refuses it
			list[i] = canonical
		}
	}
	slices.Sort(list)
	return feature.Scope{Repositories: list}
}

// Of is the feature with the wish. Nothing is stored.
func (w Wish) Of(f feature.Feature) (feature.Feature, error) {
	if err := w.Check(); err != nil {
		return feature.Feature{}, err
	}
	if w.Desired != "" {
		if !f.Spec.Dynamic {
			return feature.Feature{}, verdict.Refuse(verdict.Usage, Short(w.Key), "it is not dynamic: what is wanted of it is reviewed, and not set here").
				Advise(fmt.Sprintf("write it under desired in FEATURES.yaml, as %s: {state: %q}, have that reviewed, and run waybill feature reconcile", Short(w.Key), w.Desired))
		}
		f.Spec.Desired, f.Spec.Scope = w.Desired, w.scope()
	}
	if !w.PrepareFor.IsZero() {
		f.Spec.PrepareFor = w.PrepareFor.String()
	}
	return f, f.Validate()
}

// Find reads a feature that somebody named. Of one that is not there it says
// where the names are to be had.
func Find(ctx context.Context, s featurestore.Store, k feature.Key) (feature.Feature, error) {
	f, err := s.Get(ctx, k)
	if errors.Is(err, featurestore.ErrNotFound) {
		missing := verdict.Refuse(verdict.Missing, k.String(), "no such feature at the site").
			Advise("waybill feature list names those that are there; one that is new is announced by waybill feature reconcile")
		missing.Cause = err
		return feature.Feature{}, missing
	}
	return f, err
}

// attempts is how often a wish is written again that a report overtook.
const attempts = 16

// Store writes the wish, as people may, and answers the feature as it is stored
// then. The reconciler does the rest.
func (w Wish) Store(ctx context.Context, s featurestore.Store) (feature.Feature, error) {
	people := featurestore.ForPeople(s)
	var err error
	for range attempts {
		var f feature.Feature
		if f, err = Find(ctx, people, w.Key); err != nil {
			return feature.Feature{}, err
		}
		if f, err = w.Of(f); err != nil {
			return feature.Feature{}, err
		}
		if f, err = people.Update(ctx, f); !errors.Is(err, featurestore.ErrConflict) {
			return f, err
		}
	}
	return feature.Feature{}, err
}

// Wants is in words what is wanted of a feature.
func Wants(f feature.Feature) string {
	text := string(f.Wants()) + " is wanted"
	if f.Spec.Desired == "" {
		text += ", its default"
	}
	if f.Wants() == feature.On {
		text += " at " + Where(f.Spec.Scope)
	}
	if f.Spec.PrepareFor != "" {
		text += ", and its data are to be ready for " + f.Spec.PrepareFor
	}
	return text
}
