package promote_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// lister is a registry that only lists.
type lister struct {
	host  string
	asked atomic.Int64
	tags  map[string]map[string]digest.Digest // by repository
	// google says which manifests there are, as Google's registries do.
	google bool
	down   bool
	silent string // a tag without an answer
}

func newLister(t testing.TB) *lister {
	t.Helper()
	l := &lister{tags: map[string]map[string]digest.Digest{}, google: true}
	srv := httptest.NewServer(l)
	t.Cleanup(srv.Close)
	l.host = strings.TrimPrefix(srv.URL, "http://")
	return l
}

func (l *lister) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/")
	if path == "" {
		return
	}
	l.asked.Add(1)
	repo, tag, isTag := strings.Cut(path, "/manifests/")
	repo = strings.TrimSuffix(repo, "/tags/list")
	tags, known := l.tags[repo]
	switch {
	case l.down, isTag && tag == l.silent:
		w.WriteHeader(http.StatusServiceUnavailable)
	case !known:
		w.WriteHeader(http.StatusNotFound)
	case isTag:
		for name, d := range tags {
			if name == tag || d.String() == tag {
				w.Header().Set("Docker-Content-Digest", d.String())
				return
			}
		}
		w.WriteHeader(http.StatusNotFound)
	default:
		l.list(w, repo, tags)
	}
}

func (l *lister) list(w http.ResponseWriter, repo string, tags map[string]digest.Digest) {
	names, manifests, sep := "", "", ""
	for name, d := range tags {
		names += fmt.Sprintf("%s%q", sep, name)
		manifests += fmt.Sprintf(`%s%q:{"imageSizeBytes":"1","mediaType":%q,"tag":[%q]}`, sep, d.String(), registry.MediaTypeManifest, name)
		sep = ","
	}
	if !l.google {
		fmt.Fprintf(w, `{"name":%q,"tags":[%s]}`, repo, names)
		return
	}
	fmt.Fprintf(w, `{"child":["x"],"manifest":{%s},"name":%q,"tags":[%s]}`, manifests, repo, names)
}

func sum(text string) digest.Digest { return digest.Of(digest.SHA256, []byte(text)) }

func diffOf(t testing.TB, p promotionplan.Plan) promote.Difference {
	t.Helper()
	rt := transport.New(transport.Config{})
	d, err := promote.Diff{Plan: p, Open: func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, rt) }}.Compare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDiff(t *testing.T) {
	edges := []promotionplan.Edge{
		{Image: "demo", Digest: sum("one"), Tags: []string{"v1"}},
		{Image: "demo", Digest: sum("two"), Tags: []string{"v2", "latest"}},
		{Image: "demo", Digest: sum("three")},
	}
	there := func() map[string]digest.Digest {
		return map[string]digest.Digest{"v1": sum("one"), "v2": sum("two"), "latest": sum("two"), "x": sum("three")}
	}
	for _, c := range []struct {
		name   string
		change func(l *lister, tags map[string]digest.Digest)
		want   promote.DestinationDiff
		code   verdict.Code
	}{
		{"all is there", func(*lister, map[string]digest.Digest) {}, promote.DestinationDiff{Same: 3, Unnamed: 1}, ""},
		{"a tag is missing", func(_ *lister, tags map[string]digest.Digest) { delete(tags, "latest") }, promote.DestinationDiff{Same: 2, Missing: 1, Unnamed: 1}, ""},
		{"a digest is missing", func(_ *lister, tags map[string]digest.Digest) { delete(tags, "x") }, promote.DestinationDiff{Same: 2, Missing: 1}, ""},
		{"a tag names another image", func(_ *lister, tags map[string]digest.Digest) { tags["latest"] = sum("four") }, promote.DestinationDiff{Same: 2, Other: 1, Unnamed: 1}, verdict.TagConflict},
		{"a tag that nobody planned", func(_ *lister, tags map[string]digest.Digest) { tags["y"] = sum("five") }, promote.DestinationDiff{Same: 3, Unnamed: 2}, ""},
		{"evidence by a tag", func(_ *lister, tags map[string]digest.Digest) { tags["sha256-"+sum("one").Hex()+".sig"] = sum("sig") }, promote.DestinationDiff{Same: 3, Unnamed: 1}, ""},
		{"no such repository", func(l *lister, _ map[string]digest.Digest) { clear(l.tags) }, promote.DestinationDiff{Missing: 3}, ""},
		{"no answer", func(l *lister, _ map[string]digest.Digest) { l.down = true }, promote.DestinationDiff{Unknown: 3}, verdict.PlaceDown},
		{"no answer about a tag", func(l *lister, _ map[string]digest.Digest) { l.google, l.silent = false, "v2" }, promote.DestinationDiff{Unknown: 3, Unnamed: 1}, verdict.PlaceDown},
	} {
		for _, google := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, digests %v", c.name, google), func(t *testing.T) {
				t.Setenv(transport.PatienceVariable, "400ms")
				l := newLister(t)
				l.google = google
				tags := there()
				l.tags["prod/demo"] = tags
				c.change(l, tags)
				to := l.host + "/prod"
				d := diffOf(t, promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{{Source: "staging.test/a", Destinations: []string{to}}}, Edges: edges})
				got := d.Destinations[0]
				if len(got.Images) != got.Missing+got.Other+got.Unknown {
					t.Errorf("%d are listed of %+v", len(got.Images), got)
				}
				if !slices.IsSortedFunc(got.Images, func(a, b promote.ImageDiff) int { return a.Edge - b.Edge }) && c.want.Other == 0 {
					t.Errorf("they are not in the order of the plan: %+v", got.Images)
				}
				got.Images, c.want.To = nil, to
				if fmt.Sprint(got) != fmt.Sprint(c.want) {
					t.Errorf("%+v, want %+v", got, c.want)
				}
				switch err := d.Err(); {
				case (err == nil) != (c.code == ""), err != nil && verdict.FindingOf("", err).Code != c.code:
					t.Errorf("%v, want %q", err, c.code)
				}
				if n := l.asked.Load(); l.google && !l.down && n != 1 {
					t.Errorf("asked %d times where the list says all", n)
				}
			})
		}
	}
}

