package sbom

import (
	"bytes"
	"crypto/sha1" // SPDX 2.3 requires the SHA-1 of every file
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/sbom/distro"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/sbom/licence"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	// maxText bounds one text that is kept for later parsing.
	maxText = 16 << 20
	// maxTexts bounds all kept texts of one artifact.
	maxTexts = 192 << 20
)

// item is one file and what was found in it.
type item struct {
	name    string // clean, after the names of the archives that contain it
	file    spdx.File
	program *gomod.Binary
	inner   []item // contents of an archive
}

// examiner reads files one after another, each byte once, and records what it
// could not examine.
type examiner struct {
	walker     *unpack.Walker
	facts      *facts
	spool      *spool
	other      *spool            // of a layer, for the next program while one is hashed
	texts      map[string][]byte // files that are parsed together with others
	held       int
	seen       sightings
	incomplete []string // parts that were not examined, with the reason
	unnamed    int      // number of further parts
	sum        *summary // sum over files that are not listed one by one
	strong     bool     // compute the SHA-512 of files too
	buf        []byte
}

func newExaminer() *examiner {
	return &examiner{walker: unpack.New(), facts: newFacts(), spool: &spool{}, texts: map[string][]byte{}, sum: newSummary(), buf: make([]byte, 256<<10)}
}

// maxMissed is how many parts that were not examined are named; the rest is
// counted.
const maxMissed = 1000

// missed records a part that was not examined.
func (x *examiner) missed(name string, reason error) {
	if len(x.incomplete) == maxMissed {
		x.unnamed++
		return
	}
	x.incomplete = append(x.incomplete, fmt.Sprintf("%s: %s", clean(name), clean(inWords(reason))))
}

// inWords returns a reason without the code of a refusal: here it refuses
// nothing.
func inWords(reason error) string {
	var refusal *verdict.Error
	switch {
	case !errors.As(reason, &refusal):
		return reason.Error()
	case refusal.Finding.Subject == "":
		return refusal.Finding.Message
	}
	return refusal.Finding.Subject + ": " + refusal.Finding.Message
}

// unexamined returns the parts that were not examined.
func (x *examiner) unexamined() []string {
	if x.unnamed == 0 {
		return x.incomplete
	}
	return append(slices.Clip(x.incomplete), fmt.Sprintf("%d parts more", x.unnamed))
}

// remembering keeps the error of the stream itself, to distinguish it from
// errors in its contents.
type remembering struct {
	r   io.Reader
	err error
}

// Read implements [io.Reader].
func (m *remembering) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	if err != nil && err != io.EOF {
		m.err = err
	}
	return n, err
}

// file reads one file to its end, hashes it and examines it. A body with random
// access, such as a file on disk, is examined in place. The error is one of the
// stream: faults inside of the file are recorded.
func (x *examiner) file(name string, body io.Reader) (item, error) {
	src := &remembering{r: body}
	head := make([]byte, unpack.HeadSize)
	n, err := io.ReadFull(src, head)
	if err != nil && err != io.EOF && !errors.Is(err, io.ErrUnexpectedEOF) {
		return item{}, err
	}
	it := item{name: name}
	at, inPlace := body.(io.ReaderAt)
	if inPlace = inPlace && isProgram(head[:n]); inPlace {
		x.programAt(&it, at)
	}
	weak, strong := sha1.New(), sha256.New() // SPDX requires the weak SHA-1; it is never relied on
	into, both := io.MultiWriter(weak, strong), (*digest.Hasher)(nil)
	if x.strong || it.program != nil || !inPlace && isProgram(head[:n]) {
		both = digest.NewHasher()
		into = io.MultiWriter(weak, both)
	}
	_, _ = into.Write(head[:n]) // a hash never fails
	src.r = io.TeeReader(body, into)
	all := io.MultiReader(bytes.NewReader(head[:n]), src)
	if inPlace {
		// examined already
	} else if err := x.inside(&it, head[:n], all); src.err != nil {
		return item{}, src.err
	} else if err != nil {
		return item{}, err
	}
	// Hide WriteTo of the reader, which would copy in small pieces.
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{all}, x.buf); err != nil {
		return item{}, err
	}
	it.file.SHA1 = hex.EncodeToString(weak.Sum(nil))
	it.file.ID, it.file.Name = elementID("File", name), "./"+name
	if both == nil {
		it.file.Digests.SHA256, err = digest.ParseHex(digest.SHA256, hex.EncodeToString(strong.Sum(nil)))
		return it, err
	}
	it.file.Digests = both.Set()
	if !x.strong && it.program == nil { // a program, but not one of Go
		it.file.Digests.SHA512 = digest.Digest{}
	}
	return it, nil
}

