package promote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// put writes a blob to a repository "demo".
func put(t *testing.T, to *registry.Remote, kind, content string) registry.Descriptor {
	t.Helper()
	d := registry.Descriptor{MediaType: kind, Digest: digest.Of(digest.SHA256, []byte(content)), Size: int64(len(content))}
	if err := to.PushBlob(t.Context(), "demo", d, func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }); err != nil {
		t.Fatal(err)
	}
	return d
}

// putImage writes an image of one layer, as it is described, with more in its
// manifest.
func putImage(t *testing.T, to *registry.Remote, layer, more string) registry.Descriptor {
	t.Helper()
	config := put(t, to, "application/vnd.oci.image.config.v1+json", `{"os":"linux","architecture":"amd64"}`)
	return putDescribed(t, to, fmt.Sprintf(`"config":%s,"layers":[%s]%s`, descriptorOf(config, ""), layer, more))
}

// putDescribed writes a manifest that says what it is told, also one that our
// own client would not write.
func putDescribed(t *testing.T, to *registry.Remote, says string) registry.Descriptor {
	t.Helper()
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,%s}`, registry.MediaTypeManifest, says)
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	host, path, _ := strings.Cut(to.Prefix(), "/")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+host+"/v2/"+path+"/demo/manifests/"+d.Digest.String(), bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", d.MediaType)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Fatal(answer.Status)
	}
	return d
}

func descriptorOf(d registry.Descriptor, more string) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d%s}`, d.MediaType, d.Digest, d.Size, more)
}

