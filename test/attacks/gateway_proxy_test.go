package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// front is a gate in front of the lab's registry. The promoter may pull and
// push, the neighbour only pulls.
type front struct {
	*gatehouse
	behind         *registry.Remote
	repo           string // guarded, and has the image that is accepted
	pusher, puller string // tokens
	good           registry.Descriptor
	raw            []byte // of the good image
	number         int
}

func openFront(t *testing.T, edits ...func(*gatehouse)) *front {
	t.Helper()
	g := openGatehouse(t, append([]func(*gatehouse){func(g *gatehouse) {
		g.verbs = "pull, push"
		g.proxy = &serve.Proxy{Registry: g.w.Lab.Registry, Guarded: []string{g.w.Lab.Registry + "/gated/"}}
	}}, edits...)...)
	f := &front{gatehouse: g, behind: must[*registry.Remote](t)(registry.OpenRemote(g.w.Lab.Registry, http.DefaultTransport)), pusher: g.token(nil), puller: g.neighbour()}
	f.repo = "gated/" + repository
	var err error
	_, sum, _ := strings.Cut(g.image, "@")
	if f.good, f.raw, err = f.behind.Manifest(t.Context(), f.repo, sum); err != nil {
		t.Fatal(err)
	}
	return f
}

// call is a request to the proxy that may be changed.
type call struct {
	method, path, token string
	body                []byte
	kind                string // media type
	change              func(*http.Request)
}

// reply is an answer of the proxy.
type reply struct {
	status int
	code   verdict.Code
	body   []byte
	header http.Header
}

var codeOfProblem = regexp.MustCompile(`"message":"([A-Z_]+) `)

