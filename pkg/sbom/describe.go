package sbom

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Describe describes a file by the type in its header: an image, an archive or
// a program.
func Describe(ctx context.Context, in Input, artifact string, c Content, members Members) (Made, error) {
	head, err := headOf(c)
	if err != nil {
		return Made{}, err
	}
	format := unpack.Sniff(head)
	if format == unpack.Tar {
		if made, isImage, err := imageFile(ctx, in, artifact, c); isImage {
			return made, err
		}
	}
	if format == unpack.None || format == unpack.XZ {
		return Binary(in, artifact, c)
	}
	made, err := Archive(in, artifact, c, members)
	if _, is := errors.AsType[*unpack.SingleError](err); is {
		return compressedFile(in, artifact, c)
	}
	return made, err
}

// compressedFile recognises a compressed file that is not an archive, such as a
// manual page.
func compressedFile(in Input, artifact string, c Content) (Made, error) {
	bytes, err := c.sum(io.NewSectionReader(c, 0, c.Size+1), io.Discard)
	if err != nil {
		return Made{}, verdict.Wrap(verdict.SBOMSubject, artifact, err)
	}
	b := in.draft(artifact, bytes)
	b.unknown(errors.New("a compressed file, not expanded"))
	return b.made(), nil
}

// Binary describes an executable by the build information of the Go toolchain:
// main module, dependencies, toolchain, revision and settings.
//
// For an executable without build information, the document says that its
// contents are unknown.
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
		if eco := packaged(artifact, c); eco != "" {
			err = fmt.Errorf("a file of another ecosystem (%s), which is neither opened nor catalogued", eco)
			b.seen([]string{eco + ": " + artifact})
		}
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
	head, err := headOf(c)
	return err == nil && unpack.Sniff(head) == unpack.XZ
}

// sum reads r, the content, to its end and checks its digests; without digests
// it computes them.
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

// unknown states in the comment and in the graph that the contents are unknown.
func (b *builder) unknown(reason error) {
	b.subject().Purpose = spdx.Other
	b.subject().Comment = fmt.Sprintf(
		"Nothing is known of the contents of this file (%s). "+
			"This document identifies its bytes and lists none of its components.", clean(reason.Error()))
	b.unexamined([]string{b.draft.Name + ": " + reason.Error()})
	b.relate(artifactID, spdx.DependsOn, spdx.NoAssertion, "dependencies unknown")
}

// Archive describes a tar, tar.gz, tar.zst, tar.bz2 or zip file by every file
// in it, including those of nested archives, by the Go programs and modules
// among them, and by the packages of a distribution if it is a root file
// system.
//
// A file that members knows is noted as a copy of that artifact, and linked to
// its document if it has one. members may be nil.
//
// An archive that cannot be described completely is an error: names that leave
// it (PATH) or occur twice (ARCHIVE_TWICE), anything but files, directories and
// links within it (FILE_TYPE), content that programs unpack in different ways
// (ARCHIVE_AMBIGUOUS), bytes of no entry (ARCHIVE_HIDDEN), and excessive
// expansion (LIMIT). Nested archives with such faults are listed as not
// examined.
func Archive(in Input, artifact string, c Content, members Members) (Made, error) {
	if err := in.check(artifact); err != nil {
		return Made{}, err
	}
	l := newListing()
	l.x.strong, l.x.sum.members, l.x.sum.also = in.strong, members, in.listed
	defer l.x.spool.close()
	bytes, err := l.read(c)
	if err != nil {
		return Made{}, wrapArchive(artifact, err)
	}
	if eco := packaged(artifact, c); eco != "" {
		l.x.seen.add(eco, artifact) // its files are listed, but not its packages
	}
	if l.x.walker.Entries() == 0 {
		return Made{}, verdict.Refuse(verdict.NoSBOM, artifact, "the archive is empty")
	}
	b := in.draft(artifact, bytes)
	b.subject().Purpose = spdx.Archive
	b.subject().Comment = l.comment("An archive")
	if err := b.listing(l, members); err != nil {
		return Made{}, wrapArchive(artifact, err)
	}
	return b.made(), nil
}

// wrapArchive keeps the code of a refusal and names the entry; any other error
// means that the archive cannot have a document.
func wrapArchive(artifact string, err error) error {
	if refusal := refusedIn(artifact, err); refusal != nil {
		return refusal
	}
	return &verdict.Error{Finding: verdict.Find(verdict.NoSBOM, artifact, "the archive cannot be read to its end: %s", clean(err.Error())).
		Advise("check that the file is complete, or build or fetch it again"), Cause: err}
}

// refusedIn turns a refusal of something in an artifact into one of the
// artifact; nil if err is not a refusal.
func refusedIn(artifact string, err error) error {
	var refusal *verdict.Error
	if !errors.As(err, &refusal) {
		return nil
	}
	f := refusal.Finding
	if f.Subject != "" && f.Subject != artifact {
		f.Message = fmt.Sprintf("%s: %s", clean(f.Subject), f.Message)
	}
	f.Subject = artifact
	return &verdict.Error{Finding: f, Cause: refusal.Cause}
}
