package servers

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

// gateway is versitygw: S3 over the files of a directory.
type gateway struct {
	*process.Process

	address string
	http    *http.Client
	env     []string // of its owner
}

func openGateway(t *testing.T, root string, flags ...string) gateway {
	t.Helper()
	borrowed := httptest.NewTLSServer(nil) // for its certificate of 127.0.0.1
	borrowed.Close()
	dir, own := t.TempDir(), borrowed.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(own.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	writeText(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: own.Certificate[0]})))
	writeText(t, key, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret})))
	g := gateway{address: process.Address(t), http: borrowed.Client(), env: []string{
		"AWS_ACCESS_KEY_ID=lantern", "AWS_SECRET_ACCESS_KEY=lantern-secret", "SSL_CERT_FILE=" + certificate,
		"AWS_CA_BUNDLE=", "AWS_PROFILE=", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null",
	}}
	args := append([]string{process.Peer(t, "versitygw"), "--port", g.address, "--cert", certificate, "--key", key, "--quiet", "posix"}, flags...)
	g.Process = process.Start(t, process.Server{
		Name: "versitygw", Version: "v1.8.0", Env: []string{"ROOT_ACCESS_KEY=lantern", "ROOT_SECRET_KEY=lantern-secret"}, Ready: "https://" + g.address + "/",
		Args: append(args, root),
	})
	return g
}

// bucket makes a bucket that everybody may read.
func (g gateway) bucket(t *testing.T, name string) *s3.Client {
	t.Helper()
	c := s3.New(s3.Options{
		BaseEndpoint: aws.String("https://" + g.address), UsePathStyle: true, Region: "us-east-1", HTTPClient: g.http,
		Credentials: credentials.NewStaticCredentialsProvider("lantern", "lantern-secret", ""),
	})
	_, err := c.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name})
	if err == nil {
		_, err = c.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: &name, Policy: aws.String(fmt.Sprintf(`{"Version": "2012-10-17", "Statement": [
			{"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject", "s3:ListBucket"], "Resource": ["arn:aws:s3:::%[1]s", "arn:aws:s3:::%[1]s/*"]}]}`, name))})
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// objects reads what a bucket holds below a prefix.
func objects(c *s3.Client, bucket, prefix string) object {
	return func(ctx context.Context, name string) ([]byte, error) {
		got, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &bucket, Key: aws.String(prefix + name)})
		var none *types.NoSuchKey
		if errors.As(err, &none) {
			return nil, os.ErrNotExist
		}
		if err != nil {
			return nil, err
		}
		defer got.Body.Close()
		return io.ReadAll(got.Body)
	}
}

// TestFaultKilledBucket kills versitygw as kill -9 does, in the middle of an
// upload. The manifest is not there before the rest, and a rerun converges.
func TestFaultKilledBucket(t *testing.T) {
	t.Parallel()
	g := openGateway(t, t.TempDir())
	s := staged(t, g.env...)
	w, client := openWire(t, g.address), g.bucket(t, "released")
	at := func(name string) published { return elsewhere(t, s, "s3+https://"+w.address+"/released/"+name, "") }
	want(t, at("whole").release(t), 0)
	total := w.passed.Load()
	for i, share := range []int64{10, 50, 90, 99} {
		t.Run(fmt.Sprintf("after %d percent", share), func(t *testing.T) {
			name := fmt.Sprintf("killed-%d", i)
			p, files := at(name), objects(client, "released", name+"/"+scene.Version+"/")
			w.cut(t, p, total*share/100, func() { g.Kill(t) })
			g.Restart(t)
			if got := p.seen(t, repository{p.Images, "lantern"}, files); got.manifest && share < 99 {
				t.Errorf("after the kill: %+v", got)
			}
			want(t, p.release(t), 0)
			if got := p.seen(t, repository{p.Images, "lantern"}, files); got != (state{true, true}) {
				t.Errorf("after the rerun: %+v", got)
			}
		})
	}
	saw(t, row{
		Kind: "Faults", Server: "versitygw, killed in an upload", Version: "1.8.0",
		Works: "after 10, 50, 90 and 99 % of the bytes: unavailable; no manifest before the rest; a rerun converges",
	})
}

// TestFaultBucketDisk has versitygw write to a disk that is read-only, then full.
func TestFaultBucketDisk(t *testing.T) {
	t.Parallel()
	dir := volume(t, "size=1m")
	g := openGateway(t, dir, "--sidecar", t.TempDir()) // this file system may have no attributes of users
	s := staged(t, g.env...)
	client := g.bucket(t, "released")
	p, files := elsewhere(t, s, "s3+https://"+g.address+"/released/disk", ""), objects(client, "released", "disk/"+scene.Version+"/")
	nothing := func(when string) {
		t.Helper()
		failed(t, p.hasty().release(t))
		if got := p.seen(t, repository{p.Images, "lantern"}, files); got.manifest {
			t.Errorf("%s: %+v", when, got)
		}
	}
	remount(t, dir, syscall.MS_RDONLY, "size=1m")
	nothing("with a disk that is read-only")
	remount(t, dir, 0, "size=1m")
	nothing("with a disk that is full")
	remount(t, dir, 0, "size=256m")
	want(t, p.release(t), 0)
	if got := p.seen(t, repository{p.Images, "lantern"}, files); got != (state{true, true}) {
		t.Errorf("with space again: %+v", got)
	}
	saw(t, row{
		Kind: "Faults", Server: "versitygw, disk read-only, then full", Version: "1.8.0",
		Works: "unavailable, no manifest; with space again a rerun converges",
	})
}
