package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// defaultRegion is what a request is signed for where nobody names a region:
// Amazon's first, and what services of others expect.
const defaultRegion = "us-east-1"

// openAmazon connects to a bucket that speaks the language of S3, with the
// credentials that Amazon's own tools would find: of the environment, of the
// shared files, of a projected token, of this machine.
func (b *Bucket) openAmazon(ctx context.Context) (*blob.Bucket, error) {
	options := s3.Options{
		HTTPClient: transport.Client(transport.RepeatableIf(b.rt, boundAmazon)), BaseEndpoint: &b.at.Endpoint, UsePathStyle: true,
		Region: defaultRegion, Credentials: aws.CredentialsProviderFunc(anybody),
		Retryer: aws.NopRetryer{}, // the transport repeats what can be repeated
	}
	if !b.at.Emulated {
		if os.Getenv("AWS_CA_BUNDLE") != "" {
			return nil, errors.New("AWS_CA_BUNDLE is set, and not read here: name its certificates with SSL_CERT_FILE and unset it")
		}
		found, err := config.LoadDefaultConfig(ctx, config.WithHTTPClient(transport.Client(b.rt)), config.WithDefaultRegion(region(b.at.Endpoint)))
		if err == nil {
			_, err = found.Credentials.Retrieve(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("finding credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE: %w", flat(err))
		}
		options.Region, options.Credentials = found.Region, found.Credentials
	}
	return s3blob.OpenBucket(ctx, s3.New(options), b.at.Name, nil)
}

// anybody signs in to an emulator, which believes everybody.
func anybody(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "emulator", SecretAccessKey: "emulator"}, nil
}

// region is the one that an address of Amazon's names.
func region(endpoint string) string {
	host, _ := strings.CutPrefix(endpoint, "https://s3.")
	if name, is := strings.CutSuffix(host, ".amazonaws.com"); is && name != "" && !strings.Contains(name, ".") {
		return name
	}
	return defaultRegion
}

// boundAmazon is [bound] for S3.
func boundAmazon(req *http.Request) bool {
	bound := req.Header.Get("If-None-Match") == "*" || req.Header.Get("If-Match") != ""
	return bound && req.Method == http.MethodPut && !req.URL.Query().Has("uploadId")
}

// redirected reports a setting that would send everything elsewhere, past the
// place that was named.
func redirected() string {
	for _, name := range []string{"STORAGE_EMULATOR_HOST", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		if os.Getenv(name) != "" {
			return name
		}
	}
	return ""
}
