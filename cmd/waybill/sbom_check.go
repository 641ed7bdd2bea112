package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sbomCheckCommand() *cobra.Command {
	output := cli.TableOutput()
	var goSum, image string
	q := sbom.Question{}
	cmd := &cobra.Command{
		Use:   "check SBOM FILE|DIRECTORY|IMAGE",
		Short: "Hold an SBOM against the bytes that it is about",
		Long: `Read the artifact again and compare: the SBOM, in SPDX 2.3 JSON or tag-value,
describes these very bytes, lists the packages that are in them, the files with
every SHA-256, SHA-512 and SHA-1 that it gives, the platforms and layers of an
image, and with --go-sum the checksums of go.sum at the source commit. A
disagreement is a refusal (SBOM_SUBJECT, SBOM_INCOMPLETE, EVIDENCE_CONFLICT).

The artifact is a file, an archive, a directory, an image in a registry, an OCI
layout, or a file that an OCI layout or docker save's image was packed into. The
SBOM of an index is held against all platforms, that of one platform against
that one; --platform says which, where the SBOM does not. Of several images in a
layout or file it is the one that the SBOM is about, or that --image names.

An SBOM that Waybill wrote is held to all that it says. One that another tool
wrote is held to its packages of Go, apk and dpkg, and to the files that it
lists; what else it says the verdict names as not compared. So are, of every
SBOM, checksums other than SHA-256, SHA-512 and SHA-1, licences, suppliers,
comments, download locations, purposes, CPEs and annotations. Nobody's signature
is looked at, and what the SBOM itself leaves out the verdict repeats.

Complete is an SBOM that leaves nothing out: with --complete what it names as not
examined, or as seen and not catalogued, is refused (SBOM_INCOMPLETE), as is what
could not be compared. A part that could not be examined and that an SBOM of
Waybill's does not name is always refused.

` + exit.Table,
		Example: `  waybill sbom check lantern.spdx.json ./lantern --go-sum source/go.sum
  waybill sbom check source.spdx ./source
  waybill sbom check image.spdx.json registry.example.test/lantern:v0.1.0 --complete
  waybill sbom check syft.spdx.json ./layout --platform linux/arm64`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			var err error
			if q.Document, err = parseSPDX(args[0]); err != nil {
				return err
			}
			if goSum != "" {
				if q.GoSum, err = store.ReadNamed(goSum, 64<<20); err != nil {
					return err
				}
			}
			t, err := openThing(cmd.Context(), args[1], image)
			if sum := sbomcheck.Claimed(q.Document); err != nil && image == "" && !sum.IsZero() {
				// Of several images in a layout it is the one that the SBOM is about.
				if named, missing := openThing(cmd.Context(), args[1], sum.String()); missing == nil {
					t, err = named, nil
				}
			}
			if err != nil {
				return err
			}
			defer t.close()
			q.Content, q.Directory, q.Image = t.content, t.dir, t.image
			v, err := sbom.Judge(cmd.Context(), q, time.Now())
			return answer(cmd, output, v, err)
		},
	}
	output.AddFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&goSum, "go-sum", "", "go.sum at the source commit, whose checksums the modules must have")
	f.StringVar(&q.Platform, "platform", "", "hold it against the image of this platform alone, such as linux/amd64")
	f.StringVar(&image, "image", "", "which image of a layout or file, by its reference name or digest, if there are several")
	f.BoolVar(&q.Complete, "complete", false, "refuse if the SBOM leaves any part out: not examined, or seen and not catalogued")
	return cmd
}

// thing is what an argument names: a file, beside the image in it if it holds
// one; a directory; or an image.
type thing struct {
	name    string // its last element
	content *sbom.Content
	dir     fs.FS
	image   *sbom.ImageContent
	file    *os.File
}

func (t thing) close() {
	if t.file != nil {
		_ = t.file.Close() // it was read only
	}
}

// openThing finds out what an argument is. A file or directory of the name
// comes before an image. Of several images in a layout ref names one.
func openThing(ctx context.Context, arg, ref string) (thing, error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(arg, "/") && strings.ContainsAny(arg, ":@"):
		return servedThing(ctx, arg)
	case errors.Is(err, fs.ErrNotExist):
		return thing{}, verdict.Refuse(verdict.Usage, arg, "there is no such file or directory, and it names no image")
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return thing{}, verdict.Refuse(verdict.Usage, arg, "there is nothing under this name: %v", err)
	case err != nil:
		return thing{}, verdict.Wrap(verdict.PlaceDown, arg, err)
	}
	absolute, err := filepath.Abs(arg)
	if err != nil {
		return thing{}, verdict.Wrap(verdict.PlaceDown, arg, err)
	}
	t := thing{name: filepath.Base(absolute)}
	if !info.IsDir() {
		return t.inFile(ctx, arg, ref, info.Size())
	}
	t.dir = os.DirFS(arg)
	if _, err := fs.Stat(t.dir, "oci-layout"); err != nil {
		return t, nil //nolint:nilerr // it is no layout
	}
	content, err := sbom.LayoutImage(ctx, t.dir, ref)
	t.dir, t.image = nil, &content
	return t, err
}

func (t thing) inFile(ctx context.Context, path, ref string, size int64) (thing, error) {
	f, err := store.OpenNamed(path)
	if err != nil {
		return thing{}, err
	}
	t.file, t.content = f, &sbom.Content{ReaderAt: f, Size: size}
	content, held, err := sbom.FileImage(ctx, *t.content, ref)
	if err != nil {
		t.close()
		return thing{}, err
	}
	if held {
		t.image = &content
	}
	return t, nil
}

// servedThing is an image as a registry serves it.
func servedThing(ctx context.Context, reference string) (thing, error) {
	image, err := cli.Image(reference, cli.Transport(false))
	if err != nil {
		return thing{}, err
	}
	at, err := image.Source.Resolve(ctx, image.Repository, image.Reference())
	if errors.Is(err, registry.ErrNotFound) {
		return thing{}, verdict.Refuse(verdict.Missing, reference, "the registry serves no such image").
			Advise("look whether HOST/PATH:TAG or HOST/PATH@sha256:… is right; some registries show what is private only to who has logged in")
	}
	if err != nil {
		return thing{}, err
	}
	node, err := registry.Graph(ctx, image.Source, image.Repository, at)
	if err != nil {
		return thing{}, err
	}
	content, err := sbom.FromRegistry(ctx, image.Source, image.Repository, node)
	return thing{name: image.Repository, image: &content}, err
}
