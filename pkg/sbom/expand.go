package sbom

import (
	"bytes"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

const (
	// maxRatio is how many bytes may come out of one compressed byte, on
	// average. Source code gives about ten, the worst of deflate a thousand.
	maxRatio = 250
	// freeExpansion is not counted: small archives may be mostly padding.
	freeExpansion = 64 << 20
	// maxName is the longest name of an entry.
	maxName = 4096
)

// expanding refuses to expand beyond measure. It counts what it delivers
// against the compressed bytes hashed so far.
type expanding struct {
	r      io.Reader
	packed *digest.Hasher
	total  int64
}

// Read implements [io.Reader].
func (e *expanding) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	e.total += int64(n)
	if e.total > freeExpansion+maxRatio*e.packed.Size() {
		return 0, verdict.Refuse(verdict.Limit, "", "more than %d bytes out of %d compressed ones", e.total, e.packed.Size())
	}
	return n, err
}

// onlyZeros reads r to its end.
func onlyZeros(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if len(bytes.Trim(buf[:n], "\x00")) > 0 {
			return verdict.Refuse(verdict.FileType, "", "bytes after the end of the archive")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// cleanName returns the one spelling of the name of an entry: relative,
// without dot segments. Other spellings of a name inside the archive are
// refused, for two of them could be two entries here and one file on disk.
func cleanName(name string) (string, error) {
	trimmed := strings.TrimSuffix(strings.TrimPrefix(name, "./"), "/")
	if trimmed == "" && name != "" && name != "/" {
		return ".", nil // the archive's own root
	}
	if reason := nameFault(trimmed); reason != "" {
		return "", verdict.Refuse(verdict.Path, bounded(name), "an entry of the archive %s", reason)
	}
	return trimmed, nil
}

func nameFault(name string) string {
	switch {
	case name == "" || len(name) > maxName:
		return "has no name, or one that is too long"
	case !utf8.ValidString(name) || clean(name) != name:
		return "has a name that does not show as itself"
	case path.IsAbs(name) || strings.HasPrefix(name, `\`) || (len(name) > 1 && name[1] == ':'):
		return "has an absolute name"
	case path.Clean(name) != name || hasDots(name):
		return "has a name with empty or dot segments"
	}
	return ""
}

// hasDots looks for ".." with either separator: what is one segment here may
// be two where the archive is unpacked.
func hasDots(name string) bool {
	for _, segment := range strings.FieldsFunc(name, func(r rune) bool { return r == '/' || r == '\\' }) {
		if segment == ".." {
			return true
		}
	}
	return false
}

// bounded keeps foreign text short and quotes it.
func bounded(s string) string {
	if len(s) > 200 {
		s = s[:200]
	}
	return fmt.Sprintf("%q", s)
}
