package stories

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// kind is a predicate type that nobody has a short name for.
const kind = "https://example.test/predicate/v1"

// workshop is a scene with a few files and what was signed about them.
type workshop struct {
	*scene.Scene
	remote *registry.Remote
}

func openWorkshop(t *testing.T) *workshop {
	t.Helper()
	w := &workshop{Scene: open(t)}
	var err error
	if w.remote, err = registry.OpenRemote(w.Lab.Registry+"/shop", http.DefaultTransport); err != nil {
		t.Fatal(err)
	}
	w.write(t, "a.bin", []byte("the first file"))
	w.write(t, "b.bin", []byte("the second file"))
	w.write(t, "c.bin", []byte("the third file"))
	w.write(t, "unsigned.bin", []byte("nobody signed this"))
	w.write(t, "a.bin.sigstore.json", w.sign(t, "release", blobOf("the first file")))
	w.write(t, "b.bin.sigstore.json", w.sign(t, "release", blobOf("the second file")))
	w.write(t, "c.bin.sigstore.json", w.sign(t, "release", about(kind, "bin/c", "the third file")))
	w.write(t, "verifier.json", w.sign(t, "verifier", blobOf("the first file")))
	w.write(t, "attestation.json", w.sign(t, "release", about(kind, "bin/linux/amd64/a", "the first file")))
	return w
}

func (w *workshop) write(t *testing.T, name string, body []byte) {
	t.Helper()
	if err := os.WriteFile(w.Path(name), body, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (w *workshop) read(t *testing.T, name string) []byte {
	t.Helper()
	body, err := os.ReadFile(w.Path(name))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func blobOf(content string) sign.Content { return &sign.PlainData{Data: []byte(content)} }

// about is a statement about content under a name.
func about(predicateType, name, content string) sign.Content {
	return said(predicateType, name, digest.Of(digest.SHA256, []byte(content)))
}

func said(predicateType, name string, d digest.Digest) sign.Content {
	return &sign.DSSEData{PayloadType: intoto.PayloadType, Data: fmt.Appendf(nil,
		`{"_type":%q,"subject":[{"name":%q,"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{}}`,
		intoto.TypeV1, name, d.Hex(), predicateType)}
}

// sign signs as a role of the lab; the role "key" signs with a key, which
// lands beside as key.pub.
func (w *workshop) sign(t *testing.T, role string, content sign.Content) []byte {
	t.Helper()
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		t.Fatal(err)
	}
	o := sign.BundleOptions{
		Context:              t.Context(),
		TimestampAuthorities: []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: w.Lab.TSA})},
		TransparencyLogs:     []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: w.Lab.Rekor, Version: 2})},
	}
	if role == "key" {
		pem, err := pair.GetPublicKeyPem()
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, "key.pub", []byte(pem))
	} else {
		o.CertificateProvider = sign.NewFulcio(&sign.FulcioOptions{BaseURL: w.Lab.Fulcio})
		o.CertificateProviderOptions = &sign.CertificateProviderOptions{IDToken: w.Lab.Token(role)}
	}
	b, err := sign.Bundle(content, pair, o)
	if err != nil {
		t.Fatal(err)
	}
	return encode(t, b)
}

