package legacy_test

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// ask asks for the word of a role.
func (w *world) ask(t *testing.T, role string) gate.Ask {
	t.Helper()
	issuer, subject := w.Identity(role)
	who, err := identity.Exact(identity.Identity{Issuer: issuer, Subject: subject, Type: identity.Email})
	if err != nil {
		t.Fatal(err)
	}
	return gate.Ask{Signer: gate.SignedBy(w.verifier, who)}
}

func code(v *verdict.Verdict) verdict.Code {
	if v.Outcome() == verdict.Accepted {
		return ""
	}
	if len(v.Findings) != 1 {
		return verdict.Code(fmt.Sprintf("%d findings", len(v.Findings)))
	}
	return v.Findings[0].Code
}

// TestFiles is what `waybill verify file` decides about the legacy forms.
func TestFiles(t *testing.T) {
	w := newWorld(t)
	a, other := w.sign(t, []byte("a")), w.sign(t, []byte("b"))
	dir := t.TempDir()
	for name, b := range map[string][]byte{
		"a": a.artifact, "a.sig": a.signature, "a.cert": a.certificate, "a.bundle": a.bundle(t),
		"junk": []byte("AAAA"), "a.pem": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.der}),
		"b": other.artifact, "b.sig": other.signature, "b.cert": other.certificate,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	log := rekorv1.Finder{Log: openLog(t, w.RekorV1, http.DefaultTransport)}
	detached := gate.File{Path: at("a"), Signature: at("a.sig"), Certificate: at("a.cert")}
	typed := w.ask(t, lab.RoleRelease)
	typed.Type = "https://example.test/x"
	certificate, err := x509.ParseCertificate(a.der)
	if err != nil {
		t.Fatal(err)
	}
	key, err := w.verifier.Key(certificate.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	keyed := gate.Ask{Signer: gate.SignedWith(key)}
	for _, c := range []struct {
		name   string
		file   gate.File
		ask    gate.Ask
		finder rekorv1.Finder
		want   verdict.Code
	}{
		{"a signature, and a log to ask", detached, w.ask(t, lab.RoleRelease), log, ""},
		{"a signature, and nobody to ask", detached, w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.LogUnasked},
		{"a signature of somebody else", detached, w.ask(t, lab.RoleBuilder), log, verdict.Identity},
		{"the signature of another file", gate.File{Path: at("a"), Signature: at("b.sig"), Certificate: at("b.cert")}, w.ask(t, lab.RoleRelease), log, verdict.SignatureBad},
		{"a signature and certificate of different runs", gate.File{Path: at("a"), Signature: at("a.sig"), Certificate: at("b.cert")}, w.ask(t, lab.RoleRelease), log, verdict.SignatureBad},
		{"another file, and nobody to ask", gate.File{Path: at("b"), Signature: at("a.sig"), Certificate: at("a.cert")}, w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.SignatureBad},
		{"a signature of three bytes", gate.File{Path: at("a"), Signature: at("junk"), Certificate: at("a.cert")}, w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.SignatureBad},
		{"the certificate as the signature", gate.File{Path: at("a"), Signature: at("a.cert"), Certificate: at("a.cert")}, w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.BundleParse},
		{"the certificate in PEM as the signature", gate.File{Path: at("a"), Signature: at("a.pem"), Certificate: at("a.cert")}, w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.BundleParse},
		{"the signature of a key, and nobody to ask", gate.File{Path: at("a"), Signature: at("a.sig")}, keyed, rekorv1.Finder{}, verdict.LogUnasked},
		{"the signature of a key over another file", gate.File{Path: at("b"), Signature: at("a.sig")}, keyed, rekorv1.Finder{}, verdict.SignatureBad},
		{"no signature", gate.File{Path: at("a"), Signature: at("c.sig"), Certificate: at("a.cert")}, w.ask(t, lab.RoleRelease), log, verdict.EvidenceMissing},
		{"a certificate alone", gate.File{Path: at("a"), Certificate: at("a.cert")}, w.ask(t, lab.RoleRelease), log, verdict.Usage},
		{"a signature, where a statement was asked for", detached, typed, log, verdict.Usage},
		{"the legacy bundle", gate.File{Path: at("a"), Bundle: at("a.bundle")}, w.ask(t, lab.RoleRelease), rekorv1.Finder{}, ""},
		{"the legacy bundle of another file", gate.File{Path: at("b"), Bundle: at("a.bundle")}, w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.LogEntryUnbound},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := gate.Files(context.Background(), gate.FileRequest{Files: []gate.File{c.file}, Ask: c.ask, Finder: c.finder, Now: time.Now()})
			if got := code(v); got != c.want {
				t.Errorf("%s, want %s: %+v", got, c.want, v.Findings)
			}
		})
	}
}

