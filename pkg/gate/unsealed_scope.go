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

// fitsUnsealed refuses options that need a manifest.
func (s Scope) fitsUnsealed() error {
	switch {
	case s.Only == policy.Images && len(s.Given) > 0:
		return verdict.Refuse(verdict.Usage, "--only", "files were given, but only images are in scope")
	case s.Depth != allEvidence:
		return verdict.Refuse(verdict.Usage, "--depth", "the release has no manifest, so all evidence is always checked")
	case len(s.Levels) > 0:
		return verdict.Refuse(verdict.Usage, "--require-level", "the release has no manifest, and its provenance is unsigned, which shows level 1 at most, or is signed for a part of its files only")
	}
	return nil
}

// part is the expected contents of the release, and the part of them in scope.
type part struct{ whole, asked k8slayout.Set }

// narrow selects the part of the expected contents that is in scope, and
// reports what is left out.
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

// platforms are those of the files and images in the signed SBOM and in the
// list that was derived from the source.
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

// claimed is everything in scope, with the digests that a document claims.
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

// asksAbout leaves out the objects of other platforms. An object that no
// document names remains: it is extra on any platform.
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

// partOf is the index without the platforms that are out of scope.
func (s Scope) partOf(index *registry.Node) *registry.Node {
	if s.Platform == "" {
		return index
	}
	part := *index
	part.Children = slices.DeleteFunc(slices.Clone(index.Children), func(n *registry.Node) bool { return n.Descriptor.Platform != s.Platform })
	return &part
}
