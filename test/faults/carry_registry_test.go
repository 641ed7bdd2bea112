package faults_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// failing is one fault of a promotion by a plan: at which door, how it ends, and
// in how many of the two regions the image then is.
type failing struct {
	name   string
	at     func(*carry) *faults.Proxy
	by     []faults.Fault
	code   int
	said   string
	public int
}

func atEU(c *carry) *faults.Proxy            { return c.registry }
func atStaged(c *carry) *faults.Proxy        { return c.stagedImage }
func atFulcio(c *carry) *faults.Proxy        { return c.fulcio }
func atRekor(c *carry) *faults.Proxy         { return c.rekor }
func atTSA(c *carry) *faults.Proxy           { return c.tsa }
func some(by ...faults.Fault) []faults.Fault { return by }

// carries plays faults. Whatever happens, a tag is old or stands over all that
// belongs to it; a run says that it is done only if it is; and the next run,
// when the fault is over, leaves everything there once.
func carries(t *testing.T, rows []failing) {
	t.Helper()
	before, made := entries(t), 0
	var mu sync.Mutex // owns made
	t.Run("rows", func(t *testing.T) {
		for _, row := range rows {
			t.Run(row.name, func(t *testing.T) {
				t.Parallel()
				c := newCarry(t)
				c.plays(row)
				c.mended()
				mu.Lock()
				defer mu.Unlock()
				made += c.made()
			})
		}
	})
	if !t.Failed() {
		once(t, before, made)
	}
}

// Rows 1 to 3: registries that are asked too much, and bursts of failures.
func TestCarryOverload(t *testing.T) {
	carries(t, []failing{
		{"a region asks to wait", atEU, one("PUT", "/manifests/", faults.Status(429, "Retry-After", "1")), 0, "OK ", 2},
		{"a region asks for a year", atEU, all("PUT", "/manifests/", faults.Status(429, "Retry-After", "1000000000")), 3, "verified=1 required=2", 1},
		{"the source asks to wait", atStaged, one("GET", "/manifests/", faults.Status(429, "Retry-After", "1")), 0, "OK ", 2},
		{"a region has no end of 429", atEU, all("", "", faults.Status(429)), 3, "429", 1},
		{"the source has no end of 429", atStaged, all("", "", faults.Status(429)), 3, "verified=0 required=2", 0},
		{"bursts in a region", atEU, bursts(), 0, "OK ", 2},
		{"bursts at the source", atStaged, bursts(), 0, "OK ", 2},
	})
}

// Rows 4 and 5: writes that were done and are said to have failed, and writes
// that were taken and lost.
func TestCarryWritesThatLie(t *testing.T) {
	does := faults.FailsButDoes(503)
	carries(t, []failing{
		{"a manifest, done", atEU, one("PUT", "/manifests/sha256:", does), 0, "OK ", 2},
		{"every manifest, done, and nobody says so", atEU, all("PUT", "/manifests/sha256:", does), 3, "verified=1 required=2", 1},
		{"the tag, done", atEU, all("PUT", "/manifests/v", does), 0, "OK ", 2},
		{"the tag, done, and the connection dies", atEU, one("PUT", "/manifests/v", faults.DoesAndDies), 0, "OK ", 2},
		{"a blob, done", atEU, one("POST", "/blobs/uploads/", does), 0, "OK ", 2},
		{"a manifest, lost", atEU, one("PUT", "/manifests/sha256:", faults.Loses(201, "")), 3, "verified=1 required=2", 1},
		{"every manifest, lost", atEU, all("PUT", "/manifests/sha256:", faults.Loses(201, "")), 3, "does not have the object", 1},
		{"a record, lost", atEU, all("PUT", "/manifests/sha256:", losesRecord), 3, "verified=1 required=2", 1},
		{"the tag, lost", atEU, all("PUT", "/manifests/v", faults.Loses(201, "")), 3, "does not have the object", 1},
		{"a blob, lost", atEU, one("POST", "/blobs/uploads/", faults.Loses(201, "")), 3, "verified=1 required=2", 1},
		{"every blob, lost", atEU, all("POST", "/blobs/uploads/", faults.Loses(201, "")), 3, "verified=1 required=2", 1},
	})
}

