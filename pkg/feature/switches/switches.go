// Package switches says how far the requirements of a policy count just now, by
// the features that switch them.
//
//	s, err := switches.Read(ctx, switches.Config{Site: site, Policy: p, Verifier: v})
//	…
//	effective, err := s.For(p, "registry.example.test/prod/lantern")
//
// What is in force is what was signed. A site is read, and not believed: of each
// feature that the policy names, the last signed statement about a transition
// counts, by somebody to whom the policy gives the role reconciler. The stored
// object must be what the statement says, or one transition further, which then
// waits for its signature; one that is behind was put back (FEATURE_STATE).
//
// What cannot be seen is that the newest statements were removed together with
// the object. Against that stand the floor of the policy, and a place in which
// nobody may remove anything.
package switches

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
	"github.com/waybill-release/waybill/pkg/feature"
	"github.com/waybill-release/waybill/pkg/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/feature/store"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
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
	states []featuretransition.State
}

// Read reads the features that the policy names. A policy that names none has
// nothing that could be switched, and needs no site. A feature that nobody
// announced is in no state: its requirement counts as it is written.
func Read(ctx context.Context, c Config) (*Switches, error) {
	names := slices.Sorted(maps.Keys(c.Policy.Floors()))
	s := &Switches{}
	if len(names) == 0 {
		return s, nil
	}
	signed, err := Statements{c.Site.Statements, c.Policy, c.Verifier}.Signed(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		k := feature.Key{Namespace: feature.CoreNamespace, Name: name}
		state, there, err := c.state(ctx, k, signed)
		if err != nil {
			return nil, err
		}
		if there {
			s.states = append(s.states, state)
		}
	}
	return s, nil
}

// statements are the names of statements about features.
var statements = regexp.MustCompile(`\A([a-z0-9-]+)/([A-Za-z0-9]+)/([1-9][0-9]{0,8})\.sigstore\.json\z`)

// lasts are the numbers of the last statements about features.
func lasts(objects []store.Object) map[feature.Key]int {
	numbers := map[feature.Key]int{}
	for _, o := range objects {
		m := statements.FindStringSubmatch(o.Name)
		if len(m) != 4 {
			continue
		}
		k := feature.Key{Namespace: m[1], Name: m[2]}
		if n, err := strconv.Atoi(m[3]); err == nil {
			numbers[k] = max(numbers[k], n)
		}
	}
	return numbers
}

// state is what is in force of one feature. Statements are read before the
// object, and written after it: so the object is never behind them.
func (c Config) state(ctx context.Context, k feature.Key, signed reconcile.Signed) (state featuretransition.State, there bool, err error) {
	last, err := signed.Last(ctx, k)
	if err != nil {
		return state, false, err
	}
	number := last.Said.Number
	if number > 0 {
		state = last.Said.State()
	}
	f, err := c.Site.Features.Get(ctx, k)
	if errors.Is(err, featurestore.ErrNotFound) {
		if number > 0 {
			return state, false, c.refuse(k, "transition %d is signed, and the feature is not there", number)
		}
		return state, false, nil
	}
	if err != nil {
		return state, false, err
	}
	stored := f.Effective()
	switch {
	case stored.Number < number:
		return state, false, c.refuse(k, "it is at transition %d, and %d is signed: it was put back", stored.Number, number)
	case stored.Number == number && number > 0 && string(stored.Bytes()) != string(state.Bytes()):
		return state, false, &verdict.Error{Finding: verdict.Find(verdict.FeatureState, k.String(), "what is stored is not what transition %d says", number).
			Differ(string(state.Bytes()), string(stored.Bytes()))}
	case stored.Number > number+1:
		return state, false, c.refuse(k, "it is at transition %d, and %d is the last that is signed: one is skipped", stored.Number, number)
	case number == 0: // no transition counts that nobody signed
		state = featuretransition.State{Namespace: k.Namespace, Name: k.Name, State: featuretransition.Off}
	}
	return state, true, nil
}

func (c Config) refuse(k feature.Key, format string, args ...any) error {
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
	return signed{s, lasts(objects)}, nil
}

// signed implements [reconcile.Signed].
type signed struct {
	Statements
	numbers map[feature.Key]int
}

// Last reads the last statement about a feature, which must hold.
func (s signed) Last(ctx context.Context, k feature.Key) (feature.LastSigned, error) {
	if s.numbers[k] == 0 {
		return feature.LastSigned{}, nil
	}
	return s.read(ctx, k, s.numbers[k])
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
func (s *Switches) States() []featuretransition.State { return slices.Clone(s.states) }

// String says all states, the same for the same ones.
func (s *Switches) String() string {
	var words []string
	for _, state := range s.states {
		words = append(words, string(state.Bytes()))
	}
	return strings.Join(words, " ")
}

// For is the policy as it counts for what is at one of these places, or goes
// there: a repository, or all that lies beneath it. Of several, each requirement
// counts as much as where it counts most; where no place is named, as anywhere.
func (s *Switches) For(p policy.Policy, places ...string) (policy.Policy, error) {
	var found []verdict.Feature
	for _, state := range s.states {
		mode := feature.ModeOff
		for _, place := range places {
			mode = feature.Stricter(mode, modeAt(state, place))
		}
		if len(places) == 0 {
			mode = anywhere(state)
		}
		found = append(found, verdict.Feature{Name: state.Namespace + "/" + state.Name, State: state.State, Number: state.Number, Mode: string(mode)})
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
		if strings.HasPrefix(inside, strings.TrimSuffix(place, "/")+"/") {
			mode = feature.Stricter(mode, f.Mode(inside, nil))
		}
	}
	return mode
}
