package gate

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// fitsUnsealed refuses a question that a release without a manifest cannot answer.
func (s Scope) fitsUnsealed() error {
	switch {
	case s.Only == policy.Images && len(s.Given) > 0:
		return verdict.Refuse(verdict.Usage, "--only", "files were given, and images alone are asked for")
	case s.Depth != AllEvidence:
		return verdict.Refuse(verdict.Usage, "--depth", "the release has no manifest, and of what is there everything is asked")
	case s.Level > 0:
		return verdict.Refuse(verdict.Usage, "--require-level", "the release has no manifest, and nobody signed its provenance: no more than level 1 is shown of anything")
	}
	return nil
}

// narrow leaves of what is expected the part that is asked about, and says
// without what the answer is.
func (u *unsealed) narrow() error {
	s := u.Options.Scope
	u.whole = u.set
	if s.Platform != "" {
		if err := s.checkPlatform(u.platforms()); err != nil {
			return err
		}
		u.set = u.set.For(s.Platform)
		u.leave("other platforms than " + s.Platform)
	}
	switch s.Only {
	case policy.Files:
		u.leave("images")
	case policy.Images:
		u.leave("files")
	}
	if u.expect == nil {
		return nil
	}
	return u.expect(u.claimed())
}

// platforms are those of files and of images that the SBOM names, which is
// signed, and the source.
func (u *unsealed) platforms() (files, images []string) {
	known := []expected.Witness{u.signed}
	if !u.list.IsZero() {
		known = append(known, u.list.Witness())
	}
	set, err := expected.Of(known...)
	if err != nil {
		return nil, nil
	}
	for _, name := range set.Names() {
		files = append(files, expected.PlatformOf(name))
	}
	for _, i := range set.Images() {
		images = append(images, i.Platform)
	}
	return files, images
}

// checkPlaces looks at the places that are asked about.
func (u *unsealed) checkPlaces(ctx context.Context) {
	only := u.Options.Scope.Only
	if only != policy.Images {
		u.checkFiles(ctx)
		u.checkSignatures(ctx)
	}
	if only != policy.Files {
		u.checkImages(ctx)
	}
}

// claimed is everything that belongs to what is asked, with the bytes that
// somebody claims.
func (u *unsealed) claimed() map[string]digest.Set {
	all := map[string]digest.Set{}
	for _, name := range u.set.Names() {
		all[name] = u.set.Claim(name)
		for _, suffix := range []string{".sha256", ".sha512", expected.SignatureSuffix, expected.CertificateSuffix} {
			all[name+suffix] = digest.Set{}
		}
	}
	return all
}

// asksAbout leaves the objects of other platforms out. What nobody names stays:
// it is too much on any.
func (u *unsealed) asksAbout(objects []store.Object) []store.Object {
	if u.Options.Scope.Platform == "" {
		return objects
	}
	asked, named := map[string]bool{}, map[string]bool{}
	for _, name := range u.set.Names() {
		asked[name] = true
	}
	for _, name := range u.whole.Names() {
		named[name] = true
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o store.Object) bool {
		name := o.Name
		if of := expected.KindOf(name).Of; of != "" {
			name = of
		}
		return named[name] && !asked[name]
	})
}

// partOf is the image without the platforms that are not asked about.
func (u *unsealed) partOf(index *registry.Node) *registry.Node {
	platform := u.Options.Scope.Platform
	if platform == "" {
		return index
	}
	part := *index
	part.Children = slices.DeleteFunc(slices.Clone(index.Children), func(n *registry.Node) bool { return n.Descriptor.Platform != platform })
	return &part
}

// proves notes a file whose signature holds, under the name that it was asked
// by, and what a download of it has.
func (u *unsealed) proves(name string) {
	as := name
	if at, given := u.given[name]; given {
		as = at
	}
	u.proven = append(u.proven, Sum{as, u.digests[name]})
	u.kept = append(u.kept, name+expected.SignatureSuffix, name+expected.CertificateSuffix)
}
