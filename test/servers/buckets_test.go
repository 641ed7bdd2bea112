package servers

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

// buckets is a service of buckets that runs.
type buckets struct {
	server  row
	uri     string            // address of a bucket, before its name
	env     []string          // what its owner has in the environment
	rt      http.RoundTripper // reaches it
	create  func(t *testing.T, bucket string, o bucketOptions)
	close   func(t *testing.T, bucket string) // to everybody but its owner; nil if the service has no such thing
	objects func(bucket string) scene.Objects
}

// bucketOptions are how a bucket is made.
type bucketOptions struct {
	versioned bool
}

// versitygw serves S3 over the files of a directory.
func versitygw(t *testing.T, versions bool) buckets {
	t.Helper()
	address := process.Address(t)
	authority := newAuthority(t, "the authority of a company")
	certificate, key := authority.server(t, time.Now().Add(time.Hour), "127.0.0.1")
	root := t.TempDir()
	args := []string{process.Peer(t, "versitygw"), "--port", address, "--cert", certificate, "--key", key, "--quiet", "posix"}
	if versions {
		args = append(args, "--versioning-dir", t.TempDir())
	}
	process.Start(t, process.Server{
		Name: "versitygw", Version: "v1.8.0", Args: append(args, root), Env: []string{"ROOT_ACCESS_KEY=lantern", "ROOT_SECRET_KEY=lantern-secret"},
		Ready: "https://" + address + "/",
	})
	pem, err := os.ReadFile(authority.File)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	b := buckets{
		server: row{Kind: "Buckets", Server: "versitygw, S3 over files", Version: "1.8.0"}, uri: "s3+https://" + address + "/",
		env: []string{"AWS_ACCESS_KEY_ID=lantern", "AWS_SECRET_ACCESS_KEY=lantern-secret", "SSL_CERT_FILE=" + authority.File, "AWS_CA_BUNDLE=", "AWS_PROFILE=", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null"},
		rt:  transport.New(transport.Config{Roots: pool}),
	}
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String("https://" + address), UsePathStyle: true, Region: "us-east-1", HTTPClient: transport.Client(b.rt),
		Credentials: credentials.NewStaticCredentialsProvider("lantern", "lantern-secret", ""),
	})
	b.create = func(t *testing.T, bucket string, o bucketOptions) { t.Helper(); createS3(t, client, bucket, o) }
	b.close = func(t *testing.T, bucket string) {
		t.Helper()
		if _, err := client.DeleteBucketPolicy(t.Context(), &s3.DeleteBucketPolicyInput{Bucket: &bucket}); err != nil {
			t.Fatal(err)
		}
	}
	b.objects = func(bucket string) scene.Objects { return disk(filepath.Join(root, bucket)) }
	if versions {
		b.server.Server += ", with versions"
		b.objects = func(bucket string) scene.Objects { return amazonObjects{client, bucket} }
	}
	return b
}

