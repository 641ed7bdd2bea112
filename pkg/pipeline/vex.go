package pipeline

import (
	"context"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// filesOf is a version, and the place of the files of its public release.
func (o Officer) filesOf(release string) (version.Version, string, error) {
	of, err := version.Parse(release)
	if err != nil {
		return of, "", err
	}
	files, err := o.Profile.Files(profile.Release, of)
	return of, files, err
}

// PublishVEX signs a VEX document, writes it beside the manifest of a release,
// and attaches it to each image that it is about.
func (o Officer) PublishVEX(ctx context.Context, release string, said intoto.Statement, name string) (verdict.Proof, error) {
	of, files, err := o.filesOf(release)
	if err != nil {
		return verdict.Proof{}, err
	}
	prefix, err := o.Profile.Images(profile.Release, of)
	if err != nil {
		return verdict.Proof{}, err
	}
	proof, err := o.Sign(ctx, o.DraftAs(openvex.Role, said), Target{files, name})
	if err != nil {
		return verdict.Proof{}, err
	}
	bundle, err := o.read(ctx, Target{files, name})
	for _, one := range said.Subjects() {
		repository, image := strings.CutPrefix(one.Name, "oci/")
		if !image || err != nil {
			continue
		}
		var images *registry.Remote
		if images, err = registry.OpenRemote(prefix, o.Transport); err != nil {
			return proof, err
		}
		var subject registry.Descriptor
		if subject, err = images.Resolve(ctx, repository, one.Digests.SHA256.String()); err == nil {
			d, raw, blobs := registry.HintedManifest(subject, bundle, openvex.PredicateType, nil)
			err = registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}.PushTo(ctx, images, repository)
		}
	}
	return proof, err
}
