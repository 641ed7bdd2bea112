package sbom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/registry"
	"github.com/waybill-release/waybill/pkg/strictjson"
	"github.com/waybill-release/waybill/pkg/unpack"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// blobs opens the files of an image that lies in a directory or in a tar file.
type blobs func(name string) (io.ReadCloser, int64, error)

// LayoutImage reads the image in an OCI image layout. Of several images ref
// names one, by the annotation org.opencontainers.image.ref.name or by digest.
func LayoutImage(ctx context.Context, dir fs.FS, ref string) (ImageContent, error) {
	return layoutImage(ctx, func(name string) (io.ReadCloser, int64, error) {
		f, err := dir.Open(name)
		if err != nil {
			return nil, 0, err
		}
		info, err := f.Stat()
		if err != nil || !info.Mode().IsRegular() {
			_ = f.Close()
			return nil, 0, fmt.Errorf("opening %q: no regular file (%w)", name, errors.Join(err, fs.ErrInvalid))
		}
		return f, info.Size(), nil
	}, ref)
}

// imageTar reads an image from an uncompressed tar file: an OCI layout, or what
// Docker saves. ok is false if the file holds no image.
func imageTar(ctx context.Context, c Content, ref string) (content ImageContent, ok bool, err error) {
	open, names, err := indexTar(c)
	switch {
	case err != nil:
		return ImageContent{}, false, nil //nolint:nilerr // what is wrong is found again, and told, when it is read as an archive
	case names["oci-layout"] && names["index.json"]:
		content, err = layoutImage(ctx, open, ref)
		return content, true, err
	case names["manifest.json"]:
		content, err = savedImage(open, ref)
		return content, true, err
	}
	return ImageContent{}, false, nil
}

// maxImageFiles bounds the entries of a file that holds an image: a few for each
// layer. A file of more is read as an archive.
const maxImageFiles = 50_000

