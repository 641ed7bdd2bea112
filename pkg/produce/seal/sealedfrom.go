package seal

import (
	"context"
	"errors"
	"fmt"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// SealedFrom reports whether the workspace has our manifest of exactly the
// bytes in a place. Other bytes are refused: a version has only one first
// revision. If something is sealed already, it reads the whole place; it
// writes nothing.
func SealedFrom(ctx context.Context, req Request, from Origin, config []byte) (bool, error) {
	before, _, err := signedManifest(ctx, req)
	switch {
	case verdict.OutcomeOf(err) == verdict.Refused:
		return false, nil // no manifest, or not ours
	case err != nil:
		return false, err
	case before.Withdrawn != nil:
		return false, withdrawn(before)
	}
	if err := sealedOtherwise(ctx, req.Plan, from, before); err != nil {
		return false, err
	}
	if now := digest.SetOf(config); !before.Config.Equal(now.SHA256) {
		return false, otherBytes(plan.ConfigName, before.Config, now.SHA256)
	}
	return true, nil
}

func sealedOtherwise(ctx context.Context, p plan.Plan, from Origin, before manifest.Manifest) error {
	for _, g := range p.Given {
		now, err := hashGiven(ctx, from.Files, g.From)
		if err != nil {
			return err
		}
		if was, _ := before.Find(g.Name); !was.Digests.Equal(now) {
			return otherBytes(g.Name, was.Digests.SHA256, now.SHA256)
		}
	}
	for _, g := range p.GivenImages {
		repo, tag := splitImage(g.From)
		now, err := from.Images.Resolve(ctx, repo, tag)
		if err != nil {
			return fmt.Errorf("resolving %s: %w", g.From, err)
		}
		if was, _ := before.Find(g.Name); !was.Digests.SHA256.Equal(now.Digest) {
			return otherBytes(g.Name, was.Digests.SHA256, now.Digest)
		}
	}
	return nil
}

func hashGiven(ctx context.Context, from store.Place, name string) (digest.Set, error) {
	body, _, err := from.Open(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return digest.Set{}, verdict.Wrap(verdict.SealMissing, name, err)
	}
	if err != nil {
		return digest.Set{}, fmt.Errorf("reading %q: %w", name, err)
	}
	defer body.Close()
	set, _, err := digest.Sum(body)
	if err != nil {
		return digest.Set{}, fmt.Errorf("hashing %q: %w", name, err)
	}
	return set, nil
}

// otherBytes says what differs, and what can be done.
func otherBytes(name string, was, now digest.Digest) error {
	e := resealError(fmt.Sprintf("the place has other bytes for %s", name))
	e.Finding = e.Finding.Differ(was.String(), now.String())
	return e
}

func resealError(what string) *verdict.Error {
	return verdict.Refuse(verdict.Equivocation, releasemanifest.Name, "this version is sealed already, but %s", what).
		Advise("other bytes need a new version; if nothing was published yet, import them into another --state; if only evidence has changed, use --amend")
}
