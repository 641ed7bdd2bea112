package bucket_test

import (
	"net/http"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/testing/checkfeatures"
)

// TestFeatures keeps features in buckets of both languages.
func TestFeatures(t *testing.T) {
	for _, language := range []string{"gs", "s3"} {
		t.Run(language, func(t *testing.T) {
			checkfeatures.Run(t, func(t *testing.T) func() featurestore.Store {
				uri := language + "+" + serve(t, t.TempDir()) + "/" + testBucket + "/features/"
				return func() featurestore.Store {
					at, err := cloud.Open(uri, http.DefaultTransport)
					if err != nil {
						t.Fatal(err)
					}
					return featurestore.Appending(featurestore.Place{Place: at, Writer: at})
				}
			})
		})
	}
}
