package gate

import (
	"bytes"
	"context"
	"path"
	"path/filepath"
	"slices"

	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkGiven compares the given files with the signed SBOM, which must name
// their bytes. Each must also have a signature of its own.
func (u unsealed) checkGiven(ctx context.Context, sbom signedSBOM, whole k8slayout.Set) (hashedFiles, facts) {
	h := sbom.file()
	h.given = map[string]string{}
	var f facts
	paths := slice.Unique(u.Options.Scope.Given)
	for _, file := range paths {
		bytes, err := (File{Path: file}).hash(ctx)
		var name string
		if err == nil {
			name, err = u.recognise(sbom, whole, file, bytes)
		}
		if err != nil {
			f.counted = append(f.counted, counted{name: file, asked: true})
			f.fail(file, err)
			continue
		}
		f.tell("%s is %s.", file, name)
		f.addInputs(verdict.Input{Name: file, Digest: bytes.SHA256})
		h.digests[name], h.given[name] = bytes, file
	}
	f.leave("the rest of the release")
	return h, f
}

// fixStranger is the next act where a given file is not part of the release.
const fixStranger = "the file is not part of this release: verify it against its own version, or find out where it came from"

// recognise finds which file of the release has these bytes, by the signed
// SBOM. Unsigned documents only make the refusal more precise, and reveal
// disagreement.
func (u unsealed) recognise(sbom signedSBOM, whole k8slayout.Set, file string, bytes digest.Set) (string, error) {
	base := filepath.Base(file)
	var same, named []manifest.Artifact
	unsigned := ""
	for _, name := range whole.Names() {
		_, gives, fits := sbom.gives(name, bytes)
		if name == k8slayout.ReleaseSBOM {
			gives, fits = true, sbom.digests.SHA256.Equal(bytes.SHA256)
		}
		with, against, want := whole.Sides(name, bytes)
		one := manifest.Artifact{Artifact: plan.Artifact{Name: name, Platform: k8slayout.PlatformOf(name)}}
		switch {
		case gives && fits && len(against) > 0:
			return "", &verdict.Error{Finding: verdict.Find(verdict.Conflict, file, "the bytes are those of %s for %s, and not those of %s", firstFew(with), name, firstFew(against)).
				Differ(want.String(), bytes.SHA256.String())}
		case gives && fits:
			same = append(same, one)
		case !gives && len(with) > 0:
			unsigned = name
		}
		if path.Base(name) == base && gives {
			named = append(named, one)
		}
	}
	if len(same) == 0 && len(named) == 0 && unsigned != "" {
		if !k8slayout.KindOf(unsigned).Signed {
			return "", unsignedFile(file, unsigned)
		}
		return "", verdict.Refuse(verdict.VersionUnbound, file, "unsigned documents name these bytes %s, but %s does not describe them, so the file cannot be verified alone", unsigned, k8slayout.ReleaseSBOM).
			Advise("verify the whole release, or name a file that the SBOM describes")
	}
	name, err := u.Options.Scope.nameOf(file, same, named)
	if err == nil && !u.requiresSignature(k8slayout.KindOf(name).Class) {
		err = unsignedFile(file, name)
	}
	if err != nil {
		return "", err
	}
	return name, nil
}

func unsignedFile(file, name string) error {
	return verdict.Refuse(verdict.Unsigned, file, "the file is %s, which is published unsigned and cannot be verified alone", name).
		Advise("verify the whole release, which compares the file with signed documents, or name a signed file")
}

// nameOf chooses the artifact that a path means, among those with the same
// bytes and those with the same base name. Equal bytes are not enough: a file
// whose name is that of other bytes in the release is refused.
func (s Scope) nameOf(file string, same, named []manifest.Artifact) (string, error) {
	base := filepath.Base(file)
	mine := slices.DeleteFunc(slices.Clone(same), func(a manifest.Artifact) bool {
		return s.Platform != "" && a.Platform != "" && a.Platform != s.Platform
	})
	called := slices.DeleteFunc(slices.Clone(mine), func(a manifest.Artifact) bool { return path.Base(a.Name) != base })
	switch {
	case len(same) == 0 && len(named) == 0:
		return "", verdict.Refuse(verdict.Extra, file, "the signed %s contains neither this name nor these bytes", k8slayout.ReleaseSBOM).Advise(fixStranger)
	case len(same) == 0:
		return "", verdict.Refuse(verdict.Tampered, file, "the bytes are not those of %s in the signed %s", firstNames(allNearestTo(file, named)), k8slayout.ReleaseSBOM)
	case len(mine) == 0:
		return "", &verdict.Error{Finding: verdict.Find(verdict.Platform, file, "the bytes are those of %s", firstNames(same)).Differ(s.Platform, same[0].Platform)}
	case len(called) == 0 && len(named) > 0, isNearerToAnother(file, same, named):
		return "", verdict.Refuse(verdict.NameSwap, file, "holds the bytes of %s", firstNames(mine))
	case len(called) == 0:
		called = mine
	}
	return nearestTo(file, called).Name, nil
}

func names(all []manifest.Artifact) []string {
	return slice.Map(all, func(a manifest.Artifact) string { return a.Name })
}

// expected reads the list of what a release should contain. Where the policy names
// who has the role policy, the file must be signed in it; elsewhere it is the
// user's own, as a policy is.
func (g Gate) expected(path string) (list k8slayout.List, err error) {
	raw, err := store.ReadNamed(path, maxLateSize)
	if err == nil {
		list, err = k8slayout.ParseList(raw)
	}
	if err != nil || len(g.profile.Policy.Expected(policy.Officer)) == 0 {
		return list, verdict.InFile(path, err)
	}
	bundle, err := store.ReadNamed(path+signedpolicy.Suffix, verify.MaxBundle)
	if err != nil {
		return list, verdict.Refuse(verdict.Unsigned, path, "the policy names who signs such lists, and the signature cannot be read: %v", err)
	}
	e, err := g.verifier.Attestation(bundle)
	if err == nil {
		_, err = g.profile.Policy.Judge(e, policy.Ask{Role: policy.Officer, Kind: signedpolicy.PredicateType, Subject: path, Whole: true})
	}
	var want intoto.Statement
	if err == nil {
		want, err = list.Statement(filepath.Base(path), raw)
	}
	if err == nil && !bytes.Equal(e.Statement().Raw(), want.Raw()) {
		err = verdict.Refuse(verdict.PolicySig, path, "the signature is for a file with another name or content")
	}
	return list, err
}

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
	files = slice.Map(set.Names(), k8slayout.PlatformOf)
	return files, slice.Map(set.Images(), func(i k8slayout.Image) string { return i.Platform })
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
	left := slice.Set(p.whole.Names(), func(name string) string { return name })
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
