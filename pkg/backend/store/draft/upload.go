package draft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// attempts is how often an asset is sent. GitHub documents that an upload may
// fail and leave an asset without bytes.
const attempts = 3

// upload sends an asset until it is there, and reads it back.
func (r *Release) upload(ctx context.Context, release int64, a github.Asset, media string, content *spooled) (made github.Asset, err error) {
	media = cmp.Or(media, "application/octet-stream")
	for range attempts {
		made, err = r.api.Upload(ctx, release, a, media, content.open)
		taken := errors.Is(err, github.ErrExists)
		if err == nil && made.Name != a.Name {
			return github.Asset{}, errors.Join(verdict.Refuse(verdict.Path, a.Planned(), "GitHub renamed the asset %q to %q", a.Name, made.Name).
				Advise("give the file another name in release.yaml"), r.api.Delete(ctx, made))
		}
		if err == nil && content.matches(made) {
			return made, r.compare(ctx, made, content)
		}
		down := err != nil && verdict.OutcomeOf(err) == verdict.Unavailable
		if err != nil && !taken && !down {
			return github.Asset{}, err
		}
		found, lookErr := r.settle(ctx, release, a, content, taken)
		switch {
		case lookErr != nil:
			return github.Asset{}, errors.Join(err, lookErr)
		case found.ID != 0:
			return found, r.compare(ctx, found, content)
		}
		if err == nil {
			err = r.api.Unavailable(fmt.Sprintf("writing %q", a.Planned()), errors.New("the asset at GitHub differs from the bytes that were sent"))
		}
	}
	return github.Asset{}, err
}

// settle finds out what an upload left: the whole asset, which is returned; the
// asset of another run; or a part, which is deleted.
func (r *Release) settle(ctx context.Context, release int64, a github.Asset, content *spooled, taken bool) (github.Asset, error) {
	assets, err := r.api.Assets(ctx, release)
	if err != nil {
		return github.Asset{}, err
	}
	for _, there := range assets {
		switch {
		case there.Name != a.Name:
		case taken && there.Whole():
			return github.Asset{}, r.exists(a, there)
		case taken:
			return github.Asset{}, verdict.Refuse(verdict.Busy, a.Planned(), "another run uploads this asset to %s", r.URI())
		case content.matches(there):
			return there, nil
		default:
			return github.Asset{}, r.api.Delete(ctx, there)
		}
	}
	return github.Asset{}, nil
}

// exists is the error for a name that another run has taken.
func (r *Release) exists(a, there github.Asset) error {
	if there.Planned() != a.Planned() {
		return github.Collision(a.Planned(), there.Planned())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		r.held[there.Planned()] = there
	}
	return fmt.Errorf("writing %q at %q: %w", a.Planned(), r.URI(), store.ErrExists)
}

// compare reads an asset back, if the service does not give its digest.
func (r *Release) compare(ctx context.Context, a github.Asset, content *spooled) error {
	if !a.Digest.IsZero() {
		return nil
	}
	body, err := r.api.Download(ctx, a)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(io.Discard, digest.NewVerifyingReader(body, content.sum, content.size))
	if err != nil {
		return fmt.Errorf("reading %q back: %w", a.Planned(), err)
	}
	return nil
}

// spooled is a temporary file with all bytes of a source.
type spooled struct {
	path string
	size int64
	sum  digest.Digest
}

// spool reads a source to its end. Another number of bytes than size is an
// error, unless size is -1.
func spool(from io.Reader, size int64) (*spooled, error) {
	file, err := os.CreateTemp("", "waybill-upload-")
	if err != nil {
		return nil, err
	}
	most := int64(github.MaxSize)
	if size >= 0 {
		most = min(most, size)
	}
	s := &spooled{path: file.Name()}
	s.sum, s.size, err = digest.SumSHA256(io.TeeReader(io.LimitReader(from, most+1), file))
	if err == nil && size >= 0 && s.size != size {
		err = &digest.SizeError{Want: size, Got: s.size}
	}
	if err := errors.Join(err, file.Close()); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

// open implements [github.Content].
func (s *spooled) open() (io.ReadCloser, int64, error) {
	file, err := os.Open(s.path)
	return file, s.size, err
}

func (s *spooled) discard() { _ = os.Remove(s.path) }

// matches reports whether an asset has these bytes, as far as the service says.
func (s *spooled) matches(a github.Asset) bool {
	return a.Whole() && a.Size == s.size && (a.Digest.IsZero() || a.Digest.Equal(s.sum))
}
