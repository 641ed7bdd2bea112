package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sort"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPage is the largest listing page that is read: 1,000 objects with names
// of 1,024 bytes fit several times over.
const maxPage = 16 << 20

// maxPages is ten times what [MaxObjects] objects need.
const maxPages = 20_000

// Bucket identifies a part of a bucket.
type Bucket struct {
	// Endpoint is the origin of the service, without a slash at the end.
	Endpoint string
	// Name of the bucket.
	Name string
	// Prefix of all object names: "" or something that ends with "/".
	Prefix string
	// S3 selects Amazon's protocol, otherwise it is Google's.
	S3 bool
	// Emulated marks an emulator on this machine, which needs no credentials.
	Emulated bool
}

const (
	googleStorage = "https://storage.googleapis.com"
	amazonStorage = "https://s3.amazonaws.com"
)

// ParseBucket reads "gs://bucket/prefix/" and "s3://bucket/prefix/";
// "s3+https://host/bucket/prefix/" for a region of Amazon or a compatible
// service; and, for this machine only,
// "gs+http://127.0.0.1:PORT/bucket/prefix/" and the same with s3.
func ParseBucket(uri string) (Bucket, error) {
	u, err := parseURI(uri)
	if err != nil {
		return Bucket{}, err
	}
	refuse := func(reason string) (Bucket, error) {
		return Bucket{}, usage("parsing place %q: %s", uri, reason)
	}
	language, protocol, elsewhere := strings.Cut(u.Scheme, "+")
	b := Bucket{Endpoint: googleStorage, Name: u.Host, S3: language == "s3"}
	if b.S3 {
		b.Endpoint = amazonStorage
	}
	prefix := strings.TrimPrefix(u.Path, "/")
	switch {
	case language != "gs" && language != "s3":
		return refuse("not a bucket")
	case !elsewhere:
	case protocol == "http":
		if !transport.Loopback(u.Hostname()) {
			return refuse("plain HTTP is only for an emulator on this machine")
		}
		b.Emulated = true
	case protocol != "https" || !b.S3 || u.Host == "":
		return refuse("not a bucket")
	}
	if elsewhere {
		b.Endpoint = protocol + "://" + u.Host
		b.Name, prefix, _ = strings.Cut(prefix, "/")
	}
	if CheckName(b.Name) != nil || strings.Contains(b.Name, "/") {
		return refuse("missing or invalid bucket name")
	}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		if err := CheckName(prefix); err != nil {
			return Bucket{}, usage("parsing place %q: %w", uri, err)
		}
		b.Prefix = prefix + "/"
	}
	return b, nil
}

// URI returns the form that [ParseBucket] reads.
func (b Bucket) URI() string {
	language := "gs"
	if b.S3 {
		language = "s3"
	}
	if b.Endpoint == googleStorage || b.Endpoint == amazonStorage {
		return language + "://" + b.Name + "/" + b.Prefix
	}
	return language + "+" + b.Endpoint + "/" + b.Name + "/" + b.Prefix
}

// bucketPlace reads a public bucket over plain HTTP requests, without a client
// library.
type bucketPlace struct {
	Bucket
	language
	client *http.Client
}

// language is the protocol of a service.
type language interface {
	// listing returns the address of the page of b's listing that token names;
	// "" names the first.
	listing(b Bucket, token string) string
	// read parses a page.
	read(raw []byte) (page, error)
	// object returns the address of the bytes of one object.
	object(b Bucket, name string) string
}

type page struct {
	items []listed
	next  string // names the next page; "" if this is the last
}

type listed struct{ name, size, generation string }

func openBucket(uri string, rt http.RoundTripper) (*bucketPlace, error) {
	b, err := ParseBucket(uri)
	if err != nil {
		return nil, err
	}
	place := &bucketPlace{Bucket: b, language: google{}, client: transport.Client(rt)}
	if b.S3 {
		place.language = amazon{}
	}
	return place, nil
}

func (b *bucketPlace) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: b.URI(), Op: op, Err: err}
}

// List implements [Place].
func (b *bucketPlace) List(ctx context.Context) (objects []Object, err error) {
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
		if p.next == "" {
			break
		}
		// A listing may have empty pages, but not for ever.
		if seen[p.next] || pages >= maxPages {
			return nil, b.unavailable("listing", errors.New("the listing does not advance"))
		}
		token = p.next
	}
	sort.Slice(objects, func(i, j int) bool { return objects[i].Name < objects[j].Name })
	for i := 1; i < len(objects); i++ {
		if objects[i].Name == objects[i-1].Name {
			return nil, b.unavailable("listing", fmt.Errorf("object %q is listed twice", objects[i].Name))
		}
	}
	return objects, nil
}

func (b *bucketPlace) collect(objects []Object, p page) ([]Object, error) {
	for _, item := range p.items {
		if len(objects) >= MaxObjects {
			return nil, TooMany(b.URI())
		}
		name, inside := strings.CutPrefix(item.name, b.Prefix)
		if !inside {
			return nil, b.unavailable("listing", fmt.Errorf("object %s is outside the prefix", quote(item.name)))
		}
		size, err := strconv.ParseInt(item.size, 10, 64)
		if err != nil || size < 0 {
			return nil, b.unavailable("listing", fmt.Errorf("object %s has the size %s", quote(name), quote(item.size)))
		}
		isFolder, err := checkFolder(name, size)
		if err == nil && !isFolder {
			err = CheckName(name)
		}
		if err != nil {
			return nil, fmt.Errorf("listing %q: %w", b.URI(), err)
		}
		if isFolder {
			continue
		}
		objects = append(objects, Object{Name: name, Size: size, Generation: item.generation})
	}
	return objects, nil
}

// checkFolder reports whether an object represents a folder, as consoles and
// mounts create them: it has no bytes, so it cannot hide content.
func checkFolder(name string, size int64) (bool, error) {
	folder, is := strings.CutSuffix(name, "/")
	named := is && CheckName(folder) == nil
	switch {
	case name != "" && !named:
		return false, nil
	case size > 0:
		return false, nameError(name, fmt.Sprintf("the name is that of a folder, but the object has %d bytes; remove the object", size))
	}
	return true, nil
}

func (b *bucketPlace) page(ctx context.Context, token string) (page, error) {
	answer, _, err := b.fetch(ctx, b.listing(b.Bucket, token), "listing")
	if errors.Is(err, ErrNotFound) {
		// A missing bucket is unavailable; above all, it is not an empty one.
		return page{}, b.unavailable("listing", fmt.Errorf("bucket %q does not exist", b.Name))
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
		return page{}, b.unavailable("listing", fmt.Errorf("a page exceeds %d bytes", maxPage))
	}
	p, err := b.read(raw)
	if err != nil {
		return page{}, b.unavailable("listing", err)
	}
	return p, nil
}

// Open implements [Place].
func (b *bucketPlace) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if err := CheckName(name); err != nil {
		return nil, 0, fmt.Errorf("reading at %q: %w", b.URI(), err)
	}
	return b.fetch(ctx, b.object(b.Bucket, b.Prefix+name), "reading "+quote(name))
}

// fetch sends one GET. The error for a private bucket names a command that
// sends credentials.
func (b *bucketPlace) fetch(ctx context.Context, target, op string) (io.ReadCloser, int64, error) {
	failed := &verdict.UnavailableError{Place: b.URI(), Op: op}
	answer, size, err := fetch(ctx, b.client, target, failed)
	if errors.Is(err, ErrPrivate) {
		failed.Err = fmt.Errorf("%w; waybill verify release sends the credentials of the environment", failed.Err)
	}
	return answer, size, err
}
