package registry

import (
	"context"
	"io"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Renamed is a source in which every repository is the one named As.
type Renamed struct {
	Source
	As string
}

// Resolve implements [Source].
func (r Renamed) Resolve(ctx context.Context, _, tag string) (Descriptor, error) {
	return r.Source.Resolve(ctx, r.As, tag)
}

// Fetch implements [Source].
func (r Renamed) Fetch(ctx context.Context, _ string, d Descriptor) (io.ReadCloser, error) {
	return r.Source.Fetch(ctx, r.As, d)
}

// Referrers implements [Source].
func (r Renamed) Referrers(ctx context.Context, _ string, d digest.Digest) ([]Descriptor, error) {
	return r.Source.Referrers(ctx, r.As, d)
}

// Tags implements [Source].
func (r Renamed) Tags(ctx context.Context, _ string) ([]string, error) {
	return r.Source.Tags(ctx, r.As)
}
