// Package trust holds the trust root: which certificate authorities, logs and
// timestamp authorities are believed.
//
// A [Root] is immutable and has a digest, so that a verdict can name what it
// rests on. Where the bytes come from (a file, TUF, an embedded copy) is for
// higher floors; how they are used is for pkg/verify.
//
//	root, err := trust.Parse(trustedRootJSON)
//	fmt.Println(root.Digest())
//
// Format: Sigstore trusted_root.json, media type version 0.1 and later.
package trust

import (
	"slices"
	"strings"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// MaxSize bounds a trusted root file.
const MaxSize = 4 << 20

// LabMark is what a laboratory's authorities carry in their certificates.
const LabMark = "INSECURE LAB"

// Root is a parsed trust root. The zero Root trusts nobody.
type Root struct {
	raw    []byte
	digest digest.Digest
	lab    bool
}

// Parse reads a Sigstore trusted root. It refuses one without a certificate
// authority, a log and a timestamp authority: it could verify nothing that we
// accept.
func Parse(raw []byte) (Root, error) {
	if len(raw) > MaxSize {
		return Root{}, verdict.Refuse(verdict.TrustRootParse, "trust root", "%d bytes, the limit is %d", len(raw), MaxSize)
	}
	parsed, err := root.NewTrustedRootFromJSON(raw)
	if err != nil {
		return Root{}, verdict.Wrap(verdict.TrustRootParse, "trust root", err)
	}
	for _, part := range []struct {
		what string
		n    int
	}{
		{"certificate authority", len(parsed.FulcioCertificateAuthorities())},
		{"transparency log", len(parsed.RekorLogs())},
		{"certificate log", len(parsed.CTLogs())},
		{"timestamp authority", len(parsed.TimestampingAuthorities())},
	} {
		if part.n == 0 {
			return Root{}, verdict.Refuse(verdict.TrustRootParse, "trust root", "it names no %s", part.what)
		}
	}
	return Root{raw: slices.Clone(raw), digest: digest.Of(digest.SHA256, raw), lab: isLab(parsed)}, nil
}

// Raw is the file as it was read.
func (r Root) Raw() []byte { return slices.Clone(r.raw) }

// Digest names the root.
func (r Root) Digest() digest.Digest { return r.digest }

// IsZero reports whether r was never parsed.
func (r Root) IsZero() bool { return len(r.raw) == 0 }

// IsLab reports whether any certificate authority is a laboratory's, whose
// keys anybody can have.
func (r Root) IsLab() bool { return r.lab }

func isLab(parsed *root.TrustedRoot) bool {
	for _, ca := range parsed.FulcioCertificateAuthorities() {
		if f, ok := ca.(*root.FulcioCertificateAuthority); ok && strings.Contains(f.Root.Subject.String(), LabMark) {
			return true
		}
	}
	for _, tsa := range parsed.TimestampingAuthorities() {
		if t, ok := tsa.(*root.SigstoreTimestampingAuthority); ok && t.Root != nil && strings.Contains(t.Root.Subject.String(), LabMark) {
			return true
		}
	}
	return false
}
