package gate

import (
	"context"
	"errors"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// imagesAtOnce is how many images are read at a time. A registry far away
// answers slowly, and most of a gate's time is waiting for it.
const imagesAtOnce = 8

// looked is what the registry said of one image. A node with an error is one
// whose manifests are right, and not all that they name.
type looked struct {
	node *registry.Node
	err  error
}

// lookAtImages reads all images of the release, and what refers to them, and
// judges nothing: what is judged is judged in the order of the manifest.
func (g gathered) lookAtImages(ctx context.Context) map[string]looked {
	all := map[string]looked{}
	var mu sync.Mutex // owns all
	var group errgroup.Group
	group.SetLimit(imagesAtOnce)
	for _, a := range g.release.manifest.Images() {
		if !g.release.covers(a) {
			continue
		}
		group.Go(func() error {
			if g.release.asks(a.Class) {
				_, _ = g.release.reader.evidenceOf(ctx, a.Repository, a.Digests.SHA256) // who asks again gets the same answer
			}
			if a.Class != plan.Image {
				return nil
			}
			l := g.release.reader.lookAt(ctx, a)
			mu.Lock()
			defer mu.Unlock()
			all[a.Name] = l
			return nil
		})
	}
	_ = group.Wait() // none returns an error
	return all
}

// lookAt reads tag, graph and blobs of one image. A tag is asked once, and from
// there on digests are.
func (r *imageReader) lookAt(ctx context.Context, a manifest.Artifact) looked {
	for _, tag := range a.Tags {
		got, err := r.source.Resolve(ctx, a.Repository, tag)
		switch {
		case errors.Is(err, registry.ErrNotFound):
			return looked{err: verdict.Refuse(verdict.Missing, a.Name, "tag %s is not in the registry", tag).Advise(registry.NextActMissing)}
		case err != nil:
			return looked{err: err}
		case !got.Digest.Equal(a.Digests.SHA256):
			return looked{err: &verdict.Error{Finding: verdict.Find(verdict.TagMoved, a.Name, "tag %s names another image", tag).
				Differ(a.Digests.SHA256.String(), got.Digest.String())}}
		}
	}
	node, err := registry.Graph(ctx, r.source, a.Repository, descriptor(a))
	if err != nil {
		return looked{err: err}
	}
	return looked{node, r.checkBlobs(ctx, a, node)}
}

// checkBlobs reads every blob of the image: a registry can hold a manifest
// and have lost or changed what it names.
func (r *imageReader) checkBlobs(ctx context.Context, a manifest.Artifact, node *registry.Node) error {
	images := node.Children
	if !node.Descriptor.IsIndex() { // one platform that stands alone
		images = []*registry.Node{node}
	}
	for _, child := range images {
		if p := r.platform; p != "" && child.Descriptor.Platform != "" && child.Descriptor.Platform != p {
			continue
		}
		if _, err := registry.VerifyBlobs(ctx, r.source, a.Repository, child); err != nil {
			return err
		}
	}
	return nil
}

func descriptor(a manifest.Artifact) registry.Descriptor {
	return registry.Descriptor{MediaType: a.MediaType, Digest: a.Digests.SHA256, Size: a.Size}
}

// imageReader reads the images of a release, and what refers to them, each once.
type imageReader struct {
	source   registry.Source
	verifier *verify.Verifier
	platform string // whose blobs alone are read; empty reads all

	mu        sync.Mutex // owns referring
	referring map[string]func() (attached, error)
}

// evidenceOf is the evidence that refers to a manifest.
func (r *imageReader) evidenceOf(ctx context.Context, repo string, manifest digest.Digest) (attached, error) {
	r.mu.Lock()
	key := repo + "@" + manifest.String()
	ask, known := r.referring[key]
	if !known {
		ask = sync.OnceValues(func() (attached, error) {
			return readAttached(ctx, r.verifier, registry.Target{Source: r.source, Repository: repo, Digest: manifest})
		})
		if r.referring == nil {
			r.referring = map[string]func() (attached, error){}
		}
		r.referring[key] = ask
	}
	r.mu.Unlock()
	return ask()
}

// summariesOf are the summaries that refer to an image.
func (r *imageReader) summariesOf(ctx context.Context, a manifest.Artifact) ([]verify.Evidence, error) {
	refers, err := r.evidenceOf(ctx, a.Repository, a.Digests.SHA256)
	if err != nil {
		return nil, err
	}
	var summaries []verify.Evidence
	for _, e := range refers.holds {
		if e.Kind() == vsa.PredicateType {
			summaries = append(summaries, e)
		}
	}
	return summaries, nil
}
