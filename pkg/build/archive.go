package build

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/pkg/plan"
)

// archive packs outputs of earlier steps, and files of the source, under one
// root. Equal inputs give equal bytes: order, times, owners and modes are
// fixed, and the gzip header names nobody.
func (r *run) archive(ctx context.Context, step plan.Step, scratch string) (outputs, error) {
	name := step.Outputs[0]
	target := filepath.Join(scratch, "archive")
	f, err := os.OpenFile(target, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return outputs{}, fmt.Errorf("making archive: %w", err)
	}
	defer f.Close()
	zip, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return outputs{}, fmt.Errorf("making archive: %w", err)
	}
	pack := tar.NewWriter(zip)
	if step.Archive.Source {
		err = r.packSource(ctx, pack, step.Archive.Root)
	}
	if err == nil {
		err = r.pack(ctx, step.Archive, pack)
	}
	if err != nil {
		return outputs{}, err
	}
	for _, close := range []func() error{pack.Close, zip.Close, f.Close} {
		if err := close(); err != nil {
			return outputs{}, fmt.Errorf("finishing archive %q: %w", name, err)
		}
	}
	o, err := r.fileOutput(name, target)
	if err != nil {
		return outputs{}, err
	}
	inputs, err := r.resources(step.Archive.Take)
	return outputs{list: []output{o}, inputs: inputs, inside: ourselves()}, err
}

func (r *run) pack(ctx context.Context, spec *plan.ArchiveStep, pack *tar.Writer) error {
	at := r.Source.Commit.Time
	for _, name := range spec.Add {
		raw, err := r.repo.ReadFile(ctx, r.Source.Commit, name)
		if err != nil {
			return err
		}
		if err := writeEntry(pack, path.Join(spec.Root, name), 0o644, int64(len(raw)), at); err != nil {
			return err
		}
		if _, err := pack.Write(raw); err != nil {
			return fmt.Errorf("packing %q: %w", name, err)
		}
	}
	for _, name := range spec.Take {
		if err := r.packMade(ctx, pack, spec.Root, name); err != nil {
			return fmt.Errorf("packing %q: %w", name, err)
		}
	}
	return nil
}

func (r *run) packMade(ctx context.Context, pack *tar.Writer, root, name string) error {
	body, m, err := r.openMade(ctx, name)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := writeEntry(pack, path.Join(root, path.Base(name)), 0o755, m.size, r.Source.Commit.Time); err != nil {
		return err
	}
	_, err = io.Copy(pack, body)
	return err
}

// packSource packs the whole source, as the commit has it: files with their
// modes and symbolic links, in the order of their names.
func (r *run) packSource(ctx context.Context, pack *tar.Writer, root string) error {
	dir, err := r.tree(ctx)
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
		name = path.Join(root, filepath.ToSlash(name))
		if d.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			return pack.WriteHeader(&tar.Header{
				Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777,
				ModTime: r.Source.Commit.Time.UTC().Truncate(time.Second), Format: tar.FormatPAX,
			})
		}
		return r.packFile(pack, name, file)
	})
}

func (r *run) packFile(pack *tar.Writer, name, file string) error {
	f, err := os.Open(file)
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
	if err := writeEntry(pack, name, mode, info.Size(), r.Source.Commit.Time); err != nil {
		return err
	}
	if _, err := io.Copy(pack, f); err != nil {
		return fmt.Errorf("packing %q: %w", name, err)
	}
	return nil
}

func writeEntry(pack *tar.Writer, name string, mode, size int64, at time.Time) error {
	err := pack.WriteHeader(&tar.Header{
		Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: size, ModTime: at.UTC().Truncate(time.Second), Format: tar.FormatPAX,
	})
	if err != nil {
		return fmt.Errorf("packing %q: %w", name, err)
	}
	return nil
}
