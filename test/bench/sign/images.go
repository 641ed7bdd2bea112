package sign

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Names of what is signed of files together, and of images.
const (
	statementName = "statement.json"
	tag           = "v1.0.0"
	predicate     = "https://example.test/released/v1"
)

func imageName(i int) string { return fmt.Sprintf("bench/image-%03d", i) }

// image is an image as clients name it.
func (w *world) image(i int) string { return w.registry + "/" + imageName(i) + ":" + tag }

// pushImages makes images of two platforms, of which no two are equal, and no
// two platforms.
func (w *world) pushImages(ctx context.Context, n int, name func(int) string) error {
	remote, err := registry.OpenRemote(w.Registry, http.DefaultTransport)
	if err != nil {
		return err
	}
	for i := range n {
		var platforms []image.Platform
		for _, arch := range []string{"amd64", "arm64"} {
			body := fmt.Sprintf("image %d of %s", i, arch)
			platforms = append(platforms, image.Platform{OS: "linux", Arch: arch, Files: []image.File{{
				Path: "/which", Mode: 0o644, Size: int64(len(body)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil },
			}}})
		}
		built, err := image.Build(ctx, image.Spec{Base: image.Scratch(), Entrypoint: []string{"/which"}, Created: time.Unix(0, 0), Platforms: platforms})
		if err != nil {
			return err
		}
		d, err := built.Write(ctx, remote, name(i))
		if err != nil {
			return err
		}
		if err := remote.Tag(ctx, name(i), tag, d); err != nil {
			return err
		}
	}
	return nil
}

// statement is one statement about all files.
func statement(names []string, sums []digest.Set) (intoto.Statement, error) {
	subjects := make([]intoto.Subject, len(names))
	for i, name := range names {
		subjects[i] = intoto.Subject{Name: name, Digests: sums[i]}
	}
	return intoto.New(predicate, subjects, struct{}{})
}

// writeStatement writes what cosign is to sign: it makes none of many subjects.
func (w *world) writeStatement(n int) error {
	var names []string
	var sums []digest.Set
	for i := range n {
		raw, err := os.ReadFile(w.path(filesDir, fileName(i)))
		if err != nil {
			return err
		}
		names, sums = append(names, fileName(i)), append(sums, digest.SetOf(raw))
	}
	s, err := statement(names, sums)
	if err != nil {
		return err
	}
	return os.WriteFile(w.path(statementName), s.Raw(), 0o600)
}

// check demands that there is a signature of each thing. That they verify each
// signer sees to itself, and the tests of interoperation.
func (w *world) check(ctx context.Context, req Request) error {
	if req.What != Images {
		made, err := filepath.Glob(w.path(bundlesDir, "*"+bundleExt))
		if want := req.N; err == nil && len(made) != want && (req.What != Statement || len(made) != 1) {
			err = fmt.Errorf("%d bundles of %d files", len(made), req.N)
		}
		return err
	}
	remote, err := registry.OpenRemote(w.Registry, http.DefaultTransport)
	if err != nil {
		return err
	}
	for i := range req.N {
		parts, err := parts(ctx, remote, imageName(i))
		if err != nil {
			return err
		}
		for _, d := range parts {
			found, err := remote.Referrers(ctx, imageName(i), d.Digest)
			if err == nil && len(found) == 0 {
				_, err = remote.Resolve(ctx, imageName(i), "sha256-"+d.Digest.Hex()+".sig")
			}
			if err != nil {
				return errors.Join(fmt.Errorf("%s of %s has no signature", d.Digest, imageName(i)), err)
			}
		}
	}
	return nil
}

// parts are the manifests of an image: the index and its platforms.
func parts(ctx context.Context, remote *registry.Remote, repo string) ([]registry.Descriptor, error) {
	d, err := remote.Resolve(ctx, repo, tag)
	if err != nil {
		return nil, err
	}
	node, err := registry.Graph(ctx, remote, repo, d)
	if err != nil {
		return nil, err
	}
	list := []registry.Descriptor{d}
	for _, child := range node.Children {
		list = append(list, child.Descriptor)
	}
	return list, nil
}