func encode(t *testing.T, b *bundlepb.Bundle) []byte {
	t.Helper()
	raw, err := protojson.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// changed is a bundle with one thing changed.
func changed(t *testing.T, raw []byte, change func(*bundlepb.Bundle)) []byte {
	t.Helper()
	b := &bundlepb.Bundle{}
	if err := protojson.Unmarshal(raw, b); err != nil {
		t.Fatal(err)
	}
	b = proto.Clone(b).(*bundlepb.Bundle)
	change(b)
	return encode(t, b)
}

// as are the flags that ask for a role.
func as(s *scene.Scene, role string) []string {
	issuer, subject := s.Lab.Identity(role)
	return []string{"--trusted-root", "trusted_root.json", "--certificate-identity", subject, "--certificate-oidc-issuer", issuer}
}

func (w *workshop) verify(ctx context.Context, words string, flags ...string) scene.Result {
	return w.Run(ctx, append(append([]string{"waybill", "verify"}, strings.Fields(words)...), flags...)...)
}

// TestVerifyFile: each way in which evidence fails has its own code, and the
// same command with the one thing right accepts.
func TestVerifyFile(t *testing.T) {
	w := openWorkshop(t)
	genuine := w.read(t, "a.bin.sigstore.json")
	w.write(t, "resigned.json", changed(t, genuine, func(b *bundlepb.Bundle) {
		b.GetMessageSignature().Signature[8] ^= 1
	}))
	w.write(t, "untimely.json", changed(t, genuine, func(b *bundlepb.Bundle) {
		b.VerificationMaterial.TimestampVerificationData = nil
	}))
	w.write(t, "unlogged.json", changed(t, genuine, func(b *bundlepb.Bundle) { b.VerificationMaterial.TlogEntries = nil }))
	w.write(t, "torn.json", genuine[:len(genuine)/2])
	w.write(t, "huge.json", nil)
	if err := os.Truncate(w.Path("huge.json"), 64<<20+1); err != nil {
		t.Fatal(err)
	}
	rows := []struct{ name, refused, code, accepted string }{
		{"absent", "file unsigned.bin", "EVIDENCE_MISSING", "file a.bin"},
		{"absent where it was named", "file a.bin --bundle nowhere.json", "EVIDENCE_MISSING", "file a.bin --bundle a.bin.sigstore.json"},
		{"foreign identity", "file a.bin --bundle verifier.json", "IDENTITY", "file a.bin"},
		{"another predicate beside it", "file c.bin --type spdx", "PREDICATE_MISSING", "file c.bin --type " + kind},
		{"a plain signature beside it", "file a.bin --type spdx", "PREDICATE_MISSING", "file a.bin"},
		{"another predicate in the bundle given", "bundle attestation.json a.bin --type spdx", "PREDICATE_TYPE", "bundle attestation.json a.bin --type " + kind},
		{"an attestation for a signature", "file a.bin --bundle attestation.json", "MATERIAL_KIND", "file a.bin --bundle attestation.json --type " + kind},
		{"another signature", "file a.bin --bundle resigned.json", "LOG_SIG_MISMATCH", "file a.bin"},
		{"no log entry", "file a.bin --bundle unlogged.json", "LOG_MISSING", "file a.bin"},
		{"no timestamp", "file a.bin --bundle untimely.json", "TIME_MISSING", "file a.bin"},
		{"another file", "file b.bin --bundle a.bin.sigstore.json", "NOT_BOUND", "file b.bin"},
		{"an attestation of another file", "file b.bin --bundle attestation.json --type " + kind, "NOT_BOUND", "file a.bin --bundle attestation.json --type " + kind},
		{"another name", "file a.bin --bundle attestation.json --subject a.bin --type " + kind, "NOT_BOUND",
			"file a.bin --bundle attestation.json --subject bin/linux/amd64/a --type " + kind},
		{"malformed", "file a.bin --bundle torn.json", "BUNDLE_PARSE", "file a.bin"},
		{"over a limit", "file a.bin --bundle huge.json", "LIMIT", "file a.bin"},
		{"a directory", "file lantern --bundle a.bin.sigstore.json", "FILE_TYPE", "file a.bin --bundle a.bin.sigstore.json"},
		{"two logs", "file a.bin --min-logs 2", "THRESHOLD", "file a.bin --min-logs 1"},
		{"two timestamps", "file a.bin --min-timestamps 2", "THRESHOLD", "file a.bin --min-timestamps 1"},
		{"two certificate logs", "file a.bin --min-scts 2", "THRESHOLD", "file a.bin --min-scts 1"},
		{"another digest", "bundle a.bin.sigstore.json --digest " + digest.Of(digest.SHA256, nil).String(), "NOT_BOUND",
			"bundle a.bin.sigstore.json --digest " + digest.Of(digest.SHA256, []byte("the first file")).String()},
		{"one of several", "file a.bin unsigned.bin", "EVIDENCE_MISSING unsigned.bin", "file a.bin b.bin"},
		{"another kind of name", "file a.bin --certificate-identity-type uri", "SAN_TYPE", "file a.bin --certificate-identity-type email"},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			want(t, w.verify(t.Context(), row.refused, as(w.Scene, "release")...), 1, append(strings.Fields(row.code), "→")...)
			want(t, w.verify(t.Context(), row.accepted, as(w.Scene, "release")...), 0, "OK ")
		})
	}
}

