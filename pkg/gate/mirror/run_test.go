package mirror

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ggcr "github.com/google/go-containerregistry/pkg/registry"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// codes are those of the findings, sorted, each once.
func codes(v *verdict.Verdict) (all []verdict.Code) {
	for _, f := range v.Findings {
		all = append(all, f.Code)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// audited is the verdict of an audit of these places.
func audited(t *testing.T, a Audit) (Report, *verdict.Verdict, error) {
	t.Helper()
	a.Judge, a.Progress = gate.PolicyRequest{Verifier: &verify.Verifier{}}, func(int, int) {}
	r, err := a.Run(t.Context())
	return r, r.Verdict(time.Unix(0, 0)), err
}

// push pushes a manifest with one layer under tags.
func push(t *testing.T, to *registry.Remote, kind, layer string, tags ...string) digest.Digest {
	t.Helper()
	described := func(raw string) registry.Descriptor {
		return registry.Descriptor{Digest: sum(raw), Size: int64(len(raw))}
	}
	const config = `{"os":"linux","architecture":"amd64"}`
	for _, raw := range []string{config, layer} {
		if err := to.PushBlob(t.Context(), "demo", described(raw), func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(raw)), nil }); err != nil {
			t.Fatal(err)
		}
	}
	raw := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":%d},"layers":[{"mediaType":%q,"digest":%q,"size":%d}]}`,
		registry.MediaTypeManifest, sum(config), len(config), kind, sum(layer), len(layer))
	d := described(raw)
	d.MediaType = registry.MediaTypeManifest
	err := to.PushManifest(t.Context(), "demo", d, []byte(raw))
	for _, tag := range tags {
		err = errors.Join(err, to.Tag(t.Context(), "demo", tag, d))
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.Digest
}

