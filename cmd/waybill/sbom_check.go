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
		Short: "Check an SBOM against the artifact that it describes",
		Long: `Examine the artifact again and compare it with the SBOM (SPDX 2.3, JSON or
tag-value): it must describe these bytes; list the packages in them, the files with
every SHA-256, SHA-512 and SHA-1 that it gives, and the platforms and layers of an
image; and with --go-sum agree with go.sum at the source commit. A difference is a
refusal (SBOM_SUBJECT, SBOM_INCOMPLETE, EVIDENCE_CONFLICT).

The artifact is a file, an archive, a directory, an image in a registry, an OCI
layout, or an archive of an OCI layout or of docker save. The SBOM of an index is
compared with all platforms, that of one platform with that one; --platform selects
it if the SBOM does not name it. Of several images in a layout or file, the one that
the SBOM describes is used, or the one of --image.

An SBOM that Waybill wrote is compared in full. For one of another tool, the
packages of Go, apk and dpkg and the listed files are compared; the verdict lists
everything else as not compared. Never compared are checksums other than SHA-256,
SHA-512 and SHA-1, licences, suppliers, comments, download locations, purposes, CPEs
and annotations. Signatures are not verified, and the verdict repeats which parts
the SBOM says that it does not cover.

With --complete, parts that the SBOM lists as not examined, or as seen but not
catalogued, are refused (SBOM_INCOMPLETE), and so are parts that could not be
compared. A part that could not be examined and that an SBOM of Waybill does not
list is always refused.

` + exit.Table(exit.Accepted),
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
			t, err := openTarget(cmd.Context(), args[1], image)
			if sum := sbomcheck.Claimed(q.Document); err != nil && image == "" && !sum.IsZero() {
				// Of several images in a layout, take the one that the SBOM describes.
				if named, missing := openTarget(cmd.Context(), args[1], sum.String()); missing == nil {
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
	f.StringVar(&goSum, "go-sum", "", "go.sum at the source commit, to compare the checksums of modules with")
	f.StringVar(&q.Platform, "platform", "", "compare with the image of this platform only, such as linux/amd64")
	f.StringVar(&image, "image", "", "image in a layout or file with several, by reference name or digest")
	f.BoolVar(&q.Complete, "complete", false, "refuse an SBOM with parts that were not examined, or seen but not catalogued")
	return cmd
}

// sbomTarget is the artifact that an argument names: a file, with the image in it if
// there is one; a directory; or an image.
type sbomTarget struct {
	name    string // last element of the argument
	content *sbom.Content
	dir     fs.FS
	image   *sbom.ImageContent
	file    *os.File
}

func (t sbomTarget) close() {
	if t.file != nil {
		_ = t.file.Close() // it was read only
	}
}

// openTarget opens the artifact that an argument names: an existing file or directory,
// else an image. ref selects one of several images in a layout.
func openTarget(ctx context.Context, arg, ref string) (sbomTarget, error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(arg, "/") && strings.ContainsAny(arg, ":@"):
		return openRegistryTarget(ctx, arg)
	case errors.Is(err, fs.ErrNotExist):
		return sbomTarget{}, verdict.Refuse(verdict.Usage, arg, "no such file or directory, and not an image reference")
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.ELOOP):
		return sbomTarget{}, verdict.Refuse(verdict.Usage, arg, "the path cannot be opened: %v", err)
	case err != nil:
		return sbomTarget{}, verdict.Wrap(verdict.PlaceDown, arg, err)
	}
	absolute, err := filepath.Abs(arg)
	if err != nil {
		return sbomTarget{}, verdict.Wrap(verdict.PlaceDown, arg, err)
	}
	t := sbomTarget{name: filepath.Base(absolute)}
	if !info.IsDir() {
		return t.inFile(ctx, arg, ref, info.Size())
	}
	t.dir = os.DirFS(arg)
	if _, err := fs.Stat(t.dir, "oci-layout"); err != nil {
		return t, nil //nolint:nilerr // a plain directory, not a layout
	}
	content, err := sbom.LayoutImage(ctx, t.dir, ref)
	t.dir, t.image = nil, &content
	return t, err
}

func (t sbomTarget) inFile(ctx context.Context, path, ref string, size int64) (sbomTarget, error) {
	f, err := store.OpenNamed(path)
	if err != nil {
		return sbomTarget{}, err
	}
	t.file, t.content = f, &sbom.Content{ReaderAt: f, Size: size}
	content, held, err := sbom.FileImage(ctx, *t.content, ref)
	if err != nil {
		t.close()
		return sbomTarget{}, err
	}
	if held {
		t.image = &content
	}
	return t, nil
}

// openRegistryTarget opens an image in a registry.
func openRegistryTarget(ctx context.Context, reference string) (sbomTarget, error) {
	image, err := cli.Image(reference, cli.Transport(false))
	if err != nil {
		return sbomTarget{}, err
	}
	at, err := image.Source.Resolve(ctx, image.Repository, image.Reference())
	if errors.Is(err, registry.ErrNotFound) {
		return sbomTarget{}, verdict.Refuse(verdict.Missing, reference, "the registry has no such image").
			Advise("check HOST/PATH:TAG or HOST/PATH@sha256:…; some registries show private images only after docker login")
	}
	if err != nil {
		return sbomTarget{}, err
	}
	node, err := registry.Graph(ctx, image.Source, image.Repository, at)
	if err != nil {
		return sbomTarget{}, err
	}
	content, err := sbom.FromRegistry(ctx, image.Source, image.Repository, node)
	return sbomTarget{name: image.Repository, image: &content}, err
}
