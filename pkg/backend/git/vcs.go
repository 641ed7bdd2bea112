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
// Of git only plumbing is used, with an environment made from nothing: no
// configuration of user or system, no hooks, filters, attributes, credential
// helpers or prompts, and only the one network protocol that was asked for.
// Files are written as they are stored. Submodules are refused, and so are
// links that leave the tree and names that mean something to git itself.
//
// What is built is what was committed, and what is recorded must still be so
// when it is recorded: [CheckClean] refuses a work tree with uncommitted changes,
// [Repository.CheckUnmoved] a tag that has moved. [Repository.Built] finds the
// commit to build where it may differ from the one that the tag names, and
// [VerifyTag] returns who signed a tag.
package git

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Commit is one commit of one repository.
type Commit struct {
	// Repository is where it was found, in the "git+scheme:" spelling.
	Repository string
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

// AskedFor is the reference that was resolved, or the commit id if one was
// given.
func (c Commit) AskedFor() string {
	if c.Ref == "" {
		return c.Commit
	}
	return c.Ref
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

// ReadFile returns one file of c. No such file is [ErrNotFound].
func ReadFile(ctx context.Context, c Commit, name string) ([]byte, error) {
	r, err := Open(ctx, c.Repository)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.ReadFile(ctx, c, name)
}

// ErrNotFound is the answer that a repository has no such reference, commit or
// file.
var ErrNotFound error = notFound{}

type notFound struct{}

func (notFound) Error() string { return "not found" }

// Code is the reason code of the refusal that the error amounts to.
func (notFound) Code() string { return "MISSING" }

// NextAct is what to do about a reference or file that is not in the repository.
func (notFound) NextAct() string {
	return "check the spelling of the repository, the ref and the file, and fetch the tags into a local clone"
}

// UnavailableError reports that a repository gave no answer.
type UnavailableError = verdict.UnavailableError

// UsageError reports words that name no repository or reference; asking again will not help.
type UsageError = verdict.UsageError

func usage(format string, args ...any) error { return &UsageError{Err: fmt.Errorf(format, args...)} }

// EntryError reports something in a tree that is not written to a disk.
type EntryError struct {
	Commit string
	Path   string // untouched; print it quoted only
	Reason string
	code   string
}

// Error names the entry and what is wrong with it.
func (e *EntryError) Error() string {
	return fmt.Sprintf("reading %.200q of commit %s: %s", e.Path, e.Commit, e.Reason)
}

// Code is the reason code: PATH or FILE_TYPE.
func (e *EntryError) Code() string { return e.code }

// TamperedError reports an object that is not the one its id names.
type TamperedError struct {
	Repository string
	ID         string // what was asked for
	Got        string // what the bytes hash to, or what is otherwise wrong
}

// Error names the object and what was found.
func (e *TamperedError) Error() string {
	return fmt.Sprintf("reading object %s at %q: got %s", e.ID, e.Repository, e.Got)
}

// Code is the reason code of the refusal.
func (e *TamperedError) Code() string { return "TAMPERED" }