// TestImagesElsewhere (attack G15): an image of which a layer is to be fetched
// from another address goes nowhere, and that address is never asked.
func TestImagesElsewhere(t *testing.T) {
	asked := 0
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer elsewhere.Close()
	const plain = "application/vnd.oci.image.layer.v1.tar+gzip"
	urls := fmt.Sprintf(`,"urls":[%q]`, elsewhere.URL)
	for _, c := range []struct{ name, kind, more, want string }{
		{"an ordinary layer (twin)", plain, "", ""},
		{"no other addresses (twin)", plain, `,"urls":[]`, ""},
		{"other addresses", plain, urls, "FOREIGN_LAYER"},
		{"a type that is not passed on", "application/vnd.oci.image.layer.nondistributable.v1.tar+gzip", "", "FOREIGN_LAYER"},
		{"Docker's type for that", "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", urls, "FOREIGN_LAYER"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := twoPlatforms(t, 1)
			src := m.open(m.from.name + "/staging")
			m.image = putImage(t, src, descriptorOf(put(t, src, c.kind, "a layer"), c.more), "")
			m.children = nil
			attach(t, src, m.image, "about the image")
			m.Plan.Edges[0].Digest = m.image.Digest
			done := m.apply()
			if got := codesOf(done.Verdict); got != c.want || m.tagged(m.to[0]) != (c.want == "") {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	if asked > 0 {
		t.Errorf("the other address was asked %d times", asked)
	}
}

// TestImagesForeignReferrer (attack G09): what a stranger attaches keeps nobody
// out, and brings nothing in that can be run: it is left behind, and said. What
// only says something travels, as ours does.
func TestImagesForeignReferrer(t *testing.T) {
	const tar, config, words = "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.oci.image.config.v1+json", "application/spdx+json"
	for _, c := range []struct {
		name, config, layer, more, inside string
		travels                           bool
	}{
		{name: "words about it (twin)", config: words, layer: words, travels: true},
		{name: "an image", config: config, layer: tar},
		{name: "words with the configuration of an image", config: config, layer: words},
		{name: "words and a layer of an image", config: words, layer: tar},
		{name: "Docker's layer", config: words, layer: "application/vnd.docker.image.rootfs.diff.tar.gzip"},
		{name: "words that are elsewhere", config: words, layer: words, more: `,"urls":["http://127.0.0.1:1/"]`},
		{name: "words that read in two ways", config: words, layer: words, inside: `,"manifests":[]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := twoPlatforms(t, 1)
			src := m.open(m.from.name + "/staging")
			d := putDescribed(t, src, fmt.Sprintf(`"config":%s,"layers":[%s],"subject":%s%s`, descriptorOf(put(t, src, c.config, "{}"), ""),
				descriptorOf(put(t, src, c.layer, "said"), c.more), descriptorOf(m.image, ""), c.inside))
			done := m.apply()
			if err := done.Verdict.Err(); err != nil || !m.tagged(m.to[0]) {
				t.Fatal(err)
			}
			list, err := m.open(m.to[0].name+"/prod").Referrers(t.Context(), "demo", m.image.Digest)
			if err != nil || len(list) == 0 {
				t.Fatal("ours did not travel", err)
			}
			there := slices.ContainsFunc(list, func(o registry.Descriptor) bool { return o.Digest.Equal(d.Digest) })
			if said := strings.Contains(strings.Join(done.Verdict.Notes, "\n"), "referrers not copied"); there != c.travels || said == c.travels {
				t.Errorf("copied %v, notes %q", there, done.Verdict.Notes)
			}
		})
	}
}

// TestImagesFlood (attack G10): a list of referrers that is too long to read
// hides ours neither from who judges nor from who copies.
func TestImagesFlood(t *testing.T) {
	m := twoPlatforms(t, 1)
	m.from.says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.Contains(r.URL.Path, "/referrers/") && r.URL.RawQuery == "" {
			w.Header().Set("Content-Type", registry.MediaTypeIndex)
			_, _ = io.Copy(w, io.LimitReader(endless{}, registry.MaxManifest+10))
			return
		}
		next.ServeHTTP(w, r)
	})
	if err := m.apply().Verdict.Err(); err != nil || !m.tagged(m.to[0]) {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}

// judgeOf is a judge made of a function.
type judgeOf func(context.Context, gate.Image) *verdict.Verdict

func (f judgeOf) Image(ctx context.Context, i gate.Image) *verdict.Verdict { return f(ctx, i) }

// TestImagesUnlistedEvidence (attack G26): a source that shows the judge a tag
// for evidence and does not list it. What was judged travels.
func TestImagesUnlistedEvidence(t *testing.T) {
	m := twoPlatforms(t, 1)
	src := m.open(m.from.name + "/staging")
	signature := putImage(t, src, descriptorOf(put(t, src, legacy.MediaPayload, `{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":"`+m.image.Digest.String()+`"},"type":"cosign container image signature"}}`), ""), "")
	tag := registry.AttachedTag(m.image.Digest, registry.SuffixSignatures)
	if err := src.Tag(t.Context(), "demo", tag, signature); err != nil {
		t.Fatal(err)
	}
	m.from.says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if strings.HasSuffix(r.URL.Path, "/tags/list") {
			_, _ = io.WriteString(w, `{"tags":["v1"]}`)
			return
		}
		next.ServeHTTP(w, r)
	})
	m.Judge = func(promotionplan.Route, promotionplan.Edge) (gate.ImageJudge, error) {
		return judgeOf(func(ctx context.Context, image gate.Image) *verdict.Verdict {
			if list, err := registry.AttachedTo(ctx, image.Source, "demo", image.Digest, registry.SuffixSignatures); err != nil || len(list) != 1 {
				t.Error(list, err)
			}
			return m.judge.Image(ctx, image)
		}), nil
	}
	if err := m.apply().Verdict.Err(); err != nil || !m.tagged(m.to[0]) {
		t.Fatal(err)
	}
	if held, err := m.open(m.to[0].name+"/prod").Resolve(t.Context(), "demo", tag); err != nil || !held.Digest.Equal(signature.Digest) {
		t.Errorf("what it was accepted by is not there: %v, %v", held, err)
	}
}

// TestImagesTagRace (rows 21 and 22): somebody else tags another image while
// this one is copied, or just after it was tagged. The one is not overwritten,
// the other is said.
func TestImagesTagRace(t *testing.T) {
	for _, c := range []struct {
		name, method string
		after        bool
	}{{"while it is copied", "PUT /v2/prod/demo/manifests/sha256:", false}, {"when it was tagged", "PUT /v2/prod/demo/manifests/v1", true}} {
		t.Run(c.name, func(t *testing.T) {
			m := twoPlatforms(t, 1)
			prod := m.open(m.to[0].name + "/prod")
			other := putImage(t, prod, descriptorOf(put(t, prod, "application/vnd.oci.image.layer.v1.tar", "another"), ""), "")
			var once sync.Once
			m.to[0].says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				tag := func() {
					raw := fetch(t, next, "/v2/prod/demo/manifests/"+other.Digest.String())
					req := httptest.NewRequest(http.MethodPut, "/v2/prod/demo/manifests/v1", bytes.NewReader(raw))
					req.Header.Set("Content-Type", registry.MediaTypeManifest)
					next.ServeHTTP(httptest.NewRecorder(), req)
				}
				mine := strings.HasPrefix(r.Method+" "+r.URL.Path, c.method)
				if mine && !c.after {
					once.Do(tag)
				}
				next.ServeHTTP(w, r)
				if mine && c.after {
					once.Do(tag)
				}
			})
			done := m.apply()
			if got := codesOf(done.Verdict); got != "TAG_RACE" || done.Items[0].State != promote.Refused {
				t.Errorf("%s, %s", got, done.Items[0].State)
			}
			if held, err := prod.Resolve(t.Context(), "demo", "v1"); err != nil || !held.Digest.Equal(other.Digest) {
				t.Errorf("the tag names %v, %v", held, err)
			}
			m.to[0].says(nil)
			if got := codesOf(m.apply().Verdict); got != "TAG_CONFLICT" {
				t.Errorf("the next run says %s", got)
			}
		})
	}
}

func fetch(t *testing.T, h http.Handler, path string) []byte {
	t.Helper()
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec.Body.Bytes()
}

// TestImagesInterrupted (row 51): the run is asked to end at each of its
// requests. It ends, decides nothing that is not so, leaves no goroutine
// behind, and calls nothing a bug; the next run goes on.
func TestImagesInterrupted(t *testing.T) {
	for n := 0; ; n += 11 {
		m := twoPlatforms(t, 2)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex // owns asked
		asked := 0
		count := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
			mu.Lock()
			if asked++; asked > n {
				cancel()
			}
			mu.Unlock()
			next.ServeHTTP(w, r)
		}
		for _, h := range append(m.to, m.from) {
			h.says(count)
		}
		done, err := m.Apply(ctx)
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		public := 0
		for _, h := range m.to {
			if m.tagged(h) {
				public++
			}
		}
		mu.Lock()
		whole := asked <= n
		mu.Unlock()
		switch outcome := done.Verdict.Outcome(); {
		case whole && outcome == verdict.Accepted && public == 2:
			if n < 30 {
				t.Fatalf("only %d requests were seen", n)
			}
			return
		case outcome == verdict.Accepted && public == 2:
		case outcome != verdict.Unavailable || len(done.Verdict.Findings) != 1 || !strings.Contains(done.Verdict.Findings[0].Message, "interrupted"):
			t.Fatalf("interrupted at %d: %v", n, done.Verdict.Findings)
		}
		if len(done.Items) != 2 {
			t.Errorf("%d images are accounted for", len(done.Items))
		}
		if left := atWork(); left != "" {
			t.Errorf("interrupted at %d, something is still at work:\n%s", n, left)
		}
		for _, h := range append(m.to, m.from) {
			h.says(nil)
		}
		if err := m.apply().Verdict.Err(); err != nil || !m.tagged(m.to[0]) || !m.tagged(m.to[1]) {
			t.Fatalf("interrupted at %d, then again: %v", n, err)
		}
	}
}

// atWork is a goroutine other than the test's own that still promotes.
func atWork() string {
	raw := make([]byte, 4<<20)
	raw = raw[:runtime.Stack(raw, true)]
	for i, stack := range strings.Split(string(raw), "\n\n") {
		if i > 0 && (strings.Contains(stack, "waybill/pkg/registry.(") || strings.Contains(stack, "waybill/pkg/promote.(")) {
			return stack
		}
	}
	return ""
}

// noting notes what is recorded, and signs nothing.
type noting struct {
	mu  sync.Mutex // owns all
	all []attest.Promoted
}

func (n *noting) Image(_ context.Context, p attest.Promoted) ([]attest.Signed, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, p)
	return []attest.Signed{{Of: p.Digest, Kind: "https://example.org/record/v1", Bundle: []byte("a record")}}, nil
}

// TestImagesRecordsGoOn: a run that goes on with what another began records the
// same, so that what was signed serves again.
func TestImagesRecordsGoOn(t *testing.T) {
	m := twoPlatforms(t, 2)
	m.remember()
	records := &noting{}
	m.Records = records
	m.to[0].says(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/manifests/v1") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
	if err := m.apply().Verdict.Err(); err == nil {
		t.Fatal("it says that it is done")
	}
	m.to[0].says(nil)
	if err := m.apply().Verdict.Err(); err != nil {
		t.Fatal(err)
	}
	if len(records.all) != 2 || fmt.Sprint(records.all[0].Destinations) != fmt.Sprint(records.all[1].Destinations) {
		t.Errorf("the records differ: %v", records.all)
	}
}
