package gate

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// fitsUnsealed refuses a question that a release without a manifest cannot answer.
func (s Scope) fitsUnsealed() error {
	switch {
	case s.Only == policy.Images && len(s.Given) > 0:
		return verdict.Refuse(verdict.Usage, "--only", "files were given, but only images are in scope")
	case s.Depth != AllEvidence:
		return verdict.Refuse(verdict.Usage, "--depth", "the release has no manifest, so all evidence is always checked")
	case s.Level > 0:
		return verdict.Refuse(verdict.Usage, "--require-level", "the release has no manifest, and its provenance is unsigned, which shows level 1 at most")
	}
	return nil
}

// part is what belongs to the release, and the part of it that is asked about.
type part struct{ whole, asked k8slayout.Set }

// narrow leaves of what is expected the part that is asked about, and names what
// the answer leaves out.
func (u unsealed) narrow(whole k8slayout.Set, sbom signedSBOM) (p part, f facts, err error) {
	p = part{whole: whole, asked: whole}
	s := u.Options.Scope
	if s.Platform != "" {
		if err := s.checkPlatform(u.platforms(sbom)); err != nil {
			return p, f, err
		}
		p.asked = whole.For(s.Platform)
		f.leave("other platforms than " + s.Platform)
	}
	switch s.Only {
	case policy.Files:
		f.leave("images")
	case policy.Images:
		f.leave("files")
	}
	if u.Expect != nil {
		err = u.Expect(p.claimed())
	}
	return p, f, err
}

// platforms are those of files and of images that the SBOM names, which is
// signed, and the source.
func (u unsealed) platforms(sbom signedSBOM) (files, images []string) {
	by := []k8slayout.Witness{sbom.Witness}
	if !u.List.IsZero() {
		by = append(by, u.List.Witness())
	}
	set, err := k8slayout.Of(by...)
	if err != nil {
		return nil, nil
	}
	for _, name := range set.Names() {
		files = append(files, k8slayout.PlatformOf(name))
	}
	for _, i := range set.Images() {
		images = append(images, i.Platform)
	}
	return files, images
}

// claimed is everything that belongs to the part that is asked about, with the
// bytes that a witness claims.
func (p part) claimed() map[string]digest.Set {
	all := map[string]digest.Set{}
	for _, name := range p.asked.Names() {
		all[name] = p.asked.Claim(name)
		for _, suffix := range []string{".sha256", ".sha512", k8slayout.SignatureSuffix, k8slayout.CertificateSuffix} {
			all[name+suffix] = digest.Set{}
		}
	}
	return all
}

// asksAbout leaves the objects of other platforms out. What no witness names
// stays: it is too much on any.
func (p part) asksAbout(objects []store.Object) []store.Object {
	left := map[string]bool{}
	for _, name := range p.whole.Names() {
		left[name] = true
	}
	for _, name := range p.asked.Names() {
		delete(left, name)
	}
	return slices.DeleteFunc(slices.Clone(objects), func(o store.Object) bool {
		if of := k8slayout.KindOf(o.Name).Of; of != "" {
			return left[of]
		}
		return left[o.Name]
	})
}

// partOf is the image without the platforms that are not asked about.
func (s Scope) partOf(index *registry.Node) *registry.Node {
	if s.Platform == "" {
		return index
	}
	part := *index
	part.Children = slices.DeleteFunc(slices.Clone(index.Children), func(n *registry.Node) bool { return n.Descriptor.Platform != s.Platform })
	return &part
}
