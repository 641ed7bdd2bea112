package bundles

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
)

// Subjects is how many the large statement has: a release of its size, as one
// signed list.
const Subjects = 100_000

// StatementName is the bundle with the large statement, beside the sets.
const StatementName = "statement" + BundleExt

// Statement is a statement of n subjects.
func Statement(n int) []byte {
	var b bytes.Buffer
	b.WriteString(`{"_type":"https://in-toto.io/Statement/v1","subject":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"bin/linux/amd64/tool-%06d","digest":{"sha256":"%x"}}`, i, sha256.Sum256(Content(i)))
	}
	b.WriteString(`],"predicateType":"https://example.test/freight/v1","predicate":{}}`)
	return b.Bytes()
}

// VerifyStatement verifies the large statement in dir, and that every subject
// was read.
func VerifyStatement(dir string) error {
	raw, root, err := readStatement(dir)
	if err != nil {
		return err
	}
	r, err := trust.Parse(root)
	if err != nil {
		return err
	}
	v, err := verify.New(r)
	if err != nil {
		return err
	}
	e, err := v.Attestation(raw)
	if err != nil {
		return err
	}
	if n := len(e.Statement().Subjects()); n != Subjects {
		return fmt.Errorf("%d subjects were verified, want %d", n, Subjects)
	}
	return nil
}

// HashStatement reads the same bundle and hashes it.
func HashStatement(dir string) error {
	raw, _, err := readStatement(dir)
	sha256.Sum256(raw)
	return err
}

func readStatement(dir string) (raw, root []byte, err error) {
	if root, err = os.ReadFile(filepath.Join(dir, RootName)); err != nil {
		return nil, nil, err
	}
	raw, err = os.ReadFile(filepath.Join(dir, StatementName))
	return raw, root, err
}
