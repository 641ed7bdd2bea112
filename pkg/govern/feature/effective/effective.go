// Package effective determines which requirements of a policy are enforced now, by the
// features that switch them.
//
//	s, err := effective.Read(ctx, effective.Config{Site: site, Policy: p, Verifier: v})
//	…
//	effective, err := s.For(p, "registry.example.test/prod/lantern")
//
// Only a signed statement can lower a requirement; the content of a site alone cannot.
// For each feature that the policy names, the last statement about a transition counts,
// signed by an identity in the role reconciler. Without one, the feature counts as
// missing, even if it was announced: its requirement is enforced as written.
//
// The stored object must agree with the last statement. It may be one transition ahead,
// if its history names no statement about that one: the transition is then not signed
// yet, and the stricter of the two states counts. An object that is behind was replaced
// by an older one, and if its history names a statement that is not listed, that was
// removed, or the listing is stale or truncated; both are refused (FEATURE_STATE).
//
// Not detected: the newest statements and the object are both replaced by older signed
// ones. Protections are the floor in the policy, a gate service, which remembers the
// states that it has seen, and a place where nothing can be removed.
//
// Scopes compare addresses in canonical form (pkg/value/address). Two host names of
// one registry are two places: a scope must name both, or be everything.
//
// Other projects should not import this package: it changes without notice.
package effective

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Config is the site to read, with the policy and the verifier of its statements.
type Config struct {
	Site     featurestore.Site
	Policy   policy.Policy
	Verifier *verify.Verifier
}

// Switches are the states of the features that a policy names, read once.
type Switches struct {
	states []inForce
}

// inForce is the last signed state of a feature, and the one that is not signed yet, of
// number 0 if there is none.
type inForce struct{ signed, waits featuretransition.State }

// mode is the stricter mode of the two states.
func (s inForce) mode(of func(featuretransition.State) feature.Mode) feature.Mode {
	mode := of(s.signed)
	if s.waits.Number > 0 {
		mode = feature.Stricter(mode, of(s.waits))
	}
	return mode
}

// Read reads the features that the policy names. A policy that names none needs no
// site. A feature without a signed statement has no state: its requirement is enforced
// as written.
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
			// The reconciler may have signed another transition after the list was
			// made: list again.
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

// statements matches the names of statements.
var statements = pattern.Lazy(`\A([a-z0-9-]+)/([A-Za-z0-9]+)/([1-9][0-9]{0,8})\.sigstore\.json\z`)

// listed are the numbers of the statements about each feature.
func listed(objects []store.Object) map[feature.Key][]int {
	numbers := map[feature.Key][]int{}
	for _, o := range objects {
		m := statements().FindStringSubmatch(o.Name)
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

// state is the state in force of one feature. Statements are read before the object,
// and written after it, so the object is never behind them.
func (c Config) state(ctx context.Context, k feature.Key, signed reconcile.Signed) (now inForce, err error) {
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
		return now, c.refuse(k, "transition %d is signed, but the feature is missing", number)
	case errors.Is(err, featurestore.ErrNotFound):
		return now, nil
	case err != nil:
		return now, err
	}
	stored := f.Effective()
	switch lost := f.Lost(number); {
	case stored.Number < number:
		return now, c.refuse(k, "the feature is at transition %d, but %d is signed: an older object was restored", stored.Number, number)
	case stored.Number == number && number > 0 && string(stored.Bytes()) != string(now.signed.Bytes()):
		return now, &verdict.Error{Finding: verdict.Find(verdict.FeatureState, k.String(), "the stored state differs from the signed transition %d", number).
			Differ(string(now.signed.Bytes()), string(stored.Bytes()))}
	case lost != "":
		return now, c.refuse(k, "the history names the statement %q, which is not listed", lost).Advise(feature.LostAdvice)
	case stored.Number > number+1:
		return now, c.refuse(k, "the feature is at transition %d, but the last signed one is %d: a statement is missing", stored.Number, number)
	case stored.Number > number:
		now.waits = stored
	}
	return now, nil
}

func (c Config) refuse(k feature.Key, format string, args ...any) *verdict.Error {
	return verdict.Refuse(verdict.FeatureState, k.String()+" at "+c.Site.URI, format, args...)
}

// Statements are the statements of a site. They implement [reconcile.Statements].
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

// Last reads and verifies the last statement about a feature.
func (s signed) Last(ctx context.Context, k feature.Key) (feature.LastSigned, error) {
	if len(s.numbers[k]) == 0 {
		return feature.LastSigned{}, nil
	}
	return s.read(ctx, k, slices.Max(s.numbers[k]))
}

// read reads and verifies the statement about one transition.
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
		return feature.LastSigned{}, verdict.Refuse(verdict.FeatureState, name, "the statement is about transition %d of %s", said.Number, said.Subject())
	}
	return feature.LastSigned{Said: said, Statement: name}, nil
}

// Evidence reads the statement with a name, and verifies that a reconciler signed it.
// The caller judges its content.
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

// May refuses a statement that is not signed by a reconciler of the policy.
func (s Statements) May(e verify.Evidence, name string) error {
	_, err := s.Policy.Judge(e, policy.Ask{Role: policy.Reconciler, Kind: featuretransition.PredicateType, Subject: name, Whole: true})
	return err
}

// States are the states in force, by the name of the feature.
func (s *Switches) States() []featuretransition.State {
	return slice.Map(s.states, func(state inForce) featuretransition.State { return state.signed })
}

// String lists all states; equal states give equal strings.
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

// For is the policy with the requirements that are enforced at these places, or for
// what is promoted there: a repository with everything below it, or a place of files
// with its scheme. With several places the strictest mode of each requirement counts;
// without any, the strictest anywhere. An ambiguous address is refused.
func (s *Switches) For(p policy.Policy, places ...string) (policy.Policy, error) {
	if len(s.states) == 0 {
		return p, nil
	}
	canonical := make([]string, len(places))
	for i, place := range places {
		var err error
		if canonical[i], err = address.Canonical(place); err != nil {
			return policy.Policy{}, verdict.Refuse(verdict.Usage, place, "the address is not valid for a feature scope: %v", err).
				Advise("write the place as HOST[:PORT]/PATH, in lower case")
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

// anywhere is the strictest mode of a feature at any place.
func anywhere(s featuretransition.State) feature.Mode {
	if !s.Enforced.IsNone() {
		return feature.ModeRequire
	}
	return feature.ModeOf(feature.State(s.State), feature.ModeOff)
}

// modeAt is the mode of a feature at a place. If only a part of the place is in the
// scope, the feature counts for all of it, because a release cannot be split.
func modeAt(s featuretransition.State, place string) feature.Mode {
	f := feature.Feature{
		Metadata: feature.Metadata{Namespace: s.Namespace, Name: s.Name},
		Status:   feature.Status{State: feature.State(s.State), Enforced: s.Enforced, Preparing: s.Preparing},
	}
	mode := f.Mode(place)
	for _, inside := range slices.Concat(s.Enforced.Repositories, s.Preparing.Repositories) {
		if address.Covers(place, inside) {
			mode = feature.Stricter(mode, f.Mode(inside))
		}
	}
	return mode
}
