package gate

import (
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Elsewhere is where to read instead of where the profile says.
type Elsewhere struct {
	Files, Images string
	// Listing is where the files are listed; empty where they are.
	Listing string
	// Instead are pairs CANONICAL=ACTUAL.
	Instead []string
}

// Settle finds out where a release is read: in the places that the flags name,
// else where the profile has it at the stage. The notes say for a verdict what
// was read elsewhere than where it belongs.
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
			return Elsewhere{}, nil, verdict.Refuse(verdict.Usage, "--place", "%q: the release has its files at %s and its images at %q; want one of them, or what is above it", from, canon.Files, canon.Images)
		case *target != "":
			return Elsewhere{}, nil, verdict.Refuse(verdict.Usage, "--place", "%q: it was said already where these are read", pair)
		}
		*target = place
	}
	if at.Files != "" {
		notes = append(notes, "what belongs at "+canon.Files+" was read at "+at.Files)
	}
	if at.Images != "" {
		notes = append(notes, "what belongs at "+canon.Images+" was read at "+at.Images)
	}
	return at, notes, nil
}

// below reports whether a canonical address is at from or below it, and what
// then follows from.
func below(canonical, from string) (rest string, is bool) {
	from = strings.TrimSuffix(from, "/")
	rest, is = strings.CutPrefix(canonical, from)
	return rest, is && from != "" && (rest == "" || rest[0] == '/')
}

// beside is what follows a canonical address, below another one. An address that
// stands for the whole is taken as it was written: it may be a file.
func beside(to, rest string) string {
	if rest = strings.Trim(rest, "/"); rest == "" {
		return to
	}
	return strings.TrimSuffix(to, "/") + "/" + rest + "/"
}

// Places opens the places of a stage, or those that are named instead, for
// reading: with the listing that the profile has for a place that lists nothing.
// The notes say for a verdict what is read elsewhere than where it belongs.
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
		notes = append(notes, "the files are listed at "+names.URI()+", and read at "+opened.Files.URI())
	}
	if at.Images == "" {
		return opened, notes, nil
	}
	if info, err := os.Stat(at.Images); err == nil && info.IsDir() {
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
