package store

import (
	"iter"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
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

// CheckNames refuses names that cannot be in one directory on every system: a
// name that [CheckName] refuses, two names (or parts of names) that differ only
// in case, and a file whose name is also the directory of another. The result
// is the same on all systems.
func CheckNames(names []string) error {
	sorted := slices.Sorted(slices.Values(names))
	for _, name := range sorted {
		if err := CheckName(name); err != nil {
			return err
		}
	}
	if err := checkFold(sorted); err != nil {
		return err
	}
	for _, name := range sorted {
		for dir := range parents(name) {
			if _, is := slices.BinarySearch(sorted, dir); is {
				return nameError(dir, "the name is both a file and the directory of "+quote(name))
			}
		}
	}
	return nil
}

// checkListed is [CheckNames] for what a local place lists.
func checkListed(objects []Object) error {
	return CheckNames(slice.Map(objects, func(o Object) string { return o.Name }))
}

// checkFold refuses names of which a part is spelled in two ways. Only parts
// with a capital letter are remembered, which are few in any release.
func checkFold(names []string) error {
	spelled := map[string]string{} // by the lower-case form
	for _, name := range names {
		for part := range parts(name) {
			folded := strings.ToLower(part)
			if folded == part {
				continue
			}
			if other, taken := spelled[folded]; taken && other != part {
				return caseConflict(part, other)
			}
			spelled[folded] = part
		}
	}
	if len(spelled) == 0 {
		return nil
	}
	for _, name := range names {
		for part := range parts(name) {
			if other, taken := spelled[part]; taken {
				return caseConflict(part, other)
			}
		}
	}
	return nil
}

func caseConflict(name, other string) error {
	return nameError(name, "the name differs only in case from "+quote(other))
}

// parents yields the directories above a name, the topmost first.
func parents(name string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range len(name) {
			if name[i] == '/' && !yield(name[:i]) {
				return
			}
		}
	}
}

// parts yields the directories above a name, and the name.
func parts(name string) iter.Seq[string] { return parents(name + "/") }
