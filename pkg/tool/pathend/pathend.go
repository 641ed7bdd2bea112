// Package pathend compares two paths from their last element backwards.
//
// A user gives a file by a path of this machine; a signed document names it by
// a path inside the release. The last elements are what the two share.
//
//	pathend.Common("downloads/linux/amd64/lantern", "bin/linux/amd64/lantern") // 3
//
// Other projects should not import this package: it changes without notice.
package pathend

import (
	"path"
	"path/filepath"
	"strings"
)

// Common returns how many elements a path of this machine and a
// slash-separated name have in common at their ends.
func Common(file, name string) (n int) {
	a, b := strings.Split(path.Clean(filepath.ToSlash(file)), "/"), strings.Split(path.Clean(name), "/")
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	return n
}
