package config

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Move is the start of another version of the program with existing features.
type Move struct {
	// Site is the address of the features, for messages.
	Site     string
	Features featurestore.Store
	// Registry has the features of the running program, which has version From.
	Registry feature.Registry
	From, To version.Version
}

// Preflight judges a move. It is accepted if no feature prevents it, and every feature
// that the running program knows is at the site: about a missing one nothing is
// known.
func Preflight(ctx context.Context, m Move, now time.Time) (*verdict.Verdict, error) {
	there, err := m.Features.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing features: %w", err)
	}
	v := verdict.NewCheck(fmt.Sprintf("start of %s with the features of %s at %s", m.To, m.From, m.Site), now)
	v.Scope.Checks = []string{"transitions", "statements", "forms of data", "defaults"}
	if len(there) == 0 {
		v.Add(unsafe(m.Site, "no feature at this site, so nothing was checked", "name the site that waybill feature reconcile writes to; a new site is filled by its first pass"))
		return v, nil
	}
	groups := map[string]*verdict.Group{}
	for _, k := range m.keys(there) {
		g := groups[k.Namespace]
		if g == nil {
			g = &verdict.Group{Name: k.Namespace}
			groups[k.Namespace] = g
		}
		g.Required++
		v.Counts.Required++
		if m.judge(v, k, there) {
			g.Verified++
			v.Counts.Verified++
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(groups)) {
		v.Groups = append(v.Groups, *groups[namespace])
	}
	return v, nil
}

// keys are the features at the site, and those that the program knows.
func (m Move) keys(there []feature.Feature) []feature.Key {
	keys := m.known()
	for _, f := range there {
		if !slices.Contains(keys, f.Key()) {
			keys = append(keys, f.Key())
		}
	}
	return keys
}

// known are the features that the running version knows.
func (m Move) known() (keys []feature.Key) {
	for _, k := range m.Registry.Keys() {
		d, _ := m.Registry.Definition(k)
		if _, now := d.At(m.From); now {
			keys = append(keys, k)
		}
	}
	return keys
}

// judge judges one feature, and reports whether it is safe.
func (m Move) judge(v *verdict.Verdict, k feature.Key, there []feature.Feature) bool {
	i := slices.IndexFunc(there, func(f feature.Feature) bool { return f.Key() == k })
	if i < 0 {
		v.Add(unsafe(k.String(), fmt.Sprintf("known to %s, but not announced at this site, so it was not checked", m.From), "run waybill feature reconcile with the running version, and run the preflight again"))
		return false
	}
	var known *feature.Definition
	if d, is := m.Registry.Definition(k); is {
		known = &d
	}
	p := feature.Check(there[i], known, m.From, m.To)
	for _, why := range p.Unsafe {
		v.Add(unsafe(k.String(), why, ""))
	}
	for _, n := range p.Notes {
		v.Note("%s: %s", k, n)
	}
	return p.IsSafe()
}

// unsafe is a reason against a move; fix replaces the usual advice.
func unsafe(subject, message, fix string) verdict.Finding {
	f := verdict.Find("FEATURE_UNSAFE", subject, "%s", message)
	if fix != "" {
		f.Fix = fix
	}
	return f
}
