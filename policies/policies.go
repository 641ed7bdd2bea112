// Package policies contains the policies that are embedded in the commands.
package policies

import (
	"embed"
	"fmt"
)

//go:embed *.yaml kubernetes/expected/*.yaml
var shipped embed.FS

// Read returns an embedded policy, the list of known defects, or the expected
// contents of a Kubernetes release (kubernetes/expected/1.31), by its file name
// without the extension. The error is [io/fs.ErrNotExist] if there is none.
func Read(name string) ([]byte, error) {
	raw, err := shipped.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("reading shipped policy %q: %w", name, err)
	}
	return raw, nil
}