// losesRecord says that it took a summary, and did not.
func losesRecord(w http.ResponseWriter, r *http.Request, next http.Handler) {
	raw, err := io.ReadAll(r.Body)
	if err == nil && bytes.Contains(raw, []byte(vsa.PredicateType)) {
		w.WriteHeader(http.StatusCreated)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	next.ServeHTTP(w, r)
}

// Rows 7 to 12: connections that break, bodies that are cut, changed or endless,
// and redirects that lead nowhere.
func TestCarryBadLines(t *testing.T) {
	metadata := faults.Redirects("http://169.254.169.254/computeMetadata/v1/")
	rows := []failing{
		{"row 7, a blob read", atStaged, one("GET", "/blobs/", faults.Resets), 0, "OK ", 2},
		{"row 7, a manifest written", atEU, one("PUT", "/manifests/", faults.Dies), 0, "OK ", 2},
		{"row 7, a manifest written, always", atEU, all("PUT", "/manifests/", faults.Dies), 3, "verified=1 required=2", 1},
		{"row 7, a blob written", atEU, one("POST", "/blobs/uploads/", faults.Dies), 0, "OK ", 2},
		{"row 8, the source hangs", atStaged, all("GET", "/manifests/", faults.Hangs), 3, "verified=0 required=2", 0},
		{"row 8, a region hangs", atEU, all("PUT", "/manifests/", faults.Hangs), 3, "verified=1 required=2", 1},
		{"row 8, a byte at a time", atStaged, all("GET", "/blobs/", faults.Dribbles(20*time.Millisecond)), 3, "verified=0 required=2", 0},
		{"row 10, a blob", atStaged, all("GET", "/blobs/", faults.Flips), 1, "REFUSED", 0},
		{"row 10, a manifest", atStaged, all("GET", "/manifests/sha256:", faults.Flips), 1, "TAMPERED", 0},
		{"row 10, what a region shows", atEU, all("GET", "/manifests/sha256:", faults.Flips), 1, "TAMPERED", 1},
		{"row 11, a manifest", atStaged, all("GET", "/manifests/sha256:", faults.Endless), 1, "verified=0 required=2", 0},
		{"row 11, a list of referrers", atStaged, all("GET", "/referrers/", faults.Endless), 1, "LIMIT", 0},
		{"row 11, a list of tags", atStaged, all("GET", "/tags/list", faults.Endless), 1, "LIMIT", 0},
		{"row 11, what a region shows", atEU, all("GET", "/referrers/", faults.Endless), 1, "LIMIT", 1},
		{"row 11, an error", atEU, all("PUT", "/manifests/", faults.EndlessError(500)), 3, "verified=1 required=2", 1},
		{"row 12, an upload to metadata", atEU, all("POST", "/blobs/uploads/", metadata), 3, "verified=1 required=2", 1},
		{"row 12, the source to metadata", atStaged, all("GET", "/blobs/", metadata), 3, "verified=0 required=2", 0},
		{"row 12, a loop", atStaged, all("GET", "/v2/", faults.Redirects("/v2/")), 3, "verified=0 required=2", 0},
	}
	for name, cut := range map[string]faults.Act{"with a length": faults.Resets, "in chunks": faults.CutsChunks, "as HTTP 1 0 does it": faults.EndsEarly} {
		rows = append(rows,
			failing{"row 9, once " + name, atStaged, one("GET", "/blobs/", cut), 0, "OK ", 2},
			failing{"row 9, always " + name, atStaged, all("GET", "/blobs/", cut), 3, "verified=0 required=2", 0})
	}
	carries(t, rows)
}

// Rows 14, 16 and 17: tokens that expire, lists that go round, and what is seen
// a little later.
func TestCarryWaiting(t *testing.T) {
	challenged := func(method, path string) []faults.Fault {
		return some(faults.Fault{Path: "/faults/token", Do: faults.Tokens},
			faults.Fault{Method: "GET", Path: "/v2/$", Do: faults.Challenges},
			faults.Fault{Method: method, Path: path, Times: 1, Do: faults.Challenges})
	}
	pages := 0
	round := func(page int) string { return []string{"a", "b", "c"}[page%3] }
	carries(t, []failing{
		{"row 14, before anything", atEU, challenged("GET", "/manifests/v"), 0, "OK ", 2},
		{"row 14, a blob", atEU, challenged("POST", "/blobs/uploads/"), 0, "OK ", 2},
		{"row 14, a manifest", atEU, challenged("PUT", "/manifests/sha256:"), 0, "OK ", 2},
		{"row 14, read back", atEU, challenged("GET", "/referrers/"), 0, "OK ", 2},
		{"row 14, the tag", atEU, challenged("PUT", "/manifests/v"), 0, "OK ", 2},
		{"row 14, the source", atStaged, challenged("GET", "/blobs/"), 0, "OK ", 2},
		{"row 16, tags go round", atStaged, all("GET", "/tags/list", faults.NextPage(&pages, func(page int) (string, string) {
			return `{"tags":["v0.1.0"]}`, "<?n=1000&last=" + round(page) + `>; rel="next"`
		})), 3, "verified=0 required=2", 0},
		{"row 16, referrers go round", atStaged, all("GET", "/referrers/", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
			w.Header().Set("Content-Type", registry.MediaTypeIndex)
			w.Header().Set("Link", `<?last=a>; rel="next"`)
			_, _ = io.WriteString(w, `{"schemaVersion":2,"mediaType":"`+registry.MediaTypeIndex+`","manifests":[]}`)
		}), 3, "does not advance", 0},
		{"row 17, a manifest, seen later", atEU, some(faults.Fault{Method: "GET", Path: "/manifests/sha256:", Skip: 1, Times: 3, Do: faults.Status(404)}), 0, "OK ", 2},
		{"row 17, a manifest, never seen", atEU, all("GET", "/manifests/sha256:", faults.Status(404)), 3, "does not have the object", 1},
		{"row 17, the tag, seen later", atEU, some(faults.Fault{Method: "GET", Path: "/manifests/v", Skip: 1, Times: 3, Do: faults.Status(404)}), 0, "OK ", 2},
		{"row 24, a region is away", atEU, all("", "", faults.Dies), 3, "verified=1 required=2", 1},
		{"row 24, a region refuses writes", atEU, all("PUT", "", faults.Status(403)), 3, "verified=1 required=2", 1},
	})
}

