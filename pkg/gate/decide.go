package gate

import (
	"context"

	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Decide decides about a release as the profile says that it is published: with a
// manifest, or without. Which of them it is nobody guesses. The error says that
// nothing could be asked.
func (g Gate) Decide(ctx context.Context, req Request) (Decided, error) {
	of := g.profile.Unsealed
	if of == nil {
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
	if ask.List, _, err = k8slayout.Kubernetes(req.Version); err != nil {
		return Decided{}, err
	}
	if into, fetched := req.Files.(interface {
		Expect(claimed map[string]digest.Set) error
	}); fetched {
		ask.Expect = into.Expect
	}
	return Unsealed(ctx, ask), nil
}

// unsealedAct is what whoever asks for more can do.
const unsealedAct = "leave the flag away; only the profile of a project that publishes a manifest, as kubernetes-sealed, can answer this"

// withoutManifest refuses what can be asked of a manifest alone.
func withoutManifest(req Request) error {
	refuse := func(flag, why string) error {
		return verdict.Refuse(verdict.Usage, flag, "the profile says that the release has no manifest%s", why).Advise(unsealedAct)
	}
	switch o := req.Options; {
	case o.Checkout.Repository != "":
		return refuse("--source", "; nothing that is signed names a commit")
	case o.Inside != nil || o.Scope.Depth != AllEvidence:
		return refuse("--depth", ", and of what is there everything is asked")
	case o.Scope.Level > 0:
		return refuse("--require-level", ", and nobody signed its provenance: no more than level 1 is shown of anything")
	}
	return nil
}
