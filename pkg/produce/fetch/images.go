package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Root is an unpacked image: the root file system of a step.
type Root struct {
	Dir string
	// Env is the environment that the image sets, such as its PATH.
	Env []string
}

// Root gets the image of a reference, as for [Store.Base], unpacked for the
// platform of this machine: see [image.Unpack]. Existing layers are not
// downloaded again, but the directory is always made again, because nothing
// proves that it has not changed.
func (s *Store) Root(ctx context.Context, ref string) (Root, error) {
	base, err := s.Base(ctx, ref)
	if err != nil {
		return Root{}, err
	}
	_, text, _ := strings.Cut(ref, "@")
	pin, err := digest.Parse(text)
	if err != nil {
		return Root{}, verdict.Wrap(verdict.ConfigParse, ref, err)
	}
	r, err := s.unpack(ctx, base, "roots/"+pin.Hex())
	if err != nil {
		return Root{}, fmt.Errorf("unpacking image %s: %w", pin, err)
	}
	return r, nil
}

// unpack makes the directory with that name: under another name first, so a
// directory with the final name is complete.
func (s *Store) unpack(ctx context.Context, base image.Base, name string) (Root, error) {
	platform := "linux/" + runtime.GOARCH // steps are isolated on Linux only
	img, err := base.Image(ctx, platform)
	if err != nil {
		return Root{}, err
	}
	base = read{img}
	if err := s.fetchLayers(ctx, base, platform); err != nil {
		return Root{}, err
	}
	part := name + ".part"
	if err := errors.Join(s.root.RemoveAll(part), s.root.RemoveAll(name), s.root.MkdirAll(path.Dir(name), 0o755)); err != nil {
		return Root{}, err
	}
	u, err := image.Unpack(ctx, base, platform, s.path(part))
	if err != nil {
		return Root{}, errors.Join(err, s.root.RemoveAll(part))
	}
	if err := s.root.Rename(part, name); err != nil {
		return Root{}, err
	}
	s.report(ctx, "image %s unpacked for %s; %s left out", u.Digest, platform, plural.Of(u.Dropped, "device"))
	return Root{Dir: s.path(name), Env: u.Env}, nil
}

// Base is the image "host/repository@sha256:…", with its layers cached in the
// store: two images with the same base, and a second run, download them once.
// The image "oci:DIRECTORY@sha256:…" is in the source, as an OCI layout: see
// [Store.Source].
func (s *Store) Base(ctx context.Context, ref string) (image.Base, error) {
	if dir, inSource := strings.CutPrefix(ref, "oci:"); inSource {
		return s.layout(ctx, dir)
	}
	remote, err := image.FromRemote(ctx, ref, s.rt)
	if errors.Is(err, registry.ErrNotFound) {
		return nil, verdict.Refuse(verdict.FetchMissing, ref, "the registry has no such image")
	}
	if err != nil {
		return nil, err
	}
	return keptBase{remote, s}, nil
}

// read is a base whose manifest was read already.
type read struct{ image v1.Image }

// Image implements [image.Base].
func (r read) Image(context.Context, string) (v1.Image, error) { return r.image, nil }

// layout is the image DIRECTORY@sha256:… of the source. Links cannot lead out
// of the source.
func (s *Store) layout(ctx context.Context, ref string) (image.Base, error) {
	dir, text, _ := strings.Cut(ref, "@")
	pin, err := digest.Parse(text)
	if err != nil || pin.Algorithm() != digest.SHA256 || !fs.ValidPath(dir) || s.Source == nil {
		return nil, verdict.Refuse(verdict.ConfigParse, "oci:"+ref, "want oci:DIRECTORY@sha256:…, a directory of the source")
	}
	tree, err := s.Source(ctx)
	if err != nil {
		return nil, err
	}
	base, err := image.FromLayout(ctx, within{tree, dir}, pin)
	if err != nil {
		return nil, fmt.Errorf("reading layout %q of the source: %w", dir, err)
	}
	return base, nil
}

// within is a directory of a tree; its files must be in the tree.
type within struct{ tree, dir string }

// Open implements [fs.FS].
func (w within) Open(name string) (fs.File, error) {
	root, err := os.OpenRoot(w.tree)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(path.Join(w.dir, name))
}

// fetchLayers downloads the layers of an image in parallel; unpacking uses them one
// after the other.
func (s *Store) fetchLayers(ctx context.Context, base image.Base, platform string) error {
	layers, err := image.Layers(ctx, base, platform)
	if err != nil {
		return err
	}
	return atonce.Try(ctx, 4, layers, func(ctx context.Context, _ int, l image.Layer) error {
		body, err := l.Open(ctx)
		if err != nil {
			return err
		}
		return body.Close()
	})
}

// layer gets one layer under its digest, and returns its name in the store.
func (s *Store) layer(ctx context.Context, l v1.Layer) (string, error) {
	named, err := l.Digest()
	if err != nil {
		return "", err
	}
	sum, err := digest.Parse(named.String())
	if err != nil {
		return "", err
	}
	size, err := l.Size()
	if err != nil {
		return "", err
	}
	name := "layers/" + sum.Hex()
	_, err = s.ensure(ctx, file{
		name: name,
		bring: func(_ context.Context, to io.Writer) error {
			body, err := l.Compressed()
			if err != nil {
				return s.unavailable("layer "+sum.String(), err)
			}
			defer body.Close()
			_, err = io.Copy(to, &networkReader{r: io.LimitReader(body, size+1), at: "layer " + sum.String()})
			return err
		},
		check: func(name string) error { return s.verify(name, sum, size) },
	})
	return name, err
}

// verify refuses a file that is not what its name says.
func (s *Store) verify(name string, want digest.Digest, size int64) error {
	f, err := s.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, digest.NewVerifyingReader(f, want, size))
	return err
}

// keptBase is a base whose layers are read from the store.
type keptBase struct {
	image.Base
	store *Store
}

// Image implements [image.Base].
func (b keptBase) Image(ctx context.Context, platform string) (v1.Image, error) {
	img, err := b.Base.Image(ctx, platform)
	if err != nil {
		return nil, err
	}
	return keptImage{img, func(l v1.Layer) (io.ReadCloser, error) {
		name, err := b.store.layer(ctx, l)
		if err != nil {
			return nil, err
		}
		return b.store.root.Open(name)
	}}, nil
}

// keptImage is an image whose layers are read from the store.
type keptImage struct {
	v1.Image
	open func(v1.Layer) (io.ReadCloser, error)
}

// LayerByDigest implements [v1.Image].
func (i keptImage) LayerByDigest(h v1.Hash) (v1.Layer, error) {
	l, err := i.Image.LayerByDigest(h)
	if err != nil {
		return nil, err
	}
	return keptLayer{l, i.open}, nil
}

type keptLayer struct {
	v1.Layer
	open func(v1.Layer) (io.ReadCloser, error)
}

// Compressed implements [v1.Layer].
func (l keptLayer) Compressed() (io.ReadCloser, error) { return l.open(l.Layer) }
