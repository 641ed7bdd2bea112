package cli

import (
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/version"
)

// At is where to read instead of where the profile says.
type At struct {
	Files, Images string
	// Listing is where the files are listed; empty where they are.
	Listing string
	// Instead are pairs CANONICAL=ACTUAL.
	Instead []string
}

// AddFlags adds the flags.
func (a *At) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.Files, "files", "", "read the files here instead of where the profile says")
	f.StringVar(&a.Images, "images", "", "read the images here instead of where the profile says")
	f.StringVar(&a.Listing, "listing", "", "list the files here, where the place that has them lists nothing, as a web server does not")
	a.AddInstead(cmd)
}

// AddInstead adds the flag for a mirror alone.
func (a *At) AddInstead(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.Instead, "place", nil, "CANONICAL=ACTUAL: read a mirror: what the manifest places at CANONICAL or below it is read at ACTUAL or below it; repeats, for files and for images")
}

// Settle finds out where a release is read: in the places that the flags name,
// else where the profile has it at the stage. The notes say for a verdict what
// was read elsewhere than where it belongs.
func (a At) Settle(canon gate.Canonical) (at At, notes []string, err error) {
	at = a
	for _, pair := range a.Instead {
		from, to, paired := strings.Cut(pair, "=")
		rest, isFiles := below(canon.Files, from)
		tail, isImages := below(canon.Images, from)
		target, place := &at.Files, join(to, rest)
		if isImages {
			target, place = &at.Images, strings.TrimSuffix(join(to, tail), "/")
		}
		switch {
		case !paired || to == "":
			return At{}, nil, verdict.Refuse(verdict.Usage, "--place", "%q: want CANONICAL=ACTUAL, as %s=./mirror", pair, canon.Files)
		case !isFiles && !isImages:
			return At{}, nil, verdict.Refuse(verdict.Usage, "--place", "%q: the release has its files at %s and its images at %q; want one of them, or what is above it", from, canon.Files, canon.Images)
		case *target != "":
			return At{}, nil, verdict.Refuse(verdict.Usage, "--place", "%q: it was said already where these are read", pair)
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

// join is what follows a canonical address, below another one. An address that
// stands for the whole is taken as it was written: it may be a file.
func join(to, rest string) string {
	if rest = strings.Trim(rest, "/"); rest == "" {
		return to
	}
	return strings.TrimSuffix(to, "/") + "/" + rest + "/"
}

// open opens the places of a stage, or those that the flags name instead.
func (o *VerifyRelease) open(by gate.Basis, v version.Version, stage profile.Stage) (opened gate.Places, notes []string, err error) {
	t, p := Transport(o.Trust.Offline), by.Profile()
	at, notes, err := o.At.Settle(by.Canonical(v))
	if err != nil {
		return gate.Places{}, nil, err
	}
	if at.Files == "" {
		if at.Files, err = p.Files(stage, v); err != nil {
			return gate.Places{}, nil, err
		}
		if at.Listing == "" {
			at.Listing = p.Listing(stage, v)
		}
	}
	if at.Images == "" {
		if at.Images, err = p.Images(stage, v); err != nil {
			return gate.Places{}, nil, err
		}
	}
	if opened.Files, err = o.place(at.Files, t); err != nil {
		return gate.Places{}, nil, err
	}
	if at.Listing != "" {
		names, err := o.place(at.Listing, t)
		if err != nil {
			return gate.Places{}, nil, err
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
	opened.Images, err = registry.OpenRemote(at.Images, t)
	return opened, notes, err
}

// place opens a place of files.
func (o *VerifyRelease) place(uri string, t http.RoundTripper) (store.Place, error) {
	open := o.OpenPlace
	if open == nil {
		open = store.Open
	}
	place, err := open(uri, t)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, uri, err)
	}
	return place, nil
}