func (f *front) send(c call) reply {
	f.t.Helper()
	req := must[*http.Request](f.t)(http.NewRequestWithContext(f.t.Context(), c.method, "http://"+f.host, bytes.NewReader(c.body)))
	req.URL.Opaque = "//" + f.host + c.path
	if c.token != "" {
		req.SetBasicAuth("any", c.token)
	}
	if c.kind != "" {
		req.Header.Set("Content-Type", c.kind)
	}
	if c.change != nil {
		c.change(req)
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // follows nothing
	if err != nil {
		f.t.Fatal(err)
	}
	defer resp.Body.Close()
	s := reply{status: resp.StatusCode, header: resp.Header, body: must[[]byte](f.t)(io.ReadAll(resp.Body))}
	if found := codeOfProblem.FindSubmatch(s.body); found != nil {
		s.code = verdict.Code(found[1])
		observe(f.t, s.code)
	}
	return s
}

// image makes an image that nobody signed; only its blobs are in the registry.
func (f *front) unsigned(repo string) (registry.Descriptor, []byte) {
	f.t.Helper()
	f.number++
	config := fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","config":{"Labels":{"n":"%s %d"}},"rootfs":{"type":"layers","diff_ids":[]}}`, f.t.Name(), f.number)
	return f.manifest(repo, "application/vnd.oci.image.config.v1+json", config, "application/vnd.oci.image.layer.v1.tar+gzip", []byte("a layer"), "")
}

// manifest makes a manifest with one layer, and pushes its blobs.
func (f *front) manifest(repo, configType string, config []byte, layerType string, layer []byte, more string) (registry.Descriptor, []byte) {
	f.t.Helper()
	for _, blob := range [][]byte{config, layer} {
		d := registry.Descriptor{Digest: digest.Of(digest.SHA256, blob), Size: int64(len(blob))}
		if err := f.behind.PushBlob(f.t.Context(), repo, d, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(blob)), nil }); err != nil {
			f.t.Fatal(err)
		}
	}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[{"mediaType":%q,"digest":%q,"size":%d}]%s}`,
		registry.MediaTypeManifest, configType, digest.Of(digest.SHA256, config), len(config), layerType, digest.Of(digest.SHA256, layer), len(layer), more)
	return registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}, raw
}

// evidence makes a referrer of an image.
func (f *front) evidence(repo string, of registry.Descriptor, salt string) (registry.Descriptor, []byte) {
	subject := fmt.Sprintf(`,"subject":{"mediaType":%q,"digest":%q,"size":%d}`, of.MediaType, of.Digest, of.Size)
	return f.manifest(repo, "application/vnd.oci.empty.v1+json", []byte("{}"), "application/vnd.dev.sigstore.bundle.v0.3+json", []byte(`{"n":"`+salt+`"}`), subject)
}

// lists makes a list of referrers.
func lists(all ...registry.Descriptor) []byte {
	var entries []string
	for _, d := range all {
		entries = append(entries, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, d.MediaType, d.Digest, d.Size))
	}
	return fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, registry.MediaTypeIndex, strings.Join(entries, ","))
}

// signed is a manifest of a tag .sig with some signatures: the payload is the
// same, and the signature is an annotation.
func (f *front) signed(repo string, of registry.Descriptor, signatures ...string) []byte {
	payload := fmt.Appendf(nil, `{"critical":{"identity":{"docker-reference":""},"image":{"docker-manifest-digest":%q},"type":"cosign container image signature"},"optional":null}`, of.Digest)
	config := []byte(`{"architecture":"","created":"0001-01-01T00:00:00Z","os":"","rootfs":{"type":"layers","diff_ids":[]},"config":{}}`)
	_, raw := f.manifest(repo, "application/vnd.oci.image.config.v1+json", config, "application/vnd.dev.cosign.simplesigning.v1+json", payload, "")
	var layers []string
	for _, s := range signatures {
		layers = append(layers, fmt.Sprintf(`{"mediaType":"application/vnd.dev.cosign.simplesigning.v1+json","digest":%q,"size":%d,"annotations":{"dev.cosignproject.cosign/signature":%q}}`, digest.Of(digest.SHA256, payload), len(payload), s))
	}
	before, _, _ := strings.Cut(string(raw), `,"layers":`)
	return []byte(before + `,"layers":[` + strings.Join(layers, ",") + `]}`)
}

// TestProxyRefuses changes one thing of what passes.
func TestProxyRefuses(t *testing.T) {
	f := openFront(t)
	base, open, version := "/v2/"+f.repo+"/", "/v2/open/"+strings.ToLower(t.Name())+"/", f.w.version.String()
	bad, badRaw := f.unsigned(f.repo)
	if err := f.behind.PushManifest(t.Context(), f.repo, bad, badRaw); err != nil {
		t.Fatal(err)
	}
	never, neverRaw := f.unsigned(f.repo)
	hex := strings.TrimPrefix(bad.Digest.String(), "sha256:")
	one, oneRaw := f.evidence(f.repo, bad, "one")
	two, twoRaw := f.evidence(f.repo, bad, "two")
	for _, e := range [][]byte{oneRaw, twoRaw} {
		if s := f.send(call{"PUT", base + "manifests/" + digest.Of(digest.SHA256, e).String(), f.pusher, e, registry.MediaTypeManifest, nil}); s.status != 201 {
			t.Fatalf("evidence is not taken: %d %s", s.status, s.body)
		}
	}
	subject := fmt.Sprintf(`,"subject":{"mediaType":%q,"digest":%q,"size":%d}`, bad.MediaType, bad.Digest, bad.Size)
	disguised, disguisedRaw := f.manifest(f.repo, "application/vnd.oci.image.config.v1+json", []byte(`{"os":"linux"}`), "application/vnd.oci.image.layer.v1.tar+gzip", []byte("evil"), subject)
	docker, dockerRaw := f.manifest(f.repo, "application/octet-stream", []byte(`{"os":"linux"}`), "application/octet-stream", []byte("evil"), subject)   // Docker runs it
	other, otherRaw := f.manifest(f.repo, "application/vnd.example.test", []byte(`{"os":"linux"}`), "application/octet-stream", []byte("evil"), subject) // and not this
	older := bytes.Replace(otherRaw, []byte(registry.MediaTypeManifest), []byte("application/vnd.docker.distribution.manifest.v2+json"), 1)
	olderIs := registry.Descriptor{MediaType: "application/vnd.docker.distribution.manifest.v2+json", Digest: digest.Of(digest.SHA256, older), Size: int64(len(older))}
	renamed := bytes.Replace(lists(one, two), []byte(`"size"`), []byte(`"artifactType":"text/plain","size"`), 1)
	mixed := lists(f.good, bad)
	mixedIs := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, mixed), Size: int64(len(mixed))}
	for _, m := range []struct {
		d   registry.Descriptor
		raw []byte
	}{{disguised, disguisedRaw}, {docker, dockerRaw}, {other, otherRaw}, {olderIs, older}, {mixedIs, mixed}} {
		if err := f.behind.PushManifest(t.Context(), f.repo, m.d, m.raw); err != nil {
			t.Fatal(err)
		}
	}
	const image, index = registry.MediaTypeManifest, registry.MediaTypeIndex
	put := func(ref string, raw []byte, kind string) call {
		return call{"PUT", base + "manifests/" + ref, f.pusher, raw, kind, nil}
	}
	get := func(ref string) call { return call{"GET", base + "manifests/" + ref, f.puller, nil, "", nil} }
	del := func(path string) call { return call{"DELETE", base + path, f.pusher, nil, "", nil} }
	for _, c := range []struct {
		row, name string
		call      call
		status    int
		code      verdict.Code
	}{
		{"Y01", "a tag of an image that is not there", put(version, neverRaw, image), 403, "TAG_FIRST"},
		{"Y01", "a tag of an image without evidence", put(version, badRaw, image), 403, verdict.NoProvenance},
		{"", "a tag of an image that is accepted", put(version, f.raw, f.good.MediaType), 201, ""},
		{"Y02", "its bytes as another type", put(version, f.raw, image), 403, verdict.ManifestParse},
		{"Y02", "its bytes as no type", put(version, f.raw, ""), 422, verdict.Usage},
		{"Y02", "more than a manifest", put(version, bytes.Repeat([]byte(" "), registry.MaxManifest+1), image), 403, verdict.Limit},
		{"Y03", "an image without evidence", get(bad.Digest.String()), 403, verdict.NoProvenance},
		{"", "the same, by who may push", call{"GET", base + "manifests/" + bad.Digest.String(), f.pusher, nil, "", nil}, 200, ""},
		{"", "an image that is accepted", get(version), 200, ""},
		{"", "the same by digest", get(f.good.Digest.String()), 200, ""},
		{"", "an image that is not there", get(never.Digest.String()), 404, verdict.Missing},
		{"Y03", "an index with an image without evidence", get(mixedIs.Digest.String()), 403, verdict.NoProvenance},
		{"Y04", "an image that refers to another as evidence does", get(disguised.Digest.String()), 403, verdict.NoProvenance},
		{"Y04", "one with a configuration of a type that Docker takes for an image's", get(docker.Digest.String()), 403, verdict.NoProvenance},
		{"Y04", "one in Docker's format", get(olderIs.Digest.String()), 403, verdict.NoProvenance},
		{"", "one with a configuration that no client runs", get(other.Digest.String()), 200, ""},
		{"", "evidence", get(one.Digest.String()), 200, ""},
		{"", "referrers", call{"GET", base + "referrers/" + bad.Digest.String(), f.puller, nil, "", nil}, 200, ""},
		{"Y05", "an image under a tag of evidence", put("sha256-"+hex+".sig", badRaw, image), 403, verdict.MaterialKind},
		{"Y05", "a list with an image under the tag of referrers", put("sha256-"+hex, mixed, index), 403, verdict.MaterialKind},
		{"Y05", "a list under a tag of signatures", put("sha256-"+hex+".sig", lists(one), index), 403, verdict.MaterialKind},
		{"", "a list of evidence", put("sha256-"+hex, lists(one), index), 201, ""},
		{"", "one with more", put("sha256-"+hex, lists(one, two), index), 201, ""},
		{"Y06", "one with less", put("sha256-"+hex, lists(two), index), 403, "EVIDENCE_KEPT"},
		{"Y06", "one of another type, which clients do not find", put("sha256-"+hex, renamed, index), 403, "EVIDENCE_KEPT"},
		{"", "a signature", put("sha256-"+hex+".sig", f.signed(f.repo, bad, "AAAA"), image), 201, ""},
		{"", "another beside it", put("sha256-"+hex+".sig", f.signed(f.repo, bad, "AAAA", "BBBB"), image), 201, ""},
		{"Y06", "another in place of one", put("sha256-"+hex+".sig", f.signed(f.repo, bad, "AAAA", "CCCC"), image), 403, "EVIDENCE_KEPT"},
		{"", "the signatures", get("sha256-" + hex + ".sig"), 200, ""},
		{"", "the list", get("sha256-" + hex), 200, ""},
		{"Y06", "evidence is deleted", del("manifests/" + one.Digest.String()), 403, "EVIDENCE_KEPT"},
		{"Y06", "a tag of evidence is deleted", del("manifests/sha256-" + hex), 403, "EVIDENCE_KEPT"},
		{"Y06", "a blob is deleted", del("blobs/" + digest.Of(digest.SHA256, []byte("{}")).String()), 403, "EVIDENCE_KEPT"},
		{"", "a tag is deleted", del("manifests/" + version), 202, ""},
		{"", "an image without evidence, in an open repository", call{"PUT", open + "manifests/v1", f.pusher, mustOpen(f, open), image, nil}, 201, ""},
		{"Y07", "a digest of another algorithm", get("sha512:" + strings.Repeat("0", 128)), 422, verdict.Usage},
		{"Y07", "a method of nobody", call{"POST", base + "manifests/v1", f.pusher, nil, "", nil}, 422, verdict.Usage},
		{"Y08", "a push without the grant", call{"PUT", base + "manifests/" + version, f.puller, f.raw, f.good.MediaType, nil}, 403, verdict.NotGranted},
		{"Y08", "a repository without a grant", call{"GET", "/v2/elsewhere/manifests/v1", f.puller, nil, "", nil}, 403, verdict.NotGranted},
		{"Y08", "a blob of a repository without a grant", call{"POST", open + "blobs/uploads/?from=elsewhere&mount=" + bad.Digest.String(), f.pusher, nil, "", nil}, 403, verdict.NotGranted},
		{"Y08", "two repositories", call{"POST", open + "blobs/uploads/?from=" + f.repo + "&from=elsewhere&mount=" + bad.Digest.String(), f.pusher, nil, "", nil}, 422, verdict.Usage},
		{"Y08", "no token", call{"GET", base + "manifests/" + version, "", nil, "", nil}, 401, verdict.TokenParse},
		{"Y08", "two tokens", call{"GET", base + "tags/list", f.puller, nil, "", func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+f.puller) }}, 401, verdict.TokenParse},
		{"Y09", "an encoded slash", call{"GET", strings.Replace(base, "/"+repository, "%2f"+repository, 1) + "manifests/" + bad.Digest.String(), f.puller, nil, "", nil}, 404, ""},
		{"Y09", "an encoded colon", get(strings.Replace(bad.Digest.String(), ":", "%3a", 1)), 404, ""},
		{"Y09", "a way back", call{"GET", "/v2/open/../" + f.repo + "/manifests/" + bad.Digest.String(), f.puller, nil, "", nil}, 404, ""},
		{"Y09", "two slashes", call{"GET", "/v2//" + f.repo + "/manifests/" + bad.Digest.String(), f.puller, nil, "", nil}, 404, ""},
		{"Y09", "other letters", call{"GET", "/v2/" + strings.ToUpper(f.repo) + "/manifests/" + bad.Digest.String(), f.puller, nil, "", nil}, 404, verdict.Missing},
		{"Y09", "all repositories", call{"GET", "/v2/_catalog", f.puller, nil, "", nil}, 404, verdict.Missing},
		{"", "all tags", call{"GET", base + "tags/list", f.puller, nil, "", nil}, 200, ""},
	} {
		t.Run(strings.TrimSpace(c.row+" "+c.name), func(t *testing.T) {
			got := f.send(c.call)
			if got.status != c.status || got.code != c.code {
				t.Errorf("%d %s, want %d %s: %.500s", got.status, got.code, c.status, c.code, got.body)
			}
			if c.call.method == "GET" && got.status >= 400 && bytes.Contains(got.body, []byte("schemaVersion")) {
				t.Error("the refusal has the manifest")
			}
			if c.code == verdict.NoProvenance && c.call.method == "GET" && !strings.Contains(string(got.body), c.code.NextAct(verdict.Consumer)) {
				t.Errorf("the advice is not for who pulls: %s", got.body)
			}
			if c.call.method == "GET" && strings.Contains(c.call.path, "/manifests/") { // the same without the body
				head := c.call
				head.method = "HEAD"
				want := got.status
				if h := f.send(head); h.status != want || len(h.body) > 0 || h.header.Get("Docker-Content-Digest") != got.header.Get("Docker-Content-Digest") {
					t.Errorf("HEAD: %d %v, want %d", h.status, h.header, want)
				}
			}
		})
	}
	t.Run("Y10 a tag beside a digest", func(t *testing.T) { // as newer registries take it
		f.send(call{"PUT", base + "manifests/" + bad.Digest.String() + "?tag=v6.6.6", f.pusher, badRaw, image, nil})
		if tags := f.send(call{"GET", base + "tags/list", f.puller, nil, "", nil}); bytes.Contains(tags.body, []byte("v6.6.6")) {
			t.Errorf("%s", tags.body)
		}
	})
	if strings.Contains(f.log.String(), f.pusher) || strings.Contains(f.log.String(), f.puller) {
		t.Error("the log has a token")
	}
}

// mustOpen makes an image for an open repository.
func mustOpen(f *front, path string) []byte {
	_, raw := f.unsigned(strings.TrimSuffix(strings.TrimPrefix(path, "/v2/"), "/"))
	return raw
}

// TestProxyWhileItIsDecided: an image is pulled while its evidence comes, and
// what was refused before is accepted as soon as it is there.
func TestProxyWhileItIsDecided(t *testing.T) {
	f := openFront(t)
	repo := "gated/" + strings.ToLower(t.Name())
	from := must[*registry.Remote](t)(registry.OpenRemote(f.w.Lab.Registry+"/gated", http.DefaultTransport))
	to := must[*registry.Remote](t)(registry.OpenRemote(f.w.Lab.Registry, http.DefaultTransport))
	pull := call{"GET", "/v2/" + repo + "/manifests/" + f.w.version.String(), f.puller, nil, "", nil}
	push := call{"PUT", "/v2/" + repo + "/manifests/" + f.w.version.String(), f.pusher, f.raw, f.good.MediaType, nil}
	if got := f.send(push); got.code != "TAG_FIRST" {
		t.Fatalf("%d %s", got.status, got.code)
	}
	if _, err := registry.Copy(t.Context(), to, alone{moved{from, repository}}, repo, f.good); err != nil {
		t.Fatal(err)
	}
	if got := f.send(push); got.status != 403 || got.code == "" {
		t.Fatalf("%d %s", got.status, got.code)
	}
	var wait sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if got := f.send(pull); got.status == 200 && !bytes.Equal(got.body, f.raw) {
					t.Error("other bytes")
				}
			}
		})
	}
	if _, err := registry.Copy(t.Context(), to, moved{from, repository}, repo, f.good); err != nil {
		t.Fatal(err)
	}
	if got := f.send(push); got.status != 201 {
		t.Errorf("with its evidence: %d %s", got.status, got.body)
	}
	if got := f.send(pull); got.status != 200 || !bytes.Equal(got.body, f.raw) {
		t.Errorf("with its evidence: %d %s", got.status, got.body)
	}
	close(stop)
	wait.Wait()
}

// alone is a registry in which nothing refers to an image.
type alone struct{ moved }

func (alone) Referrers(context.Context, string, digest.Digest) ([]registry.Descriptor, error) {
	return nil, nil
}

// TestProxyStalledUploads: a caller whose uploads stall keeps nobody else
// waiting, and is itself told to wait.
func TestProxyStalledUploads(t *testing.T) {
	f := openFront(t, func(g *gatehouse) { g.limits.AtOnce, g.limits.Deadline = 16, 2*time.Second })
	neighbour := call{"GET", "/v2/" + f.repo + "/manifests/" + f.good.Digest.String(), f.puller, nil, "", nil}
	for f.send(neighbour).status != http.StatusOK { // until it is decided, on a slow machine
	}
	for range 16 / 8 { // as many as one caller may
		begun := f.send(call{"POST", "/v2/open/stalled/blobs/uploads/", f.pusher, nil, "", nil})
		conn := must[net.Conn](t)(net.Dial("tcp", f.host))
		t.Cleanup(func() { _ = conn.Close() })
		fmt.Fprintf(conn, "PATCH %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/octet-stream\r\nContent-Length: 1000000\r\n\r\nhalf", begun.header.Get("Location"), f.host, f.pusher)
	}
	waitUntilBusy := func() reply { return f.send(call{"POST", "/v2/open/stalled/blobs/uploads/", f.pusher, nil, "", nil}) }
	got := waitUntilBusy()
	for range 100 {
		if got.status == http.StatusTooManyRequests {
			break
		}
		got = waitUntilBusy()
	}
	if got.status != http.StatusTooManyRequests || got.code != verdict.Busy || got.header.Get("Retry-After") == "" {
		t.Errorf("one more upload: %d %s", got.status, got.body)
	}
	if got := f.send(neighbour); got.status != 200 {
		t.Errorf("the neighbour: %d %s", got.status, got.body)
	}
}

// TestProxyRecords: what is decided about a pull and a push stands in the
// record, and the last decisions can be audited.
func TestProxyRecords(t *testing.T) {
	f := openFront(t)
	bad, raw := f.unsigned(f.repo)
	if err := f.behind.PushManifest(t.Context(), f.repo, bad, raw); err != nil {
		t.Fatal(err)
	}
	f.send(call{"GET", "/v2/" + f.repo + "/manifests/" + bad.Digest.String(), f.puller, nil, "", nil})
	f.send(call{"PUT", "/v2/" + f.repo + "/manifests/v0.0.1-unsigned", f.pusher, raw, registry.MediaTypeManifest, nil})
	f.send(call{"PUT", "/v2/" + f.repo + "/manifests/v0.0.1-unsigned", f.puller, raw, registry.MediaTypeManifest, nil})
	var seen []string
	for line := range strings.Lines(f.log.String()) {
		var l struct{ Msg, Verb, Outcome, Principal, Image, Code string }
		if json.Unmarshal([]byte(line), &l) == nil && (l.Verb != "" || l.Code != "") {
			seen = append(seen, strings.TrimSpace(strings.Join([]string{l.Principal, l.Verb, l.Outcome, l.Code}, " ")))
			if l.Verb != "" && !strings.HasSuffix(l.Image, f.repo+"@"+bad.Digest.String()) {
				t.Errorf("the record has the image %q", l.Image)
			}
		}
	}
	if want := []string{"neighbour pull refused", "promoter push refused", "neighbour   NOT_GRANTED"}; !slices.Equal(seen, want) {
		t.Errorf("the record has %q, want %q", seen, want)
	}
}
