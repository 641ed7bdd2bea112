package store

import (
	"strings"
)

// Limits of a name: what common file systems and buckets can hold.
const (
	maxName    = 1024
	maxSegment = 255
)

// CheckName refuses with a [*NameError] every name that is not
//
//	segment *( "/" segment )
//	segment = 1*255( A-Z / a-z / 0-9 / "." / "_" / "+" / "@" / "~" / "-" )
//
// of at most 1024 bytes, where no segment ends with "." and none is the name of
// a device of Windows, as CON or aux.txt. One name thus has one spelling on every
// file system and in every bucket: there is no absolute path, drive letter,
// backslash, escape or look-alike letter to disagree about. Whether two names
// are one where case counts for nothing is for [CheckNames] to say.
func CheckName(name string) error {
	refuse := func(reason string) error { return &NameError{Name: name, Reason: reason} }
	switch {
	case name == "":
		return refuse("it is empty")
	case len(name) > maxName:
		return refuse("it is longer than 1024 bytes")
	case name[0] == '/':
		return refuse("it is absolute")
	case len(name) > 1 && name[1] == ':':
		return refuse("it starts with a drive letter")
	}
	for i := range len(name) {
		if reason := badByte(name[i]); reason != "" {
			return refuse(reason)
		}
	}
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "":
			return refuse("it has an empty segment")
		case segment == "." || segment == "..":
			return refuse("it has a segment that names another directory")
		case segment[len(segment)-1] == '.': // some file systems drop it
			return refuse("it has a segment that ends with a dot")
		case isDevice(segment):
			return refuse("it has a segment that is a device on Windows")
		case len(segment) > maxSegment:
			return refuse("it has a segment longer than 255 bytes")
		}
	}
	return nil
}

// isDevice reports whether Windows takes a segment for one of its devices,
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

// badByte returns why c may not be in a name, or "".
func badByte(c byte) string {
	switch {
	case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		return ""
	case strings.IndexByte("/._+@~-", c) >= 0:
		return ""
	case c == '\\':
		return "it has a backslash"
	case c >= 0x80:
		return "it has a letter outside ASCII"
	}
	return "only letters, digits and ._+/@~- are allowed"
}
