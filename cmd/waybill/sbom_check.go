package main

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
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
	cmd := newCommand("sbom_check", cobra.ExactArgs(2), func(cmd *cobra.Command, args []string) error {
		var err error
		if q.Document, err = parseSPDX(args[0]); err != nil {
			return err
		}
		if goSum != "" {
			if q.GoSum, err = store.ReadNamed(goSum, 64<<20); err != nil {
				return err
			}
		}
		t, err := openTarget(cmd.Context(), args[1], image, cli.Transport(false))
		if sum := sbomcheck.Claimed(q.Document); err != nil && image == "" && !sum.IsZero() {
			// Of several images in a layout, take the one that the SBOM describes.
			if named, missing := openTarget(cmd.Context(), args[1], sum.String(), cli.Transport(false)); missing == nil {
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
	})
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
func openTarget(ctx context.Context, arg, ref string, rt http.RoundTripper) (sbomTarget, error) {
	info, err := os.Stat(arg)
	switch {
	case errors.Is(err, fs.ErrNotExist) && strings.Contains(arg, "/") && strings.ContainsAny(arg, ":@"):
		return openRegistryTarget(ctx, arg, rt)
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
func openRegistryTarget(ctx context.Context, reference string, rt http.RoundTripper) (sbomTarget, error) {
	image, err := cli.Image(reference, rt)
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
