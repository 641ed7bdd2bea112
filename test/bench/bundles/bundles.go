// Package bundles is many bundles on disk and the ways to verify them one
// after another in one process: ours, sigstore-go's, and only the
// cryptography that a bundle cannot do without. Package mint makes them.
//
// Every way loads the trust root once. Ours begins each pass over the bundles
// with a new verifier, as a new process would: nothing is remembered from the
// pass before.
package bundles

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Shape is what the bundles carry. The keys are of the kinds that the public
// instances have: P-384 for Fulcio and the timestamp authority, P-256 for
// signers, certificate logs and Rekor v1, Ed25519 for Rekor v2.
type Shape string

// The shapes.
const (
	// RekorV1 has a promise, an inclusion proof and a checkpoint of Rekor v1,
	// as nearly every public bundle of today.
	RekorV1 Shape = "rekor-v1"
	// RekorV2 has an inclusion proof and a checkpoint of Rekor v2, and a signed
	// timestamp.
	RekorV2 Shape = "rekor-v2"
)

// Set names bundles of one shape that have a certificate each, or one
// certificate together, as a release has it.
type Set struct {
	Shape  Shape
	Shared bool
}

// Sets are all that there are.
func Sets() []Set {
	return []Set{{RekorV1, false}, {RekorV1, true}, {RekorV2, false}, {RekorV2, true}}
}

// String names the set, and the directory that holds it.
func (s Set) String() string {
	if s.Shared {
		return string(s.Shape) + "-shared"
	}
	return string(s.Shape) + "-fresh"
}

// What lies beside the directories of the sets: the trust root of all, and who
// signed.
const (
	RootName    = "trusted_root.json"
	IssuerName  = "issuer"
	SubjectName = "subject"
)

// BundleExt is behind the name of what is signed.
const BundleExt = ".sigstore.json"

// Signed is a bundle with the digests of what it signs.
type Signed struct {
	Raw     []byte
	Content []byte
	Digests digest.Set
}

// Path is where the i-th thing of a set in dir lies; its bundle lies beside it.
func (s Set) Path(dir string, i int) string {
	return filepath.Join(dir, s.String(), fmt.Sprintf("%05d", i))
}

// Write keeps the i-th bundle of a set.
func (s Set) Write(dir string, i int, b Signed) error {
	path := s.Path(dir, i)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, b.Content, 0o600); err != nil {
		return err
	}
	return os.WriteFile(path+BundleExt, b.Raw, 0o600)
}

// Content is what the i-th bundle of every set signs.
func Content(i int) []byte { return []byte("artifact " + strconv.Itoa(i)) }

// Read reads the first n bundles of a set, and the trust root.
func (s Set) Read(dir string, n int) (list []Signed, root []byte, err error) {
	if root, err = os.ReadFile(filepath.Join(dir, RootName)); err != nil {
		return nil, nil, err
	}
	for i := range n {
		one := Signed{}
		if one.Content, err = os.ReadFile(s.Path(dir, i)); err != nil {
			return nil, nil, err
		}
		if one.Raw, err = os.ReadFile(s.Path(dir, i) + BundleExt); err != nil {
			return nil, nil, err
		}
		one.Digests = digest.SetOf(one.Content)
		list = append(list, one)
	}
	return list, root, nil
}
