package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	upstream "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// blobs keeps each repository's blobs in a directory of its own. Upstream has
// checked size and digest of what it puts, when the last byte is read.
type blobs struct{ dir string }

// path tolerates upstream's idea of the repository when an upload ends:
// "/v2/a/blobs/uploads/7" is to it an upload to "a/blobs".
func (b *blobs) path(repo, digest string) string {
	repo = strings.TrimSuffix(repo, "/blobs")
	return filepath.Join(b.dir, url.PathEscape(repo), url.PathEscape(digest))
}

// size refuses what is no digest: the word may come from a pushed manifest.
func (b *blobs) size(repo, digest string) (int64, error) {
	if !digestPattern.MatchString(digest) {
		return 0, upstream.ErrNotFound
	}
	info, err := os.Stat(b.path(repo, digest))
	if err != nil {
		return 0, missing(err)
	}
	return info.Size(), nil
}

func (b *blobs) has(repo, digest string) bool {
	_, err := b.size(repo, digest)
	return err == nil
}

// missing turns "no such file" into upstream's "no such blob".
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return upstream.ErrNotFound
	}
	return err
}

// Get opens a blob.
func (b *blobs) Get(_ context.Context, repo string, h v1.Hash) (io.ReadCloser, error) {
	f, err := os.Open(b.path(repo, h.String()))
	if err != nil {
		return nil, missing(err)
	}
	return f, nil
}

// Stat returns a blob's size.
func (b *blobs) Stat(_ context.Context, repo string, h v1.Hash) (int64, error) {
	return b.size(repo, h.String())
}

// Put stores a blob as a whole or not at all.
func (b *blobs) Put(_ context.Context, repo string, h v1.Hash, rc io.ReadCloser) error {
	path := b.path(repo, h.String())
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("storing a blob: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "upload-")
	if err != nil {
		return fmt.Errorf("storing a blob: %w", err)
	}
	_, err = io.Copy(f, rc)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("storing a blob: %w", err), os.Remove(f.Name()))
	}
	return nil
}

// Delete removes a blob from its repository.
func (b *blobs) Delete(_ context.Context, repo string, h v1.Hash) error {
	return missing(os.Remove(b.path(repo, h.String())))
}

// mount gives repo the blob that from has.
func (b *blobs) mount(repo, from, digest string) error {
	if b.has(repo, digest) {
		return nil
	}
	path := b.path(repo, digest)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("mounting a blob: %w", err)
	}
	if err := os.Link(b.path(from, digest), path); err != nil {
		return fmt.Errorf("mounting a blob: %w", err)
	}
	return nil
}
