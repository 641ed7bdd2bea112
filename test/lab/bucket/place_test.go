package bucket_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
)

// TestPlaces writes with the vendors' libraries, as promotion does, and reads
// both as they do and as a verifier without them does, in both languages.
func TestPlaces(t *testing.T) {
	for _, language := range []string{"gs", "s3"} {
		t.Run(language, func(t *testing.T) {
			open := func(t *testing.T) (*cloud.Bucket, store.Place) {
				uri := language + "+" + serve(t, t.TempDir()) + "/" + testBucket + "/v1/"
				own, err := cloud.Open(uri, http.DefaultTransport)
				if err != nil {
					t.Fatal(err)
				}
				public, err := store.Open(uri, http.DefaultTransport)
				if err != nil {
					t.Fatal(err)
				}
				return own, public
			}
			fill := func(t *testing.T, w store.Writer) {
				for name, content := range checkplaces.Contents() {
					if err := w.Put(t.Context(), name, int64(len(content)), strings.NewReader(content), store.PutOptions{IfAbsent: true}); err != nil {
						t.Fatal(err)
					}
				}
			}
			t.Run("written and read with the library", func(t *testing.T) {
				checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) {
					own, _ := open(t)
					return own, own
				})
			})
			t.Run("written with the library, read without", func(t *testing.T) {
				checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) {
					own, public := open(t)
					return public, own
				})
			})
			for name, pick := range map[string]func(*cloud.Bucket, store.Place) store.Place{
				"read with the library": func(own *cloud.Bucket, _ store.Place) store.Place { return own },
				"read without":          func(_ *cloud.Bucket, public store.Place) store.Place { return public },
			} {
				t.Run(name, func(t *testing.T) {
					checkplaces.Read(t, func(t *testing.T) store.Place {
						own, public := open(t)
						fill(t, own)
						return pick(own, public)
					})
				})
			}
		})
	}
}
