package servers

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// pushImage pushes an image without layers, and returns it with its bytes.
func pushImage(t *testing.T, to *registry.Remote, repository string) (registry.Descriptor, []byte) {
	t.Helper()
	config := []byte("{}")
	c := registry.Descriptor{MediaType: "application/vnd.oci.image.config.v1+json", Digest: digest.Of(digest.SHA256, config), Size: int64(len(config))}
	if err := to.PushBlob(t.Context(), repository, c, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(config)), nil }); err != nil {
		t.Fatal(err)
	}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[]}`, registry.MediaTypeManifest, c.MediaType, c.Digest, c.Size)
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := to.PushManifest(t.Context(), repository, d, raw); err != nil {
		t.Fatal(err)
	}
	return d, raw
}

func openRemote(t *testing.T, prefix string, rt http.RoundTripper) *registry.Remote {
	t.Helper()
	r, err := registry.OpenRemote(prefix, rt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const manyTags = 1200

// TestRegistryTags lists a repository with more tags than a page holds.
func TestRegistryTags(t *testing.T) {
	for name, start := range map[string]func(*testing.T) images{
		"distribution": func(t *testing.T) images { return distribution(t, config{}) },
		"debian":       func(t *testing.T) images { return distribution(t, debian(t)) },
		"crane":        crane,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := start(t)
			fillTags(t, i)
			counted := &counter{next: http.DefaultTransport}
			tags, err := openRemote(t, i.prefix+"/team", counted).Tags(t.Context(), "many")
			if err != nil || len(tags) != manyTags {
				t.Errorf("%d tags, want %d (%v)", len(tags), manyTags, err)
			}
			listing, err := openRemote(t, i.prefix+"/team", http.DefaultTransport).Listing(t.Context(), "many")
			if err != nil || len(listing.Tags) != manyTags {
				t.Errorf("the listing of a plan has %d tags, want %d (%v)", len(listing.Tags), manyTags, err)
			}
			t.Logf("%d pages of tags, %d of a listing", counted.lists.Load(), listing.Pages)
		})
	}
}

// fillTags gives team/many more tags than a page holds: as files, where the
// registry keeps them as files, which takes less time.
func fillTags(t *testing.T, i images) {
	t.Helper()
	remote := openRemote(t, i.prefix+"/team", transportOr(i.transport))
	d, raw := pushImage(t, remote, "many")
	tags := filepath.Join(i.data, "docker", "registry", "v2", "repositories", "team", "many", "_manifests", "tags")
	for n := range manyTags {
		tag := fmt.Sprintf("v%04d", n)
		var err error
		if _, there := os.Stat(filepath.Dir(tags)); there == nil {
			current := filepath.Join(tags, tag, "current")
			err = errors.Join(os.MkdirAll(current, 0o700), os.WriteFile(filepath.Join(current, "link"), []byte(d.Digest.String()), 0o600))
		} else {
			err = remote.TagManifest(t.Context(), "many", tag, d, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// counter counts requests.
type counter struct {
	next           http.RoundTripper
	lists, uploads atomic.Int64
}

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case strings.Contains(r.URL.Path, "/tags/list"):
		c.lists.Add(1)
	case r.Method == http.MethodPatch, r.Method == http.MethodPost && r.URL.Query().Has("digest"):
		c.uploads.Add(1)
	}
	return c.next.RoundTrip(r)
}

// TestRegistryMount copies an image within a registry: no blob is sent again
// where the registry can mount it.
func TestRegistryMount(t *testing.T) {
	for name, c := range map[string]struct {
		start func(*testing.T) images
		sent  int64
	}{
		"distribution": {func(t *testing.T) images { return distribution(t, config{}) }, 0},
		"debian":       {func(t *testing.T) images { return distribution(t, debian(t)) }, 0},
		"crane":        {crane, 1}, // it cannot mount
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := c.start(t)
			from := openRemote(t, i.prefix+"/from", http.DefaultTransport)
			d, _ := pushImage(t, from, "demo")
			counted := &counter{next: http.DefaultTransport}
			to := openRemote(t, i.prefix+"/to", counted)
			copied, err := registry.Copy(t.Context(), to, from, "demo", d)
			if err != nil {
				t.Fatal(err)
			}
			if err := registry.ReadBack(t.Context(), to, "demo", copied); err != nil {
				t.Error(err)
			}
			if err := to.Tag(t.Context(), "demo", "v1", d); err != nil {
				t.Error(err)
			}
			if sent := counted.uploads.Load(); sent != c.sent {
				t.Errorf("%d uploads, want %d", sent, c.sent)
			}
		})
	}
}

// TestRegistryReferrers: two writers add evidence to one image at the same time,
// in a registry that keeps the list of it under a tag, which cannot be written
// conditionally. Each writer finds out what the list lost, and adds it again.
func TestRegistryReferrers(t *testing.T) {
	t.Setenv("WAYBILL_PATIENCE", "1s") // how long a list may be stale
	i := distribution(t, config{})
	image, _ := pushImage(t, openRemote(t, i.prefix+"/team", http.DefaultTransport), "demo")
	const each = 8
	writers := []*registry.Remote{openRemote(t, i.prefix+"/team", http.DefaultTransport), openRemote(t, i.prefix+"/team", http.DefaultTransport)}
	name := func(writer, n int) string { return fmt.Sprintf("writer%d.n%d", writer, n) }
	var group errgroup.Group
	for w, remote := range writers {
		group.Go(func() error {
			for n := range each {
				d, raw := referrer(image, name(w, n))
				if err := remote.PushManifest(t.Context(), "demo", d, raw); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	lost := 0
	for w, remote := range writers {
		for n := range each {
			d, raw := referrer(image, name(w, n))
			err := registry.AwaitReferrers(t.Context(), remote, "demo", image.Digest, d)
			if err == nil {
				continue
			}
			if lost++; verdict.FindingOf("", err).Code != "REPLICA_DRIFT" {
				t.Fatal(err)
			}
			if err := remote.PushManifest(t.Context(), "demo", d, raw); err != nil {
				t.Fatal(err)
			}
		}
	}
	listed, err := openRemote(t, i.prefix+"/team", http.DefaultTransport).Referrers(t.Context(), "demo", image.Digest)
	if err != nil || len(listed) != 2*each {
		t.Errorf("%d are listed, want %d (%v)", len(listed), 2*each, err)
	}
	t.Logf("the list lost %d of %d, which were added again", lost, 2*each)
}

// referrer is a manifest that refers to an image.
func referrer(of registry.Descriptor, kind string) (registry.Descriptor, []byte) {
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"artifactType":"application/x.%s","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":%q,"size":2},"layers":[],"subject":{"mediaType":%q,"digest":%q,"size":%d}}`,
		registry.MediaTypeManifest, kind, digest.Of(digest.SHA256, []byte("{}")), of.MediaType, of.Digest, of.Size)
	return registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw)), ArtifactType: kind}, raw
}

