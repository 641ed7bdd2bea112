// Package digest names exact bytes by their hash.
//
// A [Digest] names one algorithm and one hash value. It is a small comparable
// value, usable as a map key, and its zero value names nothing: it equals no
// digest, itself included, and cannot be marshalled. The only text form is
//
//	sha256:<64 lower-case hex digits>
//	sha512:<128 lower-case hex digits>
//
// and nothing else is understood: no upper case, no white space, no shortened
// value, no bare hex without an algorithm, no older algorithm. One value
// therefore has one spelling, so comparing text and comparing bytes can never
// disagree. The algorithms and the names are those of the OCI image
// specification (descriptor.md, "Digests") and of the in-toto DigestSet.
//
// A [Set] carries the SHA-256 and the SHA-512 of the same bytes, which is what
// a release records about every artifact. [Sum] computes both in one pass over
// one read.
//
// [NewVerifyingReader] is how bytes from the world enter: it answers an error
// where [io.EOF] would have stood unless both the size and the digest are the
// expected ones.
//
//	want, err := digest.Parse("sha256:9f86d081…")
//	…
//	r := digest.NewVerifyingReader(body, want, size)
//	if _, err := io.Copy(dst, r); err != nil {
//		// short, long, altered or unreadable; dst must be thrown away
//	}
//
// The package owns no I/O of its own, no signature and no policy on which
// algorithm is enough; it does not know what a digest is the digest of.
package digest

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"strings"
)

// Algorithm identifies a hash function. The zero value is no algorithm.
type Algorithm uint8

// The algorithms a release may rely on.
const (
	// SHA256 is SHA-256 as defined by FIPS 180-4.
	SHA256 Algorithm = 1
	// SHA512 is SHA-512 as defined by FIPS 180-4.
	SHA512 Algorithm = 2
)

// String returns the name used in text forms: "sha256" or "sha512".
func (a Algorithm) String() string {
	switch a {
	case SHA256:
		return "sha256"
	case SHA512:
		return "sha512"
	}
	return fmt.Sprintf("Algorithm(%d)", uint8(a))
}

// Size returns the length of the hash value in bytes, and 0 for an unknown
// algorithm.
func (a Algorithm) Size() int {
	switch a {
	case SHA256:
		return sha256.Size
	case SHA512:
		return sha512.Size
	}
	return 0
}

// FormError reports text that is not the one spelling of a digest.
type FormError struct {
	Text   string // the refused text, untouched; print it quoted only
	Reason string // what is wrong with it
}

// Error quotes at most the first 200 bytes of the refused text.
func (e *FormError) Error() string {
	return fmt.Sprintf("parsing digest %s: %s", quote(e.Text), e.Reason)
}

// quote makes foreign text safe to show: no control byte of an attacker
// reaches a terminal or a log, and no flood of them either.
func quote(s string) string {
	const limit = 200
	if len(s) > limit {
		return fmt.Sprintf("%q…", s[:limit])
	}
	return fmt.Sprintf("%q", s)
}

// Digest is the hash of some bytes under one algorithm. Values can be compared
// with == and used as map keys; use [Digest.Equal] to decide anything that
// depends on two digests being the same, because it never accepts the zero
// value.
type Digest struct {
	alg Algorithm
	sum [sha512.Size]byte // the first alg.Size() bytes; the rest stay zero
}

// Parse reads the text form "algorithm:hex". Any other spelling is a
// [*FormError].
func Parse(s string) (Digest, error) {
	name, digits, found := strings.Cut(s, ":")
	if !found {
		return Digest{}, &FormError{Text: s, Reason: `want "sha256:" or "sha512:" before the hex digits`}
	}
	alg := named(name)
	if alg == 0 {
		return Digest{}, &FormError{Text: s, Reason: `the algorithm is neither "sha256" nor "sha512"`}
	}
	d, reason := decode(alg, digits)
	if reason != "" {
		return Digest{}, &FormError{Text: s, Reason: reason}
	}
	return d, nil
}

