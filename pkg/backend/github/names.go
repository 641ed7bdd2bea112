package github

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of a release: docs.github.com/repositories/releasing-projects-on-github.
const (
	MaxAssets = 1000
	// MaxSize is the largest number of bytes of an asset.
	MaxSize = 2<<30 - 1
	maxName = 255
)

// Flat is the name of the asset for a planned name. Assets have no directories,
// and GitHub renames those with other characters: each of them, and a dot at
// the beginning or after a dot, becomes "_". The planned name is kept in the
// asset's label, from which [Asset.Planned] reads it back.
func Flat(planned string) string {
	flat := []byte(planned)
	for i, c := range flat {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("_+@-", c) >= 0:
		case c == '.' && i > 0 && flat[i-1] != '.':
		default:
			flat[i] = '_'
		}
	}
	return string(flat)
}

// Planned is the planned name of an asset: its label, if its name is the flat
// form of that, or else its name.
func (a Asset) Planned() string {
	if a.Label != "" && Flat(a.Label) == a.Name {
		return a.Label
	}
	return a.Name
}

// label is the label of a planned name: none, if the asset has that name.
func label(planned string) string {
	if Flat(planned) == planned {
		return ""
	}
	return planned
}

// CheckNames refuses names that cannot all be assets of one release: two that
// have the same flat name, one that is too long, or more than [MaxAssets].
func CheckNames(planned []string) error {
	if len(planned) > MaxAssets {
		return verdict.Refuse(verdict.Limit, "GitHub release", "%d files: a release on GitHub has at most %d", len(planned), MaxAssets).
			Advise("publish fewer files, or use a bucket for the files")
	}
	taken := map[string]string{}
	for _, name := range planned {
		flat := Flat(name)
		folded := strings.ToLower(flat)
		if len(flat) > maxName {
			return verdict.Refuse(verdict.Path, name, "the asset name %.40q… exceeds %d bytes", flat, maxName).Advise("give the file a shorter name in release.yaml")
		}
		if other, is := taken[folded]; is && other != name {
			return Collision(name, other)
		}
		taken[folded] = name
	}
	return nil
}

// Collision refuses two planned names with one flat name.
func Collision(name, other string) error {
	return verdict.Refuse(verdict.Path, name, "%s would be the asset %s on GitHub, and so would %s",
		fmt.Sprintf("%q", name), fmt.Sprintf("%q", Flat(name)), fmt.Sprintf("%q", other)).
		Advise("rename one of them in release.yaml: assets of a release have no directories, so each / becomes _")
}

// Listing are the assets of a release by their planned names.
type Listing map[string]Asset

// Index makes a listing. GitHub cannot replace an asset in one step, so while
// that is done, or after it broke off, the asset of [Replacing] counts as the
// planned one if that is gone; otherwise it is another asset.
func Index(uri string, assets []Asset) (Listing, error) {
	l := make(Listing, len(assets))
	last := slices.DeleteFunc(slices.Clone(assets), func(a Asset) bool { return !a.Replaces() })
	for _, a := range append(slices.DeleteFunc(slices.Clone(assets), Asset.Replaces), last...) {
		name := a.Planned()
		if _, there := l[a.Label]; a.Replaces() && a.Whole() && !there {
			name = a.Label
		}
		if _, twice := l[name]; twice || a.Size < 0 {
			return nil, &verdict.UnavailableError{Place: uri, Op: "listing", Err: fmt.Errorf("asset %q is listed twice, or with the size %d", name, a.Size)}
		}
		l[name] = a
	}
	return l, nil
}

// Sorted are the planned names in order.
func (l Listing) Sorted() []string { return slices.Sorted(maps.Keys(l)) }

// replacing ends the name of an asset that will replace another one.
const replacing = ".upload"

// Replacing is the asset that will replace a planned one by the bytes with a
// digest.
func Replacing(planned string, sum digest.Digest) Asset {
	return Asset{Name: sum.Hex() + replacing, Label: planned}
}

// Replaces reports whether the asset was to replace the one in its label.
func (a Asset) Replaces() bool {
	sum, is := strings.CutSuffix(a.Name, replacing)
	_, err := digest.Parse("sha256:" + sum)
	return is && err == nil && a.Label != "" && a.Planned() == a.Name && (a.Digest.IsZero() || a.Digest.Hex() == sum)
}

// AssetOf is the asset that a planned name will have.
func AssetOf(planned string) Asset { return Asset{Name: Flat(planned), Label: label(planned)} }
