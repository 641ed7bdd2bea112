// Package effective says how far the requirements of a policy count just now, by
// the features that switch them.
//
//	s, err := effective.Read(ctx, effective.Config{Site: site, Policy: p, Verifier: v})
//	…
//	effective, err := s.For(p, "registry.example.test/prod/lantern")
//
// What lowers a requirement was signed. A site is read, and not believed: of each
// feature that the policy names, the last signed statement about a transition
// counts, by somebody to whom the policy gives the role reconciler. A feature
// without one counts as if it were not there, also where it was announced: its
// requirement counts as it is written.
//
// The stored object must be what the last statement says. It may be one
// transition further, if its history names no statement about that one: then
// the transition waits for its signature, and the stricter of the two states
// counts. An object that is behind was put back, and one whose history names a
// statement that is not listed has lost it; both are FEATURE_STATE, also where
// the listing is stale or cut short.
//
// Not detected: the newest statements and the object are both replaced by older
// ones that were signed. Against that stand the floor of the policy, the memory
// of a gate that is a service, and a place in which nobody may remove anything.
//
// Where a feature counts goes by the address of a place, whichever way it is
// spelled (pkg/value/address). Two host names of one registry are two places: a scope
// names both, or is everything.
package effective

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Config is what is read, and by whose word it counts.
type Config struct {
	Site     featurestore.Site
	Policy   policy.Policy
	Verifier *verify.Verifier
}

// Switches are the states of the features that a policy names, as they were
// read once.
type Switches struct {
	states []inForce
}

// inForce is the state of a feature that was signed last, and the one that waits
// for its signature, of number 0 if none does.
type inForce struct{ signed, waits featuretransition.State }

// mode is how much the feature counts, as each of the two says it.
func (s inForce) mode(of func(featuretransition.State) feature.Mode) feature.Mode {
	mode := of(s.signed)
	if s.waits.Number > 0 {
		mode = feature.Stricter(mode, of(s.waits))
	}
	return mode
}

// Read reads the features that the policy names. A policy that names none has
// nothing that could be switched, and needs no site. A feature about which
// nothing is signed is in no state: its requirement counts as it is written.
func Read(ctx context.Context, c Config) (*Switches, error) {
	names := slices.Sorted(maps.Keys(c.Policy.Floors()))
	s := &Switches{}
	if len(names) == 0 {
		return s, nil
	}
	from := Statements{c.Site.Statements, c.Policy, c.Verifier}
	signed, err := from.Signed(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		k := feature.Key{Namespace: feature.CoreNamespace, Name: name}
		state, err := c.state(ctx, k, signed)
		if err != nil && verdict.FindingOf("", err).Code == verdict.FeatureState {
			// The list was made before the object was read, and the reconciler
			// may have gone on between the two.
			if signed, err = from.Signed(ctx); err == nil {
				state, err = c.state(ctx, k, signed)
			}
		}
		if err != nil {
			return nil, err
		}
		if state.signed.Number > 0 {
			s.states = append(s.states, state)
		}
	}
	return s, nil
}

// statements are the names of statements about features.
var statements = regexp.MustCompile(`\A([a-z0-9-]+)/([A-Za-z0-9]+)/([1-9][0-9]{0,8})\.sigstore\.json\z`)

// listed are the numbers of the statements about each feature.
func listed(objects []store.Object) map[feature.Key][]int {
	numbers := map[feature.Key][]int{}
	for _, o := range objects {
		m := statements.FindStringSubmatch(o.Name)
		if len(m) != 4 {
			continue
		}
		k := feature.Key{Namespace: m[1], Name: m[2]}
		if n, err := strconv.Atoi(m[3]); err == nil {
			numbers[k] = append(numbers[k], n)
		}
	}
	return numbers
}

// state is what is in force of one feature. Statements are read before the
// object, and written after it: so the object is never behind them.
func (c Config) state(ctx context.Context, k feature.Key, signed reconcile.Signed) (inForce, error) {
	var now inForce
	last, err := signed.Last(ctx, k)
	if err != nil {
		return now, err
	}
	number := last.Said.Number
	if number > 0 {
		now.signed = last.Said.State()
	}
	f, err := c.Site.Features.Get(ctx, k)
	switch {
	case errors.Is(err, featurestore.ErrNotFound) && number > 0:
		return now, c.refuse(k, "transition %d is signed, and the feature is not there", number)
	case errors.Is(err, featurestore.ErrNotFound):
		return now, nil
	case err != nil:
		return now, err
	}
	stored := f.Effective()
	switch lost := f.Lost(number); {
	case stored.Number < number:
		return now, c.refuse(k, "it is at transition %d, and %d is signed: it was put back", stored.Number, number)
	case stored.Number == number && number > 0 && string(stored.Bytes()) != string(now.signed.Bytes()):
		return now, &verdict.Error{Finding: verdict.Find(verdict.FeatureState, k.String(), "what is stored is not what transition %d says", number).
			Differ(string(now.signed.Bytes()), string(stored.Bytes()))}
	case lost != "":
		return now, c.refuse(k, "its history names the statement %q, which is not listed", lost).Advise(feature.LostAdvice)
	case stored.Number > number+1:
		return now, c.refuse(k, "it is at transition %d, and %d is the last that is signed: one is skipped", stored.Number, number)
	case stored.Number > number:
		now.waits = stored
	}
	return now, nil
}

func (c Config) refuse(k feature.Key, format string, args ...any) *verdict.Error {
	return verdict.Refuse(verdict.FeatureState, k.String()+" at "+c.Site.URI, format, args...)
}

