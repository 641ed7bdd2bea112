package git

import "context"

// Rule says which commit is built when a reference names one.
type Rule string

// The rules.
const (
	// Tagged: the commit that the reference names.
	Tagged Rule = "tagged"
	// EmptyChild: if the reference names an empty commit, that commit's parent.
	// Empty means that it has exactly one parent and the very tree of that
	// parent, so that both are the same source. Kubernetes tags its releases so:
	// the commit that is tagged is made for the tag, after the commit that is
	// released was chosen. A reference that names any other commit names the
	// one that is built, as the first releases of a branch do.
	EmptyChild Rule = "empty-child"
)

// Built is the commit that is built when a reference named c. By the rule
// [EmptyChild] that may be c's parent; its Release is c then, so that both are
// named. The ids prove the rule: nobody is asked.
func (r *Repository) Built(ctx context.Context, c Commit, rule Rule) (Commit, error) {
	switch {
	case rule == Tagged:
		return c, nil
	case rule != EmptyChild:
		return Commit{}, usage("choosing the commit to build: there is no rule %.40q", string(rule))
	case c.Release != "":
		return Commit{}, usage("choosing the commit to build: commit %.40q was chosen by the rule already", c.Commit)
	}
	child, parents, err := r.family(ctx, c.Commit)
	if err != nil || len(parents) != 1 {
		return c, err
	}
	parent, _, err := r.family(ctx, parents[0])
	if err != nil {
		return Commit{}, err
	}
	if parent.Tree != child.Tree {
		return c, nil
	}
	parent.Ref, parent.Tag, parent.Release = c.Ref, c.Tag, c.Commit
	return parent, nil
}

// family reads a commit and the ids of its parents.
func (r *Repository) family(ctx context.Context, id string) (Commit, []string, error) {
	if err := r.need(ctx, id); err != nil {
		return Commit{}, nil, err
	}
	o, err := r.objects(ctx)
	if err != nil {
		return Commit{}, nil, err
	}
	defer func() { _ = o.Close() }()
	return o.family(id)
}
