package verify

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"strings"

	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	protocommon "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkForm requires for each log entry what the version of the bundle
// requires: a promise in version 0.1, a proof in later ones. It refuses a
// bundle that was relabelled to avoid one of them. The library refuses unknown
// versions.
func checkForm(form *protobundle.Bundle) error {
	version := form.GetMediaType()[strings.LastIndexAny(form.GetMediaType(), "=v")+1:]
	version = strings.TrimSuffix(version, "+json")
	for _, e := range form.GetVerificationMaterial().GetTlogEntries() {
		switch {
		case version == "0.1" && len(e.GetInclusionPromise().GetSignedEntryTimestamp()) == 0:
			return verdict.Refuse(verdict.BundleLacks, "bundle", "a bundle of version 0.1 needs an inclusion promise for every log entry")
		case (version == "0.2" || version == "0.3") && e.GetInclusionProof() == nil:
			return verdict.Refuse(verdict.BundleLacks, "bundle", "a bundle of version %s needs an inclusion proof for every log entry", version)
		}
	}
	if err := checkDigest(form); err != nil {
		return err
	}
	return checkChain(form)
}

// checkDigest requires that the digest beside a plain signature has the length
// of the algorithm that it names.
func checkDigest(form *protobundle.Bundle) error {
	said := form.GetMessageSignature().GetMessageDigest()
	if said == nil {
		return nil // if one is required, the library refuses
	}
	size := map[protocommon.HashAlgorithm]int{
		protocommon.HashAlgorithm_SHA2_256: 32, protocommon.HashAlgorithm_SHA2_384: 48, protocommon.HashAlgorithm_SHA2_512: 64,
	}[said.GetAlgorithm()]
	switch {
	case size == 0:
		return verdict.Refuse(verdict.DigestHint, "bundle", "the digest beside the signature has an unknown algorithm (%s)", said.GetAlgorithm())
	case len(said.GetDigest()) != size:
		return verdict.Refuse(verdict.DigestHint, "bundle", "the digest beside the signature has %d bytes, but %s digests have %d",
			len(said.GetDigest()), said.GetAlgorithm(), size)
	}
	return nil
}

// checkChain refuses an empty chain. Of others, only the first certificate is
// used: those above it come from the trust root, so a root or an intermediate
// that the bundle brings along proves nothing.
func checkChain(form *protobundle.Bundle) error {
	chain := form.GetVerificationMaterial().GetX509CertificateChain()
	if chain != nil && len(chain.GetCertificates()) == 0 {
		return verdict.Refuse(verdict.CertMissing, "bundle", "the certificate chain is empty")
	}
	return nil
}

// notBound distinguishes a bundle for other bytes from one whose log entry
// matches the artifact, but whose digest beside the signature does not.
func (m material) notBound(artifact digest.Set, said *protocommon.HashOutput) error {
	code, message := verdict.NotBound, "the bundle signs other bytes"
	for _, e := range m.entries {
		if logged, _, ok := e.GetHashedRekordDigest(); ok && of(logged, artifact) {
			code, message = verdict.DigestHint, "the digest beside the signature differs from the one in the log entry"
		}
	}
	want := digestIn(artifact, said.GetAlgorithm())
	if code == verdict.NotBound && want.IsZero() {
		return incomparable(said)
	}
	if want.IsZero() {
		want = cmp.Or(artifact.SHA256, artifact.SHA512)
	}
	return &verdict.Error{Finding: verdict.Find(code, "bundle", "%s", message).Differ(want.String(), "digest "+hex.EncodeToString(said.GetDigest()))}
}

// digestIn returns the digest of an algorithm, zero if the set has none.
func digestIn(set digest.Set, by protocommon.HashAlgorithm) digest.Digest {
	switch by {
	case protocommon.HashAlgorithm_SHA2_256:
		return set.SHA256
	case protocommon.HashAlgorithm_SHA2_512:
		return set.SHA512
	}
	return digest.Digest{}
}

// incomparable refuses a signature over a digest of an algorithm that the
// caller did not compute, because it cannot be compared.
func incomparable(said *protocommon.HashOutput) error {
	f := verdict.Find(verdict.NoArtifact, "bundle", "the bundle signs the %s digest %s, which cannot be compared: no digest of that algorithm was given",
		said.GetAlgorithm(), hex.EncodeToString(said.GetDigest()))
	switch said.GetAlgorithm() {
	case protocommon.HashAlgorithm_SHA2_256:
		f.Fix = "give the file itself, or its sha256 digest"
	case protocommon.HashAlgorithm_SHA2_512:
		f.Fix = "give the file itself, or its sha512 digest"
	case protocommon.HashAlgorithm_SHA2_384:
		f.Fix = "give the file itself"
	default:
		f.Fix = "ask the publisher for a signature of a SHA-256 or SHA-512 digest"
	}
	return &verdict.Error{Finding: f}
}

// of reports whether sum is one of the digests in a set.
func of(sum []byte, set digest.Set) bool {
	return slices.ContainsFunc([]digest.Digest{set.SHA256, set.SHA512}, func(d digest.Digest) bool { return !d.IsZero() && bytes.Equal(sum, d.Bytes()) })
}
