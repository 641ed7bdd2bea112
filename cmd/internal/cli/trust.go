package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/trust"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Trust is where the trust root of a command comes from: the one place that
// commands without a profile take it from.
type Trust struct{ File string }

// AddFlags adds --trusted-root.
func (t *Trust) AddFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.File, "trusted-root", "", "Sigstore trusted_root.json: whose certificates, logs and timestamps are believed (required)")
}

// Root reads the trust root. None is never taken for another.
func (t *Trust) Root() (trust.Root, error) {
	if t.File == "" {
		return trust.Root{}, verdict.Refuse(verdict.Usage, "--trusted-root", "required: it names the authorities that are believed")
	}
	raw, err := ReadFile(t.File, trust.MaxSize)
	if err != nil {
		return trust.Root{}, err
	}
	return trust.Parse(raw)
}

// ReadFile reads a file that was named on the command line, bounded.
func ReadFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, verdict.Refuse(verdict.Usage, path, "there is no such file")
	}
	if err != nil {
		return nil, verdict.Wrap(verdict.PlaceDown, path, err)
	}
	defer file.Close()
	raw, err := io.ReadAll(io.LimitReader(file, limit+1))
	switch {
	case err != nil:
		return nil, verdict.Wrap(verdict.PlaceDown, path, err)
	case int64(len(raw)) > limit:
		return nil, verdict.Refuse(verdict.Limit, path, "more than %d bytes", limit)
	}
	return raw, nil
}