// trustNobodyWhoAnswers has the scene take its trust from a repository that is
// away, so that no test asks anybody outside.
func (w *workshop) trustNobodyWhoAnswers(t *testing.T) {
	t.Helper()
	source, err := json.Marshal(map[string]any{"url": "http://127.0.0.1:1", "root": w.Lab.TUFRoot})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(w.Path("cache", "waybill", "trust"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(w.Path("cache", "waybill", "trust", "source.json"), source, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestVerifySigners: who must have signed is the caller's choice alone.
func TestVerifySigners(t *testing.T) {
	w := openWorkshop(t)
	issuer, _ := w.Lab.Identity("release")
	w.write(t, "other.json", w.sign(t, "key", blobOf("the first file")))
	if err := os.Rename(w.Path("key.pub"), w.Path("other.pub")); err != nil {
		t.Fatal(err)
	}
	w.write(t, "keyed.json", w.sign(t, "key", blobOf("the first file")))
	w.trustNobodyWhoAnswers(t)
	const root, by = " --trusted-root trusted_root.json", "--certificate-identity release@lab.invalid"
	from := " --certificate-oidc-issuer " + issuer
	rows := []struct {
		name, words, code string
		status            int
	}{
		{"the key", "file a.bin --bundle keyed.json --key key.pub" + root, "key sha256:", 0},
		{"another key", "file a.bin --bundle keyed.json --key other.pub" + root, "LOG_KEY_MISMATCH", 1},
		{"a certificate where a key is asked", "file a.bin --key key.pub" + root, "MATERIAL_KIND", 1},
		{"a key where an identity is asked", "file a.bin --bundle keyed.json " + by + from + root, "MATERIAL_KIND", 1},
		{"a pattern", `file a.bin --certificate-identity-regexp [a-z]+@lab\.invalid` + from + root, "OK ", 0},
		{"a pattern of a part", `file a.bin --certificate-identity-regexp elease@lab\.invalid` + from + root, "IDENTITY", 1},
		{"another issuer", "file a.bin " + by + root + " --certificate-oidc-issuer http://127.0.0.1:1", "ISSUER", 1},
		{"nobody", "file a.bin" + root, "exactly one of", 2},
		{"two", "file a.bin --key key.pub " + by + from + root, "exactly one of", 2},
		{"a key with an issuer", "file a.bin --key key.pub" + from + root, "no issuer", 2},
		{"no issuer", "file a.bin " + by + root, "--certificate-oidc-issuer", 2},
		{"a pattern of anybody", "file a.bin --certificate-identity-regexp .*" + from + root, "of any owner", 2},
		{"no kind of name", "file a.bin --certificate-identity-type dns " + by + from + root, "dns", 2},
		{"no key", "file a.bin --key a.bin" + root, "PUBLIC KEY", 2},
		{"no trust root", "file a.bin " + by + from, "use the trust root that this program carries with --offline", 3},
		{"a trust root that is none", "file a.bin --trusted-root policy.yaml " + by + from, "TRUST_ROOT", 2},
		{"no logs", "file a.bin --min-logs 0 " + by + from + root, "at least 1", 2},
		{"an unknown trust domain", "file a.bin --trust githab " + by + from, "github:TENANT", 2},
		{"a trust domain and a root", "file a.bin --trust github " + by + from + root, "--trusted-root", 2},
		{"a threshold of logs that the trust domain has not", "file a.bin --trust github --min-logs 1 " + by + from, "has no logs", 2},
		{"a tenant without a network", "file a.bin --offline --trust github:octo " + by + from, "not built in", 2},
		{"a bundle of another trust domain", "file a.bin --offline --trust github " + by + from, "LOG_UNKNOWN", 1},
		{"no such type", "file a.bin --type slsa " + by + from + root, "slsaprovenance1", 2},
		{"a subject of bytes", "file a.bin --subject a.bin " + by + from + root, "names no subject", 2},
		{"no such file", "file nowhere.bin " + by + from + root, "no such file", 2},
		{"file and digest", "bundle a.bin.sigstore.json a.bin --digest " + digest.Of(digest.SHA256, nil).String() + " " + by + from + root, "not both", 2},
		{"neither file nor digest", "bundle a.bin.sigstore.json " + by + from + root, "want a file or a digest", 2},
		{"no digest", "bundle a.bin.sigstore.json --digest sha256:ABCD " + by + from + root, "--digest", 2},
		{"a bad time", "file a.bin --now noon " + by + from + root, "--now", 2},
		{"no reference", "image lantern " + by + from + root, "names no registry", 2},
		{"no tag", "image " + w.Lab.Registry + "/shop/lantern " + by + from + root, "neither a tag nor a digest", 2},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { want(t, w.verify(t.Context(), row.words), row.status, row.code) })
	}
}

// TestVerifySaysByWhat: the verdict names what was proven, and by what.
func TestVerifySaysByWhat(t *testing.T) {
	w := openWorkshop(t)
	r := w.verify(t.Context(), "file a.bin --bundle attestation.json -o json --type "+kind, as(w.Scene, "release")...)
	want(t, r, 0, `statement is \"bin/linux/amd64/a\"`)
	var v struct {
		Proofs []struct {
			Subject, Statement, Identity, Issuer, SignedAt, Bundle string
			LogIndex                                               *int64
		}
		TrustRoot string
		Inputs    []struct{ Name, Digest string }
	}
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		t.Fatal(err)
	}
	issuer, subject := w.Lab.Identity("release")
	bundle := digest.Of(digest.SHA256, w.read(t, "attestation.json")).String()
	if len(v.Proofs) != 1 || len(v.Inputs) != 2 || v.TrustRoot == "" {
		t.Fatalf("verdict %+v", v)
	}
	p := v.Proofs[0]
	if p.Subject != "a.bin" || p.Statement != kind || p.Identity != subject || p.Issuer != issuer || p.Bundle != bundle || p.LogIndex == nil || p.SignedAt == "" {
		t.Errorf("proof %+v", p)
	}
	want(t, w.verify(t.Context(), "file a.bin b.bin", as(w.Scene, "release")...), 0, "verified=2 required=2", "proof      b.bin", "log index")
}

// push writes an image of one manifest and returns it.
func (w *workshop) push(t *testing.T, repo string) registry.Descriptor {
	t.Helper()
	config := fmt.Appendf(nil, `{"architecture":"amd64","os":"linux","config":{"Labels":{"of":%q}}}`, repo)
	d := registry.Descriptor{MediaType: "application/vnd.oci.image.config.v1+json", Digest: digest.Of(digest.SHA256, config), Size: int64(len(config))}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[]}`,
		registry.MediaTypeManifest, d.MediaType, d.Digest, d.Size)
	w.pushBlob(t, repo, registry.Blob{Descriptor: d, Bytes: config})
	image := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	w.pushManifest(t, repo, image, raw)
	if err := w.remote.Tag(t.Context(), repo, "v1", image); err != nil {
		t.Fatal(err)
	}
	return image
}

func (w *workshop) pushBlob(t *testing.T, repo string, b registry.Blob) {
	t.Helper()
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
	if err := w.remote.PushBlob(t.Context(), repo, b.Descriptor, open); err != nil {
		t.Fatal(err)
	}
}

func (w *workshop) pushManifest(t *testing.T, repo string, d registry.Descriptor, raw []byte) {
	t.Helper()
	if err := w.remote.PushManifest(t.Context(), repo, d, raw); err != nil {
		t.Fatal(err)
	}
}

// attach makes a bundle refer to an image.
func (w *workshop) attach(t *testing.T, repo string, image registry.Descriptor, bundle []byte) {
	t.Helper()
	d, raw, blobs := registry.BundleManifest(image, bundle, intoto.CosignSignature)
	for _, b := range blobs {
		w.pushBlob(t, repo, b)
	}
	w.pushManifest(t, repo, d, raw)
}

// TestVerifyImage: the same for images. Each row attaches evidence to an image
// of its own; the twin attaches the genuine signature beside it, and what was
// there no longer stands in the way.
func TestVerifyImage(t *testing.T) {
	w := openWorkshop(t)
	signature := func(d registry.Descriptor) []byte {
		return w.sign(t, "release", said(intoto.CosignSignature, "", d.Digest))
	}
	rows := []struct {
		name, code, noted string
		evidence          func(registry.Descriptor) []byte
	}{
		{"absent", "EVIDENCE_MISSING", "", nil},
		{"foreign", "IDENTITY", "1 by another signer", func(d registry.Descriptor) []byte {
			return w.sign(t, "verifier", said(intoto.CosignSignature, "", d.Digest))
		}},
		{"other-predicate", "PREDICATE_MISSING", "1 of another type", func(d registry.Descriptor) []byte {
			return w.sign(t, "release", said(kind, "", d.Digest))
		}},
		{"not-bound", "NOT_BOUND", "1 about another artifact", func(registry.Descriptor) []byte {
			return w.sign(t, "release", said(intoto.CosignSignature, "", digest.Of(digest.SHA256, nil)))
		}},
		{"broken", "LOG_SIG_MISMATCH", "1 invalid", func(d registry.Descriptor) []byte {
			return changed(t, signature(d), func(b *bundlepb.Bundle) { b.GetDsseEnvelope().Signatures[0].Sig[8] ^= 1 })
		}},
		{"malformed", "BUNDLE_PARSE", "1 invalid", func(registry.Descriptor) []byte { return []byte(`{"mediaType":`) }},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			image := w.push(t, row.name)
			reference := w.Lab.Registry + "/shop/" + row.name + ":v1"
			if row.evidence != nil {
				w.attach(t, row.name, image, row.evidence(image))
			}
			want(t, w.verify(t.Context(), "image "+reference, as(w.Scene, "release")...), 1, row.code, "→")
			w.attach(t, row.name, image, signature(image))
			want(t, w.verify(t.Context(), "image "+reference, as(w.Scene, "release")...), 0, "OK ", row.noted)
			pinned := w.Lab.Registry + "/shop/" + row.name + "@" + image.Digest.String()
			want(t, w.verify(t.Context(), "image "+pinned, as(w.Scene, "release")...), 0, "OK ")
		})
	}
	t.Run("not there", func(t *testing.T) {
		want(t, w.verify(t.Context(), "image "+w.Lab.Registry+"/shop/absent:v2", as(w.Scene, "release")...), 1, "MISSING")
	})
	t.Run("a tag that moved", func(t *testing.T) {
		image, other := w.push(t, "moved"), w.push(t, "absent")
		pinned := w.Lab.Registry + "/shop/moved:v1@" + other.Digest.String()
		w.attach(t, "moved", image, signature(image))
		want(t, w.verify(t.Context(), "image "+pinned, as(w.Scene, "release")...), 1, "TAG_MOVED")
		other = w.pushOther(t, "moved")
		pinned = w.Lab.Registry + "/shop/moved:v1@" + other.Digest.String()
		want(t, w.verify(t.Context(), "image "+pinned, as(w.Scene, "release")...), 1, "TAG_MOVED")
		pinned = w.Lab.Registry + "/shop/moved:v1@" + image.Digest.String()
		want(t, w.verify(t.Context(), "image "+pinned, as(w.Scene, "release")...), 0, "OK ")
	})
	t.Run("unavailable", func(t *testing.T) {
		want(t, w.verify(t.Context(), "image "+w.Lab.Registry+"/shop/foreign:v1", as(w.Scene, "release")...), 0)
		if err := w.Lab.Stop("registry"); err != nil {
			t.Fatal(err)
		}
		want(t, w.verify(t.Context(), "image "+w.Lab.Registry+"/shop/foreign:v1", as(w.Scene, "release")...), 3, "UNAVAILABLE", "nothing was decided")
	})
}

// pushOther writes a second image into a repository, without a tag.
func (w *workshop) pushOther(t *testing.T, repo string) registry.Descriptor {
	t.Helper()
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[]}`, registry.MediaTypeIndex)
	d := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	w.pushManifest(t, repo, d, raw)
	return d
}

// singles verifies single artifacts of a release that was published.
func singles(t *testing.T, s *scene.Scene) {
	const files = "state/files/"
	image := s.Lab.Registry + "/release/lantern/lantern:" + scene.Version
	rows := []struct {
		name, role, words string
		status            int
		said              []string
	}{
		{"a file", "release", "file " + files + "bin/linux/amd64/lantern", 0, []string{"1 × file signature"}},
		{"its provenance", "builder", "file " + files + "bin/linux/amd64/lantern --type slsaprovenance1 --bundle " + files + "provenance/compile-linux-amd64.sigstore.json",
			0, []string{"1 × provenance", `its name in the statement is "bin/linux/amd64/lantern"`}},
		{"its provenance by another role", "release", "file " + files + "bin/linux/amd64/lantern --type slsaprovenance1 --bundle " + files + "provenance/compile-linux-amd64.sigstore.json",
			1, []string{"IDENTITY"}},
		{"another's provenance", "builder", "file " + files + "bin/linux/amd64/lantern --type slsaprovenance1 --bundle " + files + "provenance/compile-linux-arm64.sigstore.json",
			1, []string{"NOT_BOUND"}},
		{"an image", "release", "image " + image, 0, []string{"1 × image signature", "2 manifests proven by the evidence of the index", "verified=3 required=3"}},
		{"an image, each manifest by its own evidence", "release", "image --children own " + image, 0, []string{"3 × image signature", "verified=3 required=3"}},
		{"one platform of it", "release", "image --platform linux/amd64 " + image, 0, []string{"in part", "platform linux/arm64", "verified=1"}},
		{"a platform that it has not", "release", "image --platform linux/riscv64 " + image, 1, []string{"PLATFORM", "linux/arm64"}},
		{"its provenance, of every platform", "builder", "image --children own --type slsaprovenance1 " + image, 0, []string{"3 × provenance"}},
		{"an SBOM that it has not", "release", "image --type cyclonedx " + image, 1, []string{"PREDICATE_MISSING"}},
		{"another's signature", "verifier", "image " + image, 1, []string{"IDENTITY"}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := s.Run(t.Context(), append(append([]string{"waybill", "verify"}, strings.Fields(row.words)...), as(s, row.role)...)...)
			want(t, r, row.status, row.said...)
		})
	}
}

