package run

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// archive packs outputs of earlier steps, and files of the source, under one
// root. Equal inputs give equal bytes: order, times, owners and modes are
// fixed, and the header of gzip has no names.
func (r *run) archive(ctx context.Context, step plan.Step, scratch string) (outputs, error) {
	name := step.Outputs[0]
	target := filepath.Join(scratch, "archive")
	f, err := os.OpenFile(target, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return outputs{}, fmt.Errorf("making archive: %w", err)
	}
	defer f.Close()
	format, err := newFormat(f, step.Archive.Zip, r.Source.Commit.Time)
	if err != nil {
		return outputs{}, fmt.Errorf("making archive: %w", err)
	}
	pack := &packing{format: format, run: r, root: step.Archive.Root}
	if step.Archive.Source {
		err = pack.source(ctx)
	}
	if err == nil {
		err = pack.listed(ctx, step.Archive)
	}
	if err != nil {
		return outputs{}, err
	}
	for _, close := range []func() error{pack.Close, f.Close} {
		if err := close(); err != nil {
			return outputs{}, fmt.Errorf("finishing archive %q: %w", name, err)
		}
	}
	o, err := r.products.fileOutput(name, target)
	if err != nil {
		return outputs{}, err
	}
	inputs, err := r.products.resources(step.Archive.Take)
	return outputs{list: []output{o}, inputs: inputs, inside: ourselves()}, err
}

// packing is an archive being written.
type packing struct {
	format
	run  *run
	root string // the directory of all entries
}

// listed packs the files of the source and the outputs that the step lists.
func (p *packing) listed(ctx context.Context, spec *plan.ArchiveStep) error {
	for _, name := range spec.Add {
		raw, err := p.run.repo.ReadFile(ctx, p.run.Source.Commit, name)
		if err != nil {
			return err
		}
		if err := p.entry(path.Join(p.root, name), 0o644, int64(len(raw))); err != nil {
			return err
		}
		if _, err := p.Write(raw); err != nil {
			return fmt.Errorf("packing %q: %w", name, err)
		}
	}
	for _, name := range spec.Take {
		if err := p.product(ctx, name); err != nil {
			return fmt.Errorf("packing %q: %w", name, err)
		}
	}
	return nil
}

func (p *packing) product(ctx context.Context, name string) error {
	body, m, err := p.run.products.openMade(ctx, name)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := p.entry(path.Join(p.root, path.Base(name)), 0o755, m.size); err != nil {
		return err
	}
	_, err = io.Copy(p, body)
	return err
}

// source packs the whole source of the commit: files with their modes and
// symbolic links, sorted by name.
func (p *packing) source(ctx context.Context) error {
	dir, err := p.run.tree(ctx)
	if err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name = path.Join(p.root, filepath.ToSlash(name))
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			return p.link(name, target)
		}
		return p.file(name, file)
	})
}

func (p *packing) file(name, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode().Perm()&0o100 != 0 {
		mode = 0o755
	}
	if err := p.entry(name, mode, info.Size()); err != nil {
		return err
	}
	if _, err := io.Copy(p, f); err != nil {
		return fmt.Errorf("packing %q: %w", name, err)
	}
	return nil
}

// checksums lists the digests of earlier outputs, as hashed by the control
// plane, in the format of sha256sum -c.
func (r *run) checksums(step plan.Step, scratch string) (outputs, error) {
	var list bytes.Buffer
	for _, name := range step.Checksums.Take {
		m, err := r.products.taken(name)
		if err != nil {
			return outputs{}, err
		}
		sum := m.digests.SHA256
		if step.Checksums.Algorithm == "sha512" {
			sum = m.digests.SHA512
		}
		fmt.Fprintf(&list, "%s  %s\n", sum.Hex(), name)
	}
	target := filepath.Join(scratch, "checksums")
	if err := os.WriteFile(target, list.Bytes(), 0o644); err != nil {
		return outputs{}, fmt.Errorf("writing checksums: %w", err)
	}
	o, err := r.products.fileOutput(step.Outputs[0], target)
	if err != nil {
		return outputs{}, err
	}
	inputs, err := r.products.resources(step.Checksums.Take)
	return outputs{list: []output{o}, inputs: inputs, inside: ourselves()}, err
}

// format writes the entries of an archive. All entries have the same time.
type format interface {
	io.Writer // the content of the last entry
	io.Closer
	entry(name string, mode, size int64) error // begins a regular file
	link(name, target string) error
}

func newFormat(w io.Writer, zipped bool, at time.Time) (format, error) {
	at = at.UTC().Truncate(time.Second)
	if zipped {
		return newZip(w, at), nil
	}
	packed, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	return tarGz{Writer: tar.NewWriter(packed), packed: packed, at: at}, err
}

// tarGz is a tar archive, compressed by gzip.
type tarGz struct {
	*tar.Writer
	packed *gzip.Writer
	at     time.Time
}

// Close ends the archive.
func (t tarGz) Close() error { return errors.Join(t.Writer.Close(), t.packed.Close()) }

func (t tarGz) entry(name string, mode, size int64) error {
	return t.header(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size})
}

func (t tarGz) link(name, target string) error {
	return t.header(tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777})
}

func (t tarGz) header(h tar.Header) error {
	h.ModTime, h.Format = t.at, tar.FormatPAX
	if err := t.WriteHeader(&h); err != nil {
		return fmt.Errorf("packing %q: %w", h.Name, err)
	}
	return nil
}

// zipped is a zip archive. It has no links: programs unpack them in different
// ways.
type zipped struct {
	*zip.Writer
	current io.Writer
	at      time.Time
}

func newZip(w io.Writer, at time.Time) *zipped {
	z := &zipped{Writer: zip.NewWriter(w), at: at}
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, flate.BestCompression) })
	return z
}

// Write writes content of the last entry.
func (z *zipped) Write(p []byte) (int, error) { return z.current.Write(p) }

func (z *zipped) entry(name string, mode, _ int64) (err error) {
	h := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: z.at}
	h.SetMode(fs.FileMode(mode))
	if z.current, err = z.CreateHeader(h); err != nil {
		return fmt.Errorf("packing %q: %w", name, err)
	}
	return nil
}

func (z *zipped) link(name, _ string) error {
	return fmt.Errorf("packing %q: a zip archive has no links", name)
}
