package git

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"strings"
)

// Origin is the address of the remote "origin" of a local clone, as a
// "git+https:" URI without credentials and without ".git"; "" if there is no
// such remote, or it is not on another host. Anyone who can write to the clone
// can set it.
func Origin(ctx context.Context, dir string) (string, error) {
	r, err := openLocal(ctx, dir)
	if err != nil {
		return "", err
	}
	out, err := r.git.run(ctx, "config", "--null", "--get", "remote.origin.url")
	if exitCode(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", r.unavailable("reading the configuration", err)
	}
	return addressOf(strings.TrimSuffix(out, "\x00")), nil
}

// addressOf is the address of a remote, which git writes as a URL or as
// user@host:path.
func addressOf(remote string) string {
	if user, rest, is := strings.Cut(remote, "@"); is && !strings.Contains(remote, "://") && !strings.ContainsAny(user, "/:") {
		host, path, is := strings.Cut(rest, ":")
		if !is {
			return ""
		}
		remote = "ssh://" + host + "/" + strings.TrimPrefix(path, "/")
	}
	u, err := url.Parse(remote)
	if err != nil || u.Scheme != "https" && u.Scheme != "ssh" || u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return ""
	}
	host := u.Host
	if u.Scheme == "ssh" {
		host = u.Hostname() // a port of ssh is none of https
	}
	path := strings.TrimSuffix(strings.Trim(u.EscapedPath(), "/"), ".git")
	if path == "" || strings.HasPrefix(host, "-") {
		return ""
	}
	return "git+https://" + host + "/" + path
}

// At returns c with the address of the repository that it was cloned from in
// place of the clone, which it is still read from.
func (c Commit) At(address string) Commit {
	c.Clone, c.Repository = c.Repository, address
	return c
}

// Published reports whether the repository at an address has the reference
// that c was resolved from, with the same object.
func (c Commit) Published(ctx context.Context, address string) (bool, error) {
	r, err := Open(ctx, address)
	if err != nil {
		return false, err
	}
	defer r.Close()
	if c.Ref == "" {
		return false, nil
	}
	id, err := r.currentID(ctx, c.Ref)
	return err == nil && id == c.named(), err
}

// Open opens the repository that c is read from: the clone, if there is one
// on this machine. The ids of objects prove that both have the same.
func (c Commit) Open(ctx context.Context) (*Repository, error) {
	if c.Clone != "" {
		r, err := Open(ctx, c.Clone)
		if !errors.Is(err, fs.ErrNotExist) {
			return r, err
		}
	}
	return Open(ctx, c.Repository)
}

// Split splits REPOSITORY@REF; an @ before the last slash belongs to the
// address. The reference is empty if none is given.
func Split(text string) (repository, ref string) {
	at := strings.LastIndexByte(text, '@')
	if at < 0 || strings.Contains(text[at:], "/") && !strings.Contains(text[at:], "refs/") {
		return text, ""
	}
	return text[:at], text[at+1:]
}

// IsRemote reports whether a repository is reached through a network.
func IsRemote(repository string) bool {
	scheme, _, found := strings.Cut(repository, "://")
	return found && scheme != "git+file"
}
