// Package policies carries the policies that are shipped inside the commands.
package policies

import (
	"embed"
	"fmt"
)

//go:embed *.yaml kubernetes/expected/*.yaml
var shipped embed.FS

// Read returns a shipped policy, the list of known defects, or what a release
// of Kubernetes should consist of (kubernetes/expected/1.31), by the name of its
// file without the ending. One that is not shipped is [io/fs.ErrNotExist].
func Read(name string) ([]byte, error) {
	raw, err := shipped.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("reading shipped policy %q: %w", name, err)
	}
	return raw, nil
}
