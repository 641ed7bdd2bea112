package cli

import (
	"context"

	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// decide decides about a release as its profile says that it is published:
// with a manifest, or without. Which of them it is nobody guesses.
func (o *VerifyRelease) decide(ctx context.Context, req gate.Request) (*verdict.Verdict, error) {
	if o.unsealed == nil {
		return gate.Release(ctx, req), nil
	}
	switch {
	case o.Source != "":
		return nil, verdict.Refuse(verdict.Usage, "--source", "the profile says that the release has no manifest; nothing that is signed names a commit")
	case o.Depth != depthEvidence:
		return nil, verdict.Refuse(verdict.Usage, "--depth", "the profile says that the release has no manifest; no SBOM of it describes the inside of a file")
	}
	log := o.Log
	if log.URL == "" && !o.Trust.Offline {
		log.URL = o.unsealed.Log
	}
	finder, err := log.Finder(o.Trust.Offline)
	if err != nil {
		return nil, err
	}
	list, _, err := expected.Kubernetes(req.Version)
	if err != nil {
		return nil, err
	}
	return gate.Unsealed(ctx, gate.UnsealedRequest{Request: req, List: list, Finder: finder}), nil
}
