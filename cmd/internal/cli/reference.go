package cli

import (
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Image opens the image that a reference names: HOST[:PORT]/PATH with :TAG,
// @sha256:… or both. There is no default host, and no default tag "latest".
func Image(reference string, t http.RoundTripper) (gate.Image, error) {
	image := gate.Image{Name: reference}
	refuse := func(why string) (gate.Image, error) {
		return gate.Image{}, verdict.Refuse(verdict.Usage, reference, "%s; want HOST/PATH:TAG or HOST/PATH@sha256:…", why)
	}
	rest, at, pinned := strings.Cut(reference, "@")
	if pinned {
		var err error
		if image.Digest, err = digest.Parse(at); err != nil || image.Digest.Algorithm() != digest.SHA256 {
			return refuse("the part after the @ is not a sha256 digest")
		}
	}
	slash := strings.LastIndexByte(rest, '/')
	if slash <= 0 {
		return refuse("names no registry")
	}
	if rest[slash-1] == '/' {
		return refuse("two slashes in a row")
	}
	prefix, last := rest[:slash], rest[slash+1:]
	image.Repository, image.Tag, _ = strings.Cut(last, ":")
	if image.Tag == "" && !pinned {
		return refuse("names neither a tag nor a digest")
	}
	source, err := registry.OpenRemote(prefix, t)
	if err != nil {
		return gate.Image{}, err
	}
	image.Source = source
	return image, nil
}

// At are the flags that read from other places than the profile names.
type At struct{ gate.Elsewhere }

// AddFlags adds the flags.
func (a *At) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.Files, "files", "", "read the files from this place instead of the one that the profile names")
	f.StringVar(&a.Images, "images", "", "read the images from this registry or layout instead of the one that the profile names")
	f.StringVar(&a.Listing, "listing", "", "list the files at this place, where the place of the files cannot be listed (such as a web server)")
	a.AddInstead(cmd)
}

// AddInstead adds only the flag for a mirror.
func (a *At) AddInstead(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&a.Instead, "place", nil, "CANONICAL=ACTUAL: read a mirror: read at or below ACTUAL what the manifest places at or below CANONICAL; repeats, for files and for images")
}
