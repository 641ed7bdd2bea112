package gate

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// imagesAtOnce is how many images are read at a time. A distant registry
// answers slowly, and most of a gate's time is waiting for it.
const imagesAtOnce = 8

// imageAnswer is the registry's answer about one image. A node together with an
// error means that the manifests are right, and blobs are missing or wrong.
type imageAnswer struct {
	node *registry.Node
	err  error
}

// readImages reads all images of the release and their referrers. It judges
// nothing: judging follows the order of the manifest.
func (g gathered) readImages(ctx context.Context) map[string]imageAnswer {
	all := map[string]imageAnswer{}
	var mu sync.Mutex // guards all
	due := slices.DeleteFunc(g.release.manifest.Images(), func(a manifest.Artifact) bool { return !g.release.covers(a) })
	p := g.release.Options.watch(Progress{What: "reading", Unit: "images", OfFiles: len(due)})
	atonce.Each(imagesAtOnce, due, func(_ int, a manifest.Artifact) {
		defer p.add(0, 1)
		if g.release.asks(a.Class) {
			_, _ = g.release.reader.evidenceOf(ctx, a.Repository, a.Digests.SHA256) // cached for the next caller
		}
		if a.Class != plan.Image {
			return
		}
		l := g.release.reader.readImage(ctx, a)
		mu.Lock()
		defer mu.Unlock()
		all[a.Name] = l
	})
	return all
}

// readImage reads tag, graph and blobs of one image. It resolves each tag once and
// then reads by digest.
func (r *imageReader) readImage(ctx context.Context, a manifest.Artifact) imageAnswer {
	for _, tag := range a.Tags {
		got, err := r.source.Resolve(ctx, a.Repository, tag)
		switch {
		case errors.Is(err, registry.ErrNotFound):
			return imageAnswer{err: verdict.Refuse(verdict.Missing, a.Name, "tag %s is not in the registry", tag).Advise(registry.NextActMissing)}
		case err != nil:
			return imageAnswer{err: err}
		case !got.Digest.Equal(a.Digests.SHA256):
			return imageAnswer{err: &verdict.Error{Finding: verdict.Find(verdict.TagMoved, a.Name, "tag %s names another image", tag).
				Differ(a.Digests.SHA256.String(), got.Digest.String())}}
		}
	}
	node, err := registry.Graph(ctx, r.source, a.Repository, registry.Descriptor{MediaType: a.MediaType, Digest: a.Digests.SHA256, Size: a.Size})
	if err != nil {
		return imageAnswer{err: err}
	}
	return imageAnswer{node, r.checkBlobs(ctx, a, node)}
}

// checkBlobs reads every blob of the image: a registry can have a manifest
// whose blobs are lost or changed.
func (r *imageReader) checkBlobs(ctx context.Context, a manifest.Artifact, node *registry.Node) error {
	images := node.Children
	if !node.Descriptor.IsIndex() { // an image without an index
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

// imageReader reads the images of a release and their referrers, each once.
type imageReader struct {
	source   registry.Source
	verifier *verify.Verifier
	platform string // read only the blobs of this platform; empty reads all

	referring atonce.Memo[attached] // by repository@digest
}

func (r *imageReader) evidenceOf(ctx context.Context, repo string, manifest digest.Digest) (attached, error) {
	return r.referring.Get(repo+"@"+manifest.String(), func() (attached, error) {
		return readAttached(ctx, r.verifier, registry.Target{Source: r.source, Repository: repo, Digest: manifest})
	})
}

func (r *imageReader) summariesOf(ctx context.Context, a manifest.Artifact) (summaries []verify.Evidence, err error) {
	refers, err := r.evidenceOf(ctx, a.Repository, a.Digests.SHA256)
	if err != nil {
		return nil, err
	}
	return slice.Filter(refers.holds, func(e verify.Evidence) bool { return e.Kind() == vsa.PredicateType }), nil
}
