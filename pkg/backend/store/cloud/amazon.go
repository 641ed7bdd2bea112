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
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// defaultRegion is used for signing where no region is given: Amazon's first,
// which compatible services expect.
const defaultRegion = "us-east-1"

// openAmazon connects to a bucket over the S3 protocol, with the credentials
// that Amazon's own tools would find: from the environment, the shared files, a
// projected token, or this machine.
func (b *Bucket) openAmazon(ctx context.Context) (*blob.Bucket, error) {
	options := s3.Options{
		HTTPClient: transport.Client(transport.RepeatableIf(b.rt, boundAmazon)), BaseEndpoint: &b.at.Endpoint, UsePathStyle: true,
		Region: defaultRegion, Credentials: aws.CredentialsProviderFunc(anybody),
		Retryer: aws.NopRetryer{}, // the transport repeats what can be repeated
	}
	if !b.at.Emulated {
		if os.Getenv("AWS_CA_BUNDLE") != "" {
			return nil, errors.New("AWS_CA_BUNDLE is set, but not supported: set SSL_CERT_FILE instead and unset it")
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

// An emulator accepts any credentials.
func anybody(context.Context) (aws.Credentials, error) {
	return aws.Credentials{AccessKeyID: "emulator", SecretAccessKey: "emulator"}, nil
}

// region returns the region in an address of Amazon's.
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

// redirected returns the name of a setting that would send all requests to
// another address than the one given.
func redirected() string {
	return slice.First([]string{"STORAGE_EMULATOR_HOST", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"}, func(name string) bool { return os.Getenv(name) != "" })
}
