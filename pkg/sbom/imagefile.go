package sbom

import (
	"context"
	"crypto/sha1" // required by SPDX 2.3; never relied on
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// LayoutImage reads the image in an OCI image layout. ref selects one of
// several, by the annotation org.opencontainers.image.ref.name or by digest.
func LayoutImage(ctx context.Context, dir fs.FS, ref string) (ImageContent, error) {
	return layoutImage(ctx, registry.ReadLayout(dir), ref)
}

func layoutImage(ctx context.Context, layout *registry.LayoutReader, ref string) (ImageContent, error) {
	entries, err := layout.Listed(ctx)
	if err != nil {
		return ImageContent{}, fmt.Errorf("reading image layout: %w", err)
	}
	entry, err := choose(entries, ref)
	if err != nil {
		return ImageContent{}, err
	}
	named := registry.Descriptor{MediaType: entry.MediaType, Digest: entry.Digest, Size: entry.Size}
	node, err := registry.Graph(ctx, layout, "", named)
	if err != nil {
		return ImageContent{}, err
	}
	content, err := FromRegistry(ctx, layout, "", node)
	content.Repository = repository(entry)
	return content, err
}

// component matches one element of a repository's name.
var component = pattern.Lazy(`^[a-z0-9]+([._-]+[a-z0-9]+)*$`)

// repository returns the repository that an entry's annotations name, without
// tag and digest. A single word is a tag, as most tools write it, and names no
// repository.
func repository(entry registry.Descriptor) string {
	for _, ref := range []string{entry.Annotations[registry.AnnotationImageName], entry.Annotations[registry.AnnotationRefName]} {
		name, _, pinned := strings.Cut(ref, "@")
		dir, last := path.Split(name)
		last, _, tagged := strings.Cut(last, ":")
		if (pinned || tagged || dir != "") && component().MatchString(last) {
			return dir + last
		}
	}
	return ""
}

// choose finds the entry that ref names, or the only one.
func choose(entries []registry.Descriptor, ref string) (registry.Descriptor, error) {
	var names []string
	var found []registry.Descriptor
	for _, e := range entries {
		name, sum := e.Annotations[registry.AnnotationRefName], e.Digest.String()
		if !isImageType(e.ArtifactType) {
			continue
		}
		names = append(names, fmt.Sprintf("%q", name+"@"+sum))
		if ref != "" && ref != name && ref != sum {
			continue
		}
		if slices.ContainsFunc(found, func(other registry.Descriptor) bool { return other.Digest == e.Digest }) {
			continue // one image under two names
		}
		found = append(found, e)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return registry.Descriptor{}, notHeld(ref, "layout", names)
	}
	return registry.Descriptor{}, verdict.Refuse(verdict.Usage, "image layout", "the layout holds several images; select one of: %s", firstNames(names))
}

// notHeld refuses a reference to an image that is not among names.
func notHeld(ref, place string, names []string) error {
	if len(names) == 0 {
		return verdict.Refuse(verdict.Missing, ref, "the %s contains no image", place).Advise("build or save the image again, and check that it succeeds")
	}
	return verdict.Refuse(verdict.Missing, ref, "the %s does not contain this image, only %s", place, firstNames(names)).Advise("select one of these by reference name or digest")
}

func firstNames(names []string) string { return strings.Join(names[:min(len(names), 20)], ", ") }

// isImageType tells images from their referrers. Some tools use the type of the
// configuration as artifact type.
func isImageType(artifact string) bool {
	return artifact == "" || strings.Contains(artifact, "image.config") || strings.Contains(artifact, "container.image.v1")
}

// savedImage reads the output of docker save: layers and a configuration
// without a manifest. The image is identified by its configuration.
func savedImage(ctx context.Context, archive *registry.Archive, ref string) (c ImageContent, err error) {
	list, err := archive.Saved(ctx)
	if err != nil {
		return ImageContent{}, err
	}
	var names []string
	for _, image := range list {
		if len(image.Names) == 0 {
			names = append(names, "an unnamed one")
		}
		for _, tag := range image.Names {
			names = append(names, fmt.Sprintf("%q", tag))
		}
		if ref != "" && !slices.Contains(image.Names, ref) {
			continue
		}
		if c.Platforms != nil {
			return ImageContent{}, verdict.Refuse(verdict.Usage, "image file", "the file holds several images; select one by name")
		}
		p, err := savedPlatform(ctx, archive, image)
		if err != nil {
			return ImageContent{}, err
		}
		c = ImageContent{Index: digest.Set{SHA256: p.Config}, Platforms: []ImagePlatform{p}}
	}
	if c.Platforms == nil {
		return ImageContent{}, notHeld(ref, "file", names)
	}
	return c, nil
}

func savedPlatform(ctx context.Context, archive *registry.Archive, image registry.Saved) (ImagePlatform, error) {
	raw, err := archive.Config(ctx, image)
	if err != nil {
		return ImagePlatform{}, err
	}
	sum := digest.Of(digest.SHA256, raw)
	parsed, err := parseConfig(raw)
	if err != nil {
		return ImagePlatform{}, badConfig(sum, err)
	}
	p := ImagePlatform{Config: sum, Base: baseOf(parsed.Config.Labels)}
	for _, name := range image.Layers {
		p.Layers = append(p.Layers, Layer{Open: func(ctx context.Context) (io.ReadCloser, error) {
			return archive.Layer(ctx, name)
		}})
	}
	return p.configured(parsed, "file")
}

// FileImage reads the image in a file: an OCI layout or the output of docker
// save. ref selects one of several. held is false if the file holds none. An
// image without a manifest is identified by its configuration.
func FileImage(ctx context.Context, c Content, ref string) (content ImageContent, held bool, err error) {
	archive, err := registry.OpenArchive(c, c.Size)
	switch {
	case err != nil:
		return ImageContent{}, false, nil //nolint:nilerr // what is wrong is found again, and told, when it is read as an archive
	case archive.Holds("oci-layout") && archive.Holds("index.json"):
		content, err = layoutImage(ctx, &archive.LayoutReader, ref)
	case archive.Holds("manifest.json"):
		content, err = savedImage(ctx, archive, ref)
	default:
		return ImageContent{}, false, nil
	}
	return content, true, err
}

// imageFile describes a file that holds an image. The digest is that of the
// file; the image in it is identified by manifest or configuration.
func imageFile(ctx context.Context, in Input, artifact string, c Content) (Made, bool, error) {
	content, ok, err := FileImage(ctx, c, "")
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
	made.Draft.Packages[0].PURL = "" // digests of the image, not of the file
	return made, true, nil
}

// filesOf hashes the named files of an image on every platform, as they are
// with all layers applied. A hard link is returned without digests.
func filesOf(ctx context.Context, c ImageContent, names map[string]bool) (all []spdx.File, err error) {
	for _, p := range c.Platforms {
		found := map[string]spdx.File{}
		for _, l := range p.Layers {
			if err := filesIn(ctx, l, names, found); err != nil {
				return nil, err
			}
		}
		all = slices.AppendSeq(all, maps.Values(found))
	}
	return all, nil
}

func filesIn(ctx context.Context, l Layer, names map[string]bool, found map[string]spdx.File) error {
	body, err := l.Open(ctx)
	if err != nil {
		return fmt.Errorf("reading layer %s: %w", l.Digest, err)
	}
	defer body.Close()
	fresh, gone, dirs := map[string]spdx.File{}, []string{}, map[string]bool{}
	for name := range names {
		above(name, func(dir string) bool { dirs[dir] = true; return true })
	}
	// Faults inside of a layer were recorded by its examination.
	src := &remembering{r: body}
	_ = unpack.Layer(src, io.Discard, func(e unpack.Entry, body io.Reader) error {
		dir, base := path.Split(e.Name)
		switch {
		case base == opaque:
			gone = append(gone, dir)
		case strings.HasPrefix(base, whiteout):
			gone = append(gone, dir+strings.TrimPrefix(base, whiteout))
		case e.Kind != unpack.Directory && dirs[e.Name]: // a file in place of a directory
			delete(fresh, e.Name)
			gone = append(gone, e.Name)
		case !names[e.Name]:
		case e.Kind == unpack.File:
			weak := sha1.New()
			set, _, err := digest.Sum(io.TeeReader(body, weak))
			fresh[e.Name] = spdx.File{Name: "./" + e.Name, SHA1: hex.EncodeToString(weak.Sum(nil)), Digests: set}
			return err
		case e.Kind == unpack.HardLink:
			fresh[e.Name] = spdx.File{Name: "./" + e.Name}
		default:
			delete(fresh, e.Name)
			gone = append(gone, e.Name)
		}
		return nil
	})
	if src.err != nil {
		return fmt.Errorf("reading layer %s: %w", l.Digest, src.err)
	}
	for name := range found {
		for _, g := range gone {
			if name == strings.TrimSuffix(g, "/") || strings.HasPrefix(name, strings.TrimSuffix(g, "/")+"/") {
				delete(found, name)
			}
		}
	}
	maps.Copy(found, fresh)
	return nil
}
