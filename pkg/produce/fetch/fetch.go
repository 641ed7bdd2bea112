// Package fetch downloads what a release is built from, before any step runs:
// Go modules, declared downloads, and tool images. It is the only part of a
// build that needs the network; the steps get none.
//
//	s, err := fetch.Open(filepath.Join(state, "fetched"), rt, report)
//	modules, err := s.Modules(ctx, "https://proxy.example.test", goSum)
//	// modules.Dir is a module proxy: GOPROXY=file:///…
//
// No program of the source runs here, and no server is trusted: each download
// is compared with the digest in release.lock.yaml or go.sum before it gets
// its name, and files of an earlier run are compared again. Nothing is
// downloaded that is not pinned.
//
// A missing pinned file is refused (FETCH_MISSING), so are other bytes
// (FETCH_HASH), and a server that does not answer is unavailable.
//
// Other projects should not import this package: it changes without notice.
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

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// atOnce is how many files are downloaded at a time.
const atOnce = 16

// Store is the directory of the downloads for one release. Steps may read its
// files, and must not be able to write them. It is safe for concurrent use;
// two processes may share it only if they fetch the same.
type Store struct {
	// Source returns a checkout of the source, for images in it; nil refuses
	// those.
	Source func(context.Context) (dir string, err error)

	dir    string // absolute
	root   *os.Root
	rt     http.RoundTripper
	client *http.Client
	report func(ctx context.Context, format string, args ...any)
}

// Open opens the store in dir, creating it if needed. All requests use t. The
// caller closes it.
func Open(dir string, t http.RoundTripper, report func(ctx context.Context, format string, args ...any)) (*Store, error) {
	if t == nil || report == nil {
		return nil, verdict.Refuse(verdict.Usage, dir, "a transport and a reporter are required")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the download directory: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return nil, fmt.Errorf("creating the download directory: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the download directory: %w", err)
	}
	return &Store{dir: dir, root: root, rt: t, client: transport.Client(t), report: report}, nil
}

// Close closes the directory and keeps the downloads.
func (s *Store) Close() error { return s.root.Close() }

func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

type file struct {
	name string // in the store
	// bring writes the file, unchecked.
	bring func(ctx context.Context, to io.Writer) error
	// check compares a file of the store with its pin.
	check func(name string) error
}

// ensure gets the file under its name: an existing correct file is kept,
// anything else is downloaded. It reports whether it was downloaded.
func (s *Store) ensure(ctx context.Context, f file) (fetched bool, err error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	if s.regular(f.name) && f.check(f.name) == nil {
		return false, nil
	}
	temporary, err := s.download(ctx, f)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, s.discard(temporary)) }()
	if err := f.check(temporary); err != nil {
		return false, err
	}
	return true, s.adopt(temporary, f.name)
}

// regular reports whether there is a regular file. A link could give the step
// other bytes than us.
func (s *Store) regular(name string) bool {
	info, err := s.root.Lstat(name)
	return err == nil && info.Mode().IsRegular()
}

// adopt gives a checked file its name.
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

// discard removes a temporary file.
func (s *Store) discard(temporary string) error {
	if err := s.root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// temporary creates a new temporary file.
func (s *Store) temporary() (name string, f *os.File, err error) {
	f, err = os.CreateTemp(s.path("tmp"), "fetch-")
	if err != nil {
		return "", nil, fmt.Errorf("creating a temporary file: %w", err)
	}
	return "tmp/" + filepath.Base(f.Name()), f, nil
}

// download downloads into a temporary file, unchecked.
func (s *Store) download(ctx context.Context, f file) (name string, err error) {
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

// from returns a function that downloads from an address, at most limit
// bytes.
func (s *Store) from(address string, limit int64) func(context.Context, io.Writer) error {
	return func(ctx context.Context, to io.Writer) error { return s.get(ctx, address, limit, to) }
}

// get downloads from an address, at most limit bytes.
func (s *Store) get(ctx context.Context, at string, limit int64, to io.Writer) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return verdict.Wrap(verdict.ConfigParse, at, err)
	}
	req.Header.Set("Accept-Encoding", "identity") // the digests are of the stored bytes
	resp, err := s.client.Do(req)
	if err != nil {
		return s.unavailable(at, err)
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound, http.StatusGone:
		return verdict.Refuse(verdict.FetchMissing, at, "the server has no such file (%s)", resp.Status)
	default:
		return s.unavailable(at, fmt.Errorf("the server answered %s", resp.Status))
	}
	n, err := io.Copy(to, &networkReader{r: io.LimitReader(resp.Body, limit+1), at: at})
	if err == nil && n > limit {
		return verdict.Refuse(verdict.Limit, at, "the server sends more than %d bytes", limit)
	}
	return err
}

func (s *Store) unavailable(at string, err error) error {
	return &verdict.UnavailableError{Place: at, Op: "fetching", Err: err}
}

// networkReader turns errors of a connection into unavailability; errors of
// the disk stay what they are.
type networkReader struct {
	r  io.Reader
	at string
}

// Read implements [io.Reader].
func (w *networkReader) Read(p []byte) (int, error) {
	n, err := w.r.Read(p)
	if err != nil && err != io.EOF {
		err = &verdict.UnavailableError{Place: w.at, Op: "fetching", Err: err}
	}
	return n, err
}

// checkURL requires an address that cannot be impersonated on the network:
// https, or plain http to this machine.
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

// File is a file of the store.
type File struct {
	Path    string
	Digests digest.Set
	Size    int64
}

// Download gets the file that d pins. The name is for people; the file is
// stored under its digest, so two releases with the same name do not
// conflict.
func (s *Store) Download(ctx context.Context, name string, d plan.DownloadLock) (File, error) {
	if _, err := checkURL("download "+name, d.URL); err != nil {
		return File{}, err
	}
	if d.Digest.IsZero() || d.Size < 0 || d.Size > plan.MaxDownload {
		return File{}, verdict.Refuse(verdict.ConfigParse, "download "+name, "want a digest and a size up to %d", int64(plan.MaxDownload))
	}
	out := File{Size: d.Size}
	at := "downloads/" + d.Digest.Algorithm().String() + "-" + d.Digest.Hex()
	fetched, err := s.ensure(ctx, file{name: at, bring: s.from(d.URL, d.Size), check: func(file string) (err error) {
		out.Digests, err = s.sum(name, file, d)
		return err
	}})
	if err != nil {
		return File{}, fmt.Errorf("fetching download %q: %w", name, err)
	}
	if fetched {
		s.report(ctx, "download %s: %d bytes from %s", name, d.Size, d.URL)
	}
	out.Path = s.path(at)
	return out, nil
}

// sum hashes a file of the store and compares it with its pin.
func (s *Store) sum(name, file string, d plan.DownloadLock) (digest.Set, error) {
	f, err := s.root.Open(file)
	if err != nil {
		return digest.Set{}, err
	}
	defer f.Close()
	set, size, err := digest.Sum(io.LimitReader(f, d.Size+1))
	if err != nil {
		return digest.Set{}, err
	}
	if (set.SHA256.Equal(d.Digest) || set.SHA512.Equal(d.Digest)) && size == d.Size {
		return set, nil
	}
	return digest.Set{}, &verdict.Error{Finding: verdict.Find(verdict.FetchHash, "download "+name, "the file is not the pinned one").
		Differ(fmt.Sprintf("%s (%d bytes)", d.Digest, d.Size), fmt.Sprintf("%s (%d bytes)", set.SHA256, size))}
}
