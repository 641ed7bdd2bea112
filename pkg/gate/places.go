package gate

import (
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/kit"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Elsewhere says where to read, in place of the addresses in the profile.
type Elsewhere struct {
	Files, Images string
	// Listing is the address that lists the files; empty if the file place
	// lists them.
	Listing string
	// Instead are pairs CANONICAL=ACTUAL.
	Instead []string
}

// Settle returns the places in which to read a release: those that the flags
// name, else empty for those of the profile. The notes tell the verdict what
// was read from another place than the canonical one.
func (e Elsewhere) Settle(canon Canonical) (at Elsewhere, notes []string, err error) {
	at = e
	for _, pair := range e.Instead {
		from, to, paired := strings.Cut(pair, "=")
		rest, isFiles := below(canon.Files, from)
		tail, isImages := below(canon.Images, from)
		target, place := &at.Files, beside(to, rest)
		if isImages {
			target, place = &at.Images, strings.TrimSuffix(beside(to, tail), "/")
		}
		switch {
		case !paired || to == "":
			return Elsewhere{}, nil, verdict.Refuse(verdict.Usage, "--place", "%q: want CANONICAL=ACTUAL, as %s=./mirror", pair, canon.Files)
		case !isFiles && !isImages:
			return Elsewhere{}, nil, verdict.Refuse(verdict.Usage, "--place", "%q: want the canonical address of the files, %s, or of the images, %q, or a parent of one", from, canon.Files, canon.Images)
		case *target != "":
			return Elsewhere{}, nil, verdict.Refuse(verdict.Usage, "--place", "%q: these already have another place", pair)
		}
		*target = place
	}
	if at.Files != "" {
		notes = append(notes, "read from "+at.Files+" instead of "+canon.Files)
	}
	if at.Images != "" && canon.Images != "" {
		notes = append(notes, "read from "+at.Images+" instead of "+canon.Images)
	}
	return at, notes, nil
}

// below reports whether a canonical address is from or below it, and returns
// the part after from.
func below(canonical, from string) (rest string, is bool) {
	from = strings.TrimSuffix(from, "/")
	rest, is = strings.CutPrefix(canonical, from)
	return rest, is && from != "" && (rest == "" || rest[0] == '/')
}

// beside appends the rest of a canonical address to another address. Without a
// rest, the address stays as written: it may be a file.
func beside(to, rest string) string {
	if rest = strings.Trim(rest, "/"); rest == "" {
		return to
	}
	return strings.TrimSuffix(to, "/") + "/" + rest + "/"
}

// Places opens the places of a stage, or those named instead, for reading. If
// the profile has a listing for a place that lists nothing, it is used. The
// notes tell the verdict what is read from another place than the canonical
// one.
func (g Gate) Places(v version.Version, s profile.Stage, instead Elsewhere) (opened Places, notes []string, err error) {
	at, notes, err := instead.Settle(g.Canonical(v))
	if err != nil {
		return Places{}, nil, err
	}
	if at.Files == "" {
		if at.Files, err = g.profile.Files(s, v); err != nil {
			return Places{}, nil, err
		}
		if at.Listing == "" {
			at.Listing = g.profile.Listing(s, v)
		}
	}
	if at.Images == "" {
		if at.Images, err = g.profile.Images(s, v); err != nil {
			return Places{}, nil, err
		}
	}
	if opened.Files, err = g.Place(at.Files); err != nil {
		return Places{}, nil, err
	}
	if at.Listing != "" {
		names, err := g.Place(at.Listing)
		if err != nil {
			return Places{}, nil, err
		}
		opened.Files = store.Listed(opened.Files, names)
		notes = append(notes, "the files were listed at "+names.URI()+" and read from "+opened.Files.URI())
	}
	if at.Images == "" {
		return opened, notes, nil
	}
	if info, err := os.Stat(at.Images); err == nil && (info.IsDir() || strings.HasSuffix(at.Images, kit.Suffix)) {
		opened.Images, err = registry.OpenLayout(at.Images)
		return opened, notes, err
	}
	opened.Images, err = registry.OpenRemote(at.Images, g.opening.Transport)
	return opened, notes, err
}

// Place opens a place of files.
func (g Gate) Place(uri string) (store.Place, error) {
	place, err := g.opening.OpenPlace(uri, g.opening.Transport)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, uri, err)
	}
	return place, nil
}

// Switches say which requirements of a policy are in force where features
// switch them on and off.
type Switches interface {
	// For returns the policy in force for these places.
	For(p policy.Policy, places ...string) (policy.Policy, error)
}

// Effective returns the policy in force for these places: the policy as
// written, if no feature switches it.
func Effective(s Switches, p policy.Policy, places ...string) (policy.Policy, error) {
	if s == nil {
		return p, nil
	}
	return s.For(p, places...)
}

// places are the canonical addresses of a release. It is judged for them
// wherever it is read, so also before promotion.
func (c Canonical) places() []string {
	all := []string{c.Files}
	if c.Images != "" {
		all = append(all, c.Images)
	}
	return all
}
