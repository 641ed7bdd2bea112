package difference

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// reader lists the parts of a file, and keeps the content of some.
type reader func(r *io.SectionReader, keep map[string]bool) []part

// partsOf chooses the reader that understands both files; two of which there is
// none have no parts.
func partsOf(want, got *io.SectionReader) reader {
	for _, one := range []struct {
		magic string
		at    int64
		read  reader
	}{
		{elf.ELFMAG, 0, program(elfParts)}, {"MZ", 0, program(peParts)},
		{"\xcf\xfa\xed\xfe", 0, program(machoParts)}, {"\xce\xfa\xed\xfe", 0, program(machoParts)},
		{"\x1f\x8b", 0, gzipParts}, {"PK\x03\x04", 0, zipParts}, {"ustar", 257, tarParts}, {"{", 0, jsonParts},
	} {
		if has(want, one.magic, one.at) && has(got, one.magic, one.at) {
			return one.read
		}
	}
	return func(*io.SectionReader, map[string]bool) []part { return nil }
}

func has(r *io.SectionReader, magic string, at int64) bool {
	head := make([]byte, len(magic))
	n, _ := r.ReadAt(head, at)
	return string(head[:n]) == magic
}

// program adds the fields of Go's build information to the parts of a program.
func program(sections func(io.ReaderAt) ([]part, error)) reader {
	return func(r *io.SectionReader, _ map[string]bool) (list []part) {
		if info, err := buildinfo.Read(r); err == nil {
			for line := range strings.Lines(info.String()) {
				field, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
				if name, rest, more := strings.Cut(value, "="); more && field == "build" {
					field, value = "build "+name, rest
				} else if name, rest, more := strings.Cut(value, "\t"); more {
					field, value = field+" "+name, rest
				}
				list = append(list, part{where: "buildinfo " + field, is: value})
			}
		}
		more, err := sections(r)
		if err != nil {
			more = []part{{where: "program", is: "unreadable: " + err.Error()}}
		}
		return append(list, more...)
	}
}

func elfParts(r io.ReaderAt) (list []part, _ error) {
	f, err := elf.NewFile(r)
	if err != nil {
		return nil, err
	}
	var headers []part // last, because one section that grows moves all others
	for i, s := range f.Sections {
		name := fmt.Sprintf("section %s", s.Name)
		if s.Name == "" {
			name = fmt.Sprintf("section %d", i)
		}
		headers = append(headers, part{where: name + ", header", is: fmt.Sprintf("%+v", s.SectionHeader)})
		if s.Type != elf.SHT_NOBITS {
			list = append(list, part{where: name, is: summary(io.NewSectionReader(r, int64(s.Offset), int64(s.FileSize)))}) //nolint:gosec // a section beyond the end is read up to it
		}
	}
	headers = append(headers, part{where: "ELF header", is: fmt.Sprintf("%+v", f.FileHeader)})
	for i, p := range f.Progs {
		headers = append(headers, part{where: fmt.Sprintf("segment %d, %s, header", i, p.Type), is: fmt.Sprintf("%+v", p.ProgHeader)})
	}
	return append(list, headers...), nil
}

func machoParts(r io.ReaderAt) (list []part, _ error) {
	f, err := macho.NewFile(r)
	if err != nil {
		return nil, err
	}
	for _, s := range f.Sections {
		if s.Offset > 0 {
			list = append(list, part{where: "section " + s.Seg + "," + s.Name, is: summary(s.Open())})
		}
	}
	for i, l := range f.Loads {
		list = append(list, part{where: fmt.Sprintf("load command %d", i), is: summary(bytes.NewReader(l.Raw()))})
	}
	return append(list, part{where: "Mach-O header", is: fmt.Sprintf("%+v", f.FileHeader)}), nil
}

func peParts(r io.ReaderAt) (list []part, _ error) {
	f, err := pe.NewFile(r)
	if err != nil {
		return nil, err
	}
	headers := []part{{where: "PE header", is: fmt.Sprintf("%+v", f.FileHeader)}}
	switch h := f.OptionalHeader.(type) {
	case *pe.OptionalHeader64:
		headers = append(headers, part{where: "PE optional header", is: fmt.Sprintf("%+v", *h)})
	case *pe.OptionalHeader32:
		headers = append(headers, part{where: "PE optional header", is: fmt.Sprintf("%+v", *h)})
	}
	for _, s := range f.Sections {
		list = append(list, part{where: "section " + s.Name, is: summary(s.Open())})
		headers = append(headers, part{where: "section " + s.Name + ", header", is: fmt.Sprintf("%+v", s.SectionHeader)})
	}
	return append(list, headers...), nil
}

