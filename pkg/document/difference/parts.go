package difference

import (
	"archive/tar"
	"archive/zip"
	"bytes"
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

var errFormat = errors.New("another format")

// text is a part with a value.
func text(where string, value any) part { return part{where: where, text: fmt.Sprintf("%+v", value)} }

// section is a part with content: that of a file at an offset.
func section(name string, file []byte, offset, size uint64) part {
	begin := min(offset, uint64(len(file)))
	return part{where: "section " + name, content: file[begin : begin+min(size, uint64(len(file))-begin)]}
}

// buildInfo are the fields of Go's build information, if the file has some.
func buildInfo(file []byte) []part {
	info, err := buildinfo.Read(bytes.NewReader(file))
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

func elfParts(file []byte) (list []part, _ error) {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOBITS {
			list = append(list, section(s.Name, file, s.Offset, s.FileSize))
		}
	}
	return append(list, text("ELF header", f.FileHeader)), nil
}

func machoParts(file []byte) (list []part, _ error) {
	f, err := macho.NewFile(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	for _, s := range f.Sections {
		if s.Offset > 0 {
			list = append(list, section(s.Seg+","+s.Name, file, uint64(s.Offset), s.Size))
		}
	}
	for i, l := range f.Loads {
		list = append(list, part{where: fmt.Sprintf("load command %d", i), content: l.Raw()})
	}
	return append(list, text("Mach-O header", f.FileHeader)), nil
}

func peParts(file []byte) (list []part, _ error) {
	f, err := pe.NewFile(bytes.NewReader(file))
	if err != nil || !bytes.HasPrefix(file, []byte("MZ")) { // a bare object has no magic
		return nil, errors.Join(err, errFormat)
	}
	for _, s := range f.Sections {
		list = append(list, section(s.Name, file, uint64(s.Offset), uint64(s.Size)))
	}
	return append(list, text("PE header", f.FileHeader)), nil
}

func gzipParts(file []byte) ([]part, error) {
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	header := text("gzip header", z.Header)
	inside, err := new(budget).read(z, 0)
	if err != nil {
		return nil, err
	}
	if list, err := tarParts(inside); err == nil {
		return append([]part{header}, list...), nil
	}
	return []part{header, {where: "uncompressed", content: inside}}, nil
}

func tarParts(file []byte) (list []part, _ error) {
	all, t := new(budget), tar.NewReader(bytes.NewReader(file))
	for {
		h, err := t.Next()
		if err == io.EOF {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := all.read(t, 0)
		if err != nil {
			return nil, err
		}
		name := "entry " + h.Name
		list = append(
			list, part{where: name, content: content}, text(name+", mode", fmt.Sprintf("%#o", h.Mode)), text(name+", link", h.Linkname),
			text(name+", owner", fmt.Sprintf("%d:%d %s:%s", h.Uid, h.Gid, h.Uname, h.Gname)), text(name+", mtime", h.ModTime.UTC().Format(time.RFC3339Nano)),
			text(name+", other attributes", fmt.Sprint(h.Typeflag, h.Devmajor, h.Devminor, h.Format, h.PAXRecords, h.AccessTime, h.ChangeTime)),
		)
	}
}

func zipParts(file []byte) (list []part, _ error) {
	z, err := zip.NewReader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	all := new(budget)
	for _, h := range z.File {
		body, err := h.Open()
		if err != nil {
			return nil, err
		}
		content, err := all.read(body, 0)
		if err := errors.Join(err, body.Close()); err != nil {
			return nil, err
		}
		name := "entry " + h.Name
		list = append(
			list, part{where: name, content: content}, text(name+", mode", h.Mode()), text(name+", mtime", h.Modified.UTC().Format(time.RFC3339)),
			text(name+", other attributes", fmt.Sprintf("%d %d %d %d %d %x %q", h.Method, h.Flags, h.CreatorVersion, h.ReaderVersion, h.ExternalAttrs, h.Extra, h.Comment)),
		)
	}
	return append(list, text("zip comment", z.Comment)), nil
}
