// Package registry reads and writes images and what refers to them.
//
// [OpenRemote] speaks to a registry (OCI distribution specification 1.1) and
// [OpenLayout] to an OCI image layout on disk; both are [Source] and [Sink],
// so that [Copy], [Graph] and everything above need not know which.
//
//	staging, err := registry.OpenRemote("127.0.0.1:5000/staging", rt)
//	…
//	d, err := staging.Resolve(ctx, "demo", "v1.2.3")
//	node, err := registry.Graph(ctx, staging, "demo", d)
//	err = registry.Copy(ctx, release, staging, "demo", d)
//
// Content is addressed by digest and every byte that [Source.Fetch] delivers
// was hashed on its way: altered bytes are a [TamperedError], never data. What
// is not addressed by digest is a claim of the registry: which digest a tag
// names, which tags there are, and what refers to a manifest. Those claims are
// read, not believed; a registry can hide what it does not want to show.
//
// The package decides nothing about signatures and never writes a tag unless
// asked by [Sink.Tag].
package registry

import (
	"strings"

	"context"
	"io"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// MaxManifest is the largest manifest, index or list that is read. It is the
// least that registries must accept (distribution specification, "Pushing
// Manifests").
const MaxManifest = 4 << 20

// Media types of manifests.
const (
	MediaTypeIndex          = "application/vnd.oci.image.index.v1+json"
	MediaTypeManifest       = "application/vnd.oci.image.manifest.v1+json"
	MediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	MediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
)

// Descriptor says which bytes are meant: an OCI content descriptor.
type Descriptor struct {
	MediaType string
	Digest    digest.Digest
	Size      int64
	// Platform is "linux/amd64" or "linux/arm64/v8" for a child of an index,
	// else "".
	Platform string
	// ArtifactType and Annotations are known for referrers.
	ArtifactType string
	Annotations  map[string]string
	// Elsewhere says that the manifest names other addresses to fetch it from.
	// None of them is ever asked.
	Elsewhere bool
}

// IsIndex reports whether d is a list of manifests.
func (d Descriptor) IsIndex() bool {
	return d.MediaType == MediaTypeIndex || d.MediaType == MediaTypeDockerList
}

// IsManifest reports whether d is a manifest of any kind, an index included.
func (d Descriptor) IsManifest() bool {
	return d.IsIndex() || d.MediaType == MediaTypeManifest || d.MediaType == MediaTypeDockerManifest
}

// Source is where images are read. Nothing found is [ErrNotFound], no answer
// is [*UnavailableError].
type Source interface {
	// Resolve returns what the tag names now, or, in place of a tag, what a
	// digest ("sha256:…") addresses. The digest in the answer is that of bytes
	// that were read, not one that was merely announced.
	Resolve(ctx context.Context, repo, tag string) (Descriptor, error)
	// Fetch returns the bytes of d, a manifest or a blob. The reader ends
	// with [io.EOF] only if digest and size are those of d, else with a
	// [*TamperedError] or an [*UnavailableError]. The caller closes it.
	Fetch(ctx context.Context, repo string, d Descriptor) (io.ReadCloser, error)
	// Referrers returns the manifests whose subject is d, as the source
	// describes them, sorted by digest. None is not an error.
	Referrers(ctx context.Context, repo string, d digest.Digest) ([]Descriptor, error)
	// Tags returns all tags of repo, sorted.
	Tags(ctx context.Context, repo string) ([]string, error)
}

// Sink is where images are written. Writing what is there already does
// nothing, so any step can be repeated.
type Sink interface {
	// PushBlob writes one blob; open is called only if it is not there.
	PushBlob(ctx context.Context, repo string, d Descriptor, open func() (io.ReadCloser, error)) error
	// PushManifest writes the manifest whose bytes are raw, under its digest.
	PushManifest(ctx context.Context, repo string, d Descriptor, raw []byte) error
	// Tag makes the tag name d, which must be there.
	Tag(ctx context.Context, repo, tag string, d Descriptor) error
}

// checkRepository refuses a repository name that no registry would take.
func checkRepository(repo string) error {
	_, err := name.NewRepository("registry.invalid/"+repo, name.StrictValidation)
	if err != nil {
		return usage("naming repository: %w", err)
	}
	// The library lets parts pass that a server, or a directory, takes for
	// another path.
	for part := range strings.SplitSeq(repo, "/") {
		if strings.Trim(part, "._-") == "" {
			return usage("naming repository %q: its part %q is no name", repo, part)
		}
	}
	return nil
}

// checkTag refuses a tag that no registry would take.
func checkTag(repo, tag string) error {
	_, err := name.NewTag("registry.invalid/"+repo+":"+tag, name.StrictValidation)
	if err != nil {
		return usage("naming tag: %w", err)
	}
	return nil
}
