package gate

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkGiven holds files of this machine against the SBOM, which is signed: it
// must give their bytes for a name. Each must have a signature of its own, too.
func (u *unsealed) checkGiven(ctx context.Context) {
	paths := slices.Compact(slices.Sorted(slices.Values(u.Options.Scope.Given)))
	u.given = map[string]string{}
	for _, at := range paths {
		bytes, err := (File{Path: at}).hash(ctx)
		var name string
		if err == nil {
			name, err = u.whichOf(at, bytes)
		}
		if err != nil {
			u.v.Counts.Required++
			u.v.AddError(at, err)
			continue
		}
		u.v.Note("%s: it is %s", at, name)
		u.v.Inputs = append(u.v.Inputs, verdict.Input{Name: at, Digest: bytes.SHA256})
		u.digests[name], u.given[name] = bytes, at
	}
	u.v.Scope.Left = append(u.v.Scope.Left, fmt.Sprintf("all but the %d given", len(paths)))
}

// fixStranger is the next act where a file at hand is none of the release.
const fixStranger = "it is none of this release: ask about the version that it is of, or find out where it came from"

// whichOf finds which file of the release the bytes are, as the SBOM says. What
// nobody signed is asked for the words of a refusal only, and for disagreement.
func (u *unsealed) whichOf(at string, bytes digest.Set) (string, error) {
	base := filepath.Base(at)
	var same, named []release.Artifact
	unsigned := ""
	for _, name := range u.whole.Names() {
		gives, fits := u.signed.Gives(name, bytes)
		if name == expected.ReleaseSBOM {
			gives, fits = true, u.digests[name].SHA256.Equal(bytes.SHA256)
		}
		with, against, want := u.whole.Sides(name, bytes)
		one := release.Artifact{Artifact: plan.Artifact{Name: name, Platform: expected.PlatformOf(name)}}
		switch {
		case gives && fits && len(against) > 0:
			return "", &verdict.Error{Finding: verdict.Find(verdict.Conflict, at, "the bytes are those of %s for %s, and not those of %s", some(with), name, some(against)).
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
		if !expected.KindOf(unsigned).Signed {
			return "", unsignedFile(at, unsigned)
		}
		return "", verdict.Refuse(verdict.VersionUnbound, at, "it is what unsigned documents call %s, and %s does not describe it: alone it proves nothing", unsigned, expected.ReleaseSBOM).
			Advise("verify the whole release, which holds it against what is signed, or name a file that the SBOM describes")
	}
	a, err := u.meant(at, same, named)
	if err != nil {
		return "", err
	}
	if u.Policy.Asks(u.Stage, expected.KindOf(a).Class, policy.Signature) != policy.Require {
		return "", unsignedFile(at, a)
	}
	return a, nil
}

func unsignedFile(at, name string) error {
	return verdict.Refuse(verdict.Unsigned, at, "it is %s, which nobody signs: alone it proves nothing", name).
		Advise("verify the whole release, which holds it against what is signed, or name a file that is signed")
}

// meant is the one of the files with the same bytes that a path means. Bytes
// alone do not make it one: under a name that the release gives to other bytes
// they are misplaced.
func (u *unsealed) meant(at string, same, named []release.Artifact) (string, error) {
	base, platform := filepath.Base(at), u.Options.Scope.Platform
	mine := slices.DeleteFunc(slices.Clone(same), func(a release.Artifact) bool {
		return platform != "" && a.Platform != "" && a.Platform != platform
	})
	called := slices.DeleteFunc(slices.Clone(mine), func(a release.Artifact) bool { return path.Base(a.Name) != base })
	full := slices.IndexFunc(named, func(a release.Artifact) bool {
		return strings.HasSuffix("/"+filepath.ToSlash(filepath.Clean(at)), "/"+a.Name)
	})
	switch {
	case len(same) == 0 && len(named) == 0:
		return "", verdict.Refuse(verdict.Extra, at, "%s, which is signed, neither names it nor has its bytes", expected.ReleaseSBOM).Advise(fixStranger)
	case len(same) == 0:
		return "", verdict.Refuse(verdict.Tampered, at, "the bytes are not those of %s, by %s, which is signed", listed(named), expected.ReleaseSBOM)
	case len(mine) == 0:
		return "", &verdict.Error{Finding: verdict.Find(verdict.Platform, at, "it is %s", listed(same)).Differ(platform, same[0].Platform)}
	case len(called) == 0 && len(named) > 0, full >= 0 && !slices.Contains(names(same), named[full].Name):
		return "", verdict.Refuse(verdict.NameSwap, at, "holds the bytes of %s", listed(mine))
	case len(called) == 0:
		called = mine
	}
	return nearestTo(at, called), nil
}

func names(all []release.Artifact) []string {
	list := make([]string, len(all))
	for i, a := range all {
		list[i] = a.Name
	}
	return list
}
