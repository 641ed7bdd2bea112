package unpack

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// records are those of an extended header of POSIX, by keyword.
type records map[string]string

// placeRecords are the keywords that an archive of a place may have, and
// archiveRecords those that any other may have besides: none of them says what
// an entry is called or holds, but for path and linkpath, and size, which must be
// the one in the header.
var (
	placeRecords   = []string{"path", "size", "mtime", "atime", "ctime", "uid", "gid", "uname", "gname"}
	archiveRecords = []string{"linkpath", "comment", "SCHILY.dev", "SCHILY.ino", "SCHILY.nlink", "SCHILY.fflags", "LIBARCHIVE.creationtime", "RHT.security.selinux"}
	// archivePrefixes begin the keywords of attributes.
	archivePrefixes = []string{"SCHILY.xattr.", "SCHILY.acl.", "LIBARCHIVE.xattr.", "APK-TOOLS.checksum."}
)

// readRecords reads records of the form "LENGTH KEYWORD=VALUE\n".
func readRecords(text []byte, name string) (records, error) {
	found := records{}
	for len(text) > 0 {
		digits, _, _ := bytes.Cut(text[:min(len(text), 8)], []byte{' '})
		n, err := strconv.ParseUint(string(digits), 10, 31)
		if err != nil || digits[0] == '0' || digits[0] == '+' || int(n) > len(text) || int(n) < len(digits)+4 {
			return nil, ambiguous(name, "a record of its extended header has no length that can be")
		}
		record := text[len(digits)+1 : n]
		text = text[n:]
		key, value, cut := strings.Cut(string(record[:len(record)-1]), "=")
		_, twice := found[key]
		switch {
		case record[len(record)-1] != '\n' || !cut || key == "" || value == "":
			return nil, ambiguous(name, "a record of its extended header is not one keyword with one value")
		case twice:
			return nil, ambiguous(name, "its extended header has the record %s twice", bounded(key))
		}
		found[key] = value
	}
	return found, nil
}

// check refuses records that only some programs know, or that change what an
// entry is.
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
			return ambiguous(name, "its extended header has the record %s, which not every program knows", bounded(key))
		}
		if bad := !strings.Contains(key, ".") && strings.Contains(value, "\x00"); bad || !numeric(key, value) {
			return ambiguous(name, "the record %s of its extended header has no single reading", bounded(key))
		}
	}
	return nil
}

// numeric reports whether a value is a number where its keyword asks for one.
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

// apply has the records speak for the fields of the header.
func (r records) apply(m *merged, name string) error {
	if path, there := r["path"]; there {
		m.name = path
	}
	if target, there := r["linkpath"]; there {
		m.link = target
	}
	if strings.IndexFunc(r["path"]+r["linkpath"], composed) >= 0 {
		return ambiguous(name, "a name in its extended header has letters and marks apart, which bsdtar makes one")
	}
	if digits, there := r["size"]; there {
		if size, err := strconv.ParseInt(digits, 10, 62); err != nil || size != m.size {
			return ambiguous(name, "its extended header says another size than its header, which busybox believes")
		}
	}
	return nil
}

// composed reports a character that may be made one with the one before it.
func composed(r rune) bool {
	return r > unicode.MaxLatin1 && unicode.Is(unicode.Mn, r) || 0x1100 <= r && r <= 0x11ff
}
