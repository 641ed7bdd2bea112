package unpack

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// records are those of a POSIX extended header, by keyword.
type records map[string]string

// placeRecords are the keywords that an archive of a place may have, and
// archiveRecords those that other archives may have in addition: none of them
// changes the name or the contents of an entry, except for path and linkpath,
// and size, which must be equal to that in the header.
var (
	placeRecords   = []string{"path", "size", "mtime", "atime", "ctime", "uid", "gid", "uname", "gname"}
	archiveRecords = []string{"linkpath", "comment", "SCHILY.dev", "SCHILY.ino", "SCHILY.nlink", "SCHILY.fflags", "LIBARCHIVE.creationtime", "RHT.security.selinux"}
	// archivePrefixes are the prefixes of the keywords of attributes.
	archivePrefixes = []string{"SCHILY.xattr.", "SCHILY.acl.", "LIBARCHIVE.xattr.", "APK-TOOLS.checksum."}
)

// readRecords parses records of the form "LENGTH KEYWORD=VALUE
// ".
func readRecords(text []byte, name string) (records, error) {
	found := records{}
	for len(text) > 0 {
		digits, _, _ := bytes.Cut(text[:min(len(text), 8)], []byte{' '})
		n, err := strconv.ParseUint(string(digits), 10, 31)
		if err != nil || digits[0] == '0' || digits[0] == '+' || int(n) > len(text) || int(n) < len(digits)+4 {
			return nil, ambiguous(name, "a record of the extended header has an invalid length")
		}
		record := text[len(digits)+1 : n]
		text = text[n:]
		key, value, cut := strings.Cut(string(record[:len(record)-1]), "=")
		_, twice := found[key]
		switch {
		case record[len(record)-1] != '\n' || !cut || key == "" || value == "":
			return nil, ambiguous(name, "a record of the extended header is not one keyword with one value")
		case twice:
			return nil, ambiguous(name, "the extended header has the record %s twice", bounded(key))
		}
		found[key] = value
	}
	return found, nil
}

// check refuses records that only some programs know, or that change the kind
// of an entry.
func (r records) check(name string, kind byte, by rules) error {
	for key, value := range r {
		known := slices.Contains(placeRecords, key)
		switch {
		case kind == 'g':
			known = key == "comment"
		case by == ofArchive && !known:
			known = slices.Contains(archiveRecords, key) || slices.ContainsFunc(archivePrefixes, func(p string) bool { return strings.HasPrefix(key, p) })
		}
		if !known {
			return ambiguous(name, "the extended header has the record %s, which not every program supports", bounded(key))
		}
		if bad := !strings.Contains(key, ".") && strings.Contains(value, "\x00"); bad || !numeric(key, value) {
			return ambiguous(name, "the record %s of the extended header is ambiguous", bounded(key))
		}
	}
	return nil
}

// numeric reports whether a value is a number where its keyword requires one.
func numeric(key, value string) bool {
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	switch key {
	case "size", "uid", "gid":
		return digits(value)
	case "mtime", "atime", "ctime":
		whole, part, fraction := strings.Cut(strings.TrimPrefix(value, "-"), ".")
		return digits(whole) && (!fraction || digits(part))
	}
	return true
}

// apply replaces fields of the header with the records.
func (r records) apply(m *merged, name string) error {
	if path, there := r["path"]; there {
		m.name = path
	}
	if target, there := r["linkpath"]; there {
		m.link = target
	}
	if strings.IndexFunc(r["path"]+r["linkpath"], composed) >= 0 {
		return ambiguous(name, "a name in the extended header has decomposed characters, which bsdtar composes")
	}
	if digits, there := r["size"]; there {
		if size, err := strconv.ParseInt(digits, 10, 62); err != nil || size != m.size {
			return ambiguous(name, "the size in the extended header differs from that in the header, which busybox uses")
		}
	}
	return nil
}

// composed reports whether the text contains a character that can be composed
// with the one before it.
func composed(r rune) bool {
	return r > unicode.MaxLatin1 && unicode.Is(unicode.Mn, r) || 0x1100 <= r && r <= 0x11ff
}