// indexTar finds where in a tar file its files lie, without reading them.
func indexTar(c Content) (blobs, map[string]bool, error) {
	type place struct{ at, size int64 }
	places, names := map[string]place{}, map[string]bool{}
	walker := unpack.New()
	err := walker.Index(c, c.Size, func(e unpack.Entry, _ io.Reader) error {
		if walker.Entries() > maxImageFiles {
			return verdict.Refuse(verdict.Limit, "", "more than %d entries", maxImageFiles)
		}
		target := e.Target
		if e.Kind == unpack.SymLink {
			target = path.Join(path.Dir(e.Name), e.Target)
		}
		if p, there := places[target]; there && target != "" { // Docker links layers of the same bytes
			places[e.Name] = p
		} else if e.Kind == unpack.File {
			places[e.Name] = place{e.Offset, e.Size}
		}
		names[e.Name] = true
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	return func(name string) (io.ReadCloser, int64, error) {
		p, there := places[path.Clean(name)]
		if !there {
			return nil, 0, fmt.Errorf("opening %q in the image file: %w", name, fs.ErrNotExist)
		}
		return io.NopCloser(io.NewSectionReader(c, p.at, p.size)), p.size, nil
	}, names, nil
}

// small reads one small file.
func (open blobs) small(name string) ([]byte, error) {
	f, size, err := open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxConfig {
		return nil, verdict.Refuse(verdict.Limit, name, "%d bytes, the limit is %d", size, maxConfig)
	}
	return io.ReadAll(f)
}

// layoutImage finds the one image of a layout.
func layoutImage(ctx context.Context, open blobs, ref string) (ImageContent, error) {
	raw, err := open.small("index.json")
	if err != nil {
		return ImageContent{}, fmt.Errorf("reading image layout: %w", err)
	}
	var index struct {
		Manifests []layoutEntry `json:"manifests"`
	}
	if err := strictjson.UnmarshalOpen(raw, &index); err != nil {
		return ImageContent{}, verdict.Wrap(verdict.FileType, "index.json", err)
	}
	entry, err := choose(index.Manifests, ref)
	if err != nil {
		return ImageContent{}, err
	}
	sum, err := digest.Parse(entry.Digest)
	if err != nil {
		return ImageContent{}, verdict.Wrap(verdict.FileType, "index.json", err)
	}
	src := layoutSource{open}
	node, err := registry.Graph(ctx, src, "", registry.Descriptor{MediaType: entry.MediaType, Digest: sum, Size: entry.Size})
	if err != nil {
		return ImageContent{}, err
	}
	content, err := FromRegistry(ctx, src, "", node)
	content.Repository = entry.repository()
	return content, err
}

type layoutEntry struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType"`
	Annotations  map[string]string `json:"annotations"`
}

// The annotations by which a layout names an image, of the specification and of
// containerd.
const (
	refName       = "org.opencontainers.image.ref.name"
	containerName = "io.containerd.image.name"
)

// component is one element of a repository's name.
var component = regexp.MustCompile(`^[a-z0-9]+([._-]+[a-z0-9]+)*$`)

// repository is what an entry's annotations say that the image is called,
// without tag and digest. A reference of one word is a tag, as most tools write
// it, and says nothing.
func (e layoutEntry) repository() string {
	for _, ref := range []string{e.Annotations[containerName], e.Annotations[refName]} {
		name, _, pinned := strings.Cut(ref, "@")
		dir, last := path.Split(name)
		last, _, tagged := strings.Cut(last, ":")
		if (pinned || tagged || dir != "") && component.MatchString(last) {
			return dir + last
		}
	}
	return ""
}

// choose finds the entry that ref names, or the only one there is.
func choose(entries []layoutEntry, ref string) (layoutEntry, error) {
	var names []string
	var found []layoutEntry
	for _, e := range entries {
		name := e.Annotations[refName]
		if !isImageType(e.ArtifactType) {
			continue
		}
		names = append(names, fmt.Sprintf("%q", name+"@"+e.Digest))
		if ref != "" && ref != name && ref != e.Digest {
			continue
		}
		if slices.ContainsFunc(found, func(other layoutEntry) bool { return other.Digest == e.Digest }) {
			continue // one image under two names
		}
		found = append(found, e)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return layoutEntry{}, notHeld(ref, "layout", names)
	}
	return layoutEntry{}, verdict.Refuse(verdict.Usage, "image layout", "it holds several images, name one: %s", some(names))
}

// notHeld refuses an image that is not in a layout or file which holds names.
func notHeld(ref, place string, names []string) error {
	if len(names) == 0 {
		return verdict.Refuse(verdict.Missing, ref, "the %s holds no image", place).Advise("build or save the image again, and look whether that went well")
	}
	return verdict.Refuse(verdict.Missing, ref, "the %s holds no such image, but %s", place, some(names)).Advise("name one that it holds, by reference name or digest")
}

// some are the first of the names.
func some(names []string) string { return strings.Join(names[:min(len(names), 20)], ", ") }

// isImageType tells images from what refers to them. Some tools write the type
// of the configuration where others write nothing.
func isImageType(artifact string) bool {
	return artifact == "" || strings.Contains(artifact, "image.config") || strings.Contains(artifact, "container.image.v1")
}

// layoutSource reads by digest only. What it delivers has it.
type layoutSource struct{ open blobs }

var _ registry.Source = layoutSource{}

// Resolve implements [registry.Source].
func (layoutSource) Resolve(context.Context, string, string) (registry.Descriptor, error) {
	return registry.Descriptor{}, registry.ErrNotFound
}

// Fetch implements [registry.Source].
func (s layoutSource) Fetch(_ context.Context, _ string, d registry.Descriptor) (io.ReadCloser, error) {
	f, _, err := s.open("blobs/" + d.Digest.Algorithm().String() + "/" + d.Digest.Hex())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, verdict.Refuse(verdict.Missing, d.Digest.String(), "the image names it, and it is not there")
	}
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{digest.NewVerifyingReader(f, d.Digest, d.Size), f}, nil
}

// Referrers implements [registry.Source].
func (layoutSource) Referrers(context.Context, string, digest.Digest) ([]registry.Descriptor, error) {
	return nil, nil
}

// Tags implements [registry.Source].
func (layoutSource) Tags(context.Context, string) ([]string, error) { return nil, nil }

