package fetch

import (
	"context"
	"fmt"
	"io"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
