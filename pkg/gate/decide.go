package gate

import (
	"context"
	"fmt"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Decide decides about a release with a manifest, or without one, as the
// profile declares; this is never guessed. An error means that no question
// could be asked.
func (g Gate) Decide(ctx context.Context, req Request) (Decided, error) {
	of := g.profile.Unsealed
	if of == nil {
		if req.Options.Expected != "" {
			return Decided{}, verdict.Refuse(verdict.Usage, "--expected", "the release has a manifest, which lists what belongs to it").Advise("leave the flag out")
		}
		return Decide(ctx, req), nil
	}
	if err := withoutManifest(req); err != nil {
		return Decided{}, err
	}
	ask := UnsealedRequest{Request: req, Finder: req.Options.Finder}
	var err error
	if ask.Finder.Log == nil && of.Log != "" && !g.opening.Offline {
		if ask.Finder.Log, err = rekorv1.Open(of.Log, g.opening.Transport); err != nil {
			return Decided{}, err
		}
	}
	if path := req.Options.Expected; path == "" {
		ask.List, _, err = k8slayout.Kubernetes(req.Version)
	} else if ask.List, err = g.expected(path); err == nil && ask.List.Minor() != fmt.Sprintf("%d.%d", req.Version.Major(), req.Version.Minor()) {
		err = verdict.Refuse(verdict.Version, path, "the list is for %s, not for %s", ask.List.Minor(), req.Version).
			Advise("name a list for this minor version; docs/commands.md says how one is made of the source")
	}
	if err != nil {
		return Decided{}, err
	}
	if into, fetched := req.Files.(interface {
		Expect(claimed map[string]digest.Set) error
	}); fetched {
		ask.Expect = into.Expect
	}
	return ask.Decide(ctx), nil
}

// unsealedAct is the next act where a flag needs a manifest.
const unsealedAct = "leave the flag out; it needs the profile of a project that publishes a manifest, such as kubernetes-sealed"

// withoutManifest refuses options that need a manifest.
func withoutManifest(req Request) error {
	refuse := func(flag, why string) error {
		return verdict.Refuse(verdict.Usage, flag, "the profile says that the release has no manifest%s", why).Advise(unsealedAct)
	}
	switch o := req.Options; {
	case o.Checkout.Repository != "":
		return refuse("--source", ", and no signed document names a commit")
	case o.Inside != nil || o.Scope.Depth != allEvidence:
		return refuse("--depth", ", so all evidence is always checked")
	case len(o.Scope.Levels) > 0:
		return refuse("--require-level", ", and its provenance is unsigned, which shows level 1 at most")
	}
	return nil
}
