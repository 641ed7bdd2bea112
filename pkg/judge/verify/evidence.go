// Package verify turns a Sigstore bundle into [Evidence]: proof of who signed
// what, and when.
//
// Only this package makes Evidence; its fields are private, and its zero value
// proves nothing. Evidence means: the signature was made with the key in the
// certificate, a trusted authority issued that certificate and a trusted log
// promised to log it (SCT), a trusted transparency log includes the signature,
// and every time that a trusted authority or log signed for it lies within the
// certificate's validity. For a long-lived key there is no certificate; log and
// time are required all the same. The method that the caller chooses fixes what
// is required; it is never guessed from the bundle:
//
//	v, err := verify.New(root)
//	e, err := v.Attestation(bundle)             // an in-toto statement
//	e, err := v.Blob(bundle, digests)           // a signature over these bytes
//	k, err := v.Key(public)                     // the same, signed by this key
//
// pkg/judge/policy decides whether the signer is the right one. This package
// reads no files, clock or network, and keeps no state outside of a [Verifier];
// sigstore-go does the cryptography. [Read] and the functions that read
// certificates show unverified content.
package verify

import (
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// Evidence is a verified statement or signature.
type Evidence struct {
	identity  identity.Identity
	claims    identity.Claims
	statement intoto.Statement
	artifact  digest.Set
	image     digest.Digest
	bundle    digest.Digest
	signedAt  time.Time
	logIndex  int64
	log       string
	leaf      digest.Digest
	key       digest.Digest
	unknown   int
}

// IsZero reports whether e is the zero Evidence, which proves nothing.
func (e Evidence) IsZero() bool { return e.bundle.IsZero() }

// Identity is the signer.
func (e Evidence) Identity() identity.Identity { return e.identity }

// Claims are what the certificate states about the run that signed.
func (e Evidence) Claims() identity.Claims { return e.claims }

// Key is the digest of the long-lived key that signed; zero for an identity.
func (e Evidence) Key() digest.Digest { return e.key }

// Statement is the signed statement; zero for a signature over other bytes.
func (e Evidence) Statement() intoto.Statement { return e.statement }

// Bundle identifies the bundle by its bytes.
func (e Evidence) Bundle() digest.Digest { return e.bundle }

// SignedAt is the latest time that was proven by a timestamp authority, or by a
// log that signs times.
func (e Evidence) SignedAt() time.Time { return e.signedAt }

// UnknownTimestamps is how many timestamps of the bundle are of authorities that
// the trust root does not name. They prove nothing, and were ignored.
func (e Evidence) UnknownTimestamps() int { return e.unknown }

// Certificate identifies the signer's certificate by its bytes; zero for a key.
func (e Evidence) Certificate() digest.Digest { return e.leaf }

// Log is the identifier, in the trust root, of the transparency log that
// includes the signature; hexadecimal.
func (e Evidence) Log() string { return e.log }

// LogIndex is the index of the signature's entry in that log.
func (e Evidence) LogIndex() int64 { return e.logIndex }

// The kinds of signed bytes that are not statements; no statement may use them
// as its predicate type.
const (
	kindBlob  = "blob"
	KindImage = "simple-signing" // the older form of an image signature
)

// Kind is what was signed: a predicate type, "blob" or [KindImage].
func (e Evidence) Kind() string {
	switch {
	case !e.image.IsZero():
		return KindImage
	case e.statement.IsZero():
		return kindBlob
	}
	return e.statement.PredicateType()
}

// Covers reports whether the evidence covers exactly these bytes under this
// name. A blob signature contains no name; then the manifest that lists name
// and digest binds the name.
func (e Evidence) Covers(name string, bytes digest.Set) bool {
	if e.IsZero() {
		return false
	}
	if e.statement.IsZero() {
		return e.artifact.SHA256.Equal(bytes.SHA256) || e.artifact.SHA256.IsZero() && e.artifact.SHA512.Equal(bytes.SHA512)
	}
	return e.statement.Names(name, bytes)
}

// CoversBytes reports whether the evidence covers a manifest in a registry,
// where the digest is the name.
func (e Evidence) CoversBytes(d digest.Digest) bool {
	if !e.image.IsZero() {
		return !e.IsZero() && e.image.Equal(d)
	}
	for _, s := range e.statement.Subjects() {
		if s.Digests.SHA256.Equal(d) || s.Digests.SHA512.Equal(d) {
			return !e.IsZero()
		}
	}
	return false
}