func gzipParts(r *io.SectionReader, keep map[string]bool) (list []part) {
	z, err := gzip.NewReader(rewound(r))
	if err != nil {
		return nil
	}
	list = []part{{where: "gzip header", is: fmt.Sprintf("%+v", z.Header)}}
	body := bufio.NewReaderSize(io.LimitReader(z, maxRead), 1<<16)
	if head, _ := body.Peek(262); len(head) == 262 && string(head[257:]) == "ustar" {
		return append(list, tarEntries(body, keep)...)
	}
	return append(list, entry("uncompressed", body, keep))
}

func tarParts(r *io.SectionReader, keep map[string]bool) []part {
	return tarEntries(rewound(r), keep)
}

func tarEntries(r io.Reader, keep map[string]bool) (list []part) {
	t := tar.NewReader(r)
	for h, err := t.Next(); err != io.EOF; h, err = t.Next() {
		if err != nil {
			return append(list, part{where: "tar", is: "unreadable: " + err.Error()})
		}
		name := "entry " + h.Name
		list = append(list, entry(name, t, keep))
		for _, one := range []struct {
			what string
			is   any
		}{
			{"type", string(h.Typeflag)}, {"mode", fmt.Sprintf("%#o", h.Mode)}, {"owner", fmt.Sprintf("%d:%d %s:%s", h.Uid, h.Gid, h.Uname, h.Gname)},
			{"mtime", h.ModTime.UTC().Format(time.RFC3339Nano)}, {"link", h.Linkname}, {"device", fmt.Sprintf("%d,%d", h.Devmajor, h.Devminor)},
			{"format", h.Format}, {"records", fmt.Sprint(h.PAXRecords)}, {"other times", fmt.Sprint(h.AccessTime, h.ChangeTime)},
		} {
			list = append(list, part{where: name + ", " + one.what, is: fmt.Sprint(one.is)})
		}
	}
	return list
}

func zipParts(r *io.SectionReader, keep map[string]bool) (list []part) {
	z, err := zip.NewReader(r, r.Size())
	if err != nil {
		return nil
	}
	list = []part{{where: "zip comment", is: z.Comment}}
	for _, f := range z.File {
		name, h := "entry "+f.Name, f.FileHeader
		if body, err := f.Open(); err != nil {
			list = append(list, part{where: name, is: "unreadable: " + err.Error()})
		} else {
			list = append(list, entry(name, io.LimitReader(body, maxRead), keep))
			_ = body.Close() // it was only read
		}
		list = append(list, part{where: name + ", mode", is: h.Mode().String()}, part{where: name + ", mtime", is: h.Modified.UTC().Format(time.RFC3339)},
			part{where: name + ", other attributes", is: fmt.Sprint(h.Method, h.Flags, h.CreatorVersion, h.ReaderVersion, h.ExternalAttrs, h.Extra, h.Comment)})
	}
	return list
}

// entry is a file in an archive; its content is kept if it is asked for.
func entry(name string, r io.Reader, keep map[string]bool) part {
	p := part{where: name, file: true}
	if keep[name] {
		p.content, _ = io.ReadAll(io.LimitReader(r, maxKept))
	}
	p.is = summary(io.MultiReader(bytes.NewReader(p.content), r))
	if len(p.content) == maxKept {
		p.content = nil
	}
	return p
}

// jsonParts are the values of a JSON document, by their paths.
func jsonParts(r *io.SectionReader, _ map[string]bool) (list []part) {
	var tree any
	if r.Size() > maxKept || json.NewDecoder(rewound(r)).Decode(&tree) != nil {
		return nil
	}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch value := value.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(value)) {
				walk(strings.TrimPrefix(path+"."+key, "."), value[key])
			}
		case []any:
			for i, item := range value {
				walk(fmt.Sprintf("%s[%d]", path, i), item)
			}
		default:
			text, _ := json.Marshal(value) // it was decoded
			list = append(list, part{where: path, is: string(text)})
		}
	}
	walk("", tree)
	return list
}
