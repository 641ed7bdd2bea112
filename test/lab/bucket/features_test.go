package bucket_test

import (
	"net/http"
	"path/filepath"
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

// TestFeatureRequirements: F1 to F24 hold with features in a bucket.
func TestFeatureRequirements(t *testing.T) {
	checkfeatures.Requirements(t, filepath.Join("..", "..", ".."), "s3+"+serve(t, t.TempDir())+"/"+testBucket)
}
