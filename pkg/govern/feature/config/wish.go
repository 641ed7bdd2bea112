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

// Wish is a desired state that is written to the store. It is for dynamic features;
// the version to prepare for is for all features.
type Wish struct {
	Key feature.Key
	// Desired is On or Off, or "" for no change. Scope limits where it is On;
	// everywhere if it is empty.
	Desired feature.State
	Scope   []string
	// PrepareFor is the version of the program that must be able to read the
	// data; zero for no change.
	PrepareFor version.Version
}

// Check refuses a wish without content, or without effect.
func (w Wish) Check() error {
	switch {
	case w.Desired == "" && w.PrepareFor.IsZero():
		return verdict.Refuse(verdict.Usage, w.Key.Short(), "no change given; give On or Off, or --prepare-for a version")
	case w.Desired != "" && !w.Desired.IsSteady():
		return verdict.Refuse(verdict.Usage, w.Key.Short(), "%q: want On or Off", w.Desired)
	case len(w.Scope) > 0 && w.Desired != feature.On:
		return verdict.Refuse(verdict.Usage, w.Key.Short(), "a scope is only for On: Off is off everywhere")
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

// Of applies the wish to a feature. Nothing is stored.
func (w Wish) Of(f feature.Feature) (feature.Feature, error) {
	if err := w.Check(); err != nil {
		return feature.Feature{}, err
	}
	if w.Desired != "" {
		if !f.Spec.Dynamic {
			return feature.Feature{}, verdict.Refuse(verdict.Usage, w.Key.Short(), "not dynamic: its desired state is reviewed in FEATURES.yaml").
				Advise(fmt.Sprintf("write %s: {state: %q} under desired in FEATURES.yaml, have it reviewed, and run waybill feature reconcile", w.Key.Short(), w.Desired))
		}
		f.Spec.Desired, f.Spec.Scope = w.Desired, w.scope()
	}
	if !w.PrepareFor.IsZero() {
		f.Spec.PrepareFor = w.PrepareFor.String()
	}
	return f, f.Validate()
}

// Find reads a feature by its name. If there is none, the error says how to list
// them.
func Find(ctx context.Context, s featurestore.Store, k feature.Key) (feature.Feature, error) {
	f, err := s.Get(ctx, k)
	if errors.Is(err, featurestore.ErrNotFound) {
		missing := verdict.Refuse(verdict.Missing, k.String(), "no such feature at the site").
			Advise("waybill feature list prints the features of the site; waybill feature reconcile announces new ones")
		missing.Cause = err
		return feature.Feature{}, missing
	}
	return f, err
}

// attempts is how often a wish is written again after a conflicting report.
const attempts = 16

// Store writes the wish, with the rights of [featurestore.ForPeople], and returns the
// stored feature. The reconciler does the rest.
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

// Wants describes the desired state of a feature.
func Wants(f feature.Feature) string {
	text := "desired state " + string(f.Wants())
	if f.Spec.Desired == "" {
		text += " (its default)"
	}
	if f.Wants() == feature.On {
		text += " at " + where(f.Spec.Scope)
	}
	if f.Spec.PrepareFor != "" {
		text += ", data prepared for " + f.Spec.PrepareFor
	}
	return text
}
