package store_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// bucket is the little of the JSON API that is read, two objects to a page.
type bucket struct {
	objects map[string]string
	spoil   func(answer map[string]any) // changes a page on its way
}

func (b bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := strings.CutPrefix(r.URL.Path, "/download/storage/v1/b/rel/o/"); ok && r.URL.Query().Get("alt") == "media" {
		content, ok := b.objects[name]
		if !ok {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, content)
		return
	}
	if r.URL.Path != "/storage/v1/b/rel/o" {
		http.NotFound(w, r)
		return
	}
	var names []string
	for name := range b.objects {
		if strings.HasPrefix(name, r.URL.Query().Get("prefix")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	start, _ := strconv.Atoi(r.URL.Query().Get("pageToken"))
	answer := map[string]any{"kind": "storage#objects"}
	if len(names) > start+2 {
		names = names[:start+2]
		answer["nextPageToken"] = strconv.Itoa(start + 2)
	}
	var items []map[string]any
	for _, name := range names[start:] {
		items = append(items, map[string]any{"name": name, "size": strconv.Itoa(len(b.objects[name])), "generation": "7"})
	}
	answer["items"] = items
	if b.spoil != nil {
		b.spoil(answer)
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func openBucket(t *testing.T, b bucket, path string) store.Place {
	t.Helper()
	srv := httptest.NewServer(b)
	t.Cleanup(srv.Close)
	place, err := store.Open("gs+"+srv.URL+path, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

func TestBucket(t *testing.T) {
	place := openBucket(t, bucket{objects: map[string]string{
		"v1/": "", "v1/b/": "", "v1/a": "A", "v1/b/c": "BC", "v1/d": "", "v1/e": "E", "v1/f": "F", "v2/a": "other", "v10": "sibling",
	}}, "/rel/v1")
	if !strings.HasSuffix(place.URI(), "/rel/v1/") {
		t.Errorf("URI %q", place.URI())
	}
	objects, err := place.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Object{
		{Name: "a", Size: 1, Generation: "7"}, {Name: "b/c", Size: 2, Generation: "7"}, {Name: "d", Generation: "7"},
		{Name: "e", Size: 1, Generation: "7"}, {Name: "f", Size: 1, Generation: "7"},
	}
	if !slices.Equal(objects, want) {
		t.Errorf("listed %v, want %v", objects, want)
	}
	body, size, err := place.Open(t.Context(), "b/c")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, err := io.ReadAll(body); string(got) != "BC" || err != nil || size != 2 {
		t.Errorf("read %q (%d), %v", got, size, err)
	}
	if _, _, err := place.Open(t.Context(), "v2/a"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("opening what is not there: %v", err)
	}
}

func TestBucketListingIsNotBelievedBlindly(t *testing.T) {
	item := func(name, size string) map[string]any { return map[string]any{"name": name, "size": size} }
	for name, c := range map[string]struct {
		spoil func(map[string]any)
		want  string
	}{
		"untouched (twin)":       {nil, ""},
		"unknown fields (twin)":  {func(a map[string]any) { a["prefixes"] = []string{"x"} }, ""},
		"an object elsewhere":    {func(a map[string]any) { a["items"] = []any{item("w1/a", "1")} }, "UNAVAILABLE"},
		"a name that climbs":     {func(a map[string]any) { a["items"] = []any{item("v1/../a", "1")} }, "PATH"},
		"a folder (twin)":        {func(a map[string]any) { a["items"] = []any{item("v1/", "0"), item("v1/x/", "0"), item("v1/a", "1")} }, ""},
		"a folder with bytes":    {func(a map[string]any) { a["items"] = []any{item("v1/x/", "1")} }, "PATH"},
		"the place with bytes":   {func(a map[string]any) { a["items"] = []any{item("v1/", "1")} }, "PATH"},
		"a folder that climbs":   {func(a map[string]any) { a["items"] = []any{item("v1/../", "0")} }, "PATH"},
		"a folder in no folder":  {func(a map[string]any) { a["items"] = []any{item("v1//", "0")} }, "PATH"},
		"no size":                {func(a map[string]any) { a["items"] = []any{item("v1/a", "")} }, "UNAVAILABLE"},
		"a negative size":        {func(a map[string]any) { a["items"] = []any{item("v1/a", "-1")} }, "UNAVAILABLE"},
		"the same object twice":  {func(a map[string]any) { a["items"] = []any{item("v1/a", "1"), item("v1/a", "1")} }, "UNAVAILABLE"},
		"a page that never ends": {func(a map[string]any) { a["nextPageToken"] = "0" }, "UNAVAILABLE"},
		"items of another type":  {func(a map[string]any) { a["items"] = "none" }, "UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			place := openBucket(t, bucket{objects: map[string]string{"v1/a": "A"}, spoil: c.spoil}, "/rel/v1/")
			if _, err := place.List(t.Context()); code(err) != c.want {
				t.Errorf("listing: %v, want %q", err, c.want)
			}
		})
	}
}

func TestMissingBucketIsUnavailable(t *testing.T) {
	place := openBucket(t, bucket{}, "/other/")
	_, err := place.List(t.Context())
	if code(err) != "UNAVAILABLE" || errors.Is(err, store.ErrNotFound) {
		t.Errorf("listing a bucket that is not there: %v, want UNAVAILABLE", err)
	}
}

func TestWeb(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/r/v1/bin/a+b":
			fmt.Fprint(w, "bytes")
		case "/r/v1/broken":
			w.Header().Set("Content-Length", "10")
			fmt.Fprint(w, "half")
		case "/r/v1/error":
			http.Error(w, "no", http.StatusForbidden)
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	place, err := store.Open(srv.URL+"/r/v1", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := place.List(t.Context()); !errors.Is(err, store.ErrNotListable) {
		t.Errorf("listing: %v, want ErrNotListable", err)
	}
	body, size, err := place.Open(t.Context(), "bin/a+b")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if got, _ := io.ReadAll(body); string(got) != "bytes" || size != 5 {
		t.Errorf("read %q (%d)", got, size)
	}
	if _, _, err := place.Open(t.Context(), "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("404: %v, want ErrNotFound", err)
	}
	if _, _, err := place.Open(t.Context(), "error"); code(err) != "UNAVAILABLE" {
		t.Errorf("403: %v, want UNAVAILABLE", err)
	}
	broken, _, err := place.Open(t.Context(), "broken")
	if err != nil {
		t.Fatal(err)
	}
	defer broken.Close()
	if _, err := io.ReadAll(broken); code(err) != "UNAVAILABLE" {
		t.Errorf("a body that breaks off: %v, want UNAVAILABLE", err)
	}
	srv.Close()
	if _, _, err := place.Open(t.Context(), "nothing"); code(err) != "UNAVAILABLE" {
		t.Errorf("no server: %v, want UNAVAILABLE", err)
	}
}
