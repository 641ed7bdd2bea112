package verify

import (
	"bytes"
	"cmp"
	"crypto/x509"
	"encoding/hex"
	"strings"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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
	if err := checkDigest(form); err != nil {
		return err
	}
	return checkChain(form)
}

// checkDigest demands that the digest beside a plain signature is one of the
// algorithm that it names. That of another is no digest of anything.
func checkDigest(form *protobundle.Bundle) error {
	said := form.GetMessageSignature().GetMessageDigest()
	if said == nil {
		return nil // for the library to refuse, where there must be one
	}
	size := map[protocommon.HashAlgorithm]int{
		protocommon.HashAlgorithm_SHA2_256: 32, protocommon.HashAlgorithm_SHA2_384: 48, protocommon.HashAlgorithm_SHA2_512: 64,
	}[said.GetAlgorithm()]
	switch {
	case size == 0:
		return verdict.Refuse(verdict.DigestHint, "bundle", "the digest beside the signature is of no algorithm that is known (%s)", said.GetAlgorithm())
	case len(said.GetDigest()) != size:
		return verdict.Refuse(verdict.DigestHint, "bundle", "the digest beside the signature has %d bytes; one of %s has %d",
			len(said.GetDigest()), said.GetAlgorithm(), size)
	}
	return nil
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
func (m material) notBound(artifact digest.Set, said *protocommon.HashOutput) error {
	code, message := verdict.NotBound, "it signs other bytes"
	for _, e := range m.entries {
		if logged, _, ok := e.GetHashedRekordDigest(); ok && of(logged, artifact) {
			code, message = verdict.DigestHint, "the digest beside the signature is not that of the bytes in the log"
		}
	}
	want := digestIn(artifact, said.GetAlgorithm())
	if code == verdict.NotBound && want.IsZero() {
		return incomparable(said)
	}
	if want.IsZero() {
		want = cmp.Or(artifact.SHA256, artifact.SHA512)
	}
	return &verdict.Error{Finding: verdict.Find(code, "bundle", "%s", message).Differ(want.String(), digestText(said.GetDigest()))}
}

// digestIn is the digest of a set by an algorithm, zero if there is none.
func digestIn(set digest.Set, by protocommon.HashAlgorithm) digest.Digest {
	switch by {
	case protocommon.HashAlgorithm_SHA2_256:
		return set.SHA256
	case protocommon.HashAlgorithm_SHA2_512:
		return set.SHA512
	}
	return digest.Digest{}
}

// incomparable refuses a signature of a digest that nobody gave: it may be of
// the artifact, and it may not.
func incomparable(said *protocommon.HashOutput) error {
	f := verdict.Find(verdict.NoArtifact, "bundle", "it signs the %s digest %s, and none of that kind was given: whether it is of this artifact cannot be known",
		said.GetAlgorithm(), hex.EncodeToString(said.GetDigest()))
	switch said.GetAlgorithm() {
	case protocommon.HashAlgorithm_SHA2_256:
		f.Fix = "give the file itself, or its sha256 digest"
	case protocommon.HashAlgorithm_SHA2_512:
		f.Fix = "give the file itself, or its sha512 digest"
	default:
		f.Fix = "ask the publisher for a signature of a SHA-256 or SHA-512 digest"
	}
	return &verdict.Error{Finding: f}
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