// savedImage reads what Docker saves: layers and a configuration, and no
// manifest. The image is known by its configuration only.
func savedImage(open blobs, ref string) (ImageContent, error) {
	raw, err := open.small("manifest.json")
	if err != nil {
		return ImageContent{}, err
	}
	var list []struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	if err := strictjson.UnmarshalOpen(raw, &list); err != nil {
		return ImageContent{}, verdict.Wrap(verdict.FileType, "manifest.json", err)
	}
	var c ImageContent
	var names []string
	for _, m := range list {
		if len(m.RepoTags) == 0 {
			names = append(names, "one without name")
		}
		for _, tag := range m.RepoTags {
			names = append(names, fmt.Sprintf("%q", tag))
		}
		if ref != "" && !slices.Contains(m.RepoTags, ref) {
			continue
		}
		if c.Platforms != nil {
			return ImageContent{}, verdict.Refuse(verdict.Usage, "image file", "it holds several images, name one")
		}
		p, err := savedPlatform(open, m.Config, m.Layers)
		if err != nil {
			return ImageContent{}, err
		}
		c.Platforms = []ImagePlatform{p}
	}
	if c.Platforms == nil {
		return ImageContent{}, notHeld(ref, "file", names)
	}
	return c, nil
}

func savedPlatform(open blobs, config string, layers []string) (ImagePlatform, error) {
	raw, err := open.small(config)
	if err != nil {
		return ImagePlatform{}, verdict.Wrap(verdict.Missing, clean(config), err)
	}
	parsed, err := parseConfig(raw)
	if err != nil {
		return ImagePlatform{}, verdict.Wrap(verdict.FileType, clean(config), err)
	}
	p := ImagePlatform{
		Platform: parsed.platform(), Config: digest.Of(digest.SHA256, raw), Base: baseOf(parsed.Config.Labels),
	}
	if len(layers) != len(parsed.RootFS.DiffIDs) {
		return ImagePlatform{}, verdict.Refuse(verdict.Conflict, p.Config.String(),
			"%d layers in the file and %d in the configuration", len(layers), len(parsed.RootFS.DiffIDs))
	}
	for i, name := range layers {
		diff, err := digest.Parse(parsed.RootFS.DiffIDs[i])
		if err != nil {
			return ImagePlatform{}, verdict.Wrap(verdict.FileType, clean(config), err)
		}
		// Layers of such a file have no digest of their own.
		p.Layers = append(p.Layers, Layer{Digest: diff, DiffID: diff, Open: func(context.Context) (io.ReadCloser, error) {
			f, _, err := open(name)
			return f, err
		}})
	}
	return p, nil
}

// FileImage reads the image that a file holds, an OCI layout or what Docker
// saves. Of several images ref names one. held is false if it holds none. An
// image without a manifest is known by its configuration.
func FileImage(ctx context.Context, c Content, ref string) (content ImageContent, held bool, err error) {
	head := make([]byte, unpack.HeadSize)
	n, err := c.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return ImageContent{}, false, err
	}
	if unpack.Sniff(head[:n]) != unpack.Tar {
		return ImageContent{}, false, nil
	}
	content, held, err = imageTar(ctx, c, ref)
	if err == nil && held && content.Index.IsZero() && len(content.Platforms) > 0 {
		content.Index.SHA256 = content.Platforms[0].identity()
	}
	return content, held, err
}

// ImageFile describes a file that holds an image. The digest is that of the
// file; the image in it is known by manifest or configuration.
func ImageFile(ctx context.Context, in Input, artifact string, c Content) (Made, bool, error) {
	content, ok, err := imageTar(ctx, c, "")
	if err != nil || !ok {
		return Made{}, ok, err
	}
	if err := in.check(artifact); err != nil {
		return Made{}, true, err
	}
	if content.Index, err = c.sum(io.NewSectionReader(c, 0, c.Size+1), io.Discard); err != nil {
		return Made{}, true, verdict.Wrap(verdict.SBOMSubject, artifact, err)
	}
	made, err := Image(ctx, in, artifact, content)
	if err != nil {
		return Made{}, true, err
	}
	made.Draft.Packages[0].PURL = "" // of the image, which the file is not
	return made, true, nil
}