// createS3 makes a bucket that everybody may read.
func createS3(t *testing.T, client *s3.Client, bucket string, o bucketOptions) {
	t.Helper()
	_, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket})
	if err == nil && o.versioned {
		_, err = client.PutBucketVersioning(t.Context(), &s3.PutBucketVersioningInput{
			Bucket: &bucket, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled},
		})
	}
	if err == nil {
		_, err = client.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: &bucket, Policy: aws.String(fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [
			{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::%[1]s", "arn:aws:s3:::%[1]s/*"]}]}`, bucket))})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// fakeGCS serves Cloud Storage's JSON API, over the files of a directory or
// from memory. Only in memory it keeps versions.
func fakeGCS(t *testing.T, versions bool) buckets {
	t.Helper()
	address := process.Address(t)
	host, port, _ := strings.Cut(address, ":")
	root, backend := t.TempDir(), "filesystem"
	if versions {
		backend = "memory"
	}
	process.Start(t, process.Server{
		Name: "fake-gcs-server", Version: "v1.56.1", Ready: "http://" + address + "/_internal/healthcheck",
		Args: []string{process.Peer(t, "fakegcs"), "-scheme", "http", "-host", host, "-port", port, "-public-host", address, "-backend", backend, "-filesystem-root", root, "-log-level", "warn"},
	})
	b := buckets{
		server: row{Kind: "Buckets", Server: "fake-gcs-server, Cloud Storage, " + backend, Version: "1.56.1"}, uri: "gs+http://" + address + "/",
		rt: transport.New(transport.Config{}),
	}
	api := "http://" + address
	b.create = func(t *testing.T, bucket string, o bucketOptions) {
		t.Helper()
		body := fmt.Sprintf(`{"name": %q, "versioning": {"enabled": %t}}`, bucket, o.versioned)
		if _, err := ask(t.Context(), http.MethodPost, api+"/storage/v1/b?project=lantern", []byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	b.objects = func(bucket string) scene.Objects { return googleObjects{api, bucket} }
	return b
}

// disk are objects that somebody with the server's disk gets at.
type disk string

func (d disk) Get(_ context.Context, name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(string(d), name))
}

func (d disk) Put(_ context.Context, name string, body []byte) error {
	return os.WriteFile(filepath.Join(string(d), name), body, 0o644)
}

func (d disk) Remove(_ context.Context, name string) error {
	return os.Remove(filepath.Join(string(d), name))
}

// amazonObjects are objects of a bucket as Amazon's own library gets at them.
type amazonObjects struct {
	client *s3.Client
	bucket string
}

func (a amazonObjects) Get(ctx context.Context, name string) ([]byte, error) {
	got, err := a.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.bucket, Key: &name})
	if err != nil {
		return nil, err
	}
	defer got.Body.Close()
	return io.ReadAll(got.Body)
}

func (a amazonObjects) Put(ctx context.Context, name string, body []byte) error {
	_, err := a.client.PutObject(ctx, &s3.PutObjectInput{Bucket: &a.bucket, Key: &name, Body: bytes.NewReader(body)})
	return err
}

func (a amazonObjects) Remove(ctx context.Context, name string) error {
	_, err := a.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &a.bucket, Key: &name})
	return err
}

// googleObjects are objects of a bucket by the JSON API.
type googleObjects struct{ api, bucket string }

func (g googleObjects) Get(ctx context.Context, name string) ([]byte, error) {
	return ask(ctx, http.MethodGet, g.api+"/download/storage/v1/b/"+g.bucket+"/o/"+url.PathEscape(name)+"?alt=media", nil)
}

func (g googleObjects) Put(ctx context.Context, name string, body []byte) error {
	_, err := ask(ctx, http.MethodPost, g.api+"/upload/storage/v1/b/"+g.bucket+"/o?uploadType=media&name="+url.QueryEscape(name), body)
	return err
}

func (g googleObjects) Remove(ctx context.Context, name string) error {
	_, err := ask(ctx, http.MethodDelete, g.api+"/storage/v1/b/"+g.bucket+"/o/"+url.PathEscape(name), nil)
	return err
}

// ask sends a request, past Waybill.
func ask(ctx context.Context, method, address string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.200s", method, address, answer.Status, raw)
	}
	return raw, err
}

// open is a bucket as its owner reaches it, and as everybody does.
func (b buckets) open(t *testing.T, bucket, prefix string) (own *cloud.Bucket, public store.Place) {
	t.Helper()
	own, err := cloud.Open(b.uri+bucket+"/"+prefix, b.rt)
	if err != nil {
		t.Fatal(err)
	}
	if public, err = store.Open(b.uri+bucket+"/"+prefix, b.rt); err != nil {
		t.Fatal(err)
	}
	return own, public
}

// checkPlaces runs the suites of places in a bucket, a prefix for each of their
// tests.
func (b buckets) checkPlaces(t *testing.T, bucket string) {
	count := 0
	fresh := func(t *testing.T) (*cloud.Bucket, store.Place) {
		t.Helper()
		count++
		return b.open(t, bucket, fmt.Sprintf("suite/%d/", count))
	}
	t.Run("library", func(t *testing.T) {
		checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) { own, _ := fresh(t); return own, own })
	})
	t.Run("anonymous", func(t *testing.T) {
		checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) { own, public := fresh(t); return public, own })
	})
	filled, public := fresh(t)
	for name, content := range checkplaces.Contents() {
		if err := filled.Put(t.Context(), name, int64(len(content)), strings.NewReader(content), store.PutOptions{IfAbsent: true}); err != nil {
			t.Fatal(err)
		}
	}
	for name, place := range map[string]store.Place{"read by the library": filled, "read by everybody": public} {
		t.Run(name, func(t *testing.T) { checkplaces.Read(t, func(*testing.T) store.Place { return place }) })
	}
	t.Run("pages", func(t *testing.T) { b.checkPages(t, bucket) })
}

// checkPages lists more objects than a page has, written past Waybill, among
// them names that sort differently with and without their slashes.
func (b buckets) checkPages(t *testing.T, bucket string) {
	objects := b.objects(bucket)
	want := []string{"p/a", "p-/a", "p.x", "p/a-", "p~", "p+x", "q/@/_"}
	for i := range 1200 {
		want = append(want, fmt.Sprintf("many/%d/file+%04d", i%7, i))
	}
	for _, name := range want {
		if d, is := objects.(disk); is {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(string(d), "pages", name)), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := objects.Put(t.Context(), "pages/"+name, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(want)
	own, public := b.open(t, bucket, "pages/")
	for who, place := range map[string]store.Place{"the owner": own, "everybody": public} {
		listed, err := place.List(t.Context())
		if err != nil {
			t.Errorf("%s: %v", who, err)
			continue
		}
		var names []string
		for _, o := range listed {
			names = append(names, o.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s sees %d objects, want %d", who, len(names), len(want))
		}
	}
}

// checkVersions writes, replaces and removes an object of a bucket that keeps
// versions: only the current one counts. It returns whether an object can be
// written where one was removed.
func (b buckets) checkVersions(t *testing.T, bucket string) (again bool) {
	own, public := b.open(t, bucket, "versions/")
	for _, content := range []string{"first", "second"} {
		if err := own.Put(t.Context(), "file", int64(len(content)), strings.NewReader(content), store.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, place := range []store.Place{own, public} {
		listed, err := place.List(t.Context())
		if err != nil || len(listed) != 1 || listed[0].Size != int64(len("second")) {
			t.Errorf("listed %v, %v, want the current version alone", listed, err)
		}
		if got, err := store.Read(t.Context(), place, "file", 100); string(got) != "second" {
			t.Errorf("read %q, %v, want the current version", got, err)
		}
	}
	if err := b.objects(bucket).Remove(t.Context(), "versions/file"); err != nil {
		t.Fatal(err)
	}
	for _, place := range []store.Place{own, public} {
		if listed, err := place.List(t.Context()); err != nil || len(listed) != 0 {
			t.Errorf("listed %v, %v of what was removed", listed, err)
		}
		if _, err := store.Read(t.Context(), place, "file", 100); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("read %v of what was removed", err)
		}
	}
	err := own.Put(t.Context(), "file", 5, strings.NewReader("third"), store.PutOptions{IfAbsent: true})
	if errors.Is(err, store.ErrExists) {
		t.Errorf("writing where an object was removed: %v", err)
	}
	return err == nil
}

// setenv sets the environment of this process as a bucket's owner has it.
func (b buckets) setenv(t *testing.T) {
	t.Helper()
	for _, variable := range b.env {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
}
