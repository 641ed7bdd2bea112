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

// Rule says which commit is built when a reference names one.
type Rule string

// The rules.
const (
	// Tagged: the commit that the reference names.
	Tagged Rule = "tagged"
	// EmptyChild: if the reference names an empty commit, that commit's parent.
	// Empty means exactly one parent and the same tree as that parent.
	// Kubernetes tags its releases this way: the tagged commit is made for the
	// tag, after the commit to release was chosen. Any other commit is built
	// itself, as for the first releases of a branch.
	EmptyChild Rule = "empty-child"
)

// Built returns the commit to build when a reference named c. Under
// [EmptyChild] that may be c's parent; Release is then c, so that both are
// recorded. The commit ids alone prove the result.
func (r *Repository) Built(ctx context.Context, c Commit, rule Rule) (Commit, error) {
	switch {
	case rule == Tagged:
		return c, nil
	case rule != EmptyChild:
		return Commit{}, usage("choosing the commit to build: there is no rule %.40q", string(rule))
	case c.Release != "":
		return Commit{}, usage("choosing the commit to build: the rule was already applied to commit %.40q", c.Commit)
	}
	child, parents, err := r.readCommit(ctx, c.Commit)
	if err != nil || len(parents) != 1 {
		return c, err
	}
	parent, _, err := r.readCommit(ctx, parents[0])
	if err != nil {
		return Commit{}, err
	}
	if parent.Tree != child.Tree {
		return c, nil
	}
	parent.Ref, parent.Tag, parent.Release = c.Ref, c.Tag, c.Commit
	return parent, nil
}

// readCommit reads a commit and the ids of its parents.
func (r *Repository) readCommit(ctx context.Context, id string) (Commit, []string, error) {
	if err := r.ensureCommit(ctx, id); err != nil {
		return Commit{}, nil, err
	}
	o, err := r.objects(ctx)
	if err != nil {
		return Commit{}, nil, err
	}
	defer func() { _ = o.Close() }()
	return o.parseCommit(id)
}
