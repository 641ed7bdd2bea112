package servers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"google.golang.org/api/googleapi"
	"google.golang.org/api/option"
	"google.golang.org/api/storage/v1"

	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

// objectsOfPage is how many objects the clients below ask for at once: less than there are.
const objectsOfPage = 4

// owner reads and writes the objects of a bucket with the client that its service
// comes with.
type owner interface {
	list(ctx context.Context, prefix string) ([]string, error)
	read(ctx context.Context, name string) ([]byte, error)
	write(ctx context.Context, name string, body []byte) error
}

// exchangeFiles has an owner read what we published, and publish the same files
// itself. We judge them, also with one too many.
func exchangeFiles(t *testing.T, s *scene.Scene, of owner, uri string) {
	t.Helper()
	ours := elsewhere(t, s, uri+"/ours", "")
	want(t, ours.release(t), 0)
	prefix := "ours/" + scene.Version + "/"
	names, err := of.list(t.Context(), prefix)
	if err != nil || len(names) <= 2*objectsOfPage {
		t.Fatalf("%d objects are listed: %v", len(names), err)
	}
	theirs := elsewhere(t, s, uri+"/theirs", ours.Images)
	want(t, theirs.verify(t), 1, "MISSING")
	slices.SortStableFunc(names, func(a, b string) int { // the manifest last
		return strings.Count(a, "release.manifest") - strings.Count(b, "release.manifest")
	})
	for _, name := range names {
		body, err := of.read(t.Context(), name)
		if err == nil {
			err = of.write(t.Context(), "theirs/"+strings.TrimPrefix(name, "ours/"), body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	want(t, theirs.verify(t), 0)
	if err := of.write(t.Context(), "theirs/"+scene.Version+"/one-more", []byte("not in the manifest\n")); err != nil {
		t.Fatal(err)
	}
	want(t, theirs.verify(t), 1, "EXTRA", "one-more")
}

// amazon is Amazon's SDK for Go.
type amazon struct {
	client *s3.Client
	bucket string
}

func (a amazon) list(ctx context.Context, prefix string) (names []string, err error) {
	pages := s3.NewListObjectsV2Paginator(a.client, &s3.ListObjectsV2Input{Bucket: &a.bucket, Prefix: &prefix, MaxKeys: aws.Int32(objectsOfPage)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.Contents {
			names = append(names, *o.Key)
		}
	}
	return names, nil
}

func (a amazon) read(ctx context.Context, name string) ([]byte, error) {
	return objects(a.client, a.bucket, "")(ctx, name)
}

// write writes an object in one request, a large one in parts, as aws s3 cp does.
func (a amazon) write(ctx context.Context, name string, body []byte) error {
	const part = 5 << 20 // the least that a part may have, but for the last
	if len(body) < 1<<20 {
		_, err := a.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &a.bucket, Key: &name, Body: bytes.NewReader(body)})
		return err
	}
	begun, err := a.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &a.bucket, Key: &name})
	if err != nil {
		return err
	}
	var parts []types.CompletedPart
	for piece := range slices.Chunk(body, part) {
		number := aws.Int32(int32(len(parts) + 1))
		done, err := a.client.UploadPart(ctx, &s3.UploadPartInput{Bucket: &a.bucket, Key: &name, UploadId: begun.UploadId, PartNumber: number, Body: bytes.NewReader(piece)})
		if err != nil {
			return err
		}
		parts = append(parts, types.CompletedPart{ETag: done.ETag, PartNumber: number})
	}
	_, err = a.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &a.bucket, Key: &name, UploadId: begun.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
	})
	return err
}

// TestClientAmazon exchanges files with Amazon's SDK through versitygw.
func TestClientAmazon(t *testing.T) {
	t.Parallel()
	g := openGateway(t, t.TempDir())
	s := staged(t, g.env...)
	exchangeFiles(t, s, amazon{g.bucket(t, "exchanged"), "exchanged"}, "s3+https://"+g.address+"/exchanged")
	saw(t, row{
		Kind: "Clients", Server: "Amazon's SDK for Go, as aws s3 uses it, through versitygw", Version: moduleVersion(t, "github.com/aws/aws-sdk-go-v2/service/s3"),
		Works: "list in pages and read ours; we judge what it writes, in one request or in parts",
	})
}

// google is Google's client of Cloud Storage for Go.
type google struct {
	client *storage.Service
	bucket string
}

func (g google) list(ctx context.Context, prefix string) (names []string, err error) {
	err = g.client.Objects.List(g.bucket).Prefix(prefix).MaxResults(objectsOfPage).Pages(ctx, func(page *storage.Objects) error {
		for _, o := range page.Items {
			names = append(names, o.Name)
		}
		return nil
	})
	return names, err
}

func (g google) read(ctx context.Context, name string) ([]byte, error) {
	response, err := g.client.Objects.Get(g.bucket, name).Context(ctx).Download()
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return io.ReadAll(response.Body)
}

// write writes an object in chunks of a resumable upload, as gsutil does.
func (g google) write(ctx context.Context, name string, body []byte) error {
	_, err := g.client.Objects.Insert(g.bucket, &storage.Object{Name: name}).Media(bytes.NewReader(body), googleapi.ChunkSize(googleapi.MinUploadChunkSize)).Context(ctx).Do()
	return err
}

// TestClientGoogle exchanges files with Google's client through fake-gcs-server.
func TestClientGoogle(t *testing.T) {
	t.Parallel()
	address := process.Address(t)
	host, port, _ := strings.Cut(address, ":")
	process.Start(t, process.Server{
		Name: "fake-gcs-server", Version: "v1.56.1", Ready: "http://" + address + "/_internal/healthcheck",
		Args: []string{process.Peer(t, "fakegcs"), "-scheme", "http", "-host", host, "-port", port, "-public-host", address, "-backend", "memory", "-log-level", "warn"},
	})
	client, err := storage.NewService(t.Context(), option.WithEndpoint("http://"+address+"/storage/v1/"), option.WithoutAuthentication(), option.WithHTTPClient(http.DefaultClient))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Buckets.Insert("lantern", &storage.Bucket{Name: "exchanged"}).Do(); err != nil {
		t.Fatal(err)
	}
	exchangeFiles(t, staged(t), google{client, "exchanged"}, fmt.Sprintf("gs+http://%s/exchanged", address))
	saw(t, row{
		Kind: "Clients", Server: "Google's client for Go, as gsutil uses the API, through fake-gcs-server", Version: moduleVersion(t, "google.golang.org/api"),
		Works: "list in pages and read ours; we judge what it writes, in resumable uploads",
	})
}

// moduleVersion is the version of a module that this test was built with.
func moduleVersion(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
}
