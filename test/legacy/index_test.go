package legacy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// entry is a manifest as an index lists it.
type entry struct{ platform, configured, layer, annotation string }

// list pushes an index of these manifests.
func (w *world) list(t *testing.T, r *registry.Remote, entries ...entry) (index registry.Descriptor, children []registry.Descriptor) {
	t.Helper()
	var listed []map[string]any
	put := func(mediaType string, doc map[string]any) registry.Descriptor {
		doc["schemaVersion"], doc["mediaType"] = 2, mediaType
		raw := marshal(t, doc)
		d := registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
		if err := r.PushManifest(t.Context(), "demo", d, raw); err != nil {
			t.Fatal(err)
		}
		return d
	}
	for i, e := range entries {
		system, machine, _ := strings.Cut(e.configured, "/")
		config := push(t, r, "application/vnd.oci.image.config.v1+json", fmt.Appendf(nil, `{"os":%q,"architecture":%q}`, system, machine))
		layer := push(t, r, e.layer, fmt.Appendf(nil, "layer %d", i))
		d := put(registry.MediaTypeManifest, map[string]any{"config": config, "layers": []any{layer}})
		system, machine, _ = strings.Cut(e.platform, "/")
		one := map[string]any{"mediaType": d.MediaType, "digest": d.Digest.String(), "size": d.Size, "platform": map[string]any{"os": system, "architecture": machine}}
		if e.annotation != "" {
			one["annotations"] = map[string]any{"vnd.docker.reference.type": e.annotation}
		}
		listed, children = append(listed, one), append(children, d)
	}
	return put(registry.MediaTypeIndex, map[string]any{"manifests": listed}), children
}

// TestIndex asks about images of several platforms of which only the index, or
// only one platform, is signed. Each row differs from one that passes in one fact.
func TestIndex(t *testing.T) {
	w := newWorld(t)
	r, err := registry.OpenRemote(w.Registry, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	const tar, statement, kind = "application/vnd.oci.image.layer.v1.tar+gzip", "application/vnd.in-toto+json", "attestation-manifest"
	sign := func(d, over registry.Descriptor) {
		s := w.sign(t, fmt.Appendf(nil, payload, over.Digest))
		layer := push(t, r, "application/vnd.dev.cosign.simplesigning.v1+json", s.artifact)
		layer["annotations"] = s.annotations(t)
		if err := r.Tag(t.Context(), "demo", "sha256-"+d.Digest.Hex()+".sig", w.manifest(t, r, []map[string]any{layer})); err != nil {
			t.Fatal(err)
		}
	}
	amd, arm := entry{"linux/amd64", "linux/amd64", tar, ""}, entry{"linux/arm64", "linux/arm64", tar, ""}
	built := entry{"unknown/unknown", "unknown/unknown", statement, kind}
	for _, c := range []struct {
		name      string
		rest      entry // beside amd
		signed    string
		own       bool
		platform  string
		role      string
		want      verdict.Code
		of, count int
	}{
		{"a signed index", arm, "index", false, "", lab.RoleRelease, "", 3, 3},
		{"a signed index, where each platform needs its own", arm, "index", true, "", lab.RoleRelease, "2 findings", 3, 1},
		{"a signed index, of another signer", arm, "index", false, "", lab.RoleBuilder, "3 findings", 3, 0},
		{"a signature of another index", arm, "other", false, "", lab.RoleRelease, "3 findings", 3, 0},
		{"a signed index, and attestations of the build tool", built, "index", false, "", lab.RoleRelease, "", 2, 2},
		{"each platform needs its own, and the build tool's attestations are none", built, "index and amd64", true, "", lab.RoleRelease, "", 2, 2},
		{"a manifest for no platform", entry{"unknown/unknown", "unknown/unknown", statement, ""}, "index and amd64", true, "", lab.RoleRelease, verdict.EvidenceMissing, 3, 2},
		{"an image annotated as an attestation", entry{"unknown/unknown", "unknown/unknown", tar, kind}, "index and amd64", true, "", lab.RoleRelease, verdict.EvidenceMissing, 3, 2},
		{"a platform annotated as an attestation", entry{"linux/arm64", "linux/arm64", statement, kind}, "index and amd64", true, "", lab.RoleRelease, verdict.EvidenceMissing, 3, 2},
		{"a signed index that lists an image for another platform", entry{"linux/arm64", "linux/386", tar, ""}, "index", false, "", lab.RoleRelease, verdict.Platform, 3, 2},
		{"one platform of a signed index", arm, "index", false, "linux/amd64", lab.RoleRelease, "", 1, 1},
		{"one signed platform of an unsigned index", arm, "amd64", false, "linux/amd64", lab.RoleRelease, "", 1, 1},
		{"the other platform of that index", arm, "amd64", false, "linux/arm64", lab.RoleRelease, verdict.EvidenceMissing, 1, 0},
		{"a platform of an unsigned index", arm, "", false, "linux/amd64", lab.RoleRelease, verdict.EvidenceMissing, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A layer of its own, so that no row finds the signature of another.
			amd := amd
			amd.layer += fmt.Sprintf("+%x", digest.Of(digest.SHA256, []byte(c.name)).Bytes()[:4])
			index, children := w.list(t, r, amd, c.rest)
			if strings.HasPrefix(c.signed, "index") {
				sign(index, index)
			}
			if strings.HasSuffix(c.signed, "amd64") {
				sign(children[0], children[0])
			}
			if c.signed == "other" {
				sign(index, children[1])
			}
			v := gate.Images(t.Context(), gate.ImageRequest{
				Images: []gate.Image{{Source: r, Name: "demo", Repository: "demo", Digest: index.Digest}}, Ask: w.ask(t, c.role),
				Platform: c.platform, ByIndex: !c.own, Now: time.Now(),
			})
			if got := code(v); got != c.want || v.Counts.Required != c.of || v.Counts.Verified != c.count {
				t.Errorf("%s, %d of %d, want %s, %d of %d: %+v", got, v.Counts.Verified, v.Counts.Required, c.want, c.count, c.of, v.Findings)
			}
		})
	}
	// A child that is asked by its own digest has no index, and gets nothing from one.
	index, children := w.list(t, r, amd, arm)
	sign(index, index)
	v := gate.Images(t.Context(), gate.ImageRequest{
		Images: []gate.Image{{Source: r, Name: "demo", Repository: "demo", Digest: children[0].Digest}}, Ask: w.ask(t, lab.RoleRelease), ByIndex: true, Now: time.Now(),
	})
	if got := code(v); got != verdict.EvidenceMissing {
		t.Errorf("a child without its index: %s, want %s: %+v", got, verdict.EvidenceMissing, v.Findings)
	}
}