// inside examines a file if its type can be examined.
func (x *examiner) inside(it *item, head []byte, body io.Reader) error {
	x.seen.note(it.name)
	switch format := unpack.Sniff(head); {
	case isProgram(head):
		return x.program(it, body)
	case isText(it.name):
		return x.keep(it, body)
	case distro.CopyrightOf(it.name) != "":
		text, err := io.ReadAll(io.LimitReader(body, licence.MaxSize))
		x.facts.text(it.name, text)
		return err
	case licence.IsFile(it.name):
		text, err := io.ReadAll(io.LimitReader(body, licence.MaxSize+1))
		it.file.Licence = licence.Recognise(text)
		return err
	case format == unpack.None:
		return nil
	default:
		return x.archive(it, format, body)
	}
}

func (x *examiner) program(it *item, body io.Reader) error {
	at, _, err := x.spool.fill(body)
	if err != nil {
		return err
	}
	x.programAt(it, at)
	return nil
}

func (x *examiner) programAt(it *item, at io.ReaderAt) {
	if bin, is := x.goProgram(it.name, at); is {
		it.program = &bin
	}
}

// archive examines a nested archive. Its faults are recorded; the file itself
// was read completely all the same.
func (x *examiner) archive(it *item, format unpack.Format, body io.Reader) error {
	in := &within{x: x, it: it, at: map[string]int{}}
	var err error
	if format == unpack.Zip {
		var broken error
		if err, broken = x.zip(body, in.visit); broken != nil {
			return broken
		}
	} else {
		err = x.walker.Stream(body, format, in.visit)
	}
	// A compressed file need not contain an archive.
	var single *unpack.SingleError
	switch {
	case errors.As(err, &single) && isProgram(single.Head):
		x.missed(it.name, errCompressed)
	case err != nil && single == nil:
		it.inner = nil
		x.missed(it.name, err)
	}
	return nil
}

// zip examines a nested zip, which must be read from its end. The first error
// is one of the zip, the second one of the surrounding stream.
func (x *examiner) zip(body io.Reader, visit unpack.Visit) (wrong, broken error) {
	at, size, err := x.spool.fill(body)
	if err != nil {
		return nil, err
	}
	// Nested files need another spool: this one holds the zip.
	outer := x.spool
	x.spool = &spool{spare: true}
	wrong = x.walker.Archive(at, size, visit)
	x.spool.close()
	x.spool = outer
	return wrong, nil
}

// errCompressed says that a compressed program is not examined.
var errCompressed = errors.New("a compressed program, not expanded")

// within is a nested archive.
type within struct {
	x  *examiner
	it *item
	at map[string]int // its listed files, by name
}

// visit adds one entry of an archive to the item of the archive.
func (w *within) visit(e unpack.Entry, body io.Reader) error {
	name := w.it.name + "/" + e.Name
	switch e.Kind {
	case unpack.File:
		inner, err := w.x.file(name, body)
		if err != nil {
			return err
		}
		return w.list(e.Name, inner)
	case unpack.HardLink:
		if i, there := w.at[e.Target]; there {
			return w.list(e.Name, w.it.inner[i].named(name))
		}
		w.x.sum.link(name, e.Target)
	}
	return nil
}

func (w *within) list(name string, inner item) error {
	inner, listed, err := w.x.sum.listed(inner)
	if listed {
		w.at[name] = len(w.it.inner)
		w.it.inner = append(w.it.inner, inner)
	}
	return err
}

// named returns the same file under another name.
func (it item) named(name string) item {
	it.name, it.inner = name, nil
	it.file.ID, it.file.Name = elementID("File", name), "./"+name
	return it
}

// isText reports whether a file is kept and parsed together with others.
func isText(name string) bool {
	switch base := path.Base(name); {
	case base == "go.mod", base == "go.sum", base == "go.work", base == "go.work.sum", strings.HasSuffix(name, "vendor/modules.txt"):
		return true
	}
	return isDatabase(name)
}

// isDatabase reports whether a file is a package database of a distribution.
func isDatabase(name string) bool {
	switch name {
	case distro.APKDatabase, distro.APKDatabase2, distro.DpkgDatabase, distro.OSRelease, distro.OSRelease2:
		return true
	}
	return strings.HasPrefix(name, distro.DpkgStatusDir) && !strings.HasSuffix(name, ".md5sums")
}

func (x *examiner) keep(it *item, body io.Reader) error {
	limit := maxText
	if isDatabase(it.name) {
		limit = distro.MaxDatabase
	}
	text, err := io.ReadAll(io.LimitReader(body, int64(limit)+1))
	if err != nil {
		return err
	}
	if x.held += len(text); len(text) > limit || x.held > maxTexts {
		x.held -= len(text)
		x.missed(it.name, fmt.Errorf("too large: more than %d bytes, or too many such files", limit))
		return nil
	}
	x.texts[it.name] = text
	return nil
}
