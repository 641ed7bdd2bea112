// Package verify turns a Sigstore bundle into [Evidence]: proof of who signed
// what, and when.
//
// Evidence has private fields and is made nowhere else; its zero value proves
// nothing. Holding one means: the signature holds for the key in the
// certificate, a trusted authority issued that certificate and a trusted log
// saw it (SCT), a trusted transparency log includes the signature, and every
// time that a trusted authority or log signed for it lies within the
// certificate's life. Where a long-lived key signs there is no certificate;
// the log and a time are asked all the same. What the caller asks for is fixed
// by the method called, never guessed from the bundle:
//
//	v, err := verify.New(root)
//	e, err := v.Attestation(bundle)             // an in-toto statement
//	e, err := v.Blob(bundle, digests)           // a signature over these bytes
//	k, err := v.Key(public)                     // the same, signed by this key
//
// Whether the signer was the right one is not decided here: see pkg/judge/policy.
// The package reads no file, no clock and no network, and keeps no state
// outside a [Verifier]; sigstore-go does the cryptography. [Read] and the
// functions that read certificates show what is said, and prove nothing.
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
}

// IsZero reports whether e proves nothing.
func (e Evidence) IsZero() bool { return e.bundle.IsZero() }

// Identity is who signed.
func (e Evidence) Identity() identity.Identity { return e.identity }

// Claims are what the certificate says of the run that signed.
func (e Evidence) Claims() identity.Claims { return e.claims }

// Key names the long-lived key that signed, by its digest; zero when an
// identity did.
func (e Evidence) Key() digest.Digest { return e.key }

// Statement is what was signed, when it was a statement; the zero Statement
// otherwise.
func (e Evidence) Statement() intoto.Statement { return e.statement }

// Bundle names the bundle by its bytes.
func (e Evidence) Bundle() digest.Digest { return e.bundle }

// SignedAt is the latest time that a timestamp authority, or a log that signs
// times, proved.
func (e Evidence) SignedAt() time.Time { return e.signedAt }

// Certificate names the certificate that signed, by its bytes; zero when a key
// did.
func (e Evidence) Certificate() digest.Digest { return e.leaf }

// Log names the transparency log that has the signature, by its identifier in
// the trust root; hexadecimal.
func (e Evidence) Log() string { return e.log }

// LogIndex is the place in that log.
func (e Evidence) LogIndex() int64 { return e.logIndex }

// The kinds of what is no statement; no statement may have them.
const (
	kindBlob  = "blob"
	KindImage = "simple-signing" // an image, in the form before statements
)

// Kind names what was signed: a predicate type, "blob" or [KindImage].
func (e Evidence) Kind() string {
	switch {
	case !e.image.IsZero():
		return KindImage
	case e.statement.IsZero():
		return kindBlob
	}
	return e.statement.PredicateType()
}

// Covers reports whether the evidence speaks of exactly these bytes under
// this name. A blob signature carries no name; the caller's name is then
// bound by the manifest that pairs the two.
func (e Evidence) Covers(name string, bytes digest.Set) bool {
	if e.IsZero() {
		return false
	}
	if e.statement.IsZero() {
		return e.artifact.SHA256.Equal(bytes.SHA256) || e.artifact.SHA256.IsZero() && e.artifact.SHA512.Equal(bytes.SHA512)
	}
	return e.statement.Names(name, bytes)
}

// CoversBytes reports whether the evidence speaks of a manifest in a
// registry, where the digest is the name.
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
