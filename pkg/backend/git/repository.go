package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Repository is an open repository. A remote one is fetched on demand into a
// temporary directory, which [Repository.Close] removes. It is safe for
// concurrent use.
type Repository struct {
	fetching sync.Mutex // serialises writes to the temporary directory
	uri      string     // the "git+scheme:" URI
	remote   string     // what git fetches from; "" for a local repository
	work     string     // the files of a local work tree; "" if it has none
	temp     string     // removed by Close
	git      git
}

// Open opens repo. Nothing is read from a remote repository yet.
func Open(ctx context.Context, repo string) (*Repository, error) {
	if !strings.Contains(repo, "://") {
		return openLocal(ctx, repo)
	}
	u, err := url.Parse(repo)
	if err != nil {
		return nil, usage("parsing repository: %w", err)
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, usage("parsing repository %q: a repository has no query and no fragment", u.Redacted())
	}
	switch u.Scheme {
	case "git+file":
		if u.Host != "" && u.Host != "localhost" {
			return nil, usage("parsing repository %q: a file URI must not name another host", repo)
		}
		return openLocal(ctx, filepath.FromSlash(u.Path))
	case "git+https":
		if u.User != nil {
			return nil, usage("parsing repository %q: a URI must not contain credentials", u.Redacted())
		}
		return openRemote(ctx, u, "https")
	case "git+ssh":
		// A leading "-" would be an option of ssh.
		if strings.HasPrefix(u.Hostname(), "-") || u.User != nil && strings.HasPrefix(u.User.Username(), "-") {
			return nil, usage("parsing repository %q: not a host name", u.Redacted())
		}
		return openRemote(ctx, u, "ssh")
	}
	return nil, usage("parsing repository %q: unknown scheme %q", u.Redacted(), u.Scheme)
}

// openLocal opens a work tree or a bare repository at exactly this path, not
// one above it.
func openLocal(_ context.Context, name string) (*Repository, error) {
	abs, err := filepath.Abs(name)
	if err != nil || name == "" {
		return nil, usage("opening repository %q: %w", name, errors.Join(err, errors.New("no path")))
	}
	r := &Repository{uri: "git+file://" + filepath.ToSlash(abs)}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return nil, r.unavailable("opening repository", err)
	}
	dir := filepath.Join(abs, ".git")
	r.work = abs
	switch info, err := os.Lstat(dir); {
	case err == nil && info.Mode().IsRegular(): // of a linked work tree
		if dir, err = linkedDir(dir); err != nil {
			return nil, r.unavailable("opening repository", err)
		}
	case err == nil && info.IsDir():
	case errors.Is(err, fs.ErrNotExist): // the repository itself
		dir, r.work = abs, ""
	default:
		dir = abs
	}
	if _, err := os.Stat(filepath.Join(dir, "HEAD")); err != nil {
		return nil, r.unavailable("opening repository", errors.New("not a git repository"))
	}
	if _, err := ownObjects(r.uri, dir); err != nil {
		return nil, err
	}
	r.git = git{dir: dir}
	return r, nil
}

// linkedDir reads the file that a linked work tree has instead of a git
// directory.
func linkedDir(file string) (string, error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	target, ok := strings.CutPrefix(strings.TrimSpace(string(raw)), "gitdir: ")
	if !ok {
		return "", fmt.Errorf("%q does not link to a git directory", file)
	}
	if !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(file), target)
	}
	return target, nil
}

// openRemote makes an empty repository to fetch into.
func openRemote(ctx context.Context, u *url.URL, protocol string) (*Repository, error) {
	plain := *u
	plain.Scheme = protocol
	r := &Repository{uri: u.String(), remote: plain.String()}
	return r, r.prepare(ctx, protocol)
}

func (r *Repository) prepare(ctx context.Context, protocol string) error {
	temp, err := os.MkdirTemp("", "waybill-git-")
	if err != nil {
		return r.unavailable("opening repository", err)
	}
	r.temp = temp
	r.git = git{dir: temp, protocol: protocol, passed: remoteVariables()}
	if _, err := r.git.run(ctx, "init", "--quiet", "--bare", "--template=", "--shared=0644"); err != nil {
		_ = r.Close()
		return r.unavailable("opening repository", err)
	}
	return nil
}

// Close removes what was fetched.
func (r *Repository) Close() error {
	if r.temp == "" {
		return nil
	}
	return os.RemoveAll(r.temp)
}

func (r *Repository) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: r.uri, Op: op, Err: err}
}

func (r *Repository) missing(ref string) error {
	return fmt.Errorf("resolving %q at %q: %w", ref, r.uri, ErrNotFound)
}

