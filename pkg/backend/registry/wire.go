package registry

import (
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// document is the part of a manifest or index that is read, in the OCI or the
// Docker form. Others may extend both, so unknown fields are ignored.
type document struct {
	SchemaVersion int64             `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Config        *element          `json:"config"`
	Layers        []element         `json:"layers"`
	Manifests     []element         `json:"manifests"`
	Subject       *element          `json:"subject"`
	Annotations   map[string]string `json:"annotations"`
}

// element is a content descriptor in JSON.
type element struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	Platform     *platform         `json:"platform"`
	ArtifactType string            `json:"artifactType"`
	Annotations  map[string]string `json:"annotations"`
	URLs         []string          `json:"urls"`
}

type platform struct {
	OS           string `json:"os"`
	Architecture string `json:"architecture"`
	Variant      string `json:"variant"`
}

// parse reads the manifest or index whose bytes d addresses.
func parse(d Descriptor, raw []byte) (document, error) {
	doc, err := parseDocument(raw)
	if err == nil {
		err = doc.check(d)
	}
	if err != nil {
		return document{}, &FormError{Digest: d.Digest, Err: err}
	}
	return doc, nil
}

func parseDocument(raw []byte) (doc document, err error) {
	if err := strictjson.UnmarshalOpen(raw, &doc); err != nil {
		return document{}, err
	}
	return doc, nil
}

// check refuses ambiguous bytes: an index for one client and an image for
// another.
func (doc document) check(d Descriptor) error {
	switch {
	case doc.SchemaVersion != 2:
		return fmt.Errorf("schema version %d, want 2", doc.SchemaVersion)
	case doc.MediaType != "" && doc.MediaType != d.MediaType:
		return fmt.Errorf("media type %q in the document, %q in its descriptor", doc.MediaType, d.MediaType)
	case d.IsIndex() && (doc.Config != nil || doc.Layers != nil):
		return errors.New("an index with a configuration or layers")
	case !d.IsIndex() && doc.Manifests != nil:
		return errors.New("an image with a list of manifests")
	case !d.IsIndex() && doc.Config == nil:
		return errors.New("an image without a configuration")
	}
	return nil
}

// kind is the artifact type by which a referrer is listed (distribution
// specification, "Listing Referrers").
func (doc document) kind() string {
	if doc.ArtifactType == "" && doc.Config != nil {
		return doc.Config.MediaType
	}
	return doc.ArtifactType
}

func (e element) descriptor() (Descriptor, error) {
	d, err := digest.Parse(e.Digest)
	if err != nil {
		return Descriptor{}, err
	}
	if e.Size < 0 {
		return Descriptor{}, fmt.Errorf("descriptor of %s has size %d", d, e.Size)
	}
	out := Descriptor{
		MediaType:    e.MediaType,
		Digest:       d,
		Size:         e.Size,
		ArtifactType: e.ArtifactType,
		Annotations:  e.Annotations,
		Elsewhere:    len(e.URLs) > 0,
	}
	if p := e.Platform; p != nil {
		out.Platform = p.OS + "/" + p.Architecture
		if p.Variant != "" {
			out.Platform += "/" + p.Variant
		}
	}
	return out, nil
}

// wire returns d in its JSON form. The platform is left out: it belongs to an
// index's entry.
func (d Descriptor) wire() (v1.Descriptor, error) {
	hash, err := v1.NewHash(d.Digest.String())
	if err != nil {
		return v1.Descriptor{}, fmt.Errorf("describing %q: %w", d.MediaType, err)
	}
	return v1.Descriptor{MediaType: types.MediaType(d.MediaType), Digest: hash, Size: d.Size}, nil
}