// Statements are those of a site. They implement [reconcile.Statements].
type Statements struct {
	At       featurestore.Place
	Policy   policy.Policy
	Verifier *verify.Verifier
}

// Signed implements [reconcile.Statements].
func (s Statements) Signed(ctx context.Context) (reconcile.Signed, error) {
	objects, err := s.At.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the statements about features: %w", err)
	}
	return signed{s, listed(objects)}, nil
}

// signed implements [reconcile.Signed].
type signed struct {
	Statements
	numbers map[feature.Key][]int
}

// Has implements [reconcile.Signed].
func (s signed) Has(k feature.Key, number int) bool { return slices.Contains(s.numbers[k], number) }

// Last reads the last statement about a feature, which must hold.
func (s signed) Last(ctx context.Context, k feature.Key) (feature.LastSigned, error) {
	if len(s.numbers[k]) == 0 {
		return feature.LastSigned{}, nil
	}
	return s.read(ctx, k, slices.Max(s.numbers[k]))
}

// read reads the statement about one transition, by whoever may make it.
func (s Statements) read(ctx context.Context, k feature.Key, number int) (feature.LastSigned, error) {
	name := plan.BundleName(fmt.Sprintf("%s/%d", k, number))
	e, err := s.Evidence(ctx, name)
	if err != nil {
		return feature.LastSigned{}, err
	}
	said, err := featuretransition.Parse(e.Statement())
	if err != nil {
		return feature.LastSigned{}, err
	}
	if said.Subject() != k.String() || said.Number != number {
		return feature.LastSigned{}, verdict.Refuse(verdict.FeatureState, name, "it is about transition %d of %s", said.Number, said.Subject())
	}
	return feature.LastSigned{Said: said, Statement: name}, nil
}

// Evidence is the statement at a name, by whoever may make one. What it says is
// for the caller to judge.
func (s Statements) Evidence(ctx context.Context, name string) (verify.Evidence, error) {
	raw, err := store.Read(ctx, s.At, name, verify.MaxBundle)
	if err != nil {
		return verify.Evidence{}, fmt.Errorf("reading the statement about a feature: %w", err)
	}
	e, err := s.Verifier.Attestation(raw)
	if err != nil {
		return verify.Evidence{}, fmt.Errorf("%s: %w", name, err)
	}
	if err := s.May(e, name); err != nil {
		return verify.Evidence{}, err
	}
	return e, nil
}

// May refuses a statement by somebody whom the policy does not let make it.
func (s Statements) May(e verify.Evidence, name string) error {
	_, err := s.Policy.Judge(e, policy.Ask{Role: policy.Reconciler, Kind: featuretransition.PredicateType, Subject: name, Whole: true})
	return err
}

// States are the states in force, by the name of the feature.
func (s *Switches) States() []featuretransition.State {
	states := make([]featuretransition.State, len(s.states))
	for i, state := range s.states {
		states[i] = state.signed
	}
	return states
}

// String says all states, the same for the same ones.
func (s *Switches) String() string {
	var words []string
	for _, state := range s.states {
		words = append(words, string(state.signed.Bytes()))
		if state.waits.Number > 0 {
			words = append(words, "and", string(state.waits.Bytes()))
		}
	}
	return strings.Join(words, " ")
}

// For is the policy as it counts for what is at one of these places, or goes
// there: a repository, or all that lies beneath it, or a place of files with its
// scheme. Of several, each requirement counts as much as where it counts most;
// where no place is named, as anywhere. A place that could be read as two is
// refused.
func (s *Switches) For(p policy.Policy, places ...string) (policy.Policy, error) {
	if len(s.states) == 0 {
		return p, nil
	}
	canonical := make([]string, len(places))
	for i, place := range places {
		var err error
		if canonical[i], err = address.Canonical(place); err != nil {
			return policy.Policy{}, verdict.Refuse(verdict.Usage, place, "no feature can be looked up for it: %v", err).
				Advise("write the place as HOST[:PORT]/PATH, in small letters")
		}
	}
	var found []verdict.Feature
	for _, state := range s.states {
		mode := feature.ModeOff
		for _, place := range canonical {
			mode = feature.Stricter(mode, state.mode(func(s featuretransition.State) feature.Mode { return modeAt(s, place) }))
		}
		if len(places) == 0 {
			mode = state.mode(anywhere)
		}
		is := state.signed
		found = append(found, verdict.Feature{Name: is.Namespace + "/" + is.Name, State: is.State, Number: is.Number, Mode: string(mode)})
	}
	return p.Under(found...)
}

// anywhere is how much a feature counts where it counts most.
func anywhere(s featuretransition.State) feature.Mode {
	if !s.Enforced.IsNone() {
		return feature.ModeRequire
	}
	return feature.ModeOf(feature.State(s.State), feature.ModeOff)
}

// modeAt is how much a feature counts at a place. Where only a part of what lies
// there is in its scope, it counts for all of it: nobody splits a release.
func modeAt(s featuretransition.State, place string) feature.Mode {
	f := feature.Feature{
		Metadata: feature.Metadata{Namespace: s.Namespace, Name: s.Name},
		Status:   feature.Status{State: feature.State(s.State), Enforced: s.Enforced, Preparing: s.Preparing},
	}
	mode := f.Mode(place, nil)
	for _, inside := range slices.Concat(s.Enforced.Repositories, s.Preparing.Repositories) {
		if address.Covers(place, inside) {
			mode = feature.Stricter(mode, f.Mode(inside, nil))
		}
	}
	return mode
}