// Row 6: nobody listens, at the source or in a region.
func TestCarryNobodyListens(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	for name, row := range map[string]struct {
		at     func(*carry) *faults.Proxy
		public int
	}{"region": {atEU, 1}, "source": {atStaged, 0}} {
		t.Run(name, func(t *testing.T) {
			c := newCarry(t)
			whole := c.read(c.plan)
			c.replan(row.at(c).Host, address)
			want(t, c.hurried(), 3, "connection refused", "nothing was decided")
			if n := c.sound(); n != row.public {
				t.Errorf("the image is in %d regions", n)
			}
			c.write(c.plan, whole)
			c.mended()
		})
	}
}

// read is a file of the night.
func (c *carry) read(name string) string {
	c.t.Helper()
	raw, err := os.ReadFile(staged.Path(name))
	if err != nil {
		c.t.Fatal(err)
	}
	return string(raw)
}

// replan plans again, with another name for a registry.
func (c *carry) replan(from, to string) {
	c.t.Helper()
	c.write(c.plan+".yaml", strings.ReplaceAll(c.read(c.plan+".yaml"), from, to))
	r := staged.Run(c.t.Context(), "waybill", "promote", "plan", c.plan+".yaml", "-o", "json")
	want(c.t, r, 0)
	c.write(c.plan, r.Stdout)
}

// Row 18: a part of the image is there already, as somebody left it; and row 20,
// another image is there under the tag.
func TestCarryWhatIsThere(t *testing.T) {
	t.Run("some platforms", func(t *testing.T) {
		c, before := newCarry(t), entries(t)
		for region := range c.regions() {
			for _, child := range c.image.Children[:1] {
				if _, err := registry.Copy(t.Context(), c.at(region), c.at("staging/lantern"), carried, child.Descriptor); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := c.sound(); n != 0 {
			t.Fatalf("%d regions have the tag", n)
		}
		c.mended()
		once(t, before, c.made())
	})
	t.Run("another image", func(t *testing.T) {
		c := newCarry(t)
		child := c.image.Children[0].Descriptor
		eu := c.at("release/" + c.place + "/eu")
		if _, err := registry.Copy(t.Context(), eu, c.at("staging/lantern"), carried, child); err != nil {
			t.Fatal(err)
		}
		if err := eu.Tag(t.Context(), carried, scene.Version, child); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			want(t, c.apply(), 1, "TAG_CONFLICT", "verified=1 required=2")
			if held, err := eu.Resolve(t.Context(), carried, scene.Version); err != nil || !held.Digest.Equal(child.Digest) {
				t.Fatalf("the tag was moved: %v, %v", held, err)
			}
			if !c.public("release/" + c.place + "/us") {
				t.Error("the other region does not have it")
			}
		}
	})
}
