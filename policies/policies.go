// Package policies carries the policies that are shipped inside the commands.
package policies

import (
	"embed"
	"fmt"
)

//go:embed *.yaml
var shipped embed.FS

// Read returns a shipped policy, or the list of known defects, by the name of
// its file without the ending.
func Read(name string) ([]byte, error) {
	raw, err := shipped.ReadFile(name + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("reading shipped policy %q: %w", name, err)
	}
	return raw, nil
}