// ParseHex reads the bare hex form of a value whose algorithm is known from
// elsewhere, as in a DigestSet or a checksum file.
func ParseHex(a Algorithm, digits string) (Digest, error) {
	if a.Size() == 0 {
		return Digest{}, &FormError{Text: digits, Reason: "the algorithm is unknown"}
	}
	d, reason := decode(a, digits)
	if reason != "" {
		return Digest{}, &FormError{Text: digits, Reason: reason}
	}
	return d, nil
}

// Of returns the digest of b. It panics if a is not one of the algorithms of
// this package.
func Of(a Algorithm, b []byte) Digest {
	d := Digest{alg: a}
	switch a {
	case SHA256:
		sum := sha256.Sum256(b)
		copy(d.sum[:], sum[:])
	case SHA512:
		d.sum = sha512.Sum512(b)
	default:
		panic("digest: Of called with unknown " + a.String())
	}
	return d
}

func named(name string) Algorithm {
	switch name {
	case "sha256":
		return SHA256
	case "sha512":
		return SHA512
	}
	return 0
}

// ParseHexBytes is [ParseHex] without a copy, for lists of a hundred thousand
// digests.
func ParseHexBytes(a Algorithm, digits []byte) (Digest, error) {
	if d, reason := decode(a, digits); a.Size() > 0 && reason == "" {
		return d, nil
	}
	return ParseHex(a, string(digits))
}

// decode accepts exactly a.Size()*2 digits of [0-9a-f]. It returns the reason
// of a refusal, or "".
func decode[T string | []byte](a Algorithm, digits T) (Digest, string) {
	if len(digits) != 2*a.Size() {
		return Digest{}, fmt.Sprintf("%d bytes where %s has %d hex digits", len(digits), a, 2*a.Size())
	}
	var text [2 * sha512.Size]byte
	copy(text[:], digits)
	d, used := Digest{alg: a}, text[:len(digits)]
	_, err := hex.Decode(d.sum[:], used)
	if err != nil || bytes.ContainsAny(used, "ABCDEF") {
		return Digest{}, "only the digits 0-9 and a-f are allowed"
	}
	return d, ""
}

// fromSum wraps a finished hash value.
func fromSum(a Algorithm, sum []byte) Digest {
	d := Digest{alg: a}
	copy(d.sum[:], sum)
	return d
}

// Algorithm returns the algorithm, 0 for the zero Digest.
func (d Digest) Algorithm() Algorithm { return d.alg }

// Bytes returns a copy of the hash value, nil for the zero Digest.
func (d Digest) Bytes() []byte { return append([]byte(nil), d.sum[:d.alg.Size()]...) }

// Hex returns the hash value as lower-case hex, "" for the zero Digest.
func (d Digest) Hex() string { return hex.EncodeToString(d.sum[:d.alg.Size()]) }

// AppendHex appends what [Digest.Hex] returns.
func (d Digest) AppendHex(to []byte) []byte { return hex.AppendEncode(to, d.sum[:d.alg.Size()]) }

// String returns the text form that [Parse] reads, "" for the zero Digest.
func (d Digest) String() string {
	if d.IsZero() {
		return ""
	}
	return d.alg.String() + ":" + d.Hex()
}

// IsZero reports whether d names nothing.
func (d Digest) IsZero() bool { return d.alg == 0 }

// Equal reports whether both digests name the same bytes under the same
// algorithm. The zero Digest equals nothing, itself included.
func (d Digest) Equal(other Digest) bool { return !d.IsZero() && d == other }

// MarshalText returns the text form. The zero Digest has none and is an error,
// so that a forgotten digest cannot be written into a document.
func (d Digest) MarshalText() ([]byte, error) {
	if d.IsZero() {
		return nil, fmt.Errorf("marshalling digest: the zero digest has no text form")
	}
	return []byte(d.String()), nil
}

// UnmarshalText is [Parse]. On error d is the zero Digest.
func (d *Digest) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	*d = parsed
	return err
}
