package store

import (
	"strings"
)

// Limits of a name: what common file systems and buckets allow.
const (
	maxName    = 1024
	maxSegment = 255
)

// CheckName refuses with a an error of the code PATH every name that is not
//
//	segment *( "/" segment )
//	segment = 1*255( A-Z / a-z / 0-9 / "." / "_" / "+" / "@" / "~" / "-" )
//
// of at most 1024 bytes, where no segment ends with "." and none is the name of
// a device on Windows, such as CON or aux.txt. One name thus has one spelling
// on every file system and in every bucket: there is no absolute path, drive
// letter, backslash, escape or look-alike letter to disagree about. Names that
// differ only in case are refused by [CheckNames].
func CheckName(name string) error {
	refuse := func(reason string) error { return nameError(name, reason) }
	switch {
	case name == "":
		return refuse("the name is empty")
	case len(name) > maxName:
		return refuse("the name exceeds 1024 bytes")
	case name[0] == '/':
		return refuse("the name is absolute")
	case len(name) > 1 && name[1] == ':':
		return refuse("the name starts with a drive letter")
	}
	for i := range len(name) {
		if reason := badByte(name[i]); reason != "" {
			return refuse(reason)
		}
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return refuse("the name has an empty segment")
		case segment == "." || segment == "..":
			return refuse(`the name has a segment "." or ".."`)
		case segment[len(segment)-1] == '.': // some file systems drop it
			return refuse("the name has a segment that ends with a dot")
		case isDevice(segment):
			return refuse("the name has a segment that is a device on Windows")
		case len(segment) > maxSegment:
			return refuse("the name has a segment longer than 255 bytes")
		}
	}
	return nil
}

// isDevice reports whether Windows treats a segment as one of its devices,
// whatever follows the first dot.
func isDevice(segment string) bool {
	stem, _, _ := strings.Cut(segment, ".")
	switch stem = strings.ToLower(stem); len(stem) {
	case 3:
		return stem == "con" || stem == "prn" || stem == "aux" || stem == "nul"
	case 4:
		return (stem[:3] == "com" || stem[:3] == "lpt") && '0' <= stem[3] && stem[3] <= '9'
	}
	return false
}

// badByte returns why c is not allowed in a name, or "".
func badByte(c byte) string {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return ""
	case strings.IndexByte("/._+@~-", c) >= 0:
		return ""
	case c == '\\':
		return "the name has a backslash"
	case c >= 0x80:
		return "the name has a letter outside ASCII"
	}
	return "only letters, digits and ._+/@~- are allowed"
}
