package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// CheckHistory refuses unless the history of one reference includes the commit of
// another, and returns the commit of the first. Every commit on the way is hashed
// here, so that replacements and grafts do not count.
func (r *Repository) CheckHistory(ctx context.Context, tip, ref string) (Commit, error) {
	from, err := r.Resolve(ctx, tip)
	if err != nil {
		return Commit{}, err
	}
	to, err := r.Resolve(ctx, ref)
	if err != nil {
		return Commit{}, err
	}
	o, err := r.objects(ctx)
	if err != nil {
		return Commit{}, err
	}
	defer func() { _ = o.Close() }()
	seen := map[string]bool{from.Commit: true}
	for due := []entry{{id: from.Commit}}; !seen[to.Commit]; {
		if len(due) == 0 || len(seen) > maxEntries {
			return Commit{}, verdict.Refuse(verdict.SourceRef, ref, "the history of %s does not include commit %s", tip, to.Commit)
		}
		some := due[:min(len(due), maxAsked)]
		due = due[len(some):]
		if err := o.ask(some); err != nil {
			return Commit{}, err
		}
		for _, e := range some {
			_, parents, err := o.parseCommit(e.id)
			if errors.Is(err, ErrNotFound) {
				err = r.unavailable("reading the history, of which the clone has only a part", err)
			}
			if err != nil {
				return Commit{}, err
			}
			for _, id := range parents {
				if !seen[id] {
					seen[id], due = true, append(due, entry{id: id})
				}
			}
		}
	}
	return from, nil
}

// Message is the message of a commit. Anyone can write anything into it.
func (r *Repository) Message(ctx context.Context, id string) ([]byte, error) {
	o, err := r.objects(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = o.Close() }()
	raw, err := o.meta(id, "commit", maxMeta)
	_, message, _ := bytes.Cut(raw, []byte("\n\n"))
	return message, err
}

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
