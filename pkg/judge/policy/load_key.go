package policy

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// key reads a signer that is a long-lived key. The policy contains the whole
// key, so that verification needs no other file.
func (l *loader) key(s signer, path []any) (identity.Identity, identity.Matcher, error) {
	fail := func(code, format string, args ...any) (identity.Identity, identity.Matcher, error) {
		return identity.Identity{}, identity.Matcher{}, l.fail(code, append(path, "key"), format, args...)
	}
	if s.Subject != "" || s.Pattern != "" || s.Issuer != "" || s.Type != "" || s.Claims != nil {
		return fail(codeValue, "a key has no certificate, and therefore no issuer, subject, type or claims; leave them out")
	}
	block, rest := pem.Decode([]byte(s.Key))
	if block == nil || block.Type != "PUBLIC KEY" || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return fail(codeValue, "want one public key in PEM")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fail(codeValue, "%v", err)
	}
	if !signs(public) {
		return fail(codeWeak, "keys of type %T and this size are not supported: use ECDSA P-256, or RSA of 2048, 3072 or 4096 bits", public)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil || !bytes.Equal(der, block.Bytes) {
		return fail(codeValue, "the key is not in canonical DER encoding")
	}
	l.policy.counts.rules.Keys = append(l.policy.counts.rules.Keys, public)
	name := digest.Of(digest.SHA256, der)
	matcher, err := identity.ExactKey(name)
	return identity.OfKey(name), matcher, err
}

// signs reports whether this program accepts signatures by keys of this kind.
func signs(public crypto.PublicKey) bool {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return key.Curve.Params().BitSize == 256
	case *rsa.PublicKey:
		n := key.N.BitLen()
		return n == 2048 || n == 3072 || n == 4096
	}
	return false
}
