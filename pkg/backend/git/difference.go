package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Difference is the difference between two texts in the unified form, without
// its header.
func Difference(ctx context.Context, was, is []byte) (_ string, err error) {
	dir, err := os.MkdirTemp("", "waybill-diff-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	if err := errors.Join(os.WriteFile(a, was, 0o600), os.WriteFile(b, is, 0o600)); err != nil {
		return "", err
	}
	out, err := git{dir: dir}.command(ctx, "diff", "--no-index", "--no-ext-diff", "--no-textconv", "--no-color", "--text", "--", a, b).Output()
	_, hunks, differ := strings.Cut(string(out), "\n@@")
	if err != nil && !differ { // status 1 says that they differ
		return "", fmt.Errorf("comparing with git diff: %w", err)
	}
	return strings.TrimPrefix("@@"+hunks, map[bool]string{false: "@@"}[differ]), nil
}
