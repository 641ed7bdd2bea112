// Package git reads source from version control: which commit a reference
// names, and what that commit holds.
//
// A repository is written
//
//	git+https://host/path  git+ssh://host/path  git+file:///path  /path  ./path
//
// and a reference is a tag or a branch (short, or in full as "refs/tags/v1"),
// a full commit id, or "HEAD" of a local repository.
//
//	r, err := git.Open(ctx, "git+https://example.org/tool")
//	…
//	defer r.Close()
//	commit, err := r.Resolve(ctx, "v1.2.3")
//	config, err := r.ReadFile(ctx, commit, "release.yaml")
//	err = r.Checkout(ctx, commit, dir)
//
// Once a commit id is known it proves everything below it: commit, trees and
// files are hashed here and compared with their ids, whatever git, its object
// store, replacements or grafts say. What the id itself is worth depends on
// its hash function; for most repositories that is still SHA-1.
//
// Only git's plumbing commands are used, in an empty environment: no
// configuration of user or system, no hooks, filters, attributes, credential
// helpers or prompts, and only the network protocol that the URI names. Files
// are written as they are stored. Submodules, links that leave the tree, and
// names with a meaning to git itself are refused.
//
// Only committed files are built, and what is recorded must still be true at
// that time: [CheckClean] refuses a work tree with uncommitted changes,
// [Repository.CheckUnmoved] a tag that has moved. [Repository.Built] finds the
// commit to build if it differs from the one that the tag names, and
// [VerifyTag] returns who signed a tag.
//
// Other projects should not import this package: it changes without notice.
package git

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Commit is one commit of one repository.
type Commit struct {
	// Repository is where the commit was found, as a "git+scheme:" URI.
	Repository string
	// Clone is the local clone that the commit is read from, if Repository is
	// the address that it was cloned from; see [Commit.At].
	Clone string `json:",omitempty"`
	// Ref is the full name of the reference that was resolved, such as
	// "refs/tags/v1.2.3"; "" if a commit id was given.
	Ref string
	// Tag is the id of the annotated tag that the reference names; "" if there
	// is none.
	Tag string
	// Release is the empty commit that the reference names, if the commit is
	// its parent: see [EmptyChild]. "" if the reference names the commit.
	Release string
	// Commit and Tree are full ids in lower-case hex.
	Commit string
	Tree   string
	// Time is the committer's time, in UTC.
	Time time.Time
}

// AskedFor is the reference that was resolved, or else the commit id that was
// given.
func (c Commit) AskedFor() string {
	return cmp.Or(c.Ref, c.Commit)
}

// named is the id of the object that the reference named.
func (c Commit) named() string {
	switch {
	case c.Tag != "":
		return c.Tag
	case c.Release != "":
		return c.Release
	}
	return c.Commit
}

// ReadFile returns one file of c. A missing file is [ErrNotFound].
func ReadFile(ctx context.Context, c Commit, name string) ([]byte, error) {
	r, err := c.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.ReadFile(ctx, c, name)
}

// ErrNotFound means that a repository has no such reference, commit or file.
var ErrNotFound error = notFound{}

type notFound struct{}

func (notFound) Error() string { return "not found" }

// Code is the reason code of this error.
func (notFound) Code() string { return "MISSING" }

// NextAct is what to do about a reference or file that is not in the repository.
func (notFound) NextAct() string {
	return "check the spelling of the repository, the ref and the file, and fetch the tags into a local clone"
}

func usage(format string, args ...any) error {
	return &verdict.UsageError{Err: fmt.Errorf(format, args...)}
}

// refuse reports an entry of a tree that cannot be written to a disk.
func (c Commit) refuse(name string, code verdict.Code, reason string) error {
	return verdict.Coded(code, "reading %.200q of commit %s: %s", name, c.Commit, reason)
}

// tampered reports an object whose bytes do not match its id: got is the id of
// the bytes, or what else is wrong.
func tampered(repository, id, got string) error {
	return verdict.Coded(verdict.Tampered, "reading object %s at %q: got %s", id, repository, got)
}
