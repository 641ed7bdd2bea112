package digest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Set holds two digests of the same bytes. A set parsed from a document may
// lack SHA512; one made by this package never does.
type Set struct {
	SHA256 Digest
	SHA512 Digest
}

// SetOf returns both digests of b.
func SetOf(b []byte) Set {
	return Set{SHA256: Of(SHA256, b), SHA512: Of(SHA512, b)}
}

// Set returns the set that holds only d.
func (d Digest) Set() Set {
	if d.Algorithm() == SHA512 {
		return Set{SHA512: d}
	}
	return Set{SHA256: d}
}

// ParseMap reads an in-toto DigestSet: algorithm names to bare hex. SHA-256
// is required, SHA-512 optional. Other algorithms are skipped and never
// count as evidence of anything; a name that differs from one of ours by
// letter case only is refused, because another reader could understand it.
func ParseMap(m map[string]string) (s Set, err error) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		var err error
		switch {
		case name == "sha256":
			s.SHA256, err = ParseHex(SHA256, m[name])
		case name == "sha512":
			s.SHA512, err = ParseHex(SHA512, m[name])
		case strings.EqualFold(name, "sha256"), strings.EqualFold(name, "sha512"):
			err = &FormError{Text: name, Reason: "algorithm names are lower case"}
		}
		if err != nil {
			return Set{}, fmt.Errorf("reading digest set: %w", err)
		}
	}
	if s.SHA256.IsZero() {
		return Set{}, fmt.Errorf("reading digest set: %w", &FormError{Reason: "no sha256 among the algorithms"})
	}
	return s, nil
}

// Map returns the in-toto DigestSet form, leaving out what is zero.
func (s Set) Map() map[string]string {
	m := make(map[string]string, 2)
	if !s.SHA256.IsZero() {
		m["sha256"] = s.SHA256.Hex()
	}
	if !s.SHA512.IsZero() {
		m["sha512"] = s.SHA512.Hex()
	}
	return m
}

// IsZero reports whether the set names nothing at all.
func (s Set) IsZero() bool { return s.SHA256.IsZero() && s.SHA512.IsZero() }

// Equal reports whether both sets hold both digests and each pair is equal. A
// set that lacks one of them equals nothing, itself included; compare the
// SHA256 fields when one side is known to carry no more than that.
func (s Set) Equal(other Set) bool {
	return s.SHA256.Equal(other.SHA256) && s.SHA512.Equal(other.SHA512)
}
