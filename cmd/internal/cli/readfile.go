package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/waybill-release/waybill/pkg/verdict"
)

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
