package difference

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"errors"
	"fmt"
	"io"
	"time"
)

var errFormat = errors.New("another format, or too large")

// text is a part with a value.
func text(where string, value any) part { return part{where: where, text: fmt.Sprintf("%+v", value)} }

// section is a part with content: that of a file at an offset.
func section(where string, file *io.SectionReader, offset, size uint64) part {
	all := uint64(file.Size()) //nolint:gosec // no size is negative
	begin := min(offset, all)
	return part{where: where, content: io.NewSectionReader(file, int64(begin), int64(min(size, all-begin)))} //nolint:gosec // both are at most the size
}

// buildInfo are the fields of Go's build information, if the file has some.
func buildInfo(file *io.SectionReader) []part {
	info, err := buildinfo.Read(file)
	if err != nil {
		return nil
	}
	list := []part{text("buildinfo go", info.GoVersion), text("buildinfo path", info.Path), text("buildinfo mod", info.Main)}
	for _, dep := range info.Deps {
		list = append(list, text("buildinfo dep "+dep.Path, dep.Version+" "+dep.Sum))
		if dep.Replace != nil {
			list = append(list, text("buildinfo dep "+dep.Path+", replaced", *dep.Replace))
		}
	}
	for _, setting := range info.Settings {
		list = append(list, text("buildinfo build "+setting.Key, setting.Value))
	}
	return list
}

func elfParts(file *io.SectionReader) (list []part, _ error) {
	f, err := elf.NewFile(file)
	if err != nil {
		return nil, err
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			list = append(list, section("section "+s.Name, file, s.Offset, s.FileSize))
		}
	}
	return append(list, text("ELF header", f.FileHeader)), nil
}

func machoParts(file *io.SectionReader) (list []part, _ error) {
	f, err := macho.NewFile(file)
	if err != nil {
		return nil, err
	}
	for _, s := range f.Sections {
		if s.Offset > 0 {
			list = append(list, section("section "+s.Seg+","+s.Name, file, uint64(s.Offset), s.Size))
		}
	}
	for i, l := range f.Loads {
		list = append(list, part{where: fmt.Sprintf("load command %d", i), content: held(l.Raw())})
	}
	return append(list, text("Mach-O header", f.FileHeader)), nil
}

func peParts(file *io.SectionReader) (list []part, _ error) {
	f, err := pe.NewFile(file)
	if err != nil || f.OptionalHeader == nil { // a bare object has neither that nor magic
		return nil, errors.Join(err, errFormat)
	}
	for _, s := range f.Sections {
		list = append(list, section("section "+s.Name, file, uint64(s.Offset), uint64(s.Size)))
	}
	return append(list, text("PE header", f.FileHeader)), nil
}

func gzipParts(file *io.SectionReader) ([]part, error) {
	z, err := gzip.NewReader(io.NewSectionReader(file, 0, file.Size()))
	if err != nil {
		return nil, err
	}
	header, left := text("gzip header", z.Header), int64(maxRead)
	inside, err := read(z, &left)
	if err != nil {
		return nil, err
	}
	if list, err := tarParts(inside); err == nil {
		return append([]part{header}, list...), nil
	}
	return []part{header, {where: "uncompressed", content: inside}}, nil
}

func tarParts(file *io.SectionReader) (list []part, _ error) {
	in := io.NewSectionReader(file, 0, file.Size())
	for t := tar.NewReader(in); ; {
		h, err := t.Next()
		if err == io.EOF {
			return list, nil
		}
		at, _ := in.Seek(0, io.SeekCurrent) // the reader has read the headers only
		if err != nil || len(list) > maxParts {
			return nil, errors.Join(err, errFormat)
		}
		name := "entry " + h.Name
		list = append(
			list, section(name, file, uint64(at), uint64(h.Size)), text(name+", mode", fmt.Sprintf("%#o", h.Mode)), text(name+", link", h.Linkname), //nolint:gosec // not negative
			text(name+", owner", fmt.Sprintf("%d:%d %s:%s", h.Uid, h.Gid, h.Uname, h.Gname)), text(name+", mtime", h.ModTime.UTC().Format(time.RFC3339Nano)),
			text(name+", other attributes", fmt.Sprint(h.Typeflag, h.Devmajor, h.Devminor, h.Format, h.PAXRecords, h.AccessTime, h.ChangeTime)),
		)
	}
}

func zipParts(file *io.SectionReader) (list []part, _ error) {
	z, err := zip.NewReader(file, min(file.Size(), maxRead))
	if err != nil {
		return nil, err
	}
	left := int64(maxRead)
	for _, h := range z.File {
		at, err := h.DataOffset()
		if err != nil {
			return nil, err
		}
		name := "entry " + h.Name
		content := section(name, file, uint64(at), h.CompressedSize64) //nolint:gosec // not negative
		content.unpack = func() (*io.SectionReader, error) {
			body, err := h.Open()
			if err != nil {
				return nil, err
			}
			defer body.Close()
			return read(body, &left)
		}
		list = append(
			list, content, text(name+", mode", h.Mode()), text(name+", mtime", h.Modified.UTC().Format(time.RFC3339)),
			text(name+", other attributes", fmt.Sprintf("%d %d %d %d %d %x %q", h.Method, h.Flags, h.CreatorVersion, h.ReaderVersion, h.ExternalAttrs, h.Extra, h.Comment)),
		)
	}
	return append(list, text("zip comment", z.Comment)), nil
}
