package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/waybill-release/waybill/test/lab/bucket"
	"gocloud.dev/blob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"
	"gocloud.dev/gcp"
	"google.golang.org/api/option"
)

const testBucket = "staging"

// serve starts a server with one bucket and returns its URL.
func serve(t *testing.T, dir string, differences ...func(*bucket.Server)) string {
	t.Helper()
	s, err := bucket.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, differ := range differences {
		differ(s)
	}
	if err := s.Make(testBucket); err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s)
	t.Cleanup(func() {
		ts.Close()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return ts.URL
}

// drivers open the bucket the way each vendor's library does.
func drivers() map[string]func(t *testing.T, url, name string) *blob.Bucket {
	return map[string]func(*testing.T, string, string) *blob.Bucket{
		"gcsblob": func(t *testing.T, url, name string) *blob.Bucket {
			client := gcp.NewAnonymousHTTPClient(&http.Transport{})
			b, err := gcsblob.OpenBucket(t.Context(), client, name, &gcsblob.Options{
				ClientOptions: []option.ClientOption{option.WithEndpoint(url + "/storage/v1/")},
			})
			return opened(t, b, err)
		},
		"s3blob": func(t *testing.T, url, name string) *blob.Bucket {
			client := s3.New(s3.Options{
				BaseEndpoint: aws.String(url), UsePathStyle: true, Region: "lab",
				Credentials: credentials.NewStaticCredentialsProvider("lab", "lab", ""),
			})
			b, err := s3blob.OpenBucket(t.Context(), client, name, nil)
			return opened(t, b, err)
		},
	}
}

func opened(t *testing.T, b *blob.Bucket, err error) *blob.Bucket {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

// forEachDriver runs a test against an empty bucket through each driver.
func forEachDriver(t *testing.T, f func(t *testing.T, b *blob.Bucket, url string)) {
	for name, open := range drivers() {
		t.Run(name, func(t *testing.T) {
			url := serve(t, t.TempDir())
			f(t, open(t, url, testBucket), url)
		})
	}
}

func TestReadBack(t *testing.T) {
	forEachDriver(t, func(t *testing.T, b *blob.Bucket, url string) {
		ctx := t.Context()
		for _, name := range []string{"a", "v1.2.3/bin/linux/amd64/kubectl", "with space & + %25/ü", "a//b"} {
			want := []byte("bytes of " + name)
			opts := &blob.WriterOptions{ContentType: "text/plain", Metadata: map[string]string{"key": "value"}}
			if err := b.WriteAll(ctx, name, want, opts); err != nil {
				t.Fatalf("writing %q: %v", name, err)
			}
			got, err := b.ReadAll(ctx, name)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("reading %q: %q, %v", name, got, err)
			}
			a, err := b.Attributes(ctx, name)
			if err != nil || a.Size != int64(len(want)) || a.ContentType != "text/plain" || a.Metadata["key"] != "value" || len(a.MD5) != 16 {
				t.Errorf("attributes of %q: %+v, %v", name, a, err)
			}
		}
		r, err := b.NewRangeReader(ctx, "a", 6, 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		if got, err := io.ReadAll(r); err != nil || string(got) != "of" {
			t.Errorf("a range: %q, %v", got, err)
		}
	})
}

// TestLarge makes the drivers upload in several requests.
func TestLarge(t *testing.T) {
	forEachDriver(t, func(t *testing.T, b *blob.Bucket, _ string) {
		ctx := t.Context()
		want := bytes.Repeat([]byte("0123456789abcdef"), (18<<20)/16+3)
		if err := b.WriteAll(ctx, "large", want, &blob.WriterOptions{BufferSize: 5 << 20}); err != nil {
			t.Fatal(err)
		}
		got, err := b.ReadAll(ctx, "large")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %d bytes of %d, %v", len(got), len(want), err)
		}
		if err := b.WriteAll(ctx, "large", want, &blob.WriterOptions{BufferSize: 5 << 20, IfNotExist: true}); gcerrors.Code(err) != gcerrors.FailedPrecondition {
			t.Errorf("writing what exists: %v", err)
		}
	})
}

func TestListInPages(t *testing.T) {
	forEachDriver(t, func(t *testing.T, b *blob.Bucket, _ string) {
		ctx := t.Context()
		var want []string
		for i := range 25 {
			name := fmt.Sprintf("v1/%d/file-%02d", i%3, i)
			want = append(want, name)
			if err := b.WriteAll(ctx, name, []byte(name), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.WriteAll(ctx, "v2/other", nil, nil); err != nil {
			t.Fatal(err)
		}
		slices.Sort(want)
		for _, size := range []int{1, 7, 25, 1000} {
			if got := list(t, b, &blob.ListOptions{Prefix: "v1/"}, size); !slices.Equal(got, want) {
				t.Errorf("pages of %d: %q", size, got)
			}
			dirs := list(t, b, &blob.ListOptions{Prefix: "v1/", Delimiter: "/"}, size)
			if !slices.Equal(dirs, []string{"v1/0/", "v1/1/", "v1/2/"}) {
				t.Errorf("directories in pages of %d: %q", size, dirs)
			}
		}
	})
}

func list(t *testing.T, b *blob.Bucket, o *blob.ListOptions, size int) []string {
	t.Helper()
	var names []string
	for token := blob.FirstPageToken; token != nil; {
		page, next, err := b.ListPage(t.Context(), token, size, o)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > size {
			t.Errorf("a page of %d, asked for %d", len(page), size)
		}
		for _, o := range page {
			names = append(names, o.Key)
		}
		token = next
	}
	return names
}

func TestIfNotExist(t *testing.T) {
	forEachDriver(t, func(t *testing.T, b *blob.Bucket, _ string) {
		ctx := t.Context()
		const writers = 8
		errs := make(chan error, writers)
		for i := range writers {
			go func() {
				errs <- b.WriteAll(ctx, "marker", fmt.Append(nil, i), &blob.WriterOptions{IfNotExist: true})
			}()
		}
		won := 0
		for range writers {
			switch err := <-errs; {
			case err == nil:
				won++
			case gcerrors.Code(err) != gcerrors.FailedPrecondition:
				t.Error(err)
			}
		}
		if won != 1 {
			t.Errorf("%d of %d writers won, want one", won, writers)
		}
		if err := b.WriteAll(ctx, "marker", []byte("over"), nil); err != nil {
			t.Errorf("writing without the condition: %v", err)
		}
	})
}

func TestDeleteAndAbsence(t *testing.T) {
	forEachDriver(t, func(t *testing.T, b *blob.Bucket, url string) {
		ctx := t.Context()
		if err := b.WriteAll(ctx, "a", []byte("a"), nil); err != nil {
			t.Fatal(err)
		}
		if err := b.Copy(ctx, "b", "a", nil); err != nil {
			t.Fatal(err)
		}
		if err := b.Delete(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.ReadAll(ctx, "a"); gcerrors.Code(err) != gcerrors.NotFound {
			t.Errorf("reading what was deleted: %v", err)
		}
		if ok, err := b.Exists(ctx, "a"); ok || err != nil {
			t.Errorf("exists: %v, %v", ok, err)
		}
		if got, err := b.ReadAll(ctx, "b"); string(got) != "a" || err != nil {
			t.Errorf("reading the copy: %q, %v", got, err)
		}
	})
}

func TestNoSuchBucket(t *testing.T) {
	for name, open := range drivers() {
		t.Run(name, func(t *testing.T) {
			b := open(t, serve(t, t.TempDir()), "no-such-bucket")
			if err := b.WriteAll(t.Context(), "a", nil, nil); gcerrors.Code(err) != gcerrors.NotFound {
				t.Errorf("writing: %v", err)
			}
			if _, _, err := b.ListPage(t.Context(), blob.FirstPageToken, 10, nil); gcerrors.Code(err) != gcerrors.NotFound {
				t.Errorf("listing: %v", err)
			}
		})
	}
}

// TestOneBucket writes through one language and reads through the others,
// before and after a restart.
func TestOneBucket(t *testing.T) {
	dir := t.TempDir()
	url := serve(t, dir)
	for name, open := range drivers() {
		if err := open(t, url, testBucket).WriteAll(t.Context(), "by/"+name, []byte(name), nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, url := range []string{url, serve(t, dir)} {
		for name, open := range drivers() {
			b := open(t, url, testBucket)
			if got := list(t, b, nil, 10); !slices.Equal(got, []string{"by/gcsblob", "by/s3blob"}) {
				t.Errorf("%s lists %q", name, got)
			}
			for other := range drivers() {
				if got, err := b.ReadAll(t.Context(), "by/"+other); string(got) != other || err != nil {
					t.Errorf("%s reads what %s wrote: %q, %v", name, other, got, err)
				}
				if status, body := get(t, url+"/"+testBucket+"/by/"+other); status != 200 || body != other {
					t.Errorf("plain HTTP: %d %q", status, body)
				}
			}
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestPlainHTTPDoesNotList(t *testing.T) {
	url := serve(t, t.TempDir())
	for path, want := range map[string]int{
		"/": 403, "/" + testBucket: 403, "/" + testBucket + "/": 403,
		"/" + testBucket + "/absent": 404, "/" + testBucket + "/dir/": 404, "/no-such-bucket/a": 404,
	} {
		if got, _ := get(t, url+path); got != want {
			t.Errorf("GET %s: %d, want %d", path, got, want)
		}
	}
}

func TestMakeRefusesNames(t *testing.T) {
	s, err := bucket.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "..", "a/b", "UPPER", "storage", "upload", "ab"} {
		if s.Make(name) == nil {
			t.Errorf("made bucket %q", name)
		}
	}
	if err := s.Make("release-1.31"); err != nil {
		t.Error(err)
	}
}
