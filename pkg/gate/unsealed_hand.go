package gate

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkGiven holds files of this machine against what the witnesses say. Each
// must be a file of the release, by name and digest, and one that somebody
// signs: what is signed by nobody proves nothing alone.
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

// whichOf finds which file of the release the bytes are.
func (u *unsealed) whichOf(at string, bytes digest.Set) (string, error) {
	base := filepath.Base(at)
	var same, named []release.Artifact
	for _, name := range u.set.Names() {
		with, against, want := u.set.Sides(name, bytes)
		one := release.Artifact{Artifact: plan.Artifact{Name: name}}
		switch {
		case len(with) > 0 && len(against) > 0:
			return "", &verdict.Error{Finding: verdict.Find(verdict.Conflict, at, "the bytes are those of %s for %s, and not those of %s", some(with), name, some(against)).
				Differ(want.String(), bytes.SHA256.String())}
		case len(with) > 0:
			same = append(same, one)
		}
		if path.Base(name) == base && len(with)+len(against) > 0 {
			named = append(named, one)
		}
	}
	called := slices.DeleteFunc(slices.Clone(same), func(a release.Artifact) bool { return path.Base(a.Name) != base })
	switch {
	case len(same) == 0 && len(named) == 0:
		return "", verdict.Refuse(verdict.Extra, at, "no witness names it, or has its bytes").Advise(fixStranger)
	case len(same) == 0:
		return "", verdict.Refuse(verdict.Tampered, at, "the bytes are not those of %s, by any witness", listed(named))
	case len(called) == 0 && len(named) > 0:
		return "", verdict.Refuse(verdict.NameSwap, at, "holds the bytes of %s", listed(same))
	case len(called) == 0:
		called = same
	}
	name := nearestTo(at, called)
	if u.Policy.Asks(u.Stage, expected.KindOf(name).Class, policy.Signature) != policy.Require {
		return "", verdict.Refuse(verdict.Unsigned, at, "it is %s, which nobody signs: alone it proves nothing", name).
			Advise("verify the whole release, which holds it against what is signed, or name a file that is signed")
	}
	return name, nil
}
