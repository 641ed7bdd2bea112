package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestFormat: the first format is the default, and one that is not offered is refused
// before the command does anything.
func TestFormat(t *testing.T) {
	for _, r := range []struct{ flag, chosen, refused string }{
		{"", "table", ""}, {"--output=json", "json", ""}, {"-o=table", "table", ""}, {"--output=", "", "want table or json"}, {"-o=xml", "", "want table or json"},
	} {
		var chosen string
		cmd := &cobra.Command{}
		AddFormat(cmd, &chosen, "table or json", "table", "json")
		err := cmd.ParseFlags(strings.Fields(r.flag))
		if r.refused == "" && (err != nil || chosen != r.chosen) || r.refused != "" && (err == nil || !strings.Contains(err.Error(), r.refused)) {
			t.Errorf("%q: %q, %v", r.flag, chosen, err)
		}
	}
}
