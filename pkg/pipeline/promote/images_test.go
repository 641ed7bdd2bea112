package promote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// host is a registry on this machine that counts what it is asked, and can
// answer otherwise.
type host struct {
	name string

	mu    sync.Mutex // owns the rest
	asked []string
	spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

func newHost(t *testing.T) *host {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // nobody's credentials
	t.Setenv(transport.PatienceVariable, "600ms")
	h := &host{}
	next := ggcr.New(ggcr.WithReferrersSupport(true), ggcr.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.asked = append(h.asked, r.Method+" "+r.URL.Path)
		spoil := h.spoil
		h.mu.Unlock()
		if spoil != nil {
			spoil(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(srv.Close)
	h.name = strings.TrimPrefix(srv.URL, "http://")
	return h
}

// count forgets what was asked so far, and says how much that was.
func (h *host) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.asked)
	h.asked = nil
	return n
}

// says makes the host answer otherwise from now on.
func (h *host) says(spoil func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spoil = spoil
}

// yes accepts every image after reading it whole, and counts how often it was
// asked.
type yes struct {
	mu    sync.Mutex // owns asked
	asked int
	err   error
}

func (j *yes) Image(ctx context.Context, image gate.Image) *verdict.Verdict {
	j.mu.Lock()
	j.asked++
	j.mu.Unlock()
	v := verdict.New("image", time.Now())
	v.Counts.Required = 1
	v.Policy = digest.Of(digest.SHA256, []byte("the policy"))
	d, err := image.Source.Resolve(ctx, image.Repository, image.Digest.String())
	if err == nil {
		_, err = registry.Graph(ctx, image.Source, image.Repository, d)
	}
	if err = errors.Join(err, j.err); err != nil {
		v.AddError(image.Name, err)
		return v
	}
	v.Counts.Verified = 1
	v.Proofs = []verdict.Proof{{Subject: image.Name, Bundle: digest.Of(digest.SHA256, []byte(image.Name))}}
	return v
}

// moving is a plan with its world.
type moving struct {
	t        *testing.T
	from     *host
	to       []*host
	image    registry.Descriptor
	children []registry.Descriptor
	judge    *yes
	promote.Images
}

// twoPlatforms is an image of two platforms with a bundle for each manifest, to
// be promoted to n hosts as demo:v1.
func twoPlatforms(t *testing.T, n int) *moving {
	t.Helper()
	m := &moving{t: t, from: newHost(t), judge: &yes{}}
	ref, err := name.NewTag(m.from.name + "/staging/demo:any")
	if err != nil {
		t.Fatal(err)
	}
	index, err := random.Index(512, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.WriteIndex(ref, index); err != nil {
		t.Fatal(err)
	}
	src := m.open(m.from.name + "/staging")
	if m.image, err = src.Resolve(t.Context(), "demo", "any"); err != nil {
		t.Fatal(err)
	}
	list, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	attach(t, src, m.image, "about the index")
	for _, child := range list.Manifests {
		d := describe(t, child)
		m.children = append(m.children, d)
		attach(t, src, d, "about "+child.Digest.String())
	}
	route := promotionplan.Route{Manifest: "m", Source: m.from.name + "/staging"}
	for range n {
		h := newHost(t)
		m.to = append(m.to, h)
		route.Destinations = append(route.Destinations, h.name+"/prod")
	}
	slices.Sort(route.Destinations)
	m.Images = promote.Images{
		Plan: promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{route}, Edges: []promotionplan.Edge{
			{Image: "demo", Digest: m.image.Digest, Tags: []string{"v1"}},
		}},
		Judge: func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error) { return m.judge, nil },
		Open: func(prefix string) (*registry.Remote, error) {
			return registry.OpenRemote(prefix, transport.New(transport.Config{Attempts: 2, Patience: time.Second}))
		},
		Run: promote.Run{Now: time.Now()},
	}
	m.from.count()
	return m
}

func describe(t *testing.T, d v1.Descriptor) registry.Descriptor {
	t.Helper()
	sum, err := digest.Parse(d.Digest.String())
	if err != nil {
		t.Fatal(err)
	}
	return registry.Descriptor{MediaType: string(d.MediaType), Digest: sum, Size: d.Size}
}

func attach(t *testing.T, to *registry.Remote, d registry.Descriptor, content string) {
	t.Helper()
	manifest, raw, blobs := registry.BundleManifest(d, []byte(content), "https://example.org/predicate/v1")
	for _, b := range blobs {
		if err := to.PushBlob(t.Context(), "demo", b.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := to.PushManifest(t.Context(), "demo", manifest, raw); err != nil {
		t.Fatal(err)
	}
}

// open opens a registry that answers, on however busy a machine.
func (m *moving) open(prefix string) *registry.Remote {
	m.t.Helper()
	r, err := registry.OpenRemote(prefix, transport.New(transport.Config{Patience: time.Minute}))
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// remember gives the promotion a journal.
func (m *moving) remember() {
	m.t.Helper()
	j, err := journal.Open(filepath.Join(m.t.TempDir(), "journal"))
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { j.Close() })
	m.Ledger = promote.OpenLedger(j, "a policy", time.Now)
}

func (m *moving) apply() promote.Applied {
	m.t.Helper()
	done, err := m.Apply(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return done
}

// tagged reports whether a host has the image under its tag, and then demands
// that it has all of it: whatever happens, that is what must hold.
func (m *moving) tagged(h *host) bool {
	m.t.Helper()
	r := m.open(h.name + "/prod")
	d, err := r.Resolve(m.t.Context(), "demo", "v1")
	if errors.Is(err, registry.ErrNotFound) {
		return false
	}
	if err != nil {
		m.t.Fatal(err)
	}
	if !d.Digest.Equal(m.image.Digest) {
		m.t.Fatalf("the tag names %s", d.Digest)
	}
	node, err := registry.Graph(m.t.Context(), r, "demo", d)
	if err != nil {
		m.t.Fatalf("the tag is there, and the image is not whole: %v", err)
	}
	if _, err := registry.VerifyBlobs(m.t.Context(), r, "demo", node); err != nil {
		m.t.Fatalf("the tag is there, and the image is not whole: %v", err)
	}
	for _, of := range append([]registry.Descriptor{m.image}, m.children...) {
		if list, err := r.Referrers(m.t.Context(), "demo", of.Digest); err != nil || len(list) < 1 {
			m.t.Fatalf("the tag is there, and the evidence is not: %v, %v", list, err)
		}
	}
	return true
}

func codesOf(v *verdict.Verdict) string {
	var list []string
	for _, f := range v.Findings {
		list = append(list, string(f.Code))
	}
	slices.Sort(list)
	return strings.Join(slices.Compact(list), " ")
}

func TestImages(t *testing.T) {
	m := twoPlatforms(t, 3)
	done := m.apply()
	if err := done.Verdict.Err(); err != nil {
		t.Fatal(err)
	}
	for _, h := range m.to {
		if !m.tagged(h) {
			t.Errorf("%s has no tag", h.name)
		}
	}
	if text := strings.Join(done.Verdict.Sentences, "\n"); strings.Contains(text, "an earlier run") {
		t.Errorf("a first run says %q", text)
	}
	if c := done.Verdict.Counts; c.Required != 3 || c.Verified != 3 || len(done.Items) != 3 {
		t.Errorf("%v, %v", c, done.Items)
	}
	if m.judge.asked != 1 {
		t.Errorf("it was judged %d times for three mirrors", m.judge.asked)
	}
	// One reading of everything there is, whatever the number of mirrors: three
	// manifests, four blobs, three lists, three bundles of a manifest and a blob
	// and the configuration of the bundles, the tags, and the greeting.
	asked := m.from.asked
	if n := m.from.count(); n > 3+4+3+3*2+1+1+1 {
		t.Errorf("the source was asked %d times: %s", n, strings.Join(asked, "\n"))
	}
}

func TestImagesAgain(t *testing.T) {
	m := twoPlatforms(t, 1)
	m.remember()
	m.apply()
	m.from.count()
	m.to[0].count()
	again := m.apply()
	if s := again.Items[0].State; s != promote.Present {
		t.Errorf("the second run says %s", s)
	}
	if text := strings.Join(again.Verdict.Sentences, "\n"); !strings.Contains(text, "Copies that an earlier run had made, with their evidence: 1.") {
		t.Errorf("a run with nothing to do says %q", text)
	}
	if again.Verdict.Err() != nil || !again.Verdict.Proven() {
		t.Errorf("a run with nothing to do rests on nothing: %s", again.Verdict.Headline())
	}
	if n := m.from.count() + m.to[0].count(); n > 2+1 { // and the greeting of a new process
		t.Errorf("a run with nothing to do takes %d requests", n)
	}
	// What is gone is seen, and brought again.
	r := m.open(m.to[0].name + "/prod")
	list, err := r.Referrers(t.Context(), "demo", m.image.Digest)
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://"+m.to[0].name+"/v2/prod/demo/manifests/"+list[0].Digest.String(), nil)
	if resp, err := http.DefaultClient.Do(req); err != nil || resp.StatusCode >= 300 {
		t.Fatal(resp, err)
	}
	if s := m.apply().Items[0].State; s != promote.Done || !m.tagged(m.to[0]) {
		t.Errorf("evidence is gone, and the run says %s", s)
	}
}

func TestImagesRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		make  func(*moving)
		want  string
		state promote.State
	}{
		{"the judge refuses", func(m *moving) {
			m.judge.err = verdict.Refuse(verdict.EvidenceMissing, "demo", "nothing says so")
		}, "EVIDENCE_MISSING", promote.Refused},
		{"there is no judge", func(m *moving) {
			m.Judge = func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error) {
				return nil, verdict.Refuse(verdict.Usage, "demo", "no policy is for this image")
			}
		}, "USAGE", promote.Refused},
		{"the tag names another image", func(m *moving) {
			ref, _ := name.NewTag(m.to[0].name + "/prod/demo:v1")
			other, _ := random.Image(10, 1)
			if err := remote.Write(ref, other); err != nil {
				m.t.Fatal(err)
			}
		}, "TAG_CONFLICT", promote.Refused},
		{"the plan was made for another policy", func(m *moving) {
			m.Plan.Policy = digest.Of(digest.SHA256, []byte("another policy"))
		}, "PLAN_STALE", promote.Refused},
		{"the source has lost it", func(m *moving) {
			m.Plan.Edges[0].Digest = digest.Of(digest.SHA256, []byte("lost"))
		}, "MISSING", promote.Refused},
		{"the destination is away", func(m *moving) {
			m.to[0].says(func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
				w.WriteHeader(http.StatusServiceUnavailable)
			})
		}, "UNAVAILABLE", promote.Failed},
		{"the destination does not say what the tag names", func(m *moving) {
			m.to[0].says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.HasSuffix(r.URL.Path, "/manifests/v1") && r.Method != http.MethodPut {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				if r.Method == http.MethodPut {
					m.t.Errorf("%s was written before that was known", r.URL.Path)
				}
				next.ServeHTTP(w, r)
			})
		}, "UNAVAILABLE", promote.Failed},
		{"the destination hides evidence", func(m *moving) {
			m.to[0].says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				if strings.Contains(r.URL.Path, "/referrers/") {
					w.Header().Set("Content-Type", registry.MediaTypeIndex)
					fmt.Fprintf(w, `{"schemaVersion":2,"mediaType":%q,"manifests":[]}`, registry.MediaTypeIndex)
					return
				}
				next.ServeHTTP(w, r)
			})
		}, "REPLICA_DRIFT", promote.Refused},
		{"its record cannot be signed", func(m *moving) { m.Records = unsigning{} }, "UNAVAILABLE", promote.Failed},
		{"somebody else has the lease", func(m *moving) {
			m.Rights.Exclusive = func(context.Context) error { return verdict.Refuse(verdict.Busy, "lease", "held") }
		}, "BUSY", promote.Failed},
		{"nothing is wrong", func(*moving) {}, "", promote.Done},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := twoPlatforms(t, 1)
			c.make(m)
			done := m.apply()
			if got := codesOf(done.Verdict); got != c.want || done.Items[0].State != c.state {
				t.Errorf("%s, %s; want %s, %s", got, done.Items[0].State, c.want, c.state)
			}
			if (c.want == "") != (done.Verdict.Err() == nil) {
				t.Errorf("the verdict is %v", done.Verdict.Err())
			}
			m.to[0].says(nil)
			if c.want != "TAG_CONFLICT" && m.tagged(m.to[0]) != c.state.Good() {
				t.Error("a tag is there that should not be, or is not that should")
			}
		})
	}
}

