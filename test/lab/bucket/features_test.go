package bucket_test

import (
	"net/http"
	"testing"

	featurestore "github.com/waybill-release/waybill/pkg/feature/store"
	"github.com/waybill-release/waybill/pkg/feature/store/storetest"
	"github.com/waybill-release/waybill/pkg/store/cloud"
)

// TestFeatures keeps features in buckets of both languages, in both stores.
func TestFeatures(t *testing.T) {
	for _, language := range []string{"gs", "s3"} {
		for name, open := range map[string]func(featurestore.Place) (featurestore.Store, error){
			"replacing": featurestore.Replacing,
			"appending": func(at featurestore.Place) (featurestore.Store, error) { return featurestore.Appending(at), nil },
		} {
			t.Run(language+"/"+name, func(t *testing.T) {
				storetest.Run(t, func(t *testing.T) func() featurestore.Store {
					uri := language + "+" + serve(t, t.TempDir()) + "/" + testBucket + "/features/"
					return func() featurestore.Store {
						at, err := cloud.Open(uri, http.DefaultTransport)
						if err != nil {
							t.Fatal(err)
						}
						s, err := open(featurestore.Place{Place: at, Writer: at})
						if err != nil {
							t.Fatal(err)
						}
						return s
					}
				})
			})
		}
	}
}
