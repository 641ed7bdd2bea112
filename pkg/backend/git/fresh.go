package git

import (
	"cmp"
	"context"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// CheckUnmoved refuses if the tag that c was resolved from has changed since,
// even to another tag object for the same commit. A branch may move, and a
// commit id cannot.
func (r *Repository) CheckUnmoved(ctx context.Context, c Commit) error {
	if !strings.HasPrefix(c.Ref, "refs/tags/") {
		return nil
	}
	now, err := r.currentID(ctx, c.Ref)
	if err != nil {
		return err
	}
	if now == c.named() {
		return nil
	}
	now = cmp.Or(now, "no such tag")
	return &verdict.Error{Finding: verdict.Find(verdict.SourceMoved, c.Ref, "the tag moved at %s after it was resolved", r.uri).Differ(c.named(), now)}
}

// CheckSame refuses if now was resolved from the same tag as c with another
// result: the tag moved in between.
func (c Commit) CheckSame(now Commit) error {
	if c.Ref != now.Ref || !strings.HasPrefix(c.Ref, "refs/tags/") || c.named() == now.named() {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.SourceMoved, c.Ref, "the tag moved after the build began").Differ(c.named(), now.named())}
}

// CheckClean refuses a work tree whose tracked files differ from what is
// committed: the caller would otherwise build something other than the files on
// disk. Untracked files do not matter, such as those that the release itself
// writes. A bare or remote repository has no work tree.
func CheckClean(ctx context.Context, repo string) error {
	r, err := Open(ctx, repo)
	if err != nil {
		return err
	}
	defer r.Close()
	if r.work == "" {
		return nil
	}
	g, err := r.comparing(ctx)
	if err != nil {
		return err
	}
	list, err := g.run(ctx, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=all")
	if err != nil {
		return r.unavailable("looking for changes", err)
	}
	var changed []string
	for line := range strings.SplitSeq(list, "\x00") {
		if len(line) > 3 { // two letters of state, a space, the name
			changed = append(changed, line[3:])
		}
	}
	if len(changed) == 0 {
		return nil
	}
	const most = 5 // files that are named
	return verdict.Refuse("SOURCE_DIRTY", r.uri, "the work tree has uncommitted changes in %d of its files: %.300q", len(changed), changed[:min(len(changed), most)])
}

// comparing is a git that compares a work tree with its index. Git may run a
// filter program from the repository's own configuration for that; each of
// these is replaced by none, and the files are compared as they are on disk.
func (r *Repository) comparing(ctx context.Context) (git, error) {
	names, err := r.git.run(ctx, "config", "--null", "--name-only", "--get-regexp", `^filter\.`)
	if err != nil && exitCode(err) != 1 { // 1: there are none
		return git{}, r.unavailable("reading the configuration", err)
	}
	g := r.git
	g.work = r.work
	for name := range strings.SplitSeq(names, "\x00") {
		value := ""
		if strings.HasSuffix(name, ".required") {
			value = "false"
		}
		if name != "" {
			g.replaced = append(g.replaced, [2]string{name, value})
		}
	}
	return g, nil
}