// TestRegistryBehindNginx: a proxy that limits the size of requests, or rewrites
// only some of the addresses in answers, is named with what to do.
func TestRegistryBehindNginx(t *testing.T) {
	push := func(t *testing.T, i images) scene.Result {
		t.Helper()
		s := open(t, i.at)
		return s.Run(t.Context(), "waybill", "promote", scene.Version, "--to", "staging", "--profile", "profile.yaml", "--state", "state", "--confirm")
	}
	t.Run("limit", func(t *testing.T) {
		for limit, code := range map[string]int{"client_max_body_size 100k;": 3, "client_max_body_size 0;": 0} {
			r := push(t, behind(t, "", limit+" location /v2/ { proxy_pass REGISTRY; }"))
			if want(t, r, code); code != 0 {
				want(t, r, code, "413", "client_max_body_size 0")
			}
		}
	})
	t.Run("read-only", func(t *testing.T) {
		i := distribution(t, config{readonly: true})
		want(t, push(t, i), 3, "read-only")
	})
	t.Run("lists", func(t *testing.T) {
		for _, whole := range []bool{false, true} {
			i := rewritten(t, whole)
			fillTags(t, i)
			tags, err := openRemote(t, i.prefix+"/team", http.DefaultTransport).Tags(t.Context(), "many") // without a password
			if whole && (err != nil || len(tags) != manyTags) || !whole && (err == nil || len(tags) > 0 || !strings.Contains(err.Error(), "outside the repository")) {
				t.Errorf("Link rewritten %t: %d tags, %v", whole, len(tags), err)
			}
		}
	})
}

// TestRegistryAuthority: a certificate of an authority that this machine does
// not trust is named with what to do; nothing is sent without encryption.
func TestRegistryAuthority(t *testing.T) {
	i, _ := withTLS(t)
	other := newAuthority(t, "another authority")
	for name, c := range map[string]struct {
		env    string
		code   int
		prints []string
	}{
		"named":       {i.env[0], 0, nil},
		"not named":   {"SSL_CERT_FILE=", 3, []string{"SSL_CERT_FILE"}},
		"another one": {"SSL_CERT_FILE=" + other.File, 3, []string{"SSL_CERT_FILE"}},
	} {
		s := open(t, func(s *scene.Scene) { i.at(s); s.Env = append(s.Env, c.env, "WAYBILL_PATIENCE=3s") })
		t.Log(name)
		want(t, s.Run(t.Context(), "waybill", "promote", scene.Version, "--to", "staging", "--profile", "profile.yaml", "--state", "state", "--confirm"), c.code, c.prints...)
	}
}
