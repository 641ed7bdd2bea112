package cli

import (
	"net/http"
	"strings"

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
