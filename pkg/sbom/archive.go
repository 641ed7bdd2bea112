package sbom

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha1" // SPDX 2.3 requires the SHA-1 of every file
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxEntries bounds the entries of one archive, directories included.
const maxEntries = 1_000_000

// Archive describes a tar.gz file by every file inside it. r must hold exactly
// the bytes that the digests name; it is read once, to its end.
//
// members tells which artifact of the release has the given bytes, if any. A
// file with those bytes is noted as a copy of it, and linked to its document
// if the entry has one. members may be nil.
//
// An archive that cannot be described as a whole is an error: names that leave
// it or occur twice (PATH), anything but files, directories and links within
// it (FILE_TYPE), bytes after its end, and expansion beyond measure (LIMIT).
func Archive(in Input, artifact string, r io.Reader, bytes digest.Set, members func(sha256 digest.Digest) (Entry, bool)) ([]byte, error) {
	if err := in.check(artifact, bytes); err != nil {
		return nil, err
	}
	c, err := list(r, bytes.SHA256)
	if err != nil {
		return nil, wrapArchive(artifact, err)
	}
	b := in.draft(artifact, bytes)
	b.subject().Purpose = spdx.Archive
	b.subject().Comment = c.comment()
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		b.member(c.files[name], members)
	}
	b.subject().Verification = spdx.VerificationCode(b.draft.Files)
	return spdx.Encode(b.draft)
}

// wrapArchive keeps the code of a refusal; whatever else stops the reading
// leaves the archive without a document.
func wrapArchive(artifact string, err error) error {
	err = fmt.Errorf("describing archive %q: %w", artifact, err)
	var refusal *verdict.Error
	if errors.As(err, &refusal) {
		return verdict.Wrap(refusal.Finding.Code, artifact, err)
	}
	return verdict.Wrap(verdict.NoSBOM, artifact, err)
}

// member adds one file of the archive.
func (b *builder) member(f spdx.File, members func(digest.Digest) (Entry, bool)) {
	b.relate(artifactID, spdx.Contains, f.ID, "")
	if members != nil {
		if e, known := members(f.Digests.SHA256); known {
			f.Comment = fmt.Sprintf("The same bytes as artifact %q of this release.", e.Artifact)
			e.Digests.SHA256 = f.Digests.SHA256
			if id := b.linked(e); id != "" {
				b.relate(f.ID, spdx.CopyOf, id, "described in "+e.SBOM)
			}
		}
	}
	b.draft.Files = append(b.draft.Files, f)
}

// contents is what an archive holds, by clean name.
type contents struct {
	files       map[string]spdx.File
	links       map[string]string
	directories int
}

// list reads the whole of a tar.gz stream and proves that it had the digest.
func list(r io.Reader, want digest.Digest) (contents, error) {
	h := digest.NewHasher()
	packed := io.TeeReader(r, h)
	unzipped, err := gzip.NewReader(packed)
	if err != nil {
		return contents{}, err
	}
	plain := &expanding{r: unzipped, packed: h}
	c := contents{files: map[string]spdx.File{}, links: map[string]string{}}
	if err := c.walk(tar.NewReader(plain), h); err != nil {
		return contents{}, err
	}
	// tar ends before the stream does. What follows is padding, or a part of
	// the archive that this reader does not see and another one might.
	if err := onlyZeros(plain); err != nil {
		return contents{}, err
	}
	if _, err := io.Copy(io.Discard, packed); err != nil {
		return contents{}, err
	}
	if got := h.Set().SHA256; !got.Equal(want) {
		return contents{}, verdict.Wrap(verdict.SBOMSubject, "", &digest.MismatchError{Want: want, Got: got})
	}
	return c, c.noneThroughLinks()
}

func (c *contents) walk(t *tar.Reader, packed *digest.Hasher) error {
	expanded := &expanding{r: t, packed: packed}
	for n := 0; ; n++ {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case n >= maxEntries:
			return verdict.Refuse(verdict.Limit, "", "more than %d entries", maxEntries)
		}
		if err := c.entry(h, expanded); err != nil {
			return err
		}
	}
}

func (c *contents) entry(h *tar.Header, body io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil // a comment on the archive, as git writes it
	}
	name, err := cleanName(h.Name)
	if err != nil {
		return err
	}
	if h.Typeflag == tar.TypeDir {
		c.directories++
		return nil
	}
	if _, twice := c.files[name]; twice || c.links[name] != "" {
		return verdict.Refuse(verdict.Path, name, "the archive holds two entries of this name")
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		f, err := sum(body)
		if err != nil {
			return err
		}
		c.add(name, f)
	case tar.TypeLink:
		return c.hardLink(name, h.Linkname)
	case tar.TypeSymlink:
		return c.symbolicLink(name, h.Linkname)
	default:
		return verdict.Refuse(verdict.FileType, name, "an entry of type %q is neither file, directory nor link", h.Typeflag)
	}
	return nil
}

// sum hashes one file both ways in one read.
func sum(r io.Reader) (spdx.File, error) {
	weak := sha1.New() // required by SPDX, relied on by nobody
	strong, _, err := digest.SumSHA256(io.TeeReader(r, weak))
	if err != nil {
		return spdx.File{}, err
	}
	return spdx.File{SHA1: hex.EncodeToString(weak.Sum(nil)), Digests: digest.Set{SHA256: strong}}, nil
}

func (c *contents) add(name string, f spdx.File) {
	f.ID, f.Name = elementID("File", name), "./"+name
	c.files[name] = f
}

// hardLink is one more name for a file that came before.
func (c *contents) hardLink(name, target string) error {
	target, err := cleanName(target)
	if err != nil {
		return err
	}
	f, there := c.files[target]
	if !there {
		return verdict.Refuse(verdict.FileType, name, "a hard link to %q, which is no earlier file", target)
	}
	c.add(name, f)
	return nil
}

func (c *contents) symbolicLink(name, target string) error {
	to := path.Join(path.Dir(name), target)
	if target == "" || path.IsAbs(target) || strings.Contains(target, `\`) || to == ".." || strings.HasPrefix(to, "../") {
		return verdict.Refuse(verdict.Path, name, "a symbolic link to %q leaves the archive", bounded(target))
	}
	c.links[name] = target
	return nil
}

// noneThroughLinks refuses entries below a symbolic link: they land elsewhere
// than they are listed.
func (c *contents) noneThroughLinks() error {
	if len(c.links) == 0 {
		return nil
	}
	for _, names := range []func(func(string) bool){maps.Keys(c.files), maps.Keys(c.links)} {
		for name := range names {
			for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
				if _, link := c.links[dir]; link {
					return verdict.Refuse(verdict.Path, name, "%q is a symbolic link", dir)
				}
			}
		}
	}
	return nil
}

func (c *contents) comment() string {
	lines := []string{fmt.Sprintf("An archive of %d files and %d directory entries; every file is listed.", len(c.files), c.directories)}
	if len(c.links) > 0 {
		lines = append(lines, "Symbolic links, which have no contents of their own:")
	}
	for _, name := range slices.Sorted(maps.Keys(c.links)) {
		lines = append(lines, fmt.Sprintf("%s -> %s", clean(name), clean(c.links[name])))
	}
	return strings.Join(lines, "\n")
}
