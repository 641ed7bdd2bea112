package releasemanifest

import (
	"fmt"
	"path"
	"strings"
)

// CheckName refuses a name that no artifact may have: an ambiguous path, or the
// name of the manifest's own bundle, which no list can contain.
func CheckName(name string) error {
	if name == "" || name == "." || len(name) > 512 || path.Clean(name) != name || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") {
		return fmt.Errorf("artifact %.200q: want a clean relative name", name)
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+@~/-") != "" {
		return fmt.Errorf("artifact %.200q: want only letters, digits and ._+@~-/", name)
	}
	if name == Name || strings.HasPrefix(name, PageDir) {
		return fmt.Errorf("artifact %.200q: the name is reserved for the manifest's own files", name)
	}
	return nil
}
