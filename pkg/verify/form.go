package verify

import (
	"bytes"
	"crypto/x509"
	"strings"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// checkForm demands of each log entry what the bundle's version demands: a
// promise in version 0.1, a proof in every later one. A bundle that was
// relabelled to do with less is refused. Versions that do not exist are for
// the library to refuse.
func checkForm(form *protobundle.Bundle) error {
	version := form.GetMediaType()[strings.LastIndexAny(form.GetMediaType(), "=v")+1:]
	version = strings.TrimSuffix(version, "+json")
	for _, e := range form.GetVerificationMaterial().GetTlogEntries() {
		switch {
		case version == "0.1" && len(e.GetInclusionPromise().GetSignedEntryTimestamp()) == 0:
			return verdict.Refuse(verdict.BundleLacks, "bundle", "version 0.1 demands a promise with every log entry")
		case (version == "0.2" || version == "0.3") && e.GetInclusionProof() == nil:
			return verdict.Refuse(verdict.BundleLacks, "bundle", "version %s demands an inclusion proof with every log entry", version)
		}
	}
	return checkChain(form)
}

// checkChain refuses a chain that is empty or that brings its own root along:
// roots come from the trust root alone.
func checkChain(form *protobundle.Bundle) error {
	chain := form.GetVerificationMaterial().GetX509CertificateChain()
	if chain != nil && len(chain.GetCertificates()) == 0 {
		return verdict.Refuse(verdict.CertMissing, "bundle", "its certificate chain is empty")
	}
	for i, raw := range chain.GetCertificates() {
		if c, err := x509.ParseCertificate(raw.GetRawBytes()); err == nil && c.IsCA && bytes.Equal(c.RawSubject, c.RawIssuer) {
			return verdict.Refuse(verdict.ChainHasRoot, "bundle", "certificate %d of its chain is a root", i)
		}
	}
	return nil
}

// notBound tells a bundle of other bytes from one whose log entry is of these
// bytes, and whose digest beside the signature is not.
func (m material) notBound(artifact digest.Set, hint []byte) error {
	code, message := verdict.NotBound, "it signs other bytes"
	for _, e := range m.entries {
		if logged, _, ok := e.GetHashedRekordDigest(); ok && of(logged, artifact) {
			code, message = verdict.DigestHint, "the digest beside the signature is not that of the bytes in the log"
		}
	}
	return &verdict.Error{Finding: verdict.Find(code, "bundle", "%s", message).Differ(artifact.SHA256.String(), digestText(hint))}
}

// of reports whether sum is one of the digests in a set.
func of(sum []byte, set digest.Set) bool {
	for _, d := range []digest.Digest{set.SHA256, set.SHA512} {
		if !d.IsZero() && bytes.Equal(sum, d.Bytes()) {
			return true
		}
	}
	return false
}