// inspected looks into everything that a release leaves behind.
func inspected(t *testing.T, s *scene.Scene) {
	const files = "state/files/"
	rows := map[string][]string{
		files + "bin/linux/amd64/lantern.sigstore.json":              {"sigstore bundle", "release@lab.invalid", "log entry", "timestamp", "INSECURE LAB Fulcio"},
		files + "provenance/compile-linux-amd64.sigstore.json":       {"in-toto statement", "https://slsa.dev/provenance/v1", "buildDefinition.buildType", "builder"},
		files + "release.manifest.sigstore.json":                     {"release  ", "lantern " + scene.Version, "SHA256SUMS"},
		files + "lantern.spdx.json":                                  {"SPDX document", "packages"},
		files + "release.yaml":                                       {"release.yaml", "steps[0].name"},
		files + "release.lock.yaml":                                  {"release.lock.yaml", "bases.static.digest"},
		"policy.yaml":                                                {"policy", "lantern-release"},
		"profile.yaml":                                               {"profile", "places.files.release"},
		"trusted_root.json":                                          {"trusted root", "transparency log", "INSECURE LAB"},
		"signing_config.json":                                        {"signing config"},
		s.Lab.Registry + "/release/lantern/lantern:" + scene.Version: {"image", "linux/arm64", "sigstore bundle", intoto.CosignSignature},
	}
	for name, said := range rows {
		t.Run(name, func(t *testing.T) {
			r := s.Run(t.Context(), "waybill", "inspect", name)
			want(t, r, 0, said...)
			if !strings.HasPrefix(r.Stdout, "PARSED, NOT VERIFIED") {
				t.Errorf("it does not begin with a warning:\n%.200s", r.Stdout)
			}
			r = s.Run(t.Context(), "waybill", "inspect", name, "--output", "json", "--lint")
			want(t, r, 0)
			var d struct {
				Schema   string
				Verified *bool
			}
			if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil || d.Verified == nil || *d.Verified || d.Schema != "waybill/inspect/v1" {
				t.Errorf("JSON %+v, %v", d, err)
			}
		})
	}
	refused := map[string]struct {
		name string
		code int
		said string
	}{
		"what is nothing":      {files + "SHA256SUMS", 2, "neither JSON"},
		"what is not there":    {"nowhere.json", 2, "no such file"},
		"an image not there":   {s.Lab.Registry + "/release/lantern/lantern:v9", 1, "MISSING"},
		"an unknown reference": {"lantern/lantern@sha256:12", 2, "not a sha256 digest"},
	}
	for name, row := range refused {
		t.Run(name, func(t *testing.T) { want(t, s.Run(t.Context(), "waybill", "inspect", row.name), row.code, row.said) })
	}
}
