package draft_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/draft"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
	"github.com/waybill-release/waybill/pkg/testing/releases"
)

const repository = "example/lantern"

// serve starts a service with one repository, which has the tag v1.
func serve(t *testing.T) (*releases.Server, string) {
	t.Helper()
	t.Setenv(transport.PatienceVariable, "300ms")
	t.Setenv("GH_CONFIG_DIR", t.TempDir())
	t.Setenv("GH_ENTERPRISE_TOKEN", releases.Token)
	s, err := releases.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Change(repository, func(r *releases.Repository) { r.Tags = []string{"v1"} })
	objects, api := httptest.NewServer(s), httptest.NewServer(s)
	t.Cleanup(objects.Close)
	t.Cleanup(api.Close)
	s.Objects = objects.URL
	t.Cleanup(func() {
		if n := s.Leaked(); n > 0 {
			t.Errorf("%d requests took the token to another origin", n)
		}
	})
	return s, "github+" + strings.Replace(api.URL, "https", "http", 1) + "/" + repository + "/v1/"
}

func open(t *testing.T, uri string) *draft.Release {
	t.Helper()
	r, err := draft.Open(uri, transport.New(transport.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestConformance(t *testing.T) {
	checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) {
		_, uri := serve(t)
		r := open(t, uri)
		return r, r
	})
}

func write(t *testing.T, r *draft.Release, contents map[string]string) {
	t.Helper()
	for name, content := range contents {
		if err := r.Put(t.Context(), name, int64(len(content)), strings.NewReader(content), store.PutOptions{IfAbsent: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConformanceOfTheReader publishes, and reads as users do.
func TestConformanceOfTheReader(t *testing.T) {
	checkplaces.Read(t, func(t *testing.T) store.Place {
		_, uri := serve(t)
		r := open(t, uri)
		write(t, r, checkplaces.Contents())
		if err := r.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GH_ENTERPRISE_TOKEN", "")
		place, err := store.Open(uri, transport.New(transport.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		return place
	})
}

var _ = http.StatusOK