func TestImagesPartly(t *testing.T) {
	m := twoPlatforms(t, 3)
	m.to[1].says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	done := m.apply()
	good := 0
	for _, i := range done.Items {
		if i.State.Good() {
			good++
		}
	}
	if good != 2 || done.Verdict.Err() == nil || done.Verdict.Counts.Verified != 2 {
		t.Errorf("%v, %v", done.Items, done.Verdict.Counts)
	}
	if !m.tagged(m.to[0]) || m.tagged(m.to[1]) || !m.tagged(m.to[2]) {
		t.Error("one region that refuses is no matter of the others")
	}
	m.to[1].says(nil)
	if err := m.apply().Verdict.Err(); err != nil || !m.tagged(m.to[1]) {
		t.Errorf("the next run: %v", err)
	}
}

// TestImagesAtEachFault fails each request of a promotion once in each of the
// ways in which a write can fail: not done and said so, done and said
// otherwise, not done and said to be. Whatever the run then says, a tag never
// stands without the whole image and its evidence, and the next run mends all.
func TestImagesAtEachFault(t *testing.T) {
	for _, how := range []string{"fails", "fails but is done", "is said to be done"} {
		t.Run(how, func(t *testing.T) {
			for n := 0; ; n++ {
				m := twoPlatforms(t, 1)
				at, hit := 0, ""
				var mu sync.Mutex // owns at and hit
				m.to[0].says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
					mu.Lock()
					mine := at == n && r.Method != http.MethodGet && r.Method != http.MethodHead
					if r.Method != http.MethodGet && r.Method != http.MethodHead {
						at++
					}
					if mine {
						hit = r.Method + " " + r.URL.Path
					}
					mu.Unlock()
					switch {
					case !mine:
						next.ServeHTTP(w, r)
					case how == "fails":
						w.WriteHeader(http.StatusForbidden)
					case how == "fails but is done":
						next.ServeHTTP(httptest.NewRecorder(), r)
						w.WriteHeader(http.StatusForbidden)
					default:
						w.WriteHeader(http.StatusCreated)
					}
				})
				done := m.apply()
				if hit == "" {
					if n < 8 {
						t.Fatalf("only %d writes were seen", n)
					}
					return
				}
				m.to[0].says(nil)
				if m.tagged(m.to[0]) != (done.Verdict.Err() == nil) {
					t.Errorf("%s: said %v", hit, done.Verdict.Err())
				}
				if err := m.apply().Verdict.Err(); err != nil || !m.tagged(m.to[0]) {
					t.Errorf("%s: the next run: %v", hit, err)
				}
			}
		})
	}
}

func TestShards(t *testing.T) {
	p := promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{{}}}
	for i := range 1000 {
		p.Edges = append(p.Edges, promotionplan.Edge{Digest: digest.Of(digest.SHA256, []byte(fmt.Sprint(i)))})
	}
	for _, text := range []string{"", "1", "0/0", "2/2", "-1/2", "a/b", "0/10001", "0/2/1"} {
		if s, err := promotionplan.ParseShard(text); err == nil {
			t.Errorf("%q is %v", text, s)
		}
	}
	if s, err := promotionplan.ParseShard("7/8"); err != nil || s.String() != "7/8" {
		t.Error(s, err)
	}
}
