package sbom

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxLinks is how many symbolic links are listed one by one.
const maxLinks = 10_000

// listing collects the contents of an archive or a directory.
type listing struct {
	x           *examiner
	items       map[string]item // entries listed one by one
	links       map[string]string
	files       int
	linked      int
	directories int
}

func newListing() *listing {
	return &listing{x: newExaminer(), items: map[string]item{}, links: map[string]string{}}
}

// read lists an archive. Its bytes are hashed while they are read; those of a
// zip, which is read from its end, before.
func (l *listing) read(c Content) (digest.Set, error) {
	head, err := headOf(c)
	if err != nil {
		return digest.Set{}, err
	}
	format := unpack.Sniff(head)
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
		pipe.CloseWithError(err) // the writer stops; without an error it continues
		walked <- err
	}()
	bytes, err := c.sum(io.NewSectionReader(c, 0, c.Size+1), feed)
	feed.CloseWithError(err)
	if inner := <-walked; inner != nil && !errors.Is(inner, err) {
		return digest.Set{}, inner
	}
	return bytes, mismatch(err)
}

// mismatch gives a wrong digest the code for a document about other bytes.
func mismatch(err error) error {
	var size *digest.SizeError
	var other *digest.MismatchError
	if errors.As(err, &size) || errors.As(err, &other) {
		return verdict.Wrap(verdict.SBOMSubject, "", err)
	}
	return err
}

// visit adds one entry of the archive itself.
func (l *listing) visit(e unpack.Entry, body io.Reader) error {
	switch e.Kind {
	case unpack.File:
		it, err := l.x.file(e.Name, body)
		if err != nil {
			return err
		}
		return l.list(it)
	case unpack.HardLink:
		if it, listed := l.items[e.Target]; listed {
			return l.list(it.named(e.Name))
		}
		l.files++
		l.x.sum.link(e.Name, e.Target)
	case unpack.SymLink:
		l.link(e.Name, e.Target)
	case unpack.Directory:
		l.directories++
	}
	return nil
}

// list adds one file. When there are too many, ordinary files listed so far are
// removed and summed up.
func (l *listing) list(it item) error {
	l.files++
	before := l.x.sum.full
	it, listed, err := l.x.sum.listed(it)
	if err != nil {
		return err
	}
	if l.x.sum.full && !before {
		l.fold()
	}
	if listed {
		l.items[it.name] = it
	}
	return nil
}

// fold removes the ordinary files listed so far.
func (l *listing) fold() {
	for _, name := range slices.Sorted(maps.Keys(l.items)) {
		if it, keep := l.x.sum.fold(l.items[name]); keep {
			l.items[name] = it
		} else {
			delete(l.items, name)
		}
	}
}

func (l *listing) link(name, target string) {
	if l.linked++; l.linked > maxLinks {
		l.x.sum.link(name, target)
		return
	}
	l.links[name] = target
}

func (l *listing) comment(what string) string {
	lines := []string{fmt.Sprintf("%s of %d files and %d directory entries; %s", what, l.files, l.directories, l.x.sum.words())}
	if len(l.links) > 0 {
		lines = append(lines, "Symbolic links, which have no contents of their own:")
	}
	for _, name := range slices.Sorted(maps.Keys(l.links)) {
		lines = append(lines, fmt.Sprintf("%s -> %s", clean(name), clean(l.links[name])))
	}
	return strings.Join(lines, "\n")
}

// listing adds everything that was listed to the document.
func (b *builder) listing(l *listing, members Members) error {
	licences := map[string]string{}
	var own []spdx.File // names in the subject itself, not in nested archives
	for _, name := range slices.Sorted(maps.Keys(l.items)) {
		it := l.items[name]
		own = append(own, spdx.File{SHA1: it.file.SHA1})
		b.relate(artifactID, spdx.Contains, b.item(it, members, licences), "")
	}
	if !l.x.sum.full {
		b.subject().Verification = spdx.VerificationCode(own)
	}
	if l.x.sum.hasUnlisted() {
		b.relate(artifactID, spdx.Contains, spdx.NoAssertion, listedAsOne+l.x.sum.comment())
	}
	if err := b.sources(l.x, licences); err != nil {
		return err
	}
	b.installedIn(l.x)
	b.seen(l.x.seen.all())
	b.unexamined(l.x.unexamined())
	return nil
}

// item adds one file and its contents.
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
