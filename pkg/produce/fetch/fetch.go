// Package fetch brings what a release is built from, before any step runs:
// Go modules, declared downloads, and the images that hold tools. It is the
// one part of a build that needs the network; the steps get none.
//
//	s, err := fetch.Open(filepath.Join(state, "fetched"), rt, report)
//	modules, err := s.Modules(ctx, "https://proxy.example.test", goSum)
//	// modules.Dir is a module proxy: GOPROXY=file:///…
//
// No program of the source runs here, and nothing is believed: what comes is
// held against the digest that release.lock.yaml or go.sum pins before it gets
// its name, and what is there from an earlier run is held against it again.
// Bytes that are pinned by nothing are never asked for.
//
// What is pinned and cannot be had is refused (FETCH_MISSING), other bytes are
// refused (FETCH_HASH), and a server that does not answer is unavailable.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// atOnce is how many files are on their way at a time.
const atOnce = 16

// Store is the directory of what was fetched for one release. Steps may read
// what it hands out, and must not be able to write it. It is safe for
// concurrent use; two processes may share it only if they fetch the same.
type Store struct {
	// Source says where a checkout of the source is, for images that lie in
	// it; nil refuses those.
	Source func(context.Context) (dir string, err error)

	dir    string // absolute
	root   *os.Root
	rt     http.RoundTripper
	client *http.Client
	report func(ctx context.Context, format string, args ...any)
}

// Open opens the store in dir, making it if it is not there. Everything is
// asked through t. The caller closes it.
func Open(dir string, t http.RoundTripper, report func(ctx context.Context, format string, args ...any)) (*Store, error) {
	if t == nil || report == nil {
		return nil, verdict.Refuse(verdict.Usage, dir, "want a transport and a reporter")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store of what is fetched: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return nil, fmt.Errorf("making the store of what is fetched: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the store of what is fetched: %w", err)
	}
	return &Store{dir: dir, root: root, rt: t, client: transport.Client(t), report: report}, nil
}

// Close lets go of the directory. What was fetched stays.
func (s *Store) Close() error { return s.root.Close() }

// path is where a name of the store is on this machine.
func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// file is one thing to have under a name.
type file struct {
	name string // in the store
	// bring writes it, unchecked.
	bring func(ctx context.Context, to io.Writer) error
	// check holds what lies under a name of the store against its pin.
	check func(name string) error
}

// ensure has the file under its name: what is there and fits is kept, anything
// else is fetched. It says whether it was fetched.
func (s *Store) ensure(ctx context.Context, f file) (fetched bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.regular(f.name) && f.check(f.name) == nil {
		return false, nil
	}
	temporary, err := s.take(ctx, f)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.discard(temporary)) }()
	if err := f.check(temporary); err != nil {
		return false, err
	}
	return true, s.adopt(temporary, f.name)
}

// regular reports whether a plain file is there. A link could lead to other
// bytes for the step than for us.
func (s *Store) regular(name string) bool {
	info, err := s.root.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// adopt gives a file that was checked its name.
func (s *Store) adopt(temporary, name string) error {
	if err := s.root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("keeping %q: %w", name, err)
	}
	if info, err := s.root.Lstat(name); err == nil && info.IsDir() {
		if err := s.root.RemoveAll(name); err != nil {
			return fmt.Errorf("keeping %q: %w", name, err)
		}
	}
	if err := errors.Join(s.root.Chmod(temporary, 0o444), s.root.Rename(temporary, name)); err != nil {
		return fmt.Errorf("keeping %q: %w", name, err)
	}
	return nil
}

func (s *Store) discard(temporary string) error {
	if err := s.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// temporary opens a new file that has no name yet.
func (s *Store) temporary() (name string, f *os.File, err error) {
	f, err = os.CreateTemp(s.path("tmp"), "fetch-")
	if err != nil {
		return "", nil, fmt.Errorf("making a file to fetch into: %w", err)
	}
	return "tmp/" + filepath.Base(f.Name()), f, nil
}

// take fetches into a file without a name, unchecked.
func (s *Store) take(ctx context.Context, f file) (name string, err error) {
	name, out, err := s.temporary()
	if err != nil {
		return "", err
	}
	err = f.bring(ctx, out)
	if err = errors.Join(err, out.Close()); err != nil {
		return "", errors.Join(err, s.discard(name))
	}
	return name, nil
}

// from brings what is at an address, at most limit bytes.
func (s *Store) from(address string, limit int64) func(context.Context, io.Writer) error {
	return func(ctx context.Context, to io.Writer) error { return s.get(ctx, address, limit, to) }
}

// get writes what is at an address, at most limit bytes.
func (s *Store) get(ctx context.Context, at string, limit int64, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return verdict.Wrap(verdict.ConfigParse, at, err)
	}
	req.Header.Set("Accept-Encoding", "identity") // the digests are those of the bytes as they lie there
	resp, err := s.client.Do(req)
	if err != nil {
		return s.down(at, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return verdict.Refuse(verdict.FetchMissing, at, "the server has no such file (%s)", resp.Status)
	default:
		return s.down(at, fmt.Errorf("the server answered %s", resp.Status))
	}
	n, err := io.Copy(to, &worldly{r: io.LimitReader(resp.Body, limit+1), at: at})
	if err == nil && n > limit {
		return verdict.Refuse(verdict.Limit, at, "the server sends more than %d bytes", limit)
	}
	return err
}

func (s *Store) down(at string, err error) error {
	return &verdict.UnavailableError{Place: at, Op: "fetching", Err: err}
}

// worldly turns failures of a connection into unavailability; those of the
// disk stay what they are.
type worldly struct {
	r  io.Reader
	at string
}

// Read implements [io.Reader].
func (w *worldly) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		err = &verdict.UnavailableError{Place: w.at, Op: "fetching", Err: err}
	}
	return n, err
}

// checkURL wants an address that nobody on the way can answer for: https, or
// plain http to this machine.
func checkURL(what, address string) (*url.URL, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return nil, verdict.Wrap(verdict.ConfigParse, what, err)
	case u.Host == "" || u.User != nil || u.Fragment != "":
		return nil, verdict.Refuse(verdict.ConfigParse, what, "%.200q: want an https address without user and fragment", address)
	case u.Scheme != "https" && (u.Scheme != "http" || !transport.Loopback(u.Hostname())):
		return nil, verdict.Refuse(verdict.ConfigParse, what, "%.200q: want https; plain http is for this machine only", address)
	}
	return u, nil
}

// trimmed is an address without the slash at its end.
func trimmed(u *url.URL) string { return strings.TrimSuffix(u.String(), "/") }