// TestDiffOfARegistryThatCannotBeOpened: nothing was compared, so there is no
// difference to report.
func TestDiffOfARegistryThatCannotBeOpened(t *testing.T) {
	p := promotionplan.Plan{Schema: promotionplan.Schema,
		Routes: []promotionplan.Route{{Source: "staging.test/a", Destinations: []string{"prod.test/a"}}},
		Edges:  []promotionplan.Edge{{Image: "demo", Digest: sum("one"), Tags: []string{"v1"}}},
	}
	closed := errors.New("no credentials")
	d, err := promote.Diff{Plan: p, Open: func(string) (*registry.Remote, error) { return nil, closed }}.Compare(t.Context())
	if !errors.Is(err, closed) || len(d.Destinations) != 0 {
		t.Errorf("%+v, %v", d, err)
	}
}

// silent counts the repositories that it is asked about, and does not answer about any.
type silent struct{ asked sync.Map }

func (s *silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == "/v2/" {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}
	s.asked.Store(r.URL.Path, true)
	return nil, io.ErrUnexpectedEOF
}

// TestDiffOfARegistryThatIsDown: after three repositories about which it did not
// answer, a registry is not asked about further ones; all count as unknown.
func TestDiffOfARegistryThatIsDown(t *testing.T) {
	const images, inFlight = 200, 64
	p := promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{{Source: "staging.test/a", Destinations: []string{"prod.test/a"}}}}
	for i := range images {
		p.Edges = append(p.Edges, promotionplan.Edge{Image: fmt.Sprintf("demo-%03d", i), Digest: sum("one"), Tags: []string{"v1"}})
	}
	rt, asked := &silent{}, 0
	d, err := promote.Diff{Plan: p, Open: func(host string) (*registry.Remote, error) { return registry.OpenRemote(host, rt) }}.Compare(t.Context())
	if err != nil || d.Destinations[0].Unknown != images || verdict.FindingOf("", d.Err()).Code != verdict.PlaceDown {
		t.Errorf("%+v, %v", d.Destinations, err)
	}
	rt.asked.Range(func(any, any) bool { asked++; return true })
	if asked < 3 || asked > inFlight+3 {
		t.Errorf("it was asked about %d repositories", asked)
	}
}

// TestDiffOfOneRepositoryByTwoRoutes: what one route brings there is not unnamed
// for the other, and the repository is listed once.
func TestDiffOfOneRepositoryByTwoRoutes(t *testing.T) {
	l := newLister(t)
	l.tags["prod/a/demo"] = map[string]digest.Digest{"v1": sum("one"), "v2": sum("two")}
	d := diffOf(t, promotionplan.Plan{Schema: promotionplan.Schema,
		Routes: []promotionplan.Route{{Source: "staging.test/a", Destinations: []string{l.host + "/prod"}}, {Source: "staging.test/b", Destinations: []string{l.host + "/prod/a"}}},
		Edges:  []promotionplan.Edge{{Image: "a/demo", Digest: sum("one"), Tags: []string{"v1"}}, {Route: 1, Image: "demo", Digest: sum("two"), Tags: []string{"v2"}}},
	})
	for _, s := range d.Destinations {
		if s.Same != 1 || s.Unnamed != 0 {
			t.Errorf("%+v", s)
		}
	}
	if n := l.asked.Load(); n != 1 || d.Lists != 1 || len(d.Destinations) != 2 {
		t.Errorf("asked %d times: %+v", n, d)
	}
}

// BenchmarkDiff compares 46 000 images with 21 destinations that have them,
// listed by a server in the same process.
func BenchmarkDiff(b *testing.B) {
	const images, repositories = 46_000, 2_000
	l := newLister(b)
	p := promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{{Source: "staging.test/a"}}}
	for i := range 21 {
		p.Routes[0].Destinations = append(p.Routes[0].Destinations, fmt.Sprintf("%s/region-%02d", l.host, i))
	}
	for i := range images {
		image, tag, d := fmt.Sprintf("demo-%04d", i*repositories/images), fmt.Sprint("v", i), sum(fmt.Sprint(i))
		p.Edges = append(p.Edges, promotionplan.Edge{Image: image, Digest: d, Tags: []string{tag}})
		for region := range 21 {
			repo := fmt.Sprintf("region-%02d/%s", region, image)
			if l.tags[repo] == nil {
				l.tags[repo] = map[string]digest.Digest{}
			}
			l.tags[repo][tag] = d
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		l.asked.Store(0)
		if d := diffOf(b, p); d.Err() != nil || d.Destinations[20].Same != images {
			b.Fatalf("%v", d.Err())
		}
	}
	b.ReportMetric(float64(l.asked.Load()), "requests/op")
}
