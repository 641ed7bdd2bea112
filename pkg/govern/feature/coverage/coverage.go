package coverage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Provenance is the audit of a requirement on images. by has the policy as written; a
// zero Now means the time of each pass.
func Provenance(public Registries, by gate.PolicyRequest) reconcile.Sweep {
	return images{public, by}
}

type images struct {
	public Registries
	by     gate.PolicyRequest
}

// Sweep implements [reconcile.Sweep]. Each pass judges all images again, to notice
// those that were fixed.
func (i images) Sweep(ctx context.Context, w reconcile.Work) (feature.Outcome, error) {
	by, err := atPassTime(i.by)
	if err != nil {
		return feature.Outcome{}, err
	}
	public := i.public.open()
	return Audit{Public: public, Judge: judge{public, by}}.Sweep(ctx, w)
}

// atPassTime is the request at the time of a pass. A policy that has expired is an error:
// it refuses everything, which says nothing about an image.
func atPassTime(by gate.PolicyRequest) (gate.PolicyRequest, error) {
	if by.Now.IsZero() {
		by.Now = time.Now()
	}
	return by, errors.Join(by.Policy.Life(by.Now), by.Policy.Root(by.Verifier.Root().IsLab(), by.Verifier.Root().Date(), by.Now))
}

// Registries are repositories that are public.
type Registries struct {
	// Repositories are HOST/PATH each, from the reviewed file: registries do not
	// list all of their repositories.
	Repositories []string
	Transport    http.RoundTripper
}

// registries implements [Public]: each digest that a tag names is a public image.
type registries struct {
	Registries
	limit int // tags

	opened atonce.Memo[*registry.Remote] // by their host
}

func (r Registries) open() *registries { return &registries{Registries: r, limit: maxImages} }

// of returns the registry of a repository, and its path there.
func (r *registries) of(repository string) (*registry.Remote, string, error) {
	host, path, _ := strings.Cut(repository, "/")
	at, err := r.opened.Get(host, func() (*registry.Remote, error) { return registry.OpenRemote(host, r.Transport) })
	return at, path, err
}

// evidence matches tags that attach evidence, or a list of referrers, to a digest:
// these are no images.
var evidence = pattern.Lazy(`^sha256-[0-9a-f]{64}(\.[a-z]+)?$`)

// tag is a tag of a repository, with its digest.
type tag struct {
	repository, name string
	digest           digest.Digest
}

// Images implements [Public].
func (r *registries) Images(ctx context.Context, s feature.Scope) (Listed, error) {
	repositories, empty := feature.Select(s, r.Repositories) // an empty part would be enforced without an audit
	tags, err := r.list(ctx, repositories)
	if err != nil {
		return Listed{}, err
	}
	if err := r.resolve(ctx, tags); err != nil {
		return Listed{}, err
	}
	out := Listed{Images: fold(tags), Empty: empty}
	has := slice.Set(out.Images, func(i Image) string { return i.Repository })
	for _, repository := range repositories {
		if !has[repository] {
			out.Empty = append(out.Empty, repository)
		}
	}
	return out, nil
}

// list lists the tags of repositories, with their digests if the list of the registry
// has them.
func (r *registries) list(ctx context.Context, repositories []string) (tags []tag, err error) {
	listings := make([]registry.Listing, len(repositories))
	err = atonce.Try(ctx, atOnce, repositories, func(ctx context.Context, n int, repository string) error {
		at, path, err := r.of(repository)
		if err == nil {
			listings[n], err = at.Listing(ctx, path)
		}
		return unlisted(repository, err)
	})
	if err != nil {
		return nil, err
	}
	for n, repository := range repositories {
		for _, name := range slices.Sorted(maps.Keys(listings[n].Tags)) {
			if !evidence().MatchString(name) {
				tags = append(tags, tag{repository, name, listings[n].Tags[name]})
			}
		}
		if len(tags) > r.limit {
			return nil, verdict.Refuse(verdict.Limit, repository, "%d tags so far, the limit is %d", len(tags), r.limit)
		}
	}
	return tags, nil
}

// resolve finds the digests of the other tags. They are claims of the registry, which
// is safe: the gate reads and judges the bytes with that digest.
func (r *registries) resolve(ctx context.Context, tags []tag) error {
	return atonce.Try(ctx, atOnce, tags, func(ctx context.Context, n int, _ tag) error {
		t := &tags[n]
		if !t.digest.IsZero() {
			return nil
		}
		at, path, err := r.of(t.repository)
		if err == nil {
			t.digest, err = at.Claimed(ctx, path, t.name)
		}
		return unlisted(t.repository+":"+t.name, err)
	})
}

// unlisted is the error of a repository that cannot be listed, or does not exist. The
// audit then decides nothing.
func unlisted(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, registry.ErrNotFound):
		return verdict.Refuse(verdict.PlaceDown, name, "the repository or tag does not exist, and the audit needs a complete list").
			Advise("correct its name under public in FEATURES.yaml, or leave it out until it has an image")
	}
	return fmt.Errorf("%s: the audit needs a complete list: %w", name, err)
}

// fold makes one image of all tags of a repository with the same digest.
func fold(tags []tag) (images []Image) {
	type key struct {
		repository string
		digest     digest.Digest
	}
	at := map[key]int{}
	for _, t := range tags {
		k := key{t.repository, t.digest}
		n, known := at[k]
		if !known {
			n, at[k] = len(images), len(images)
			images = append(images, Image{Repository: t.repository, Digest: t.digest})
		}
		images[n].Tags = append(images[n].Tags, t.name)
	}
	return images
}

// judge implements [Judge] with the gate.
type judge struct {
	*registries
	by gate.PolicyRequest
}

// Judge implements [Judge]. The version comes from the tags, as for a promotion;
// exceptions count for the repository of the image.
func (j judge) Judge(ctx context.Context, i Image) error {
	at, path, err := j.of(i.Repository)
	if err != nil {
		return err
	}
	by := j.by
	if by.Version == "" {
		by.Version = gate.VersionOf(i.Tags)
	}
	return by.Image(ctx, gate.Image{Source: at, Name: i.Repository + "@" + i.Digest.String(), Repository: path, Digest: i.Digest, To: i.Repository}).Err()
}
