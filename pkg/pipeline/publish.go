package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// publishing copies a sealed release from one place to the next.
type publishing struct{ *job }

// promote copies the release to a stage. If the gate accepted a manifest,
// only that one is copied.
func (p publishing) promote(ctx context.Context, from promote.From, s profile.Stage, accepted digest.Digest, tell func(gate.Progress)) error {
	m, bundle, err := p.promotable(ctx, from.Files)
	if err != nil {
		return err
	}
	if got := digest.Of(digest.SHA256, bundle); s == profile.Release && !accepted.IsZero() && !accepted.Equal(got) {
		return &verdict.Error{Finding: verdict.Find(verdict.PlanStale, from.Files.URI(), "the manifest has changed since the gate accepted it").
			Differ(accepted.String(), got.String())}
	}
	ctx = p.inTraceOf(ctx, traceOf(m)) // before anything else is recorded
	to, err := p.place(s)
	if err != nil {
		return err
	}
	target := promote.To{Files: to.files, Writer: to.writer, Images: to.images, Progress: tell, Left: func(tag, why string) {
		p.Report(ctx, "%s was not copied: a tag for evidence must contain evidence; %s", tag, why)
	}}
	if s == profile.Release && p.Lease != "" {
		held, err := claim(ctx, p.World, p.Exclusion, fmt.Sprintf("%s-%s.lease.json", m.Name, m.Version))
		if err != nil {
			return err
		}
		defer func() { _ = held.Release(ctx) }() // if this fails, the lease expires
		target.Exclusive = held.Held
	}
	if target.Replaces, err = p.replaces(ctx, m, bundle, to.files); err != nil {
		return err
	}
	planned := promote.Make(m, bundle)
	signed, err := p.signoffsOf(ctx, from.Files, to.files)
	if err != nil {
		return err
	}
	planned.Files = append(planned.Files, signed...)
	if err := lacks(ctx, to.writer); err != nil {
		return err
	}
	if err := promote.Apply(ctx, planned, from, target); err != nil {
		return err
	}
	p.Report(ctx, "%s is at %s: %s", planned.Name, to.files.URI(), planned.Extent())
	return nil
}

// lacks refuses a place whose service cannot do what a release needs. A denied
// permission is reported by the first write.
func lacks(ctx context.Context, w store.Writer) error {
	var lacking *verdict.Error
	prober, can := w.(store.Prober)
	if !can {
		return nil
	}
	if err := prober.MayWrite(ctx); errors.As(err, &lacking) {
		return err
	}
	return nil
}

// replaces is the digest of the manifest at a destination that this promotion
// may replace: the release identity signed it, and ours is a later revision
// of it. It is zero if there is no manifest, or the same one.
func (p publishing) replaces(ctx context.Context, next manifest.Manifest, bundle []byte, at store.Place) (digest.Digest, error) {
	before, raw, err := anyTime(p.job).manifest(ctx, at)
	if err == nil {
		there := digest.Of(digest.SHA256, raw)
		if there.Equal(digest.Of(digest.SHA256, bundle)) {
			return digest.Digest{}, nil
		}
		return there, next.Follows(before, there)
	}
	none := errors.Is(err, store.ErrNotFound) || errors.Is(err, fs.ErrNotExist) // a directory that does not exist yet
	if !none && verdict.OutcomeOf(err) == verdict.Unavailable {
		return digest.Digest{}, err
	}
	// No manifest, or one that is not ours: the copy reports a conflict.
	return digest.Digest{}, nil
}

// signoffsOf are the sign-off of a place and its summary, if the policy
// accepts their signer: evidence is copied with the release. Existing ones at
// the destination are kept.
func (p publishing) signoffsOf(ctx context.Context, from, to store.Place) (files []promote.File, err error) {
	for _, name := range []string{releasesignoff.Name, releasesignoff.Summary} {
		raw, err := store.Read(ctx, from, name, maxBundle)
		if errors.Is(err, store.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if e, err := p.verifier.Attestation(raw); err != nil || !p.Profile.Policy.IsSignoff(e) {
			continue // the gate reports what is wrong with it
		}
		switch _, err := store.Read(ctx, to, name, maxBundle); {
		case errors.Is(err, store.ErrNotFound):
			files = append(files, promote.File{Name: name, Digests: digest.SetOf(raw), Size: int64(len(raw)), MediaType: plan.MediaBundle})
		case err != nil:
			return nil, err
		}
	}
	return files, nil
}

// onlyWithdraws reports whether the staged manifest withdraws the public
// release and lists nothing that is not public already.
func (p publishing) onlyWithdraws(ctx context.Context) bool {
	staging, err := p.place(profile.Staging)
	if err != nil {
		return false
	}
	m, _, err := p.promotable(ctx, staging.files)
	if err != nil || m.Withdrawn == nil {
		return false
	}
	there, _, err := published(ctx, anyTime(p.job), p.Version)
	if err != nil || len(m.Pages) != len(there.Pages) {
		return false
	}
	samePage := func(a, b manifest.Page) bool { return a.Name == b.Name && a.Digests.Equal(b.Digests) }
	return len(m.Artifacts)+len(m.Pages) > 0 && slices.EqualFunc(m.Pages, there.Pages, samePage) && !slices.ContainsFunc(m.Artifacts, func(a manifest.Artifact) bool {
		known, is := there.Find(a.Name)
		return !is || !known.Digests.Equal(a.Digests)
	})
}

// place is one end of a promotion.
type place struct {
	files  store.Place
	writer store.Writer
	images promote.Registry
}

// filesAt opens the files of a stage for reading.
func (j *job) filesAt(s profile.Stage) (store.Place, error) {
	uri, err := j.Profile.Files(s, j.Version)
	if err != nil {
		return nil, err
	}
	return j.openPlace(uri)
}

// place opens the places of a stage for reading and writing.
func (j *job) place(s profile.Stage) (out place, err error) {
	if out.files, err = j.filesAt(s); err != nil {
		return place{}, err
	}
	uri, err := j.Profile.Files(s, j.Version)
	if err != nil {
		return place{}, err
	}
	if out.writer, err = j.OpenWriter(uri); err != nil {
		return place{}, err
	}
	if whole, is := out.writer.(promote.Publisher); is {
		out.files = whole // it also reads what is not public yet
	}
	prefix, err := j.Profile.Images(s, j.Version)
	if err != nil || prefix == "" {
		return out, err
	}
	out.images, err = registry.OpenRemote(prefix, j.Transport)
	return out, err
}

// openPlace opens a place that may require credentials.
func (w World) openPlace(uri string) (store.Place, error) {
	if w.OpenPlace != nil {
		return w.OpenPlace(uri)
	}
	return store.Open(uri, w.Transport)
}

// missingManifestAdvice is how to get a manifest to a place that has none.
func missingManifestAdvice(from store.Place, state string) string {
	if w, err := filepath.Abs(state); err == nil && strings.Contains(from.URI(), w) {
		return "sign and seal first; waybill status VERSION lists what is missing"
	}
	return "stage the release first: waybill stage VERSION --confirm, or if it is sealed already, waybill promote VERSION --to staging --confirm"
}

func pagesAt(ctx context.Context, from store.Place) manifest.Opener {
	return func(name string) ([]byte, error) { return store.Read(ctx, from, name, manifest.MaxPage) }
}
