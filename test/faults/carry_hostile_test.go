package faults_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/test/faults"
)

// changed gives another answer than the real one, which it may look at.
func changed(change func(header http.Header, body []byte) []byte) faults.Act {
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

func header(name, value string) faults.Act {
	return changed(func(h http.Header, body []byte) []byte { h.Set(name, value); return body })
}

// elsewhere gives the answer to another question.
func elsewhere(from, to string) faults.Act {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		other := r.Clone(r.Context())
		other.URL.Path = strings.Replace(r.URL.Path, from, to, 1)
		next.ServeHTTP(w, other)
	}
}

// hostile is an attack of the table of attacks on a promotion by a plan. Its
// twin is the same promotion through a door that is honest again: mended.
type hostile struct {
	name string
	by   func(c *carry) failing
}

// TestCarryHostileRegistries: what a registry says that lies, to who reads from
// it and to who writes to it.
func TestCarryHostileRegistries(t *testing.T) {
	empty := changed(func(h http.Header, _ []byte) []byte {
		h.Set("Content-Type", registry.MediaTypeIndex)
		return []byte(`{"schemaVersion":2,"mediaType":"` + registry.MediaTypeIndex + `","manifests":[]}`)
	})
	first := func(c *carry) string { return c.image.Children[0].Descriptor.Digest.String() }
	second := func(c *carry) string { return c.image.Children[1].Descriptor.Digest.String() }
	root := func(c *carry) string { return c.image.Descriptor.Digest.String() }
	staged := func(path string, do faults.Act, said string) failing {
		return failing{at: atStaged, by: all("GET", path, do), code: 1, said: said}
	}
	for _, a := range []hostile{
		{"G02 another platform for a digest", func(c *carry) failing {
			return staged("/manifests/"+first(c), elsewhere(first(c), second(c)), "TAMPERED")
		}},
		{"G03 a header that names another digest", func(c *carry) failing {
			return failing{at: atStaged, by: all("GET", "/manifests/"+first(c), header("Docker-Content-Digest", second(c))), code: 0, said: "OK ", public: 2}
		}},
		{"G04 an index that is called an image", func(c *carry) failing {
			return staged("/manifests/"+root(c), header("Content-Type", registry.MediaTypeManifest), "MANIFEST_PARSE")
		}},
		{"G05 a platform that is not there", func(c *carry) failing {
			return staged("/manifests/"+second(c), faults.Status(404), "MISSING")
		}},
		{"G06 platforms exchanged", func(c *carry) failing {
			return staged("/manifests/"+root(c), changed(func(_ http.Header, body []byte) []byte {
				return []byte(strings.NewReplacer("amd64", "arm64", "arm64", "amd64").Replace(string(body)))
			}), "TAMPERED")
		}},
		{"G07 evidence of a platform for the index", func(c *carry) failing {
			return staged("/referrers/"+root(c), elsewhere(root(c), first(c)), "NOT_BOUND")
		}},
		{"G07 evidence of the index for a platform", func(c *carry) failing {
			return staged("/referrers/"+first(c), elsewhere(first(c), root(c)), "NOT_BOUND")
		}},
		{"G08 no evidence", func(c *carry) failing { return staged("/referrers/", empty, "UNSIGNED") }},
		{"G08 no such list", func(c *carry) failing { return staged("/referrers/", faults.Status(404), "UNSIGNED") }},
		{"G11 a list that is cut", func(c *carry) failing {
			return staged("/referrers/", changed(func(_ http.Header, body []byte) []byte { return body[:len(body)/2] }), "verified=0").down()
		}},
		{"G11 a region that loses one of a list", func(c *carry) failing {
			return failing{at: atEU, by: all("GET", "/referrers/"+root(c), empty), code: 1, said: "REPLICA_DRIFT", public: 1}
		}},
		{"G12 bundles of another size", func(c *carry) failing {
			return staged("/referrers/", changed(func(_ http.Header, body []byte) []byte {
				return bytes.ReplaceAll(body, []byte(`"size":`), []byte(`"size":1000000000000`))
			}), "verified=0")
		}},
		{"G18 an upload that goes on inside the network", func(c *carry) failing {
			return failing{at: atEU, by: all("POST", "/blobs/uploads/", faults.Status(202, "Location", "https://169.254.169.254/upload/1")), code: 3, said: "verified=1", public: 1}
		}},
		{"G18 an upload that goes on without TLS", func(c *carry) failing {
			return failing{at: atEU, by: all("POST", "/blobs/uploads/", faults.Status(202, "Location", "http://files.example.test/upload/1")), code: 3, said: "verified=1", public: 1}
		}},
		{"G19 the next page elsewhere", func(c *carry) failing {
			return staged("/tags/list", header("Link", `<http://files.example.test/v2/x/tags/list>; rel="next"`), "verified=0").down()
		}},
		{"G22 blobs that are said to exist, and do not", func(c *carry) failing {
			return failing{at: atEU, by: some(
				faults.Fault{Method: "HEAD", Path: "/blobs/", Do: faults.Status(200)}, faults.Fault{Method: "POST", Path: "/blobs/uploads/", Do: faults.Loses(201, "")},
			), code: 3, said: "verified=1", public: 1}
		}},
		{"G26 a region that shows no evidence", func(c *carry) failing {
			return failing{at: atEU, by: all("GET", "/referrers/", empty), code: 1, said: "REPLICA_DRIFT", public: 1}
		}},
		{"G27 a blob that was mounted, and is not there", func(c *carry) failing {
			c.replan(c.stagedImage.Host, c.registry.Host)
			return failing{at: atEU, by: all("POST", "mount=", faults.Loses(201, "")), code: 0, said: "OK ", public: 2}
		}},
	} {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			c := newCarry(t)
			c.plays(a.by(c))
			c.mended()
		})
	}
}

// down is the same where it is no answer, and so no refusal.
func (f failing) down() failing {
	f.code = 3
	return f
}

// plays plays one fault, and looks at what is there then.
func (c *carry) plays(row failing) {
	c.t.Helper()
	row.at(c).Spoil(row.by...)
	run := c.hurried
	if c.patient = row.code != 3; c.patient {
		run = c.apply
	}
	r := run()
	want(c.t, r, row.code, row.said)
	if row.at(c).Spoiled() == 0 {
		c.t.Fatal("the fault was never met")
	}
	if n := c.sound(); n != row.public {
		c.t.Errorf("the image is in %d regions, want %d\n%s", n, row.public, r.Stdout)
	}
}

// G17: where a blob is redirected to another host, nobody's credentials go
// along.
func TestCarryCredentialsStay(t *testing.T) {
	c := newCarry(t)
	other := faults.Before(t, "http://"+staged.Lab.Registry)
	c.stagedImage.Spoil(
		faults.Fault{Path: "/faults/token", Do: faults.Tokens},
		faults.Fault{Method: "GET", Path: "/v2/$", Do: faults.Challenges},
		faults.Fault{Method: "GET", Path: "/blobs/", Do: faults.Redirects(other.URL + "…")})
	c.patient = true
	want(t, c.apply(), 0, "OK ")
	at, gone := 0, 0
	for _, r := range c.stagedImage.Seen() {
		if r.Secrets {
			at++
		}
	}
	for _, r := range other.Seen() {
		if r.Secrets {
			gone++
		}
	}
	if at == 0 || gone > 0 || len(other.Seen()) == 0 {
		t.Errorf("%d requests carried credentials, %d of them to another host, of %d", at, gone, len(other.Seen()))
	}
	c.settled()
}
