package registry

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
)

// disk keeps manifests and tags: one directory a repository, one file a
// reference. A manifest's file is its media type, a newline and its bytes; a
// tag's file is a digest.
type disk struct{ dir string }

func (d disk) path(repo, reference string) string {
	return filepath.Join(d.dir, url.PathEscape(repo), url.PathEscape(reference))
}

func (d disk) putManifest(repo string, m *manifest) error {
	return d.write(repo, m.digest, append([]byte(m.mediaType+"\n"), m.raw...))
}

func (d disk) putTag(repo, tag, digest string) error { return d.write(repo, tag, []byte(digest)) }

// write replaces a file as a whole; r.mu is held, so one name is enough. A
// tilde is in no tag and no digest.
func (d disk) write(repo, reference string, b []byte) error {
	path := d.path(repo, reference)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("storing %s %s: %w", repo, reference, err)
	}
	tmp := filepath.Join(filepath.Dir(path), "~")
	if err := errors.Join(os.WriteFile(tmp, b, 0o600), os.Rename(tmp, path)); err != nil {
		return fmt.Errorf("storing %s %s: %w", repo, reference, err)
	}
	return nil
}

func (d disk) remove(repo, reference string) error {
	if err := os.Remove(d.path(repo, reference)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("deleting %s %s: %w", repo, reference, err)
	}
	return nil
}

// load reads what the disk kept.
func (r *Registry) load() error {
	dirs, err := os.ReadDir(r.disk.dir)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		name, err := url.PathUnescape(dir.Name())
		if err != nil {
			return fmt.Errorf("reading the name %q: %w", dir.Name(), err)
		}
		if err := r.disk.load(name, r.repository(name)); err != nil {
			return fmt.Errorf("loading %q: %w", name, err)
		}
	}
	return nil
}

func (d disk) load(name string, p *repository) error {
	files, err := os.ReadDir(filepath.Dir(d.path(name, "~")))
	if err != nil {
		return err
	}
	for _, f := range files {
		reference, err := url.PathUnescape(f.Name())
		if err != nil {
			return err
		}
		b, err := os.ReadFile(d.path(name, reference))
		if err != nil {
			return err
		}
		switch {
		case tagPattern.MatchString(reference):
			p.tags[reference] = string(b)
		case digestPattern.MatchString(reference):
			mediaType, raw, _ := bytes.Cut(b, []byte("\n"))
			m, err := parseManifest(string(mediaType), raw)
			if err != nil {
				return fmt.Errorf("reading %s: %w", reference, err)
			}
			p.add(m)
		}
	}
	return nil
}
