// Package kit reads and writes kits. A kit is one file that holds a release for a
// network without internet: a tar of an OCI image layout, with the files of the
// release below files/, and below trust/ the policy, profile and trust root of its
// maker. It may be compressed, as zstd frames that are read at any offset. Nothing
// is unpacked to disk.
//
// The place RELEASE.kit/files/ has the files, and the layout RELEASE.kit the images:
// they are as trustworthy as any place, and the gate judges them like any other.
// [Check] refuses what such a judgement does not see.
//
// Other projects should not import this package: it changes without notice.
package kit

import (
	"archive/tar"
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Parts of a kit, besides the blobs of the layout. [Suffix] ends the name of each.
const (
	Suffix     = ".kit"
	Files      = "files/"
	Trust      = "trust/"
	LayoutName = "oci-layout"
	LayoutText = `{"imageLayoutVersion":"1.0.0"}`
	IndexName  = "index.json"
)

// Check refuses a file that is no kit, another version of the layout, and content
// that is no file of the release and that no image names. It reports whether the
// kit has a profile.
func Check(ctx context.Context, path string) (carries bool, err error) {
	defer func() {
		err = verdict.AdviseOn(path, err, "copy the kit again, and compare its digest with that of the file that its maker has", verdict.ArchiveParse)
	}()
	file, err := store.OpenNamed(path)
	if err != nil {
		return false, err
	}
	if _ = file.Close(); !strings.HasSuffix(path, Suffix) {
		return false, verdict.Refuse(verdict.Usage, path, "the name of a kit ends in %s", Suffix)
	}
	layout, err := registry.OpenLayout(path)
	if err != nil {
		return false, err
	}
	all, err := store.Open(path, nil)
	if err != nil {
		return false, err
	}
	objects, err := all.List(ctx)
	if err != nil {
		return false, err
	}
	if raw, err := store.Read(ctx, all, LayoutName, 1<<10); err != nil || strings.TrimSpace(string(raw)) != LayoutText {
		return false, verdict.Refuse(verdict.ArchiveParse, path, "%s: want %s, got %.100q", LayoutName, LayoutText, raw)
	}
	due := map[string]bool{LayoutName: true, IndexName: true}
	listed, err := layout.Listed(ctx)
	for _, d := range listed {
		var graph *registry.Node
		graph, err = registry.Graph(ctx, layout, "", d)
		if err == nil && !graph.Subject.Digest.IsZero() { // of evidence, the gate reads only what it needs
			_, err = registry.VerifyBlobs(ctx, layout, "", graph)
		}
		if err != nil {
			break
		}
		_ = graph.Walk(func(n *registry.Node) error { // the visitor returns no error
			for _, b := range append(n.Blobs(), n.Descriptor) {
				due["blobs/"+strings.ReplaceAll(b.Digest.String(), ":", "/")] = true
			}
			return nil
		})
	}
	for _, o := range objects {
		if err == nil && !due[o.Name] && !strings.HasPrefix(o.Name, Files) && !strings.HasPrefix(o.Name, Trust) {
			err = verdict.Refuse(verdict.Extra, o.Name, "it is no file of the release, and no image names it")
		}
		carries = carries || o.Name == Trust+"profile.yaml"
	}
	return carries, verdict.InFile(path, err)
}

// Entry is one file of a kit, and how to read it.
type Entry struct {
	store.Object
	Open func(ctx context.Context, name string) (io.ReadCloser, int64, error)
}

// Write writes the files of a place, and others, as a kit, to a file in a directory of
// [Temp]: the same files, the same bytes.
func Write(ctx context.Context, path string, from store.Place, compressed bool, others ...Entry) error {
	objects, err := from.List(ctx)
	if err != nil {
		return err
	}
	for _, o := range objects {
		others = append(others, Entry{o, from.Open})
	}
	return write(ctx, path, others, compressed)
}

// WriteDelta writes what a newer kit has that an older one lacks, file by file. The
// delta is read as the newer kit where the older one lies beside it. It returns how
// many files it has, and how many the newer kit.
func WriteDelta(ctx context.Context, older, newer, path string, compressed bool) (has, of int, err error) {
	if err := store.CheckName(filepath.Base(older)); err != nil { // the delta could not name it
		return 0, 0, verdict.Wrap(verdict.Usage, older, err).Advise("rename it, here and where the delta is read")
	}
	for _, path := range []string{older, newer} {
		if _, err := Check(ctx, path); err != nil {
			return 0, 0, err
		}
	}
	temp, remove, err := Temp(path)
	if err != nil {
		return 0, 0, err
	}
	defer remove()
	from, err := store.Open(older, nil)
	to, failed := store.Open(newer, nil)
	if err := errors.Join(err, failed); err != nil {
		return 0, 0, err
	}
	manifest, err := store.Read(ctx, from, Files+releasemanifest.Name, 64<<20)
	objects, failed := to.List(ctx)
	if err := errors.Join(err, failed); err != nil {
		return 0, 0, err
	}
	var changed []Entry
	list := fmt.Sprintln(filepath.Base(older), digest.Of(digest.SHA256, manifest))
	for _, o := range objects {
		var sums [2]digest.Digest
		for i, in := range []store.Place{from, to} {
			body, _, err := in.Open(ctx, o.Name)
			if err == nil {
				sums[i], _, err = digest.SumSHA256(body)
				err = errors.Join(err, body.Close())
			}
			if err != nil && !errors.Is(err, store.ErrNotFound) {
				return 0, 0, err
			}
		}
		if sums[0].Equal(sums[1]) {
			list += o.Name + "\n"
		} else {
			changed = append(changed, Entry{o, to.Open})
		}
	}
	delta := Entry{store.Object{Name: "delta", Size: int64(len(list))}, func(context.Context, string) (io.ReadCloser, int64, error) {
		return io.NopCloser(strings.NewReader(list)), int64(len(list)), nil
	}}
	whole := filepath.Join(temp, "whole")
	if err := write(ctx, whole, append(changed, delta), compressed); err != nil {
		return 0, 0, err
	}
	return len(changed), len(objects), Publish(whole, path)
}

// Publish gives a whole kit its name.
func Publish(whole, path string) error {
	if err := os.Rename(whole, path); err != nil {
		return &verdict.UnavailableError{Place: path, Op: "writing the kit", Err: err}
	}
	return nil
}

// Temp makes a directory for what is written on the way to a new kit, beside it, and
// removes those that killed runs left there: they are a day old.
func Temp(path string) (dir string, remove func(), err error) {
	if _, err := os.Lstat(path); err == nil || !strings.HasSuffix(path, Suffix) {
		return "", nil, verdict.Refuse(verdict.Usage, path, "want a file that does not exist, and whose name ends in %s", Suffix)
	}
	left, _ := fs.Glob(os.DirFS(filepath.Dir(path)), ".waybill-kit-*")
	for _, name := range left {
		name = filepath.Join(filepath.Dir(path), name)
		if info, err := os.Lstat(name); err == nil && time.Since(info.ModTime()) > 24*time.Hour {
			_ = os.RemoveAll(name)
		}
	}
	if dir, err = os.MkdirTemp(filepath.Dir(path), ".waybill-kit-"); err != nil {
		err = &verdict.UnavailableError{Place: path, Op: "writing the kit", Err: err}
	}
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// write writes a kit, which its caller gives its name when all of it is on disk.
func write(ctx context.Context, path string, all []Entry, compressed bool) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return &verdict.UnavailableError{Place: path, Op: "writing the kit", Err: err}
	}
	defer file.Close()
	plain := bufio.NewWriterSize(file, unpack.FrameSize)
	if compressed {
		encoder, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false), zstd.WithSingleSegment(true)) // the options are right
		plain = bufio.NewWriterSize(packer{file, encoder}, framesAtOnce*unpack.FrameSize)
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	out, buf := tar.NewWriter(plain), make([]byte, unpack.FrameSize)
	for _, e := range all {
		body, _, err := e.Open(ctx, e.Name)
		if err != nil {
			return err
		}
		err = out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Mode: 0o644, Size: e.Size})
		if err == nil {
			_, err = io.CopyBuffer(struct{ io.Writer }{out}, struct{ io.Reader }{body}, buf)
		}
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), plain.Flush(), file.Sync(), file.Close())
}

const framesAtOnce = 16

// packer writes zstd frames, which it compresses on all processors.
type packer struct {
	io.Writer
	encoder *zstd.Encoder
}

// Write implements [io.Writer].
func (p packer) Write(b []byte) (int, error) {
	var frames [framesAtOnce][]byte
	var group sync.WaitGroup
	for i := range (len(b) + unpack.FrameSize - 1) / unpack.FrameSize {
		group.Go(func() {
			frames[i] = p.encoder.EncodeAll(b[i*unpack.FrameSize:min((i+1)*unpack.FrameSize, len(b))], nil)
		})
	}
	group.Wait()
	_, err := p.Writer.Write(slices.Concat(frames[:]...))
	return len(b), err
}
