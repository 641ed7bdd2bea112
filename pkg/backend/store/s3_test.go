package store_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
)

// s3Bucket is the little of the REST API that is read, two objects to a page.
type s3Bucket struct {
	objects map[string]string
	plain   bool                // names are not encoded, whatever was asked
	spoil   func(string) string // changes a page on its way
}

func (b s3Bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/rel" && r.URL.Query().Get("list-type") == "2" {
		b.list(w, r.URL.Query())
		return
	}
	// This service takes a plus sign in a path for a blank.
	name, err := url.QueryUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/rel/"))
	content, found := b.objects[name]
	if err != nil || !found {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
		return
	}
	fmt.Fprint(w, content)
}

func (b s3Bucket) list(w http.ResponseWriter, query url.Values) {
	var names []string
	for name := range b.objects {
		if strings.HasPrefix(name, query.Get("prefix")) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	start, _ := strconv.Atoi(query.Get("continuation-token"))
	end, more := min(start+2, len(names)), "<IsTruncated>false</IsTruncated>"
	if end < len(names) {
		more = fmt.Sprintf("<IsTruncated>true</IsTruncated><NextContinuationToken>%d</NextContinuationToken>", end)
	}
	var page strings.Builder
	page.WriteString(`<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>rel</Name>` + more)
	if !b.plain {
		page.WriteString("<EncodingType>url</EncodingType>")
	}
	for _, name := range names[start:end] {
		key := url.QueryEscape(name)
		if b.plain {
			key = name
		}
		page.WriteString("<Contents><Key>")
		_ = xml.EscapeText(&page, []byte(key))
		fmt.Fprintf(&page, `</Key><Size>%d</Size><ETag>"7"</ETag></Contents>`, len(b.objects[name]))
	}
	page.WriteString("</ListBucketResult>")
	answer := page.String()
	if b.spoil != nil {
		answer = b.spoil(answer)
	}
	fmt.Fprint(w, answer)
}

func openS3(t *testing.T, h http.Handler, path string) store.Place {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	place, err := store.Open("s3+"+srv.URL+path, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// holding are the contents of the suite under a prefix, beside a neighbour.
func holding(prefix string) map[string]string {
	objects := map[string]string{"v10": "sibling", "v2/a": "other"}
	for name, content := range checkplaces.Contents() {
		objects[prefix+name] = content
	}
	return objects
}

func TestPlacesThatAreRead(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) store.Place{
		"google": func(t *testing.T) store.Place { return openBucket(t, bucket{objects: holding("v1/")}, "/rel/v1") },
		"s3":     func(t *testing.T) store.Place { return openS3(t, s3Bucket{objects: holding("v1/")}, "/rel/v1") },
		"s3, plain names": func(t *testing.T) store.Place {
			return openS3(t, s3Bucket{objects: holding("v1/"), plain: true}, "/rel/v1")
		},
		"s3, whole bucket":  func(t *testing.T) store.Place { return openS3(t, s3Bucket{objects: checkplaces.Contents()}, "/rel") },
		"web, not listable": openTree,
		"web, listed by a bucket": func(t *testing.T) store.Place {
			return store.Listed(openTree(t), openS3(t, s3Bucket{objects: holding("v1/")}, "/rel/v1"))
		},
		"directory": func(t *testing.T) store.Place {
			dir := t.TempDir()
			w, err := store.OpenWriter(dir)
			for name, content := range checkplaces.Contents() {
				if err == nil {
					err = w.Put(t.Context(), name, -1, strings.NewReader(content), store.PutOptions{})
				}
			}
			place, failed := store.Open(dir, nil)
			if err := errors.Join(err, failed); err != nil {
				t.Fatal(err)
			}
			return place
		},
	} {
		t.Run(name, func(t *testing.T) { checkplaces.Read(t, open) })
	}
}

// openTree serves the contents as a tree of files.
func openTree(t *testing.T) store.Place {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, found := checkplaces.Contents()[strings.TrimPrefix(r.URL.Path, "/v1/")]
		if !found {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, content)
	}))
	t.Cleanup(srv.Close)
	place, err := store.Open(srv.URL+"/v1/", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	return place
}

func TestS3ListingIsNotBelievedBlindly(t *testing.T) {
	swap := func(old, new string) func(string) string {
		return func(page string) string { return strings.ReplaceAll(page, old, new) }
	}
	const key = "<Key>v1%2Fa</Key>"
	for name, c := range map[string]struct {
		spoil func(string) string
		want  string
	}{
		"untouched (twin)":        {nil, ""},
		"unknown elements (twin)": {swap("<Contents>", "<Owner>x</Owner><Contents>"), ""},
		"an object elsewhere":     {swap(key, "<Key>w1%2Fa</Key>"), "UNAVAILABLE"},
		"a name that climbs":      {swap(key, "<Key>v1%2F..%2Fa</Key>"), "PATH"},
		"a folder with bytes":     {swap(key, "<Key>v1%2Fa%2F</Key>"), "PATH"},
		"a folder (twin)": {func(page string) string {
			return strings.NewReplacer(key, "<Key>v1%2Fa%2F</Key>", "<Size>1<", "<Size>0<").Replace(page)
		}, ""},
		"a name in no encoding":       {swap(key, "<Key>v1%2</Key>"), "UNAVAILABLE"},
		"no size":                     {swap("<Size>1</Size>", ""), "UNAVAILABLE"},
		"a negative size":             {swap("<Size>1<", "<Size>-1<"), "UNAVAILABLE"},
		"whole, and it does not say":  {swap("<IsTruncated>false</IsTruncated>", ""), "UNAVAILABLE"},
		"cut off, without what next":  {swap(">false<", ">true<"), "UNAVAILABLE"},
		"a page that never ends":      {swap("<IsTruncated>false</IsTruncated>", "<IsTruncated>true</IsTruncated><NextContinuationToken>0</NextContinuationToken>"), "UNAVAILABLE"},
		"the document breaks off":     {func(page string) string { return page[:len(page)-5] }, "UNAVAILABLE"},
		"another document behind it":  {func(page string) string { return page + page }, "UNAVAILABLE"},
		"a document of another kind":  {swap("ListBucketResult", "Error"), "UNAVAILABLE"},
		"an empty answer":             {func(string) string { return "" }, "UNAVAILABLE"},
		"the listing of a web server": {func(string) string { return "<html><a href=a>a</a></html>" }, "UNAVAILABLE"},
	} {
		t.Run(name, func(t *testing.T) {
			place := openS3(t, s3Bucket{objects: map[string]string{"v1/a": "A"}, spoil: c.spoil}, "/rel/v1/")
			if _, err := place.List(t.Context()); code(err) != c.want {
				t.Errorf("listing: %v, want %q", err, c.want)
			}
		})
	}
}

func TestS3SaysWhereTheBucketIs(t *testing.T) {
	place := openS3(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amz-Bucket-Region", "eu-north-1")
		w.WriteHeader(http.StatusMovedPermanently)
	}), "/rel/")
	if _, err := place.List(t.Context()); code(err) != "UNAVAILABLE" || !strings.Contains(err.Error(), `"eu-north-1": name it as s3+https://`) {
		t.Errorf("listing a bucket of another region: %v", err)
	}
}
