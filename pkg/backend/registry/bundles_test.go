package registry

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// listing counts what is asked, and has referrers listed as a test wants.
type listing struct {
	mu    sync.Mutex // guards asked
	asked []string
	list  func(kind string) []element // nil: as the registry does
}

func (l *listing) before(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		l.mu.Lock()
		l.asked = append(l.asked, r.URL.Path)
		l.mu.Unlock()
		if l.list == nil || !strings.Contains(r.URL.Path, "/referrers/") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", MediaTypeIndex)
		_ = json.NewEncoder(w).Encode(document{SchemaVersion: 2, MediaType: MediaTypeIndex, Manifests: l.list(r.URL.Query().Get("artifactType"))})
	})
}

func (l *listing) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.asked)
	l.asked = nil
	return n
}

func listed(d Descriptor, annotations map[string]string) element {
	return element{MediaType: d.MediaType, Digest: d.Digest.String(), Size: d.Size, ArtifactType: mediaTypeBundle, Annotations: annotations}
}

// TestBundlesAreReadByTheirAnnotation: the annotation saves a request, and what
// is wrong with it costs one.
func TestBundlesAreReadByTheirAnnotation(t *testing.T) {
	l := &listing{}
	r := serve(t, l.before, registry.WithReferrersSupport(true))
	d, _ := index(t, r, "v1")
	one := attach(t, r, d, "one")
	layer := digest.Of(digest.SHA256, []byte("one")).String()
	other := digest.Of(digest.SHA256, []byte("another")).String()
	for _, row := range []struct {
		name, hint string
		requests   int
	}{
		{"right", layer + " 3", 2},
		{"none", "", 3},
		{"no digest", "one 3", 3},
		{"no size", layer, 3},
		{"a size that is none", layer + " -3", 3},
		{"another size", layer + " 4", 4},
		{"nothing that is there", other + " 7", 4},
		{"larger than any bundle", fmt.Sprint(layer, " ", MaxManifest+1), 3},
	} {
		t.Run(row.name, func(t *testing.T) {
			l.list = func(string) []element { return []element{listed(one, map[string]string{annotationLayer: row.hint})} }
			l.count()
			got, err := Bundles(t.Context(), r, "demo", d.Digest)
			if err != nil || len(got) != 1 || string(got[0]) != "one" {
				t.Fatalf("got %q, %v", got, err)
			}
			if n := l.count(); n != row.requests {
				t.Errorf("%d requests, want %d", n, row.requests)
			}
		})
	}
}

// TestBundlesInAFlood: what is of another kind is not read, and a list that is
// too long because of it is asked for again without it.
func TestBundlesInAFlood(t *testing.T) {
	l := &listing{}
	r := serve(t, l.before, registry.WithReferrersSupport(true))
	d, _ := index(t, r, "v1")
	ours := listed(attach(t, r, d, "ours"), map[string]string{annotationPredicate: "https://example.org/ours"})
	foreign := make([]element, 100_000)
	for i := range foreign {
		foreign[i] = listed(Descriptor{MediaType: MediaTypeManifest, Digest: digest.Of(digest.SHA256, fmt.Append(nil, i)), Size: 7}, nil)
		foreign[i].ArtifactType = "application/vnd.example.foreign"
	}
	honoursFilter := true
	size := 10_000
	l.list = func(kind string) []element {
		if kind == mediaTypeBundle && honoursFilter {
			return []element{ours}
		}
		return append(slices.Clone(foreign[:size]), ours)
	}
	for _, row := range []struct {
		name     string
		size     int
		filter   bool
		requests int
		code     string
	}{
		{"10 000 foreign referrers", 10_000, true, 3, ""},
		{"100 000 foreign referrers", 100_000, true, 4, ""},
		{"100 000 and a registry that cannot filter", 100_000, false, 2, "LIMIT"},
	} {
		t.Run(row.name, func(t *testing.T) {
			size, honoursFilter = row.size, row.filter
			l.count()
			for _, src := range []Source{r, Remember(r, false)} {
				got, err := Bundles(t.Context(), src, "demo", d.Digest, "https://example.org/ours")
				if code(err) != row.code || err == nil && (len(got) != 1 || string(got[0]) != "ours") {
					t.Fatalf("got %d, %v", len(got), err)
				}
				if n := l.count(); n != row.requests {
					t.Errorf("%d requests, want %d", n, row.requests)
				}
			}
		})
	}
	size = 1
	if got, err := Bundles(t.Context(), r, "demo", d.Digest, "https://example.org/theirs"); err != nil || len(got) > 0 {
		t.Errorf("of another kind: %d, %v", len(got), err)
	}
	l.list = func(string) []element {
		many := make([]element, maxBundles+1)
		for i := range many {
			many[i] = listed(Descriptor{MediaType: MediaTypeManifest, Digest: digest.Of(digest.SHA256, fmt.Append(nil, i)), Size: 7}, nil)
		}
		return many
	}
	if _, err := Bundles(t.Context(), r, "demo", d.Digest); code(err) != "LIMIT" {
		t.Errorf("more bundles than are read: %v", err)
	}
}