// TestRunOverImages: the mirror must have the image, its tag, and the evidence that
// older clients read.
func TestRunOverImages(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	denies := false
	handler := ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if denies && strings.Contains(r.URL.Path, "/denied/") {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	at := func(name string) string { return strings.TrimPrefix(server.URL, "http://") + "/" + name }
	open := func(prefix string) (*registry.Remote, error) {
		return registry.OpenRemote(prefix, http.DefaultTransport)
	}
	fill := func(name string, evidence bool) (image digest.Digest) {
		to, err := open(at(name))
		if err != nil {
			t.Fatal(err)
		}
		image = push(t, to, "application/vnd.oci.image.layer.v1.tar", "layer", "v1.0.0")
		if evidence {
			push(t, to, "application/vnd.dev.cosign.simplesigning.v1+json", "evidence", registry.AttachedTag(image, registry.SuffixSignatures))
		}
		return image
	}
	image := fill("staging", true)
	fill("whole", true)
	fill("denied", true)
	fill("bare", false)
	denies = true
	for name, want := range map[string]struct {
		codes []verdict.Code
		whole int
	}{
		"whole":  {nil, 3},
		"empty":  {[]verdict.Code{verdict.Missing}, 0},
		"bare":   {[]verdict.Code{verdict.EvidenceMissing}, 2},
		"denied": {[]verdict.Code{"CREDENTIAL_REFUSED"}, 0},
	} {
		_, v, err := audited(t, Audit{Images: open, Plan: promotionplan.Plan{
			Routes: []promotionplan.Route{{Source: at("staging"), Destinations: []string{at(name)}}},
			Edges:  []promotionplan.Edge{{Image: "demo", Digest: image, Tags: []string{"v1.0.0"}}},
		}})
		if got := codes(v); err != nil || !slices.Equal(got, want.codes) || v.Counts.Verified != want.whole || v.Counts.Required != 3 {
			t.Errorf("%s: %v %v %s, want %+v", name, err, v.Findings, v.Counts, want)
		}
	}
}

// TestRunOverFiles: the reference is read first, and what it does not say ends the
// run; what a mirror has is compared with the plan.
func TestRunOverFiles(t *testing.T) {
	down := errors.New("no such account")
	for name, c := range map[string]struct {
		prepare func(source, mirror string) error // of a mirror that has the file
		limit   int64                             // of the requests to the reference; 0 is none
		opens   error
		fails   bool
		want    []verdict.Code
	}{
		"whole (twin of each)":   {},
		"missing":                {prepare: func(_, m string) error { return os.Remove(filepath.Join(m, "a")) }, want: []verdict.Code{verdict.Missing}},
		"other bytes":            {prepare: func(_, m string) error { return os.WriteFile(filepath.Join(m, "a"), []byte("other"), 0o600) }, want: []verdict.Code{verdict.Tampered}},
		"evidence is no file":    {prepare: func(s, _ string) error { return os.Mkdir(filepath.Join(s, "a"+gate.BundleSuffix), 0o700) }, fails: true},
		"a place without access": {opens: down, fails: true},
		"no requests left":       {limit: -1, want: []verdict.Code{verdict.PlaceDown}},
	} {
		t.Run(name, func(t *testing.T) {
			source, mirror := t.TempDir(), t.TempDir()
			err := errors.Join(os.WriteFile(filepath.Join(source, "a"), []byte("alpha"), 0o600), os.WriteFile(filepath.Join(mirror, "a"), []byte("alpha"), 0o600))
			if c.prepare != nil {
				err = errors.Join(err, c.prepare(source, mirror))
			}
			if err != nil {
				t.Fatal(err)
			}
			from := source
			if c.limit != 0 {
				server := httptest.NewServer(http.FileServer(http.Dir(source)))
				t.Cleanup(server.Close)
				from = server.URL
			}
			through := &Limited{Next: http.DefaultTransport}
			through.Left.Store(c.limit)
			_, v, err := audited(t, Audit{
				Plan: promotionplan.Plan{Stores: []promotionplan.Store{{Source: from, Destinations: []string{mirror}}}, Files: []promotionplan.File{{Name: "a", Digest: sum("alpha")}}},
				Files: func(uri string) (store.Place, error) {
					p, err := store.Open(uri, through)
					return p, errors.Join(err, c.opens)
				},
			})
			if (err != nil) != c.fails {
				t.Fatal(err)
			}
			if c.fails {
				return
			}
			if got := codes(v); !slices.Equal(got, c.want) || v.Counts.Required != 1+int(-c.limit) {
				t.Errorf("%v, want %v; %s", v.Findings, c.want, v.Counts)
			}
			if unsigned := len(v.Warnings) == 1 && v.Warnings[0].Code == verdict.Unsigned; unsigned != (c.limit == 0) {
				t.Errorf("warnings %v", v.Warnings)
			}
			if got := sum("other").String(); slices.Contains(c.want, verdict.Tampered) && v.Findings[0].Got != got {
				t.Errorf("got %q, want %s", v.Findings[0].Got, got)
			}
		})
	}
}

// TestManifestIsReadAgain: other bytes of a manifest may be a newer revision, so they
// are called changed only once the place has answered all that this takes.
func TestManifestIsReadAgain(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/"+releasemanifest.Name {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = io.Copy(w, bytes.NewReader([]byte("other bytes")))
	}))
	t.Cleanup(server.Close)
	for requests, want := range []verdict.Code{verdict.PlaceDown, verdict.PlaceDown, verdict.PlaceDown, verdict.Tampered} {
		through := &Limited{Next: http.DefaultTransport}
		through.Left.Store(int64(requests))
		_, v, err := audited(t, Audit{
			Plan: promotionplan.Plan{
				Release: &promotionplan.Release{Name: "demo", Version: "v1.0.0", Revision: 1, Manifest: sum("manifest")},
				Stores:  []promotionplan.Store{{Source: t.TempDir(), Destinations: []string{server.URL}}},
				Files:   []promotionplan.File{{Name: releasemanifest.Name, Digest: sum("manifest")}},
			},
			Files: func(uri string) (store.Place, error) { return store.Open(uri, through) },
		})
		if got := codes(v); err != nil || !slices.Equal(got, []verdict.Code{want}) {
			t.Errorf("%d requests: %v %v, want %s", requests, err, v.Findings, want)
		}
	}
}

// TestRepairs: a repair has the routes of what is copied again, each to the one
// mirror that lacks it.
func TestRepairs(t *testing.T) {
	r := Report{Audit: Audit{Plan: promotionplan.Plan{
		Routes: []promotionplan.Route{{Source: "a", Destinations: []string{"m", "n"}}, {Source: "b", Destinations: []string{"m", "n"}}},
		Edges:  []promotionplan.Edge{{Image: "one"}, {Image: "two"}, {Image: "three", Route: 1}, {Image: "whole", Route: 1}},
	}}, places: []*tally{{place: "m", repairs: []int{2, 0, 1}}}}
	p := r.Repairs()["images.json"]
	var got []string
	for _, e := range p.Edges {
		got = append(got, p.Routes[e.Route].Source+" "+e.Image+" "+strings.Join(p.Routes[e.Route].Destinations, " "))
	}
	if want := []string{"a one m", "a two m", "b three m"}; !slices.Equal(got, want) || len(p.Routes) != 2 {
		t.Errorf("%q, want %q", got, want)
	}
}
