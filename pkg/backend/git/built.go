package git

import "context"

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
