package attacks

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/faults"
)

// hosted is a release that was promoted to a real registry. What the gate
// reads of it passes through a registry that lies.
type hosted struct {
	*attacked
	files  store.Place
	proxy  *faults.Proxy
	images *registry.Remote
}

func (w *world) hosted(t *testing.T) *hosted {
	t.Helper()
	h := &hosted{attacked: w.attacked(t), proxy: faults.Before(t, "http://"+w.Lab.Registry)}
	accepted(t, h.publish(t, "hostile"))
	h.images = h.open(t, "hostile") // who wrote waits for what it wrote
	return h
}

func (h *hosted) open(t *testing.T, prefix string) *registry.Remote {
	t.Helper()
	return must[*registry.Remote](t)(registry.OpenRemote(h.proxy.Host+"/"+prefix+"/lantern", transport.New(transport.Config{Patience: 3 * time.Second})))
}

// publish promotes the release through the proxy.
func (h *hosted) publish(t *testing.T, prefix string) error {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "files")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	h.files = must[store.Place](t)(store.Open(dir, nil))
	from := promote.From{Files: must[store.Place](t)(store.Open(filepath.Join(h.dir, "files"), nil)), Images: h.attacked.images}
	to := promote.To{Files: h.files, Writer: must[store.Writer](t)(store.OpenWriter(dir)), Images: h.open(t, prefix)}
	return promote.Apply(t.Context(), promote.Make(h.manifest(t), h.read(t, "release.manifest.sigstore.json")), from, to)
}

func (h *hosted) judge(t *testing.T) error {
	t.Helper()
	return h.gate(t, func(q *gate.Request) { q.Files, q.Images = h.files, h.images }).Err()
}

// instead gives another answer than the real one, which it may look at.
func instead(change func(header http.Header, body []byte) []byte) faults.Act {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		rec := httptest.NewRecorder()
		next.ServeHTTP(rec, r)
		body := change(rec.Header(), rec.Body.Bytes())
		for name, values := range rec.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body)
	}
}

// TestRegistryThatLies has a registry answer as it should not, once for each
// way; nothing else differs from the release that is accepted.
func TestRegistryThatLies(t *testing.T) {
	h := theWorld(t).hosted(t)
	index := h.graph(t)
	amd64, arm64 := index.Children[0], index.Children[1]
	tag := "/manifests/" + h.version.String()
	manifestOf := func(n *registry.Node) string { return "/manifests/" + n.Descriptor.Digest.String() }
	layer := "/blobs/" + amd64.Layers[0].Digest.String()
	header := func(name, value string) faults.Act {
		return instead(func(h http.Header, body []byte) []byte { h.Set(name, value); return body })
	}
	bytesOf := func(n *registry.Node, headers ...string) faults.Act {
		return instead(func(h http.Header, _ []byte) []byte {
			for i := 0; i < len(headers); i += 2 {
				h.Set(headers[i], headers[i+1])
			}
			return n.Raw
		})
	}
	const digestHeader = "Docker-Content-Digest"
	none := instead(func(http.Header, []byte) []byte {
		return []byte(`{"schemaVersion":2,"mediaType":"` + registry.MediaTypeIndex + `","manifests":[]}`)
	})
	flood := instead(func(_ http.Header, body []byte) []byte {
		one := `{"mediaType":"` + registry.MediaTypeManifest + `","digest":"` + amd64.Descriptor.Digest.String() + `","size":1,"artifactType":"x"},`
		return []byte(strings.Replace(string(body), `"manifests":[`, `"manifests":[`+strings.Repeat(one, 100_000), 1))
	})
	get := func(path string, do faults.Act) faults.Fault {
		return faults.Fault{Method: "GET", Path: path, Do: do}
	}
	for _, row := range []struct {
		name  string
		fault faults.Fault
		want  []verdict.Code
	}{
		{"the twin", faults.Fault{Path: "nobody asks this"}, nil},
		{"G01 the tag names a child", get(tag, bytesOf(amd64, "Content-Type", registry.MediaTypeManifest)), codes(verdict.TagMoved)},
		{"G02 another manifest for a digest", get(manifestOf(amd64), bytesOf(arm64)), codes(verdict.Tampered)},
		{"G02 another one, called by the digest that was asked", get(manifestOf(amd64), bytesOf(arm64, digestHeader, amd64.Descriptor.Digest.String())), codes(verdict.Tampered)},
		{"G03 the right bytes under another digest", get(manifestOf(amd64), header(digestHeader, arm64.Descriptor.Digest.String())), nil},
		{"G03 a tag whose header names another digest", get(tag, header(digestHeader, arm64.Descriptor.Digest.String())), nil},
		{"G03 a HEAD that names another digest", faults.Fault{Method: "HEAD", Do: header(digestHeader, arm64.Descriptor.Digest.String())}, nil},
		{"G04 an index that is called an image", get(tag, header("Content-Type", registry.MediaTypeManifest)), codes(verdict.ManifestParse)},
		{"G05 a child that is not there", get(manifestOf(arm64), faults.Status(404)), codes(verdict.Missing)},
		{"G06 one platform's image for another's", get(manifestOf(index), instead(func(_ http.Header, body []byte) []byte {
			return []byte(strings.NewReplacer("amd64", "arm64", "arm64", "amd64").Replace(string(body)))
		})), codes(verdict.Tampered)},
		{"G08 a list of referrers with nothing in it", get("/referrers/", none), codes(verdict.Unsigned)},
		{"G08 no such list, and no tag in its place", get("/referrers/", faults.Status(404)), codes(verdict.Unsigned)},
		{"G10 a flood of referrers", get("/referrers/", flood), codes(verdict.Limit)},
		{"G11 the list of referrers fails", get("/referrers/", faults.Status(500)), codes(verdict.PlaceDown)},
		{"G13 a layer with bytes after its end", get(layer, faults.Lengthens), codes(verdict.Tampered)},
		{"G14 a layer that ends early", get(layer, faults.EndsEarly), codes(verdict.PlaceDown)},
		{"G19 the next page of tags elsewhere", get("/tags/list", header("Link", `<http://files.example.test/v2/x/tags/list>; rel="next"`)), codes(verdict.PlaceDown)},
		{"G20 a redirect into the machine", get(layer, faults.Redirects("http://169.254.169.254/")), codes(verdict.PlaceDown)},
		{"G22 a layer that is said to exist, and does not", get(layer, faults.Status(404)), codes(verdict.Missing)},
		{"G26 a copy without the signature of the index", get("/referrers/"+index.Descriptor.Digest.String(), none), codes(verdict.Unsigned)},
	} {
		t.Run(row.name, func(t *testing.T) {
			h.proxy.Spoil(row.fault)
			before := h.proxy.Spoiled()
			refused(t, h.judge(t), row.want...)
			if row.fault.Do != nil && row.fault.Method == "GET" && h.proxy.Spoiled() == before {
				t.Error("the lie was never told")
			}
		})
	}
}

