package cli

import (
	"context"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/download"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// decide decides about a release as its profile says that it is published:
// with a manifest, or without. Which of them it is nobody guesses.
func (o *VerifyRelease) decide(ctx context.Context, req gate.Request) (gate.Decided, error) {
	if o.unsealed == nil {
		return gate.Decide(ctx, req), nil
	}
	if err := o.withoutManifest(req); err != nil {
		return gate.Decided{}, err
	}
	log := o.Log
	log.Evidence = o.answers()
	if log.URL == "" && !o.Trust.Offline {
		log.URL = o.unsealed.Log
	}
	finder, err := log.Finder(o.Trust.Offline)
	if err != nil {
		return gate.Decided{}, err
	}
	list, _, err := expected.Kubernetes(req.Version)
	if err != nil {
		return gate.Decided{}, err
	}
	ask := gate.UnsealedRequest{Request: req, List: list, Finder: finder}
	if into, fetched := req.Files.(*download.Download); fetched {
		ask.Expect = into.Expect
	}
	return gate.Unsealed(ctx, ask), nil
}

// answers is the directory that keeps the log's answers. A download of a
// release whose signatures need them has one beside it, so that its copy can be
// verified without a network.
func (o *VerifyRelease) answers() string {
	if o.Log.Evidence != "" || o.unsealed == nil || o.Keep.Download == "" {
		return o.Log.Evidence
	}
	return filepath.Clean(o.Keep.Download) + ".evidence"
}

// unsealedAct is what whoever asks for more can do.
const unsealedAct = "leave the flag away; only the profile of a project that publishes a manifest, as kubernetes-sealed, can answer this"

// withoutManifest refuses what can be asked of a manifest alone.
func (o *VerifyRelease) withoutManifest(req gate.Request) error {
	switch s := req.Options.Scope; {
	case o.Source != "":
		return verdict.Refuse(verdict.Usage, "--source", "the profile says that the release has no manifest; nothing that is signed names a commit").
			Advise(unsealedAct)
	case o.Part.Depth != depthEvidence:
		return verdict.Refuse(verdict.Usage, "--depth", "the profile says that the release has no manifest, and of what is there everything is asked").
			Advise(unsealedAct)
	case s.Level > 0:
		return verdict.Refuse(verdict.Usage, "--require-level", "the profile says that the release has no manifest, and nobody signed its provenance: no more than level 1 is shown of anything").
			Advise(unsealedAct)
	}
	return nil
}
