package planned_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	served "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/sbom/planned"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// world is a plan of images in a registry, and a directory for their SBOMs.
type world struct {
	t      *testing.T
	dir    string
	plan   promotionplan.Plan
	server *httptest.Server
}

func open(t *testing.T, images int) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), server: httptest.NewServer(served.New(served.Logger(log.New(io.Discard, "", 0))))}
	t.Cleanup(w.server.Close)
	host := strings.TrimPrefix(w.server.URL, "http://")
	var text strings.Builder
	fmt.Fprintf(&text, "registries:\n- {name: %s/staging, src: true}\n- {name: %s/prod}\nimages:\n- name: lantern\n  dmap:\n", host, host)
	for i := range images {
		image, err := random.Image(64, 1)
		if err != nil {
			t.Fatal(err)
		}
		to, err := name.NewTag(fmt.Sprintf("%s/staging/lantern:v%d", host, i))
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(to, image); err != nil {
			t.Fatal(err)
		}
		sum, err := image.Digest()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "    %q: [v%d]\n", sum, i)
	}
	m, err := promoterfile.Parse("m.yaml", []byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	if w.plan, err = promotionplan.Make([]promoterfile.Manifest{m}); err != nil {
		t.Fatal(err)
	}
	return w
}

// run describes a shard, or, if merge is set, only accounts for what is there.
func (w *world) run(index, of int, merge bool) *verdict.Verdict {
	w.t.Helper()
	made := w.describe
	if merge {
		made = nil
	}
	return w.runWith(promotionplan.Shard{Index: index, Of: of}, made)
}

func (w *world) runWith(shard promotionplan.Shard, made func(context.Context, promotionplan.Edge) ([]byte, error)) *verdict.Verdict {
	w.t.Helper()
	place, err := store.Open(w.dir, http.DefaultTransport)
	if err != nil {
		w.t.Fatal(err)
	}
	i := planned.Images{Plan: w.plan, Shard: shard, Place: place, Make: made}
	if made != nil {
		if i.To, err = store.OpenWriter(w.dir); err != nil {
			w.t.Fatal(err)
		}
	}
	return i.Run(w.t.Context(), time.Unix(0, 0))
}

// describe makes the SBOM of an image.
func (w *world) describe(ctx context.Context, e promotionplan.Edge) ([]byte, error) {
	from, err := registry.OpenRemote(w.plan.Routes[e.Route].Source, http.DefaultTransport)
	if err != nil {
		return nil, err
	}
	node, err := registry.Target{Source: from, Repository: e.Image}.Graph(ctx, e.Digest.String())
	if err != nil {
		return nil, err
	}
	content, err := sbom.FromRegistry(ctx, from, e.Image, node)
	if err != nil {
		return nil, err
	}
	made, err := sbom.Image(ctx, sbom.Input{Name: e.Image, Version: "NOASSERTION", Created: time.Unix(0, 0).UTC(), Namespace: "https://example.test/"}, e.Image, content)
	if err != nil {
		return nil, err
	}
	return made.Encode()
}

// wants fails the test unless a verdict has one finding, with this code.
func (w *world) wants(what string, v *verdict.Verdict, code verdict.Code) {
	w.t.Helper()
	if len(v.Findings) != 1 || v.Findings[0].Code != code {
		w.t.Errorf("%s: %v", what, v.Findings)
	}
}

// TestMerge: the merge accepts exactly what all shards wrote.
func TestMerge(t *testing.T) {
	w := open(t, 8)
	if v := w.run(0, 1, true); len(v.Findings) != 8 || v.Findings[0].Code != verdict.Missing {
		t.Errorf("before the shards: %v", v.Findings)
	}
	for shard := range 3 {
		if v := w.run(shard, 3, false); v.Counts.Required > 0 && v.Err() != nil {
			t.Errorf("shard %d: %v", shard, v.Findings)
		}
	}
	w.server.Close() // what is there is not made again
	if v := w.run(0, 1, false); v.Err() != nil || v.Counts.Verified != 8 {
		t.Fatalf("%+v, %v", v.Counts, v.Findings)
	}
	name := func(i int) string { return filepath.Join(w.dir, w.plan.Edges[i].Digest.Hex()+".spdx.json") }
	raw, err := os.ReadFile(name(0))
	if err != nil {
		t.Fatal(err)
	}
	partial := strings.Replace(string(raw), `"relationships": [`, `"relationships": [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "CONTAINS", "relatedSpdxElement": "NOASSERTION", "comment": "not examined: layer 1: unknown format"},`, 1)
	for what, row := range map[string]struct {
		file string
		body []byte
		code verdict.Code
	}{
		"an SBOM that is not complete": {name(0), []byte(partial), ""},
		"a file that cannot be listed": {w.dir + "/two\nlines", raw, "PATH"},
		"the SBOM of another image":    {name(1), raw, verdict.SBOMSubject}, // SBOM_SUBJECT
		"half of an SBOM":              {name(1), raw[:len(raw)/2], "PAYLOAD_PARSE"},
		"another file":                 {filepath.Join(w.dir, "other.spdx.json"), raw, verdict.Extra},
		"the SBOM that is there":       {name(0), raw, ""},
		"none":                         {name(1), nil, verdict.Missing},
		"none, and it can't be made":   {name(1), nil, verdict.PlaceDown},
	} {
		t.Run(what, func(t *testing.T) {
			before, none := os.ReadFile(row.file)
			if err := os.Remove(row.file); err != nil && none == nil {
				t.Fatal(err)
			}
			if row.body != nil {
				if err := os.WriteFile(row.file, row.body, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			v := w.run(0, 1, row.code != verdict.PlaceDown)
			if row.code != "" {
				w.wants(what, v, row.code)
			} else if v.Err() != nil || (len(v.Scope.Left) > 0) != (string(row.body) == partial) {
				t.Error(v.Findings, v.Scope.Left)
			}
			if none == nil {
				err = os.WriteFile(row.file, before, 0o600)
			} else {
				err = os.Remove(row.file)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	if v := w.run(0, 1, true); v.Err() != nil {
		t.Errorf("afterwards: %v", v.Findings)
	}
}

// TestAnotherWorker: what another worker wrote in the meantime is read, not the
// SBOM that was made here (SBOM_SUBJECT). The same SBOM passes.
func TestAnotherWorker(t *testing.T) {
	for what, row := range map[string]struct {
		change string
		code   verdict.Code
	}{"the same": {"", ""}, "of other bytes": {strings.Repeat("0", 64), verdict.SBOMSubject}} {
		t.Run(what, func(t *testing.T) {
			w := open(t, 1)
			v := w.runWith(promotionplan.Shard{}, func(ctx context.Context, e promotionplan.Edge) ([]byte, error) {
				raw, err := w.describe(ctx, e)
				if err != nil {
					return nil, err
				}
				theirs := raw
				if row.change != "" {
					theirs = []byte(strings.ReplaceAll(string(raw), e.Digest.Hex(), row.change))
				}
				return raw, os.WriteFile(filepath.Join(w.dir, e.Digest.Hex()+".spdx.json"), theirs, 0o600)
			})
			if row.code != "" {
				w.wants(what, v, row.code)
			} else if v.Err() != nil {
				t.Error(v.Findings)
			}
		})
	}
}
