package git

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// NotesRef is the reference of git's own notes, where SLSA's source-tool keeps
// the attestations of a commit.
const NotesRef = "refs/notes/commits"

// Note returns the note of a commit under [NotesRef]. A commit without one is
// [ErrNotFound]. Notes are not evidence by themselves: anyone who can push the
// reference can write them.
func (r *Repository) Note(ctx context.Context, commit string, limit int64) ([]byte, error) {
	if !isID(commit) {
		return nil, usage("reading the note of commit %.80q: not a full commit id", commit)
	}
	tip, err := r.Resolve(ctx, NotesRef)
	if err != nil {
		return nil, err
	}
	o, tip, err := r.openCommit(ctx, tip)
	if err != nil {
		return nil, err
	}
	defer func() { _ = o.Close() }()
	// The tree has the id as a name, or split after two digits any number of
	// times: 12/34/5678….
	for tree, rest := tip.Tree, commit; ; {
		found, err := o.find(tree, rest)
		if err == nil && strings.HasPrefix(found.mode, "100") {
			return o.meta(found.id, "blob", limit)
		}
		if errors.Is(err, ErrNotFound) && len(rest) > 2 {
			found, err = o.find(tree, rest[:2])
		}
		if err != nil {
			return nil, fmt.Errorf("reading the note of commit %s: %w", commit, err)
		}
		if found.mode != "40000" {
			return nil, tip.refuse(rest, verdict.FileType, "not the note of a commit")
		}
		tree, rest = found.id, rest[2:]
	}
}
