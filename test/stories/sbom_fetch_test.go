package stories

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// statedSBOM is a statement that carries an SBOM, which is only its name.
func statedSBOM(kind, name string, of digest.Digest) []byte {
	return fmt.Appendf(nil, `{"_type":%q,"subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":{"name":%q}}`, intoto.TypeV1, of.Hex(), kind, name)
}

// fetches checks one answer: what is printed is the SBOM, or nothing.
func (w *workshop) fetches(t *testing.T, line string, code int, document, why string, flags ...string) {
	t.Helper()
	r := w.Run(t.Context(), append(append([]string{"waybill", "sbom", "fetch"}, strings.Fields(line)...), flags...)...)
	if r.Code != code || r.Stdout != document || !strings.Contains(r.Stderr, why) {
		t.Errorf("want exit %d, %q and %q on standard error; %s", code, document, why, r)
	}
}

// TestFetchSBOM: an SBOM is found where cosign, oras and BuildKit attach it, and
// is printed as verified only if the asked signer signed it about these bytes.
func TestFetchSBOM(t *testing.T) {
	w := openWorkshop(t)
	release := as(w.Scene, "release")
	signs := func(role string, raw []byte) []byte {
		return w.sign(t, role, &sign.DSSEData{PayloadType: intoto.PayloadType, Data: raw})
	}
	t.Run("image", func(t *testing.T) {
		image, ref := w.push(t, "described"), w.Lab.Registry+"/shop/described:v1"
		other := w.push(t, "other")
		w.attach(t, "described", image, signs("release", statedSBOM(kind, "no SBOM", image.Digest)))
		w.attach(t, "described", image, signs("release", statedSBOM(intoto.SPDXDocument, "elsewhere", other.Digest)))
		w.fetches(t, ref, 1, "", "NO_SBOM")
		w.fetches(t, ref, 1, "", "NO_SBOM", release...)
		w.attach(t, "described", image, signs("release", statedSBOM(intoto.SPDXDocument, "ours", image.Digest)))
		const ours = `{"name":"ours"}`
		w.fetches(t, ref, 0, ours, "NOT VERIFIED")
		w.fetches(t, ref, 0, ours, "OK ", release...)
		w.fetches(t, ref, 1, "", "IDENTITY", as(w.Scene, "verifier")...)
		w.fetches(t, ref, 2, "", "nothing is verified unless", "--trusted-root", "trusted_root.json")
		w.fetches(t, ref, 2, "", "the SBOM that is found", append(release, "--type", "spdxjson")...)
		w.fetches(t, ref+" --platform linux/s390x", 1, "", "PLATFORM")
		w.attach(t, "described", image, signs("verifier", statedSBOM(intoto.SPDXDocument+"/v2.3", "theirs", image.Digest)))
		w.fetches(t, ref, 1, "", "EVIDENCE_CONFLICT")
		w.fetches(t, ref, 0, ours, "OK ", release...)
		w.fetches(t, ref, 0, `{"name":"theirs"}`, "OK ", as(w.Scene, "verifier")...)
	})
	t.Run("index of BuildKit, and a tag .sbom", func(t *testing.T) {
		const repo = "built"
		part := w.push(t, repo)
		stated := statedSBOM(intoto.SPDXDocument, "built", part.Digest)
		layer := w.blob(t, repo, "application/vnd.in-toto+json", stated)
		config := w.blob(t, repo, "application/vnd.oci.image.config.v1+json", []byte(`{"architecture":"unknown","os":"unknown"}`))
		evidence := w.manifest(t, repo, registry.MediaTypeManifest, fmt.Sprintf(`"config":%s,"layers":[%s]`, config, layer))
		index := w.manifest(t, repo, registry.MediaTypeIndex, fmt.Sprintf(`"manifests":[{%s,"platform":{"os":"linux","architecture":"amd64"}},`+
			`{%s,"platform":{"os":"unknown","architecture":"unknown"},"annotations":{"vnd.docker.reference.type":"attestation-manifest","vnd.docker.reference.digest":%q}}]`,
			inner(part), inner(evidence), part.Digest))
		if err := w.remote.Tag(t.Context(), repo, "v1", index); err != nil {
			t.Fatal(err)
		}
		ref := w.Lab.Registry + "/shop/" + repo + ":v1"
		w.fetches(t, ref, 1, "", "--platform linux/amd64")
		w.fetches(t, ref+" --platform linux/amd64", 0, `{"name":"built"}`, "NOT VERIFIED")
		w.fetches(t, ref+" --platform linux/amd64", 1, "", "UNSIGNED", release...)
		w.attach(t, repo, part, signs("release", statedSBOM(intoto.SPDXDocument, "signed", part.Digest)))
		w.fetches(t, ref+" --platform linux/amd64", 0, `{"name":"signed"}`, "OK ", release...)
		plain := w.manifest(t, repo, registry.MediaTypeManifest, fmt.Sprintf(`"config":%s,"layers":[%s]`, config, w.blob(t, repo, "text/spdx+json", []byte(`{"name":"plain"}`))))
		if err := w.remote.Tag(t.Context(), repo, registry.AttachedTag(index.Digest, ".sbom"), plain); err != nil {
			t.Fatal(err)
		}
		w.fetches(t, ref, 0, `{"name":"plain"}`, "NOT VERIFIED")
		w.fetches(t, ref, 1, "", "UNSIGNED", release...)
	})
	t.Run("file", func(t *testing.T) {
		w.fetches(t, "b.bin", 1, "", "NO_SBOM")
		made := w.Run(t.Context(), "waybill", "sbom", "generate", "a.bin", "--to", "a.bin.spdx.json")
		want(t, made, 0)
		document := string(w.read(t, "a.bin.spdx.json"))
		w.fetches(t, "a.bin", 0, document, "NOT VERIFIED")
		w.fetches(t, "a.bin", 1, "", "UNSIGNED", release...)
		w.write(t, "a.bin.spdx.json.sigstore.json", w.sign(t, "release", blobOf(document)))
		w.fetches(t, "a.bin", 0, document, "OK ", release...)
		w.fetches(t, "a.bin", 1, "", "IDENTITY", as(w.Scene, "verifier")...)
		w.fetches(t, "a.bin --platform linux/amd64", 2, "", "no platforms")
		w.write(t, "b.bin.spdx.json", []byte(document))
		w.fetches(t, "b.bin", 1, "", "SBOM_SUBJECT")
		w.write(t, "c.bin.sigstore.json", signs("release", statedSBOM(intoto.SPDXDocument, "stated", digest.Of(digest.SHA256, []byte("the third file")))))
		w.fetches(t, "c.bin", 0, `{"name":"stated"}`, "OK ", release...)
	})
}

func inner(d registry.Descriptor) string {
	return fmt.Sprintf(`"mediaType":%q,"digest":%q,"size":%d`, d.MediaType, d.Digest, d.Size)
}

// blob pushes a blob and returns its descriptor as JSON.
func (w *workshop) blob(t *testing.T, repo, mediaType string, raw []byte) string {
	t.Helper()
	d := registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	w.pushBlob(t, repo, registry.Blob{Descriptor: d, Bytes: raw})
	return "{" + inner(d) + "}"
}

func (w *workshop) manifest(t *testing.T, repo, mediaType, fields string) registry.Descriptor {
	t.Helper()
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,%s}`, mediaType, fields)
	d := registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	w.pushManifest(t, repo, d, raw)
	return d
}