// Resolve returns the commit that ref names now. Annotated tags are followed to
// their commit. A name that is both a tag and a branch must be given in full.
// An unknown reference is [ErrNotFound].
func (r *Repository) Resolve(ctx context.Context, ref string) (Commit, error) {
	if err := checkRef(ref); err != nil {
		return Commit{}, err
	}
	if isID(ref) {
		return r.commit(ctx, ref, "")
	}
	full, err := r.fullName(ctx, ref)
	if err != nil {
		return Commit{}, err
	}
	if full == "" { // HEAD is detached
		full = "HEAD"
	}
	if r.remote != "" {
		r.fetching.Lock()
		err := r.fetch(ctx, "+"+full+":"+full)
		r.fetching.Unlock()
		if err != nil {
			return Commit{}, err
		}
	}
	named, err := r.parse(ctx, ref, full)
	if err != nil {
		return Commit{}, err
	}
	id, err := r.parse(ctx, ref, named+"^{commit}")
	if err != nil {
		return Commit{}, err
	}
	c, err := r.commit(ctx, id, strings.TrimSuffix(full, "HEAD"))
	if err == nil && named != id {
		c.Tag = named
	}
	return c, err
}

// parse has git resolve the name of an object to its id.
func (r *Repository) parse(ctx context.Context, ref, name string) (string, error) {
	id, err := r.git.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", name)
	if exitCode(err) == 1 {
		return "", r.missing(ref)
	}
	if err != nil {
		return "", r.unavailable("resolving "+name, err)
	}
	return strings.TrimSpace(id), nil
}

// fullName finds the one reference that a name means.
func (r *Repository) fullName(ctx context.Context, ref string) (string, error) {
	if ref == "HEAD" {
		if r.remote != "" {
			return "", usage("resolving %q at %q: name a tag, a branch or a commit", ref, r.uri)
		}
		out, err := r.git.run(ctx, "symbolic-ref", "--quiet", "HEAD")
		if exitCode(err) == 1 {
			return "", nil
		}
		if err != nil {
			return "", r.unavailable("resolving HEAD", err)
		}
		return strings.TrimSpace(out), nil
	}
	candidates := []string{"refs/tags/" + ref, "refs/heads/" + ref}
	if strings.HasPrefix(ref, "refs/") {
		candidates = []string{ref}
	}
	var found []string
	for _, name := range candidates {
		tip, err := r.currentID(ctx, name)
		if err != nil {
			return "", err
		}
		if tip != "" {
			found = append(found, name)
		}
	}
	switch len(found) {
	case 0:
		return "", r.missing(ref)
	case 1:
		return found[0], nil
	}
	return "", usage("resolving %q at %q: both a tag and a branch have this name; write %q or %q", ref, r.uri, found[0], found[1])
}

// currentID is the id that the reference with this full name has now in the
// original repository; "" if there is no such reference.
func (r *Repository) currentID(ctx context.Context, name string) (string, error) {
	args := []string{"for-each-ref", "--format=%(objectname)\t%(refname)", "--", name}
	if r.remote != "" {
		args = []string{"ls-remote", "--quiet", "--refs", "--", r.remote, name}
	}
	list, err := r.git.run(ctx, args...)
	if err != nil {
		return "", r.unavailable("looking for "+name, err)
	}
	// Git also lists references whose names only end in this one.
	for line := range strings.Lines(list) {
		if id, found, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); found == name && isID(id) {
			return id, nil
		}
	}
	return "", nil
}

// fetch brings one reference or commit, without its history.
func (r *Repository) fetch(ctx context.Context, spec string) error {
	_, err := r.git.run(ctx, "fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--depth=1", "--", r.remote, spec)
	if err != nil {
		return r.unavailable("fetching "+spec, err)
	}
	return nil
}

// ensureCommit makes the commit with this id readable: it is fetched if needed.
func (r *Repository) ensureCommit(ctx context.Context, id string) error {
	if !isID(id) {
		return usage("reading commit %.80q: not a full commit id", id)
	}
	if r.remote == "" {
		return nil
	}
	r.fetching.Lock()
	defer r.fetching.Unlock()
	if _, err := r.git.run(ctx, "cat-file", "-e", id); err == nil {
		return nil
	}
	if r.fetch(ctx, id) == nil {
		return nil
	}
	// Not every server serves commits by id. Then fetch all references with
	// their history, also for what was fetched without.
	_, err := r.git.run(ctx, "fetch", "--quiet", "--no-write-fetch-head", "--depth=2147483647", "--", r.remote,
		"+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
	if err != nil {
		return r.unavailable("fetching all references", err)
	}
	return nil
}

// checkRef refuses anything that is not plainly the name of a reference.
func checkRef(ref string) error {
	if err := store.CheckName(ref); err != nil {
		return usage("parsing reference: %w", err)
	}
	if ref[0] == '-' || strings.Contains(ref, "..") || strings.Contains(ref, "@{") || strings.HasSuffix(ref, ".lock") {
		return usage("parsing reference %q: not the name of a tag or branch", ref)
	}
	return nil
}

// isID reports whether s is a full object id, SHA-1 or SHA-256.
func isID(s string) bool {
	return (len(s) == 40 || len(s) == 64) && strings.Trim(s, "0123456789abcdef") == ""
}
