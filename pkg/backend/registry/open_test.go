package registry_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
)

// TestGreeting: a registry that lets in anybody is asked once who may come in,
// and one that does not for each repository.
func TestGreeting(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // nobody's credentials
	for challenge, want := range map[string]int64{"": 1, `Basic realm="x"`: 3} {
		var asked, named atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path != "/v2/":
				named.Add(1)
				_, _ = w.Write([]byte(`{"name":"x","tags":["v1"]}`))
			case challenge != "":
				asked.Add(1)
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(http.StatusUnauthorized)
			default:
				asked.Add(1)
			}
		}))
		remote, err := registry.OpenRemote(strings.TrimPrefix(server.URL, "http://"), http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		for _, repo := range []string{"a", "b/c", "d"} {
			tags, err := remote.Tags(context.Background(), repo)
			if err != nil || len(tags) != 1 {
				t.Errorf("%q: tags of %s: %v, %v", challenge, repo, tags, err)
			}
		}
		if asked.Load() != want || named.Load() != 3 {
			t.Errorf("%q: asked %d times, and for tags %d times, want %d and 3", challenge, asked.Load(), named.Load(), want)
		}
		server.Close()
	}
}
