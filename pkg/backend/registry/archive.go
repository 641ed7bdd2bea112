package registry

import (
	"context"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Bounds of an archive that holds an image.
const (
	maxArchived = 1 << 16 // entries: a few for each layer
	maxAliases  = 8       // links from one name to the file
)

// Archive is a tar archive, not compressed, with an image in it: an OCI image
// layout, or what docker save writes. It must be one that every program unpacks
// alike (see package unpack), and stay readable while the image is used: where
// each file lies was noted once, and nothing is unpacked.
type Archive struct {
	LayoutReader
	tar *tarball
}

// OpenArchive finds the files of an archive.
func OpenArchive(r io.ReaderAt, size int64) (*Archive, error) {
	t := &tarball{files: map[string]*io.SectionReader{}, links: map[string]string{}}
	walker := unpack.New()
	err := walker.Index(r, size, func(e unpack.Entry, _ io.Reader) error {
		if walker.Entries() > maxArchived {
			return verdict.Refuse(verdict.Limit, "archive", "more than %d entries", maxArchived)
		}
		switch e.Kind {
		case unpack.File:
			t.files[e.Name] = io.NewSectionReader(r, e.Offset, e.Size)
		case unpack.SymLink:
			t.links[e.Name] = path.Join(path.Dir(e.Name), e.Target)
		case unpack.HardLink:
			t.links[e.Name] = e.Target
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Archive{LayoutReader{t}, t}, nil
}

// tarball are the files of a tar archive, and links between them: docker save
// links layers of the same bytes.
type tarball struct {
	files map[string]*io.SectionReader
	links map[string]string
}

// URI implements files.
func (*tarball) URI() string { return "image archive" }

// Open implements files.
func (t *tarball) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	f := t.find(name)
	if f == nil {
		return nil, 0, notHeld(name)
	}
	return io.NopCloser(io.NewSectionReader(f, 0, f.Size())), f.Size(), nil
}

func (t *tarball) find(name string) *io.SectionReader {
	for range maxAliases {
		if f := t.files[name]; f != nil {
			return f
		}
		name = t.links[name]
	}
	return nil
}

// Holds reports whether the archive has a file of this name.
func (a *Archive) Holds(name string) bool { return a.tar.find(name) != nil }

// Saved is an image as docker save describes it: without a manifest, its
// configuration and layers by the names of their files.
type Saved struct {
	Config string
	Names  []string `json:"RepoTags"`
	Layers []string
}

// Saved lists the images in what docker save wrote.
func (a *Archive) Saved(ctx context.Context) (list []Saved, err error) {
	raw, err := a.whole(ctx, "manifest.json", MaxManifest)
	if err != nil {
		return nil, err
	}
	if err := strictjson.UnmarshalOpen(raw, &list); err != nil {
		return nil, verdict.Wrap(verdict.FileType, "manifest.json", err)
	}
	return list, nil
}

// Config reads the configuration of a saved image. If its name is a digest, the
// bytes are held against it.
func (a *Archive) Config(ctx context.Context, s Saved) ([]byte, error) {
	name, err := inside(s.Config)
	if err != nil {
		return nil, err
	}
	raw, err := a.whole(ctx, name, MaxManifest)
	if err != nil {
		return nil, err
	}
	if sum, named := strings.CutSuffix(path.Base(name), ".json"); named && len(sum) == 64 && sum != digest.Of(digest.SHA256, raw).Hex() {
		return nil, verdict.Refuse(verdict.Tampered, quoted(name), "the configuration is not the one that its name says")
	}
	return raw, nil
}

// Layer opens a layer of a saved image. Its bytes are held against nothing: the
// configuration says what they are without compression.
func (a *Archive) Layer(ctx context.Context, name string) (io.ReadCloser, error) {
	name, err := inside(name)
	if err != nil {
		return nil, err
	}
	body, _, err := a.tar.Open(ctx, name)
	return body, err
}

// inside is the name of a file in the archive.
func inside(name string) (string, error) {
	if slices.Contains(strings.Split(name, "/"), "..") {
		return "", verdict.Refuse(verdict.Path, quoted(name), "it leads out of the archive")
	}
	return path.Clean("/" + name)[1:], nil
}