// TestIndexCalledABundle: an index has no bundle, so neither it nor what it lists
// is read.
func TestIndexCalledABundle(t *testing.T) {
	l := &listing{}
	r := serve(t, l.before, registry.WithReferrersSupport(true))
	d, _ := index(t, r, "v1")
	one := attach(t, r, d, "one")
	for _, row := range []struct {
		name              string
		referrer          Descriptor
		bundles, requests int
	}{{"a bundle (twin)", one, 1, 3}, {"an index", d, 0, 1}} {
		l.list = func(string) []element { return []element{listed(row.referrer, nil)} }
		l.count()
		got, err := Bundles(t.Context(), r, "demo", d.Digest)
		if n := l.count(); err != nil || len(got) != row.bundles || n != row.requests {
			t.Errorf("%s: got %q with %d requests, %v", row.name, got, n, err)
		}
	}
}

// TestMemoryOfATag: what a tag names is read once, and the tag each time.
func TestMemoryOfATag(t *testing.T) {
	l := &listing{}
	r := serve(t, l.before, registry.WithReferrersSupport(true))
	d := image(t, r, "amd64")
	if err := r.Tag(t.Context(), "demo", "v1", d); err != nil {
		t.Fatal(err)
	}
	l.count()
	m := Remember(r, false)
	defer m.Close()
	for range 2 {
		got, err := m.Resolve(t.Context(), "demo", "v1")
		if err == nil {
			_, err = Graph(t.Context(), m, "demo", got)
		}
		if err != nil || !got.Digest.Equal(d.Digest) {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	if n := l.count(); n != 2 {
		t.Errorf("%d requests for a tag asked twice", n)
	}
	if _, err := m.Resolve(t.Context(), "demo", "v2"); !errors.Is(err, ErrNotFound) {
		t.Errorf("no such tag: %v", err)
	}
}

// TestOneGreeting: however many set out at once, an open registry is asked once
// who may come in.
func TestOneGreeting(t *testing.T) {
	l := &listing{}
	r := serve(t, l.before)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() { _, _ = r.Resolve(t.Context(), fmt.Sprint("demo", i), "v1") })
	}
	all.Wait()
	pings := 0
	for _, path := range l.asked {
		if path == "/v2/" {
			pings++
		}
	}
	if pings != 1 || len(l.asked) != 51 {
		t.Errorf("%d greetings of %d requests", pings, len(l.asked))
	}
}

// TestLargeBundlesOfStrangers: what strangers attach costs a bounded number of
// bytes, and what is small among it is always read; whoever needs all of it is
// told that it is too much.
func TestLargeBundlesOfStrangers(t *testing.T) {
	l := &listing{}
	r := serve(t, l.before, registry.WithReferrersSupport(true))
	d, _ := index(t, r, "v1")
	size := MaxManifest - 2048 // with their manifests, eight leave less room than ours needs
	var all []element
	for i := range 12 {
		body := fmt.Sprintf("%04d", i) + strings.Repeat("x", size-4)
		hint := map[string]string{annotationLayer: fmt.Sprintf("%s %d", digest.Of(digest.SHA256, []byte(body)), len(body))}
		if i < 8 { // a size that only the manifest tells
			hint = nil
		}
		all = append(all, listed(attach(t, r, d, body), hint))
	}
	genuine := "ours" + strings.Repeat("x", alwaysRead-4)
	ours := listed(attach(t, r, d, genuine), map[string]string{annotationLayer: fmt.Sprintf("%s %d", digest.Of(digest.SHA256, []byte(genuine)), len(genuine))})
	for many, unread := range map[int]int{0: 0, 7: 0, 12: 5} {
		l.list = func(string) []element { return append(slices.Clone(all[:many]), ours) }
		read, found := 0, false
		heard, err := EachBundle(t.Context(), Target{r, "demo", d.Digest}, func(_ Descriptor, raw []byte) {
			read += len(raw)
			found = found || string(raw) == genuine
		})
		if err != nil || !found || read > maxBundleBytes || heard.Unread != unread || heard.Bundles != many+1-unread {
			t.Errorf("%d large ones: %+v, %d bytes, ours %v, %v", many, heard, read, found, err)
		}
		_, err = Bundles(t.Context(), r, "demo", d.Digest)
		if many < 12 && err != nil || many == 12 && code(err) != "LIMIT" {
			t.Errorf("all of %d large ones: %v", many, err)
		}
	}
}

// TestMemoryHasABound: what a memory has no room for is read each time.
func TestMemoryHasABound(t *testing.T) {
	l := &listing{}
	r := serve(t, l.before, registry.WithReferrersSupport(true))
	d, _ := index(t, r, "v1")
	m := Remember(r, false)
	defer m.Close()
	var layers []Descriptor
	for i := range 2 * maxRemembered / maxInMemory {
		body := fmt.Sprintf("%04d", i) + strings.Repeat("x", maxInMemory-4)
		attach(t, r, d, body)
		layers = append(layers, Descriptor{MediaType: mediaTypeBundle, Digest: digest.Of(digest.SHA256, []byte(body)), Size: maxInMemory})
	}
	fetch := func() int {
		l.count()
		for _, layer := range layers {
			body, err := m.Fetch(t.Context(), "demo", layer)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := fetchAll(body); err != nil || len(raw) != maxInMemory {
				t.Fatalf("%d bytes, %v", len(raw), err)
			}
		}
		return l.count()
	}
	first, second := fetch(), fetch()
	if kept := first - second; m.kept > maxRemembered || kept == 0 || second == 0 {
		t.Errorf("%d bytes are kept; %d requests at first and %d after it", m.kept, first, second)
	}
}
