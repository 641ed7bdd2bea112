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
	maxAliases  = 8       // links followed from a name to its file
)

// Archive is an uncompressed tar archive with an image in it: an OCI image
// layout, or the output of docker save. Every program must unpack it to the
// same files (see package unpack), and it must stay readable while the image is
// used: only the offsets of the files are recorded, nothing is unpacked.
type Archive struct {
	LayoutReader
	tar *tarball
}

// OpenArchive indexes the files of an archive.
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

// tarball holds the files of a tar archive, and links between them: docker save
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

// Saved is an image as docker save describes it: without a manifest, and with
// its configuration and layers named by their files.
type Saved struct {
	Config string
	Names  []string `json:"RepoTags"`
	Layers []string
}

// Saved lists the images of a docker save archive.
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
// bytes must match.
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
		return nil, verdict.Refuse(verdict.Tampered, quoted(name), "the configuration does not match the digest in its name")
	}
	return raw, nil
}

// Layer opens a layer of a saved image. Its bytes are not verified here: the
// configuration lists the digests of the uncompressed layers.
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
		return "", verdict.Refuse(verdict.Path, quoted(name), "the name leads out of the archive")
	}
	return path.Clean("/" + name)[1:], nil
}
