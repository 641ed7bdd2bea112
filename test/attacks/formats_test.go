package attacks

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// writer writes the forms of other programs.
type writer struct {
	w   *world
	key *ecdsa.PrivateKey
}

// about is a statement about the artifact.
func about(kind, predicate string) []byte {
	return statementOf(intoto.TypeV1, kind, artifactName, predicate)
}

// bundle signs a statement as a role, with all that a bundle has.
func (f writer) bundle(t testing.TB, role string, statement []byte) string {
	t.Helper()
	var text bytes.Buffer
	if err := json.Compact(&text, encode(t, f.w.author(t, role).sign(t, envelope(statement)))); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

// pypi signs a statement as an attestation object of PEP 740, which has no
// timestamps.
func (f writer) pypi(t testing.TB, role string, statement []byte) string {
	t.Helper()
	b := f.w.author(t, role).sign(t, envelope(statement), func(o *sign.BundleOptions) {
		o.TransparencyLogs = []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: f.w.Lab.RekorV1})} // which signs the time
	})
	entry := must[[]byte](t)(protojson.Marshal(b.GetVerificationMaterial().GetTlogEntries()[0]))
	return string(must[[]byte](t)(json.Marshal(map[string]any{
		"version": 1,
		"verification_material": map[string]any{
			"certificate":          b.GetVerificationMaterial().GetCertificate().GetRawBytes(),
			"transparency_entries": []json.RawMessage{entry},
		},
		"envelope": map[string]any{"statement": b.GetDsseEnvelope().GetPayload(), "signature": b.GetDsseEnvelope().GetSignatures()[0].GetSig()},
	})))
}

// envelope signs a statement with the key, as Cloud Build and others do.
func (f writer) envelope(t testing.TB, statement []byte, beside ...string) string {
	t.Helper()
	sum := digest.Of(digest.SHA256, fmt.Appendf(nil, "DSSEv1 %d %s %d %s", len(intoto.PayloadType), intoto.PayloadType, len(statement), statement))
	sig := must[[]byte](t)(f.key.Sign(rand.Reader, sum.Bytes(), crypto.SHA256))
	return fmt.Sprintf(`{"payloadType":%q,"payload":%q,"signatures":[{"keyid":"k","sig":%q%s}]}`, intoto.PayloadType,
		base64.URLEncoding.EncodeToString(statement), base64.URLEncoding.EncodeToString(sig), strings.Join(beside, ""))
}

func npmList(published, provenance string) string {
	return fmt.Sprintf(`{"attestations":[{"predicateType":%q,"bundle":%s},{"predicateType":%q,"bundle":%s}]}`, npmPublish, published, slsaV1, provenance)
}

const (
	npmPublish = "https://github.com/npm/attestation/tree/main/specs/publish/v0.1"
	slsaV1     = "https://slsa.dev/provenance/v1"
	slsaV02    = "https://slsa.dev/provenance/v0.2"
)

