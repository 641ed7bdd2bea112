package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/strictjson"
	"github.com/waybill-release/waybill/pkg/transport"
)

// maxPage is the largest listing page that is read: 1,000 objects with names
// of 1,024 bytes fit several times over.
const maxPage = 16 << 20

// maxPages is ten times what [MaxObjects] objects need.
const maxPages = 20_000

// Bucket says where a part of a bucket is.
type Bucket struct {
	// Endpoint is the origin of the service, without a slash at the end.
	Endpoint string
	// Name of the bucket.
	Name string
	// Prefix of all object names: "" or something that ends with "/".
	Prefix string
	// Emulated is set for an emulator on this machine, which asks for no
	// credentials.
	Emulated bool
}

// ParseBucket reads "gs://bucket/prefix/" and, for this machine only,
// "gs+http://127.0.0.1:PORT/bucket/prefix/".
func ParseBucket(uri string) (Bucket, error) {
	u, err := parseURI(uri)
	if err != nil {
		return Bucket{}, err
	}
	refuse := func(reason string) (Bucket, error) {
		return Bucket{}, usage("parsing place %q: %s", uri, reason)
	}
	b := Bucket{Endpoint: "https://storage.googleapis.com", Name: u.Host}
	prefix := strings.TrimPrefix(u.Path, "/")
	switch u.Scheme {
	case "gs":
	case "gs+http":
		if !transport.Loopback(u.Hostname()) {
			return refuse("an emulator without TLS is read on this machine only")
		}
		b.Endpoint, b.Emulated = "http://"+u.Host, true
		b.Name, prefix, _ = strings.Cut(prefix, "/")
	default:
		return refuse("not a bucket")
	}
	if CheckName(b.Name) != nil || strings.Contains(b.Name, "/") {
		return refuse("no bucket, or not the name of one")
	}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		if err := CheckName(prefix); err != nil {
			return Bucket{}, usage("parsing place %q: %w", uri, err)
		}
		b.Prefix = prefix + "/"
	}
	return b, nil
}

// URI returns the spelling that [ParseBucket] reads.
func (b Bucket) URI() string {
	if b.Emulated {
		return "gs+" + b.Endpoint + "/" + b.Name + "/" + b.Prefix
	}
	return "gs://" + b.Name + "/" + b.Prefix
}

// bucketPlace reads a bucket without credentials, over the plain JSON API of
// Google Cloud Storage, which needs no client library:
// https://cloud.google.com/storage/docs/json_api/v1/objects
type bucketPlace struct {
	Bucket
	client *http.Client
}

// page is the part of a listing that is read; the service adds fields freely.
type page struct {
	Items []struct {
		Name       string `json:"name"`
		Size       string `json:"size"`
		Generation string `json:"generation"`
	} `json:"items"`
	Next string `json:"nextPageToken"`
}

func (b *bucketPlace) unavailable(op string, err error) error {
	return &UnavailableError{Place: b.URI(), Op: op, Err: err}
}

// List implements [Place].
func (b *bucketPlace) List(ctx context.Context) ([]Object, error) {
	var objects []Object
	seen := map[string]bool{}
	for token, pages := "", 1; ; pages++ {
		seen[token] = true
		p, err := b.page(ctx, token)
		if err != nil {
			return nil, err
		}
		objects, err = b.collect(objects, p)
		if err != nil {
			return nil, err
		}
		if p.Next == "" {
			break
		}
		// A listing may have empty pages, but not for ever.
		if seen[p.Next] || pages >= maxPages {
			return nil, b.unavailable("listing", errors.New("the listing does not advance"))
		}
		token = p.Next
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].Name < objects[j].Name })
	for i := 1; i < len(objects); i++ {
		if objects[i].Name == objects[i-1].Name {
			return nil, b.unavailable("listing", fmt.Errorf("object %q is listed twice", objects[i].Name))
		}
	}
	return objects, nil
}

// collect appends the objects of one page.
func (b *bucketPlace) collect(objects []Object, p page) ([]Object, error) {
	for _, item := range p.Items {
		if len(objects) >= MaxObjects {
			return nil, &LimitError{Place: b.URI(), Limit: MaxObjects}
		}
		name, inside := strings.CutPrefix(item.Name, b.Prefix)
		if !inside {
			return nil, b.unavailable("listing", fmt.Errorf("object %s is outside the prefix", quote(item.Name)))
		}
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("listing %q: %w", b.URI(), err)
		}
		size, err := strconv.ParseInt(item.Size, 10, 64)
		if err != nil || size < 0 {
			return nil, b.unavailable("listing", fmt.Errorf("object %q has the size %s", name, quote(item.Size)))
		}
		objects = append(objects, Object{Name: name, Size: size, Generation: item.Generation})
	}
	return objects, nil
}

// page reads one page of the listing.
func (b *bucketPlace) page(ctx context.Context, token string) (page, error) {
	query := url.Values{
		"prefix":     {b.Prefix},
		"maxResults": {"1000"},
		"fields":     {"items(name,size,generation),nextPageToken"},
	}
	if token != "" {
		query.Set("pageToken", token)
	}
	target := b.Endpoint + "/storage/v1/b/" + url.PathEscape(b.Name) + "/o?" + query.Encode()
	answer, _, err := fetch(ctx, b.client, target, &UnavailableError{Place: b.URI(), Op: "listing"})
	if errors.Is(err, ErrNotFound) {
		// Nothing is known of a bucket that is not there, least of all that
		// it is empty.
		return page{}, b.unavailable("listing", fmt.Errorf("no bucket %q", b.Name))
	}
	if err != nil {
		return page{}, err
	}
	defer answer.Close()
	raw, err := io.ReadAll(io.LimitReader(answer, maxPage+1))
	switch {
	case err != nil:
		return page{}, err
	case len(raw) > maxPage:
		return page{}, b.unavailable("listing", fmt.Errorf("a page is longer than %d bytes", maxPage))
	}
	var p page
	if err := strictjson.UnmarshalOpen(raw, &p); err != nil {
		return page{}, b.unavailable("listing", err)
	}
	return p, nil
}

// Open implements [Place].
func (b *bucketPlace) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", b.URI(), err)
	}
	target := b.Endpoint + "/download/storage/v1/b/" + url.PathEscape(b.Name) +
		"/o/" + url.PathEscape(b.Prefix+name) + "?alt=media"
	return fetch(ctx, b.client, target, &UnavailableError{Place: b.URI(), Op: "reading " + quote(name)})
}
