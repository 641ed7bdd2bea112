package registry

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/empty"
	"github.com/sigstore/cosign/v2/pkg/oci/mutate"
	ociremote "github.com/sigstore/cosign/v2/pkg/oci/remote"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// oneImage answers the requests by which cosign reads an image from a registry,
// from any [Source]. Its manifest was read and checked before, and blobs are
// verified as they are read.
type oneImage struct {
	src    Source
	repo   string
	node   *Node
	failed error // why a blob could not be read
}

// oneImageName is the repository that is requested: there is no other.
const oneImageName = "source.invalid/attached"

// signatures reads the layers of an evidence image with their bytes.
func (o *oneImage) signatures(ctx context.Context) ([]oci.Signature, error) {
	ref, err := name.NewDigest(oneImageName + "@" + o.node.Descriptor.Digest.String())
	if err != nil {
		return nil, err
	}
	image, err := ociremote.Signatures(ref, ociremote.WithRemoteOptions(remote.WithContext(ctx), remote.WithTransport(o), remote.WithRetryPredicate(func(error) bool { return false })))
	if err != nil {
		return nil, err
	}
	list, err := image.Get()
	if err != nil {
		return nil, &FormError{Digest: o.node.Descriptor.Digest, Err: err}
	}
	for i, layer := range list {
		payload, err := layer.Payload()
		if o.failed != nil {
			return nil, o.failed
		}
		if err != nil {
			return nil, err
		}
		list[i] = heldLayer{layer, payload}
	}
	return list, nil
}

// heldLayer is a layer whose bytes were read.
type heldLayer struct {
	attachedLayer
	payload []byte
}

// attachedLayer is an alias, because the embedded type has a method of its own
// name.
type attachedLayer = oci.Signature

// Payload implements [oci.Signature].
func (h heldLayer) Payload() ([]byte, error) { return h.payload, nil }

// RoundTrip implements [http.RoundTripper].
func (o *oneImage) RoundTrip(req *http.Request) (*http.Response, error) {
	kind, asked, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/v2/attached/"), "/")
	switch d := o.node.Descriptor; {
	case req.URL.Path == "/v2/":
		return respond(req, Descriptor{}, http.NoBody), nil
	case kind == "manifests" && asked == d.Digest.String():
		return respond(req, d, io.NopCloser(bytes.NewReader(o.node.Raw))), nil
	}
	for _, d := range o.node.Blobs() {
		if asked != d.Digest.String() {
			continue
		}
		raw, err := Read(req.Context(), o.src, o.repo, d, maxAttached)
		if err != nil {
			o.failed = err
			return nil, err
		}
		return respond(req, d, io.NopCloser(bytes.NewReader(raw))), nil
	}
	none := respond(req, Descriptor{}, http.NoBody)
	none.StatusCode = http.StatusNotFound
	return none, nil
}

func respond(req *http.Request, d Descriptor, body io.ReadCloser) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header: http.Header{"Content-Type": {d.MediaType}}, ContentLength: d.Size, Body: body,
	}
}

// AttachedTag is the tag by which evidence is attached to a manifest in
// registries without referrers.
func AttachedTag(d digest.Digest, suffix string) string {
	return d.Algorithm().String() + "-" + d.Hex() + suffix
}

// AttachedManifest returns the manifest for such a tag, in cosign's form: an
// image whose layers are the evidence. Its blobs must be pushed first. The same
// layers give the same bytes.
func AttachedManifest(layers []oci.Signature) (Parcel, error) {
	image, err := mutate.AppendSignatures(empty.Signatures(), false, layers...)
	if err != nil {
		return Parcel{}, err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return Parcel{}, err
	}
	parcel := Parcel{Blobs: []Blob{blobOf(string(types.OCIConfigJSON), config)}}
	for _, l := range layers {
		payload, err := l.Payload()
		if err != nil {
			return Parcel{}, err
		}
		media, err := l.MediaType()
		if err != nil {
			return Parcel{}, err
		}
		parcel.Blobs = append(parcel.Blobs, blobOf(string(media), payload))
	}
	if parcel.Raw, err = image.RawManifest(); err != nil {
		return Parcel{}, err
	}
	parcel.Descriptor = blobOf(MediaTypeManifest, parcel.Raw).Descriptor
	return parcel, nil
}