// TestATagIsAskedOnce: what a tag names is asked once, and from there on
// digests alone are asked, so that a tag that moves meanwhile moves nothing.
func TestATagIsAskedOnce(t *testing.T) {
	h := theWorld(t).hosted(t)
	tag := "/manifests/" + h.version.String()
	asked := h.proxy.Count("GET", tag)
	h.proxy.Spoil(faults.Fault{Method: "GET", Path: tag, Skip: 1, Do: faults.Status(404)})
	accepted(t, h.judge(t))
	if n := h.proxy.Count("GET", tag) - asked; n != 1 {
		t.Errorf("the tag was asked %d times", n)
	}
}

// TestRegistryThatMisleadsWrites does the same to a promotion.
func TestRegistryThatMisleadsWrites(t *testing.T) {
	for i, row := range []struct {
		name  string
		fault faults.Fault
		want  []verdict.Code
	}{
		{"the twin", faults.Fault{Path: "nobody asks this"}, nil},
		{"G18 an upload that goes on inside the network", faults.Fault{
			Method: "POST", Path: "/blobs/uploads/", Do: faults.Status(202, "Location", "https://169.254.169.254/upload/1"),
		}, codes(verdict.PlaceDown)},
		{"G18 an upload that goes on without TLS", faults.Fault{
			Method: "POST", Path: "/blobs/uploads/", Do: faults.Status(202, "Location", "http://files.example.test/upload/1"),
		}, codes(verdict.PlaceDown)},
		{"G28 a manifest that is taken and lost", faults.Fault{Method: "PUT", Path: "/manifests/sha256:", Do: faults.Loses(201, "")}, codes(verdict.PlaceDown)},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := &hosted{attacked: theWorld(t).attacked(t), proxy: faults.Before(t, "http://"+theWorld(t).Lab.Registry, row.fault)}
			refused(t, h.publish(t, "misled-"+strconv.Itoa(i)), row.want...)
			if row.want != nil && h.proxy.Spoiled() == 0 {
				t.Error("the lie was never told")
			}
			if h.proxy.Count("", "mount=") > 0 {
				t.Error("G27: a blob was mounted, and nothing asks whether it is there then")
			}
		})
	}
}
