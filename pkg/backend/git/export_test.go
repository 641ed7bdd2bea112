package git

import (
	"context"
	"strings"
)

// The functions below open the repository of a commit for one call each.

func Resolve(ctx context.Context, repo, ref string) (Commit, error) {
	r, err := Open(ctx, repo)
	if err != nil {
		return Commit{}, err
	}
	defer r.Close()
	return r.Resolve(ctx, ref)
}

func Checkout(ctx context.Context, c Commit, dir string) error {
	r, err := Open(ctx, c.Repository)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.Checkout(ctx, c, dir)
}

func Built(ctx context.Context, c Commit, rule Rule) (Commit, error) {
	if rule == Tagged {
		return c, nil
	}
	r, err := Open(ctx, c.Repository)
	if err != nil {
		return Commit{}, err
	}
	defer r.Close()
	return r.Built(ctx, c, rule)
}

func CheckUnmoved(ctx context.Context, c Commit) error {
	if !strings.HasPrefix(c.Ref, "refs/tags/") {
		return nil
	}
	r, err := Open(ctx, c.Repository)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.CheckUnmoved(ctx, c)
}
