package gate

import (
	"context"
	"path"
	"path/filepath"
	"slices"

	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkGiven compares the given files with the signed SBOM, which must name
// their bytes. Each must also have a signature of its own.
func (u unsealed) checkGiven(ctx context.Context, sbom signedSBOM, whole k8slayout.Set) (hashedFiles, facts) {
	h := sbom.file()
	h.given = map[string]string{}
	var f facts
	paths := slices.Compact(slices.Sorted(slices.Values(u.Options.Scope.Given)))
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
	list := make([]string, len(all))
	for i, a := range all {
		list[i] = a.Name
	}
	return list
}
