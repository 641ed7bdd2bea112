package github_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/github"
	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// TestPagesDoNotEndEarly: all assets are listed, also by a server whose links to the
// next page are lost or in a second header.
func TestPagesDoNotEndEarly(t *testing.T) {
	t.Setenv("GH_CONFIG_DIR", t.TempDir())
	const link = `<https://example.test/?page=2>; rel="next"`
	for name, links := range map[string][]string{"a link": {link}, "no link": nil, "two headers": {`<https://example.test/>; rel="first"`, link}} {
		for _, n := range []int{0, 99, 100, 101, 250} {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				page, _ := strconv.Atoi(r.URL.Query().Get("page"))
				list := []github.Asset{}
				for i := (page - 1) * 100; i < min(n, page*100); i++ {
					list = append(list, github.Asset{ID: int64(i + 1), Name: fmt.Sprint("a", i)})
				}
				if page*100 < n {
					w.Header()["Link"] = links
				}
				answer := []map[string]any{}
				for _, a := range list {
					answer = append(answer, map[string]any{"id": a.ID, "name": a.Name, "state": "uploaded", "size": 1})
				}
				_ = json.NewEncoder(w).Encode(answer) // the client went away
			}))
			c, err := github.New("github+"+server.URL+"/o/r/v1", transport.New(transport.Config{}))
			if err != nil {
				t.Fatal(err)
			}
			all, err := c.Assets(t.Context(), 1)
			server.Close()
			if err != nil || len(all) != n {
				t.Errorf("%s: %d of %d assets, %v", name, len(all), n, err)
			}
		}
	}
}
