package sbom

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/sbom/unpack"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Describe describes a file by what its head says that it is: an image, an
// archive or a program.
func Describe(ctx context.Context, in Input, artifact string, c Content, members Members) (Made, error) {
	head := make([]byte, unpack.HeadSize)
	n, err := c.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return Made{}, err
	}
	format := unpack.Sniff(head[:n])
	if format == unpack.Tar {
		if made, isImage, err := ImageFile(ctx, in, artifact, c); isImage {
			return made, err
		}
	}
	if format != unpack.None && format != unpack.XZ {
		return Archive(in, artifact, c, members)
	}
	return Binary(in, artifact, c)
}

// Binary describes an executable by the build information that the Go
// toolchain leaves in it: main module, every dependency, toolchain, revision
// and settings.
//
// An executable without build information gets a document that says that
// nothing is known of its contents.
func Binary(in Input, artifact string, c Content) (Made, error) {
	if err := in.check(artifact); err != nil {
		return Made{}, err
	}
	bytes, err := c.sum(io.NewSectionReader(c, 0, c.Size+1), io.Discard)
	if err != nil {
		return Made{}, verdict.Wrap(verdict.SBOMSubject, artifact, err)
	}
	b := in.draft(artifact, bytes)
	bin, err := readProgram(c)
	switch {
	case errors.Is(err, gomod.ErrNoBuildInfo) && isXZ(c):
		b.unknown(unpack.ErrXZ)
		return b.made(), nil
	case errors.Is(err, gomod.ErrNoBuildInfo), errors.Is(err, errUnread) && bin.GoVersion == "":
		b.unknown(err)
		return b.made(), nil
	case errors.Is(err, errUnread):
		b.unexamined([]string{b.draft.Name + ": " + err.Error()})
	case err != nil:
		return Made{}, fmt.Errorf("describing %q: %w", artifact, err)
	}
	b.subject().Purpose = spdx.Application
	b.subject().Comment = settings(bin)
	b.program(artifactID, bin, b.version())
	return b.made(), nil
}

func isXZ(c Content) bool {
	head := make([]byte, unpack.HeadSize)
	n, err := c.ReadAt(head, 0)
	return (err == nil || err == io.EOF) && unpack.Sniff(head[:n]) == unpack.XZ
}

// sum reads r, which holds the content, to its end and proves that it had the
// digests; or, if there are none, finds them.
func (c Content) sum(r io.Reader, also io.Writer) (digest.Set, error) {
	var h hash.Hash
	var both *digest.Hasher
	var into io.Writer
	if c.Digests.SHA256.IsZero() {
		both = digest.NewHasher()
		into = both
	} else {
		h = sha256.New()
		into = h
	}
	n, err := io.CopyBuffer(io.MultiWriter(into, also), r, make([]byte, 256<<10))
	switch {
	case err != nil:
		return digest.Set{}, err
	case n != c.Size:
		return digest.Set{}, &digest.SizeError{Want: c.Size, Got: n}
	case both != nil:
		return both.Set(), nil
	}
	got, err := digest.ParseHex(digest.SHA256, hex.EncodeToString(h.Sum(nil)))
	if err == nil && !got.Equal(c.Digests.SHA256) {
		err = &digest.MismatchError{Want: c.Digests.SHA256, Got: got}
	}
	return c.Digests, err
}

// unknown says in words and in the graph that the contents are not known.
func (b *builder) unknown(reason error) {
	b.subject().Purpose = spdx.Other
	b.subject().Comment = fmt.Sprintf(
		"Nothing is known of the contents of this file (%s). "+
			"This document identifies its bytes and lists none of its components.", clean(reason.Error()))
	b.unexamined([]string{b.draft.Name + ": " + reason.Error()})
	b.relate(artifactID, spdx.DependsOn, spdx.NoAssertion, "dependencies unknown")
}

// Archive describes a tar, tar.gz, tar.zst, tar.bz2 or zip file by every file
// inside it, those of archives in it too, by the Go programs and modules among
// them, and by the packages of a distribution if it is a root file system.
//
// A file that members knows is noted as a copy of that artifact, and linked to
// its document if the entry has one. members may be nil.
//
// An archive that cannot be described as a whole is an error: names that leave
// it or occur twice (PATH), anything but files, directories and links within
// it (FILE_TYPE), bytes after its end, and expansion beyond measure (LIMIT).
// Archives inside of it that are so are stated as not examined.
func Archive(in Input, artifact string, c Content, members Members) (Made, error) {
	if err := in.check(artifact); err != nil {
		return Made{}, err
	}
	l := newListing()
	l.x.strong = in.strong
	defer l.x.spool.close()
	bytes, err := l.read(c)
	if err != nil {
		return Made{}, wrapArchive(artifact, err)
	}
	b := in.draft(artifact, bytes)
	b.subject().Purpose = spdx.Archive
	b.subject().Comment = l.comment("An archive")
	if err := b.listing(l, members); err != nil {
		return Made{}, wrapArchive(artifact, err)
	}
	return b.made(), nil
}