// TestForeignForms: each form that others write is accepted if all is right,
// and refused if one fact differs.
func TestForeignForms(t *testing.T) {
	w := theWorld(t)
	f := writer{w, must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	other := writer{w, must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))}
	issuer, subject := w.Lab.Identity(lab.RoleRelease)
	who := gate.SignedBy(w.verifier, must[identity.Matcher](t)(identity.Exact(identity.Identity{Issuer: issuer, Subject: subject, Type: identity.Email})))
	strict := gate.SignedWith(must[*verify.KeyVerifier](t)(w.verifier.Key(f.key.Public())))
	keyed := strict.InsecureEnvelopes()

	elsewhere := func(s []byte) []byte {
		return bytes.ReplaceAll(s, []byte(digest.Of(digest.SHA256, []byte(artifact)).Hex()), bytes.Repeat([]byte("ab"), 32))
	}
	good, mine, theirs := f.bundle(t, lab.RoleRelease, about(kind, "{}")), about(slsaV1, "{}"), about(npmPublish, "{}")
	another, stranger := f.bundle(t, lab.RoleRelease, elsewhere(about(kind, "{}"))), f.bundle(t, "mallory@evil.example", about(kind, "{}"))
	second := f.bundle(t, lab.RoleRelease, about(kind, `{"run":2}`))
	forged := strings.Replace(second, `"sig":"M`, `"sig":"N`, 1)
	spdx := f.bundle(t, lab.RoleRelease, about("https://spdx.dev/Document/v2.3", "{}"))
	pypi := f.pypi(t, lab.RoleRelease, about(kind, "{}"))
	provenance := func(attestations ...string) string {
		return `{"version":1,"attestation_bundles":[{"publisher":{"kind":"GitHub"},"attestations":[` + strings.Join(attestations, ",") + `]}]}`
	}
	unlogged := regexp.MustCompile(`"transparency_entries":\[.*\]`)
	cloud := func(envelopes ...string) string {
		var all []string
		for _, e := range envelopes {
			all = append(all, `{"build":{},"envelope":`+e+`}`)
		}
		return `{"image_summary":{},"provenance_summary":{"provenance":[` + strings.Join(all, ",") + `]}}`
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.author(t, lab.RoleRelease).der})
	withCert := `,"certificate":"` + base64.StdEncoding.EncodeToString(certificate) + `"`
	buildkit02 := about(slsaV02, `{"builder":{"id":""},"buildType":"https://mobyproject.org/buildkit@v1","invocation":{"configSource":{},"parameters":{"frontend":"dockerfile.v0"}},"materials":[]}`)
	buildkit1 := about(slsaV1, `{"buildDefinition":{"buildType":"https://github.com/moby/buildkit/blob/master/docs/attestations/slsa-definitions.md","externalParameters":{}},"runDetails":{"builder":{"id":""}}}`)
	const summaryV1, passed, failed = "https://slsa.dev/verification_summary/v1", `{"verificationResult":"PASSED"}`, `{"verificationResult":"FAILED"}`
	failedBefore := f.bundle(t, lab.RoleRelease, about(summaryV1, failed))
	time.Sleep(1100 * time.Millisecond) // signed times are whole seconds
	summary := f.bundle(t, lab.RoleRelease, about(summaryV1, passed))
	time.Sleep(1100 * time.Millisecond)
	failedAfter, failedByOther := f.bundle(t, lab.RoleRelease, about(summaryV1, failed)), f.bundle(t, "mallory@evil.example", about(summaryV1, failed))
	payloadSum := digest.Of(digest.SHA256, about(kind, "{}")) // as Cloud Build's older keys do
	payloadSigned := fmt.Sprintf(`{"payloadType":%q,"payload":%q,"signatures":[{"sig":%q}]}`, intoto.PayloadType, base64.StdEncoding.EncodeToString(about(kind, "{}")),
		base64.StdEncoding.EncodeToString(must[[]byte](t)(f.key.Sign(rand.Reader, payloadSum.Bytes(), crypto.SHA256))))
	type row struct {
		name, text, kind string
		by               gate.Signer
		code             verdict.Code // empty if accepted
	}
	rows := []row{
		{"JSON lines", good + "\n" + spdx + "\n", kind, who, ""},
		{"JSON lines, one forged among good ones", good + "\n" + forged + "\n", kind, who, ""},
		{"JSON lines, another artifact among good ones", another + "\n" + good, kind, who, ""},
		{"JSON lines, a stranger among good ones", stranger + "\n" + good, kind, who, ""},
		{"JSON lines, two runs", good + "\n" + second, kind, who, ""},
		{"JSON lines, only forged", spdx + "\n" + forged + "\n", kind, who, verdict.LogSigMismatch},
		{"JSON lines, only another artifact", another + "\n" + spdx, kind, who, verdict.NotBound},
		{"JSON lines, only a stranger", stranger + "\n" + spdx, kind, who, verdict.Identity},
		{"JSON lines, only another type", spdx + "\n" + f.bundle(t, lab.RoleRelease, about("https://spdx.dev/Document", "{}")), kind, who, verdict.PredicateNone},
		{"JSON lines, one twice", good + "\n" + good, kind, who, verdict.BundleParse},
		{"JSON lines, truncated", good + "\n" + second[:len(second)-20], kind, who, verdict.BundleParse},
		{"JSON lines where a signature is asked", good + "\n" + second, "", who, verdict.MaterialKind},
		{"JSON lines by a key", good + "\n" + second, kind, keyed, verdict.MaterialKind},

		{"npm", npmList(f.bundle(t, "npm@registry.example", theirs), f.bundle(t, lab.RoleRelease, mine)), slsaV1, who, ""},
		{"npm, different packages", npmList(f.bundle(t, "npm@registry.example", bytes.Replace(theirs, []byte(artifactName), []byte("other"), 1)), f.bundle(t, lab.RoleRelease, mine)), slsaV1, who, verdict.Conflict},
		{"npm, another artifact", npmList(f.bundle(t, "npm@registry.example", elsewhere(theirs)), f.bundle(t, lab.RoleRelease, elsewhere(mine))), slsaV1, who, verdict.NotBound},
		{"npm, a stranger", npmList(f.bundle(t, "npm@registry.example", theirs), f.bundle(t, "mallory@evil.example", mine)), slsaV1, who, verdict.Identity},
		{"npm, none", `{"attestations":[]}`, slsaV1, who, verdict.BundleParse},
		{"GitHub", `{"attestations":[{"bundle":` + good + `,"repository_id":1}]}`, kind, who, ""},

		{"PyPI", pypi, kind, who, ""},
		{"PyPI, another artifact", f.pypi(t, lab.RoleRelease, elsewhere(about(kind, "{}"))), kind, who, verdict.NotBound},
		{"PyPI, a stranger", f.pypi(t, "mallory@evil.example", about(kind, "{}")), kind, who, verdict.Identity},
		{"PyPI, another type", pypi, kind + "1", who, verdict.PredicateType},
		{"PyPI, another statement", strings.Replace(pypi, base64.StdEncoding.EncodeToString(about(kind, "{}")), base64.StdEncoding.EncodeToString(about(kind, `{"a":1}`)), 1), kind, who, verdict.LogEntryUnbound},
		{"PyPI, no entry", string(unlogged.ReplaceAll([]byte(pypi), []byte(`"transparency_entries":[]`))), kind, who, verdict.LogMissing},
		{"PyPI, by a key", pypi, kind, keyed, verdict.MaterialKind},
		{"PyPI provenance", provenance(pypi, f.pypi(t, lab.RoleRelease, about(slsaV1, "{}"))), kind, who, ""},
		{"PyPI provenance, none", provenance(), kind, who, verdict.BundleParse},
		{"PyPI provenance, one twice", provenance(pypi, pypi), kind, who, verdict.BundleParse},

		{"an envelope and the key", f.envelope(t, about(kind, "{}")), kind, keyed, ""},
		{"an envelope and another key", other.envelope(t, about(kind, "{}")), kind, keyed, verdict.SignatureBad},
		{"an envelope whose payload alone is signed", payloadSigned, kind, keyed, verdict.SignatureBad},
		{"an envelope where logs are asked", f.envelope(t, about(kind, "{}")), kind, strict, verdict.LogMissing},
		{"an envelope where an identity is asked", f.envelope(t, about(kind, "{}")), kind, who, verdict.MaterialKind},
		{"an envelope where a signature is asked", f.envelope(t, about(kind, "{}")), "", keyed, verdict.MaterialKind},
		{"an envelope about another artifact", f.envelope(t, elsewhere(about(kind, "{}"))), kind, keyed, verdict.NotBound},
		{"an envelope with two signatures, one by the key", strings.Replace(f.envelope(t, about(kind, "{}")), `[{`, `[{"sig":"AAAA"},{`, 1), kind, keyed, ""},
		{"an envelope with two signatures by others", strings.Replace(other.envelope(t, about(kind, "{}")), `[{`, `[{"sig":"AAAA"},{`, 1), kind, keyed, verdict.SignatureBad},
		{"an envelope with nine signatures", strings.Replace(f.envelope(t, about(kind, "{}")), `[{`, `[`+strings.Repeat(`{"sig":"AAAA"},`, 8)+`{`, 1), kind, keyed, verdict.SigCount},
		{"an envelope of another payload type", strings.Replace(f.envelope(t, about(kind, "{}")), "vnd.in-toto+json", "json", 1), kind, keyed, verdict.PayloadType},
		{"a bundle with a certificate where a key is asked", good, kind, keyed, verdict.MaterialKind},
		{"an envelope of a key that was revoked later", f.envelope(t, about(kind, "{}")), kind, keyed.Without(revocation(t, f.key, "2099-01-01")), verdict.Revoked},
		{"an envelope where another key was revoked", f.envelope(t, about(kind, "{}")), kind, keyed.Without(revocation(t, other.key, "2020-01-01")), ""},
		{"Cloud Build, two regions", cloud(other.envelope(t, mine), f.envelope(t, mine)), slsaV1, keyed, ""},
		{"Cloud Build, another key", cloud(other.envelope(t, mine)), slsaV1, keyed, verdict.SignatureBad},

		{"Witness by key", f.envelope(t, about("https://witness.testifysec.com/attestation-collection/v0.1", `{"name":"build","attestations":[]}`)), "https://witness.testifysec.com/attestation-collection/v0.1", keyed, ""},
		{"Witness by certificate, where a key is asked", f.envelope(t, about(kind, "{}"), withCert), kind, keyed, verdict.MaterialKind},
		{"Witness by certificate, in no log", f.envelope(t, about(kind, "{}"), withCert), kind, who, verdict.LogMissing},
		{"a verification summary", f.envelope(t, about("https://slsa.dev/verification_summary/v1", `{"verificationResult":"PASSED"}`)), "https://slsa.dev/verification_summary/v1", keyed, ""},
		{"a verification summary that failed", f.envelope(t, about(summaryV1, failed)), summaryV1, keyed, verdict.VSAResult},
		{"a verification summary without a result", f.envelope(t, about(summaryV1, `{"VerificationResult":"PASSED"}`)), summaryV1, keyed, verdict.VSAResult},
		{"JSON lines, a summary that failed earlier", failedBefore + "\n" + summary, summaryV1, who, ""},
		{"JSON lines, a summary that failed later", failedAfter + "\n" + summary, summaryV1, who, verdict.VSAResult},
		{"JSON lines, a stranger's summary that failed later", failedByOther + "\n" + summary, summaryV1, who, ""},
		{"BuildKit v0.2", f.envelope(t, buildkit02), slsaV02, keyed, ""},
		{"BuildKit v0.2 in a bundle", f.bundle(t, lab.RoleRelease, buildkit02), slsaV02, who, ""},
		{"BuildKit v1", f.bundle(t, lab.RoleRelease, buildkit1), slsaV1, who, ""},
		{"OpenVEX", f.bundle(t, lab.RoleRelease, about("https://openvex.dev/ns/v0.2.0", `{"@context":"https://openvex.dev/ns/v0.2.0","statements":[]}`)), "https://openvex.dev/ns/v0.2.0", who, ""},
		{"a link in a statement", f.bundle(t, lab.RoleRelease, about("https://in-toto.io/attestation/link/v0.3", `{"name":"build","materials":[]}`)), "https://in-toto.io/attestation/link/v0.3", who, ""},
		{"a CycloneDX SBOM", `{"bomFormat":"CycloneDX"}`, kind, who, verdict.MaterialKind},
		{"HTML", "<!DOCTYPE html>", kind, who, verdict.BundleParse},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			dir := t.TempDir()
			file, evidence := filepath.Join(dir, "lantern"), filepath.Join(dir, "evidence")
			for name, body := range map[string]string{file: artifact, evidence: r.text} {
				if err := os.WriteFile(name, []byte(body), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			v := gate.Files(t.Context(), gate.FileRequest{Files: []gate.File{{Path: file, Bundle: evidence}}, Ask: gate.Ask{Signer: r.by, Type: r.kind}, Now: time.Now()})
			if r.code == "" {
				refused(t, v.Err())
				return
			}
			refused(t, v.Err(), r.code)
		})
	}
}

// revocation revokes a key from a day on. An envelope has no signed time, so it
// may be younger.
func revocation(t testing.TB, key *ecdsa.PrivateKey, since string) gate.Revocations {
	t.Helper()
	der := must[[]byte](t)(x509.MarshalPKIXPublicKey(key.Public()))
	return must[gate.Revocations](t)(gate.ParseRevocations(fmt.Appendf(nil, "apiVersion: waybill/v1\nkind: Revocations\nrevoked:\n- {key: %q, since: %q, reason: lost}\n", digest.Of(digest.SHA256, der), since)))
}
