package store

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// web is a tree of files behind a web server. It cannot be listed.
type web struct {
	base   string // ends with "/"
	client *http.Client
}

func openWeb(u *url.URL, rt http.RoundTripper) *web {
	base := u.String()
	if !strings.HasSuffix(base, "/") {
		base += "/"
	}
	return &web{base: base, client: transport.Client(rt)}
}

// URI implements [Place].
func (w *web) URI() string { return w.base }

// List implements [Place]: a web server cannot be listed.
func (w *web) List(context.Context) ([]Object, error) {
	return nil, fmt.Errorf("listing %q: %w", w.base, ErrNotListable)
}

// Open implements [Place].
func (w *web) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", w.base, err)
	}
	// Every byte of a checked name is valid in a URL path without escaping.
	return fetch(ctx, w.client, w.base+name, &verdict.UnavailableError{Place: w.base, Op: "reading " + quote(name)})
}

// fetch sends one GET. It fills its error into failed.
func fetch(ctx context.Context, client *http.Client, target string, failed *verdict.UnavailableError) (io.ReadCloser, int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("%s at %q: %w", failed.Op, failed.Place, err)
	}
	// Request the stored bytes, not a transparently decompressed encoding.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := client.Do(req)
	if err != nil {
		failed.Err = err
		return nil, 0, failed
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return reporting(resp.Body, failed.Place, failed.Op), resp.ContentLength, nil
	case http.StatusNotFound:
		err = fmt.Errorf("%s at %q: %w", failed.Op, failed.Place, ErrNotFound)
	case http.StatusUnauthorized, http.StatusForbidden:
		failed.Err = fmt.Errorf("the server answered %s: %w", quote(resp.Status), ErrPrivate)
		err = failed
	default:
		failed.Err = fmt.Errorf("the server answered %s", quote(resp.Status))
		if region := resp.Header.Get("X-Amz-Bucket-Region"); region != "" && resp.StatusCode < http.StatusBadRequest {
			failed.Err = fmt.Errorf("the bucket is in the region %s: name it as s3+https://s3.REGION.amazonaws.com/BUCKET/", quote(region))
		}
		err = failed
	}
	_ = resp.Body.Close()
	return nil, 0, err
}