// wrapArchive keeps the code of a refusal; whatever else stops the reading
// leaves the archive without a document.
func wrapArchive(artifact string, err error) error {
	err = fmt.Errorf("describing %q: %w", artifact, err)
	var refusal *verdict.Error
	if errors.As(err, &refusal) {
		return verdict.Wrap(refusal.Finding.Code, artifact, err)
	}
	return verdict.Wrap(verdict.NoSBOM, artifact, err)
}

// listing is what an archive or a directory holds.
type listing struct {
	x           *examiner
	items       map[string]item
	links       map[string]string
	directories int
}

func newListing() *listing {
	return &listing{x: newExaminer(), items: map[string]item{}, links: map[string]string{}}
}

// read lists an archive. Its bytes are hashed as they pass; those of a zip,
// which is read from its end, before.
func (l *listing) read(c Content) (digest.Set, error) {
	head := make([]byte, unpack.HeadSize)
	n, err := c.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return digest.Set{}, err
	}
	format := unpack.Sniff(head[:n])
	if format == unpack.Zip || format == unpack.None {
		bytes, err := c.sum(io.NewSectionReader(c, 0, c.Size+1), io.Discard)
		if err != nil {
			return digest.Set{}, mismatch(err)
		}
		return bytes, l.x.walker.Archive(c, c.Size, l.visit)
	}
	pipe, feed := io.Pipe()
	walked := make(chan error, 1)
	go func() {
		err := l.x.walker.Stream(bufio.NewReaderSize(pipe, 256<<10), format, l.visit)
		pipe.CloseWithError(err) // the one who feeds stops, or goes on if there is no error
		walked <- err
	}()
	bytes, err := c.sum(io.NewSectionReader(c, 0, c.Size+1), feed)
	feed.CloseWithError(err)
	if inner := <-walked; inner != nil && !errors.Is(inner, err) {
		return digest.Set{}, inner
	}
	return bytes, mismatch(err)
}

// mismatch gives a wrong digest the code of a document about other bytes.
func mismatch(err error) error {
	var size *digest.SizeError
	var other *digest.MismatchError
	if errors.As(err, &size) || errors.As(err, &other) {
		return verdict.Wrap(verdict.SBOMSubject, "", err)
	}
	return err
}

// visit takes one entry of the archive itself.
func (l *listing) visit(e unpack.Entry, body io.Reader) error {
	switch e.Kind {
	case unpack.File:
		it, err := l.x.file(e.Name, body)
		l.items[e.Name] = it
		return err
	case unpack.HardLink:
		l.items[e.Name] = l.items[e.Target].named(e.Name)
	case unpack.SymLink:
		l.links[e.Name] = e.Target
	case unpack.Directory:
		l.directories++
	}
	return nil
}

func (l *listing) comment(what string) string {
	lines := []string{fmt.Sprintf("%s of %d files and %d directory entries; every file is listed.", what, len(l.items), l.directories)}
	if len(l.links) > 0 {
		lines = append(lines, "Symbolic links, which have no contents of their own:")
	}
	for _, name := range slices.Sorted(maps.Keys(l.links)) {
		lines = append(lines, fmt.Sprintf("%s -> %s", clean(name), clean(l.links[name])))
	}
	return strings.Join(lines, "\n")
}

// listing adds everything that was listed.
func (b *builder) listing(l *listing, members Members) error {
	licences := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(l.items)) {
		b.relate(artifactID, spdx.Contains, b.item(l.items[name], members, licences), "")
	}
	b.subject().Verification = spdx.VerificationCode(b.contained())
	if err := b.sources(l.x.texts, licences); err != nil {
		return err
	}
	b.installedIn(l.x)
	b.seen(l.x.seen)
	b.unexamined(l.x.incomplete)
	return nil
}

// contained are the files of the subject itself, not of archives in it.
func (b *builder) contained() []spdx.File {
	own := map[string]bool{}
	for _, r := range b.draft.Relationships {
		own[r.To] = own[r.To] || r.From == artifactID && r.Type == spdx.Contains
	}
	return slices.DeleteFunc(slices.Clone(b.draft.Files), func(f spdx.File) bool { return !own[f.ID] })
}

// item adds one file and what is in it.
func (b *builder) item(it item, members Members, licences map[string]string) string {
	f, own := it.file, ""
	if members != nil {
		if e, known := members(f.Digests.SHA256); known {
			own = b.version()
			f.Comment = fmt.Sprintf("The same bytes as artifact %q of this release.", e.Artifact)
			e.Digests.SHA256 = f.Digests.SHA256
			if id := b.linked(e); id != "" {
				b.relate(f.ID, spdx.CopyOf, id, "described in "+e.SBOM)
			}
		}
	}
	b.draft.Files = append(b.draft.Files, f)
	if f.Licence != "" {
		licences[it.name] = f.Licence
	}
	if it.program != nil {
		b.program(f.ID, *it.program, own)
	}
	for _, inner := range it.inner {
		b.relate(b.item(inner, members, licences), spdx.ExpandedFromArchive, f.ID, "")
	}
	return f.ID
}
