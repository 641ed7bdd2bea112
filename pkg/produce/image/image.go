// Package image assembles multi-platform images from a base and files,
// without a daemon and without running anything.
//
//	base, err := image.FromRemote(ctx, "registry.example.org/static@sha256:…", rt)
//	built, err := image.Build(ctx, image.Spec{
//		Base: base, Created: commit.Time, Entrypoint: []string{"/usr/local/bin/lantern"},
//		Platforms: []image.Platform{{OS: "linux", Arch: "amd64", Files: files}},
//	})
//	index, err := built.Write(ctx, sink, "lantern")
//
// The same input gives the same bytes, whatever the order of platforms and
// files and wherever the files come from: owners are root, times are those of
// the commit, modes are 0755 or 0644. The result is OCI (image specification
// 1.1): the base's layers unchanged, one layer with the files, a
// configuration and a manifest for each platform, and an index. Every
// document is encoded once; its digest is that of the written bytes.
//
// Compression is that of the Go toolchain with which this package was
// compiled: another release of Go may give other bytes for the same input.
//
// The package pushes no tag and signs nothing.
//
// Other projects should not import this package: it changes without notice.
package image

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// AnnotationCreated is set by [Build] on the index and on every manifest.
const AnnotationCreated = "org.opencontainers.image.created"

// Base is what an image is built on.
type Base interface {
	// Image returns the image for a platform such as "linux/amd64". If the
	// base has none, that is a refusal with code PLATFORM.
	Image(ctx context.Context, platform string) (v1.Image, error)
}

// Spec says what to build.
type Spec struct {
	Base      Base
	Platforms []Platform
	// Entrypoint replaces the base's entrypoint and command.
	Entrypoint []string
	// User replaces the base's user, unless it is empty.
	User string
	// Created is the time of everything in the image, to the second.
	Created time.Time
	// Annotations are set on the index and on every manifest.
	Annotations map[string]string
}

// Platform is one platform of the image and the files it gets.
type Platform struct {
	OS, Arch string
	Files    []File
}

// String is the platform as "os/arch".
func (p Platform) String() string { return p.OS + "/" + p.Arch }

// File is one file to put into an image.
type File struct {
	// Path is absolute and clean.
	Path string
	// Open returns the content, the same each time; it is called more than
	// once. If the reader ends with an error for a wrong digest, the build
	// fails with it.
	Open func() (io.ReadCloser, error)
	Size int64
	// Mode becomes 0755 if anybody may execute the file, else 0644.
	Mode fs.FileMode
}

// Built is an image that is ready to be written.
type Built struct {
	// Raw is the index, the bytes of its digest.
	Raw        []byte
	Descriptor registry.Descriptor
	// Children are sorted by platform.
	Children []Child
}

// Child is the image of one platform.
type Child struct {
	Platform  string
	Digest    digest.Digest
	Raw       []byte // the manifest
	ConfigRaw []byte
	// Layers are the base's, then the one with the files.
	Layers []Layer
}

// Build assembles the image. It reads every file twice: now, for the digest
// of its layer, and whenever the layer is written.
func Build(ctx context.Context, s Spec) (*Built, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	platforms := slices.SortedFunc(slices.Values(s.Platforms), func(x, y Platform) int {
		return strings.Compare(x.String(), y.String())
	})
	children := make([]Child, len(platforms))
	// Compression uses the processors, and bases share a connection.
	if err := atonce.Try(ctx, 2, platforms, func(groupCtx context.Context, i int, p Platform) (err error) {
		children[i], err = s.child(ctx, groupCtx, p)
		return err
	}); err != nil {
		return nil, err
	}
	return indexOf(children, s.annotations())
}

func (s Spec) check() error {
	switch {
	case s.Base == nil || len(s.Entrypoint) == 0:
		return verdict.Refuse(verdict.Usage, "image", "a base and an entrypoint are required")
	case s.Created.IsZero():
		return verdict.Refuse(verdict.Usage, "image", "the time of the commit is required")
	case len(s.Platforms) == 0:
		return verdict.Refuse(verdict.Platform, "image", "an image without platforms")
	}
	if _, given := s.Annotations[AnnotationCreated]; given {
		return verdict.Refuse(verdict.Usage, "image", "annotation %s cannot be set by callers", AnnotationCreated)
	}
	seen := map[string]bool{}
	for _, p := range s.Platforms {
		if p.OS == "" || p.Arch == "" || strings.Contains(p.OS+p.Arch, "/") || seen[p.String()] {
			return verdict.Refuse(verdict.Platform, p.String(), "want distinct platforms with os and architecture")
		}
		seen[p.String()] = true
		if len(p.Files) == 0 {
			return verdict.Refuse(verdict.Usage, p.String(), "an image without files")
		}
	}
	return nil
}

func (s Spec) created() time.Time { return s.Created.UTC().Truncate(time.Second) }
