package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

const (
	// maxConfig is the largest configuration of an image, and the largest list
	// of images in an archive.
	maxConfig = 8 << 20
	// maxEntries is how many files an archive of an image may have; a usual one
	// has a few for each layer.
	maxEntries = 10_000
)

// bindImage compares one platform of an image with valid signature with what
// the signed SBOM describes under its name and version. The signature alone
// would cover the same image under any tag. If the SBOM gives layers, they must
// be those of the image's configuration. If it gives none, or in another form,
// then the archive that it names must contain the same configuration.
func (u unsealed) bindImage(ctx context.Context, sbom signedSBOM, p pulled) error {
	built := sbom.Built(p.image)
	layers, err := layersOf(ctx, u.Images, p)
	if err != nil {
		return err
	}
	if len(layers) > 0 && slices.Equal(layers, built.Layers) {
		return nil
	}
	archive := p.image.Archive()
	want := sbom.Bytes(archive)
	var loaded digest.Digest
	if want.SHA256.IsZero() {
		err = store.ErrNotFound
	} else {
		loaded, err = configIn(ctx, u.Files, archive, want.SHA256)
	}
	switch {
	case err == nil && loaded.Equal(p.node.Config.Digest):
		return nil
	case err == nil:
		return anotherImage(u.Version, p, "its configuration differs from the one in "+archive+", which "+sbom.Name()+" lists", loaded.String(), p.node.Config.Digest.String())
	case !errors.Is(err, store.ErrNotFound):
		return err
	case len(built.Layers) > 0:
		return anotherImage(u.Version, p, "its layers differ from those in "+sbom.Name(), listing(built.Layers), listing(layers))
	case !want.IsZero():
		return verdict.Refuse(verdict.VersionUnbound, p.name, "the image is signed, but not bound to its version: %s lists no layers, and the archive %s, which it lists, is missing; no other signed document says that it belongs to %s", k8slayout.ReleaseSBOM, archive, u.Version)
	}
	return verdict.Refuse(verdict.VersionUnbound, p.name, "the image is signed, but not bound to its version: %s lists neither its layers nor its archive, and no other signed document says that it belongs to %s", k8slayout.ReleaseSBOM, u.Version)
}

func anotherImage(v version.Version, p pulled, why, want, got string) error {
	return &verdict.Error{Finding: verdict.Find(verdict.Version, p.name, "tag %s names another image than the one built for it: %s", v, why).Differ(want, got)}
}

func listing(layers []digest.Digest) string {
	return clip(strings.Join(slice.Map(layers, digest.Digest.String), " "))
}

// layersOf returns the uncompressed layers of an image, as its configuration
// lists them.
func layersOf(ctx context.Context, images registry.Source, p pulled) ([]digest.Digest, error) {
	if p.node.Config.Digest.IsZero() {
		return nil, verdict.Refuse(verdict.FileType, p.name, "not an image: the manifest has no configuration")
	}
	raw, err := registry.Read(ctx, images, p.repository, p.node.Config, maxConfig)
	if errors.Is(err, registry.ErrNotFound) {
		return nil, verdict.Refuse(verdict.Missing, p.name, "the configuration is not in the registry")
	}
	if err != nil {
		return nil, err
	}
	var config struct {
		RootFS struct {
			Layers []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := strictjson.UnmarshalOpen(raw, &config); err != nil {
		return nil, verdict.Wrap(verdict.FileType, p.name, err)
	}
	var layers []digest.Digest
	for _, text := range config.RootFS.Layers {
		layer, err := digest.Parse(text)
		if err != nil {
			return nil, verdict.Wrap(verdict.FileType, p.name, err)
		}
		layers = append(layers, layer)
	}
	return k8slayout.Distinct(layers), nil
}

// configIn reads an archive in the format of docker save to its end, and
// returns the digest of the configuration of its only image. The archive must
// have the given digest.
func configIn(ctx context.Context, place store.Place, name string, want digest.Digest) (digest.Digest, error) {
	body, _, err := place.Open(ctx, name)
	if err != nil {
		return digest.Digest{}, err
	}
	defer body.Close()
	sum := sha256.New()
	all := io.TeeReader(io.LimitReader(body, maxUnsealed), sum)
	list, small, err := readSaved(all)
	if _, drained := io.Copy(io.Discard, all); drained != nil {
		return digest.Digest{}, drained
	}
	got, bad := digest.ParseHex(digest.SHA256, hex.EncodeToString(sum.Sum(nil)))
	if bad != nil || !got.Equal(want) {
		return digest.Digest{}, &verdict.Error{Finding: verdict.Find(verdict.Tampered, name, "the bytes are not those that the signed %s gives", k8slayout.ReleaseSBOM).
			Differ(want.String(), got.String())}
	}
	var refusal *verdict.Error
	switch {
	case errors.As(err, &refusal):
		return digest.Digest{}, verdict.Refuse(refusal.Finding.Code, name, "%s: %s", refusal.Finding.Subject, refusal.Finding.Message)
	case err != nil:
		return digest.Digest{}, verdict.Wrap(verdict.FileType, name, err)
	}
	var images []struct{ Config string }
	if err := strictjson.UnmarshalOpen(list, &images); err != nil {
		return digest.Digest{}, verdict.Wrap(verdict.FileType, name, err)
	}
	if len(images) != 1 || small[path.Clean(images[0].Config)].IsZero() {
		return digest.Digest{}, verdict.Refuse(verdict.FileType, name, "manifest.json in the archive must name exactly one image, with its configuration in the archive")
	}
	return small[path.Clean(images[0].Config)], nil
}

// readSaved reads the list of images in an archive, and the digests of all
// files small enough to be a configuration.
func readSaved(r io.Reader) (list []byte, small map[string]digest.Digest, err error) {
	small = map[string]digest.Digest{}
	walker := unpack.New()
	err = walker.Stream(r, unpack.Tar, func(e unpack.Entry, body io.Reader) error {
		if walker.Entries() > maxEntries {
			return verdict.Refuse(verdict.Limit, "archive of an image", "more than %d entries", maxEntries)
		}
		if e.Kind != unpack.File || e.Size > maxConfig {
			return nil
		}
		raw, err := io.ReadAll(body)
		if small[e.Name] = digest.Of(digest.SHA256, raw); e.Name == "manifest.json" {
			list = raw
		}
		return err
	})
	return list, small, err
}