// TestImages is what `waybill verify image` decides where nothing refers to an
// image, but tags attach something.
func TestImages(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	r, err := registry.OpenRemote(w.Registry, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	picture := w.manifest(t, r, nil)
	other := w.manifest(t, r, []map[string]any{push(t, r, "text/plain", []byte("other"))})
	signature := func(s signed) map[string]any {
		layer := push(t, r, "application/vnd.dev.cosign.simplesigning.v1+json", s.artifact)
		layer["annotations"] = s.annotations(t)
		return layer
	}
	unlogged := func(s signed) map[string]any {
		layer := signature(s)
		delete(layer["annotations"].(map[string]string), "dev.sigstore.cosign/bundle")
		return layer
	}
	good := w.sign(t, fmt.Appendf(nil, payload, picture.Digest))
	moved := w.sign(t, fmt.Appendf(nil, payload, other.Digest))
	said := w.attest(t, statementOf(picture.Digest, "https://example.test/x"))
	statement := push(t, r, "application/vnd.dsse.envelope.v1+json", said.envelope)
	statement["annotations"] = said.annotations(t)
	log := rekorv1.Finder{Log: openLog(t, w.RekorV1, http.DefaultTransport)}
	typed := w.ask(t, lab.RoleRelease)
	typed.Type = "https://example.test/x"
	for _, c := range []struct {
		name   string
		layers []map[string]any
		suffix string
		ask    gate.Ask
		finder rekorv1.Finder
		want   verdict.Code
	}{
		{"its signature", []map[string]any{signature(good)}, ".sig", w.ask(t, lab.RoleRelease), rekorv1.Finder{}, ""},
		{"its signature, behind another's", []map[string]any{signature(moved), signature(good)}, ".sig", w.ask(t, lab.RoleRelease), rekorv1.Finder{}, ""},
		{"another image's signature", []map[string]any{signature(moved)}, ".sig", w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.NotBound},
		{"somebody else's signature", []map[string]any{signature(good)}, ".sig", w.ask(t, lab.RoleBuilder), rekorv1.Finder{}, verdict.Identity},
		{"a signature that does not say when", []map[string]any{unlogged(good)}, ".sig", w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.LogUnasked},
		{"a signature that a log knows when", []map[string]any{unlogged(good)}, ".sig", w.ask(t, lab.RoleRelease), log, ""},
		{"its attestation", []map[string]any{statement}, ".att", typed, rekorv1.Finder{}, ""},
		{"its signature, where an attestation was asked for", []map[string]any{signature(good)}, ".att", typed, rekorv1.Finder{}, verdict.BundleParse},
		{"its attestation, where a signature was asked for", []map[string]any{statement}, ".sig", w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.BundleParse},
		{"nothing", nil, ".sig", w.ask(t, lab.RoleRelease), rekorv1.Finder{}, verdict.EvidenceMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := r.Tag(ctx, "demo", "sha256-"+picture.Digest.Hex()+c.suffix, w.manifest(t, r, c.layers)); err != nil {
				t.Fatal(err)
			}
			v := gate.Images(ctx, gate.ImageRequest{
				Images: []gate.Image{{Source: r, Name: "demo", Repository: "demo", Digest: picture.Digest}}, Ask: c.ask, Finder: c.finder, Now: time.Now(),
			})
			if got := code(v); got != c.want {
				t.Errorf("%s, want %s: %+v", got, c.want, v.Findings)
			}
		})
	}
}

// manifest pushes one of these layers.
func (w *world) manifest(t *testing.T, r *registry.Remote, layers []map[string]any) registry.Descriptor {
	t.Helper()
	if layers == nil {
		layers = []map[string]any{}
	}
	config := push(t, r, "application/vnd.oci.image.config.v1+json", []byte(`{}`))
	raw := marshal(t, map[string]any{"schemaVersion": 2, "mediaType": registry.MediaTypeManifest, "config": config, "layers": layers})
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := r.PushManifest(t.Context(), "demo", d, raw); err != nil {
		t.Fatal(err)
	}
	return d
}
