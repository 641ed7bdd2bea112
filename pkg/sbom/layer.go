package sbom

import (
	"context"
	"crypto/sha1" // SPDX 2.3 requires the SHA-1 of every file
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/sbom/distro"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/sbom/licence"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Layer is one layer of an image.
type Layer struct {
	// Digest is that of the served layer, DiffID that of the uncompressed
	// layer, from the configuration.
	Digest, DiffID digest.Digest
	// Open reads the layer as served. A layer that cannot be opened is listed
	// and not examined.
	Open func(context.Context) (io.ReadCloser, error)
}

// Layers caches the results for layers, which images and platforms share. The
// zero value is ready for use by several goroutines.
type Layers struct {
	known sync.Map // digest: func() (*layerFacts, error)
}

// factsOf returns the facts of a layer, and reads it at most once.
func (c *Layers) factsOf(ctx context.Context, l Layer) (*layerFacts, error) {
	read, _ := c.known.LoadOrStore(l.Digest, sync.OnceValues(func() (*layerFacts, error) { return readLayer(ctx, l) }))
	return read.(func() (*layerFacts, error))()
}

// atOnce is how many layers are read concurrently.
const atOnce = 2

// ahead reads layers concurrently into the cache, until one fails. Those that are
// being read then are read on: another image may need them.
func (c *Layers) ahead(ctx context.Context, layers []Layer) error {
	return atonce.Try(ctx, atOnce, layers, func(_ context.Context, _ int, l Layer) error {
		if l.Open == nil {
			return nil
		}
		_, err := c.factsOf(ctx, l)
		return err
	})
}

// program is a Go program in an image.
type program struct {
	bin  gomod.Binary
	file spdx.File
	sums *sums
}

// sums are those of a program, computed while the layer is read on: hashing takes
// half as long as decompressing.
type sums struct {
	weak string
	set  digest.Set
	err  error
}

func (s *sums) compute(r io.Reader) {
	weak := sha1.New() // required by SPDX, never relied on
	s.set, _, s.err = digest.Sum(io.TeeReader(r, weak))
	s.weak = hex.EncodeToString(weak.Sum(nil))
}

// addSums adds the sums to the programs, when all are computed, and drops
// programs that could not be read again.
func (l *layerFacts) addSums() (err error) {
	for name, p := range l.programs {
		if p.sums.err != nil {
			err = p.sums.err
			delete(l.programs, name)
			continue
		}
		p.file.SHA1, p.file.Digests = p.sums.weak, p.sums.set
		l.programs[name] = p
	}
	return err
}

type layerFacts struct {
	facts
	programs   map[string]program
	whiteouts  []string // removed names, with all below them
	opaque     []string // directories whose earlier contents are removed
	seed       maphash.Seed
	names      names             // all entries of the layer
	leaves     names             // entries that are not directories
	parents    names             // names with entries below them
	links      map[string]string // symbolic links and their targets
	implied    names             // directories with entries in them before the layer adds them or removes their contents
	gone       names             // the whiteouts
	doubt      string            // the first name that programs write to different places or that only some remove
	seen       []string
	incomplete []string
	odd        int // ambiguous entries
}

// holds reports whether the layer has an entry of this name.
func (l *layerFacts) holds(name string) bool { return l.names.has(l, name) }

func (l *layerFacts) hash(name string) uint64 { return maphash.String(l.seed, name) }

// maxOddities is how many odd entries of a layer are named; the rest is
// counted.
const maxOddities = 20

// The names of whiteouts.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

func readLayer(ctx context.Context, l Layer) (*layerFacts, error) {
	body, err := l.Open(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading layer %s: %w", l.Digest, err)
	}
	defer body.Close()
	out := &layerFacts{
		facts: *newFacts(), programs: map[string]program{}, seed: maphash.MakeSeed(), names: names{}, leaves: names{}, parents: names{}, links: map[string]string{},
		implied: names{}, gone: names{},
	}
	x := newExaminer()
	x.other = &spool{}
	defer x.spool.close()
	defer x.other.close()
	src, plain := &remembering{r: body}, sha256.New()
	err = unpack.Layer(src, plain, func(e unpack.Entry, body io.Reader) error { return out.entry(x, e, body) })
	x.spool.readers.Wait()
	x.other.readers.Wait()
	if unread := out.addSums(); err == nil {
		err = unread
	}
	if src.err != nil {
		return nil, fmt.Errorf("reading layer %s: %w", l.Digest, src.err)
	}
	if err != nil {
		out.incomplete = append(out.incomplete, fmt.Sprintf("layer %s: %s", l.Digest, clean(inWords(err))))
		return out, nil // faults inside of a layer are stated in the document
	}
	if got := hex.EncodeToString(plain.Sum(nil)); got != l.DiffID.Hex() {
		return nil, &verdict.Error{Finding: verdict.Find(verdict.Conflict, l.Digest.String(),
			"the layer does not match the image's configuration").Differ(l.DiffID.String(), "sha256:"+got)}
	}
	for name, raw := range x.texts {
		out.text(name, raw)
	}
	out.seen = x.seen.all()
	if more := out.odd - maxOddities; more > 0 {
		x.missed("layer "+l.Digest.String(), fmt.Errorf("%d entries more that leave it, or are there twice", more))
	}
	out.incomplete = append(append(out.incomplete, x.unexamined()...), out.faults()...)
	return out, nil
}

func (l *layerFacts) entry(x *examiner, e unpack.Entry, body io.Reader) error {
	switch dir, base := path.Split(e.Name); {
	case base == opaque:
		l.takesAway(x, e.Name, "")
		l.opaque = append(l.opaque, dir)
		return nil
	case strings.HasPrefix(base, whiteout):
		l.takesAway(x, e.Name, dir+strings.TrimPrefix(base, whiteout))
		return nil
	}
	l.oddities(x, e)
	// The last of two entries with one name counts.
	l.note(e)
	delete(l.programs, e.Name)
	delete(x.texts, e.Name)
	if e.Kind == unpack.File || e.Kind != unpack.Directory && ecosystem(e.Name) == "RPM" { // also a link to a database
		x.seen.note(e.Name)
	}
	switch {
	case e.Kind == unpack.HardLink:
		l.hardLinked(x, e)
		return nil
	case e.Kind == unpack.SymLink:
		l.linked(x, e.Name, e.Target)
		return nil
	case e.Kind != unpack.File:
		return nil
	case distro.CopyrightOf(e.Name) != "":
		text, err := io.ReadAll(io.LimitReader(body, licence.MaxSize))
		if err == nil {
			l.text(e.Name, text)
		}
		return err
	case isDatabase(e.Name):
		return x.keep(&item{name: e.Name}, body)
	}
	return l.program(x, e.Name, body)
}

// oddities records an entry that leaves the root, or that replaces another one
// factsOf the same layer: most readers agree with what was found, but not all.
func (l *layerFacts) oddities(x *examiner, e unpack.Entry) {
	why := ""
	switch {
	case e.Leaves:
		why = "the name leaves the root of the layer"
	case e.Kind != unpack.Directory && l.holds(e.Name):
		why = "the layer holds two entries of this name, and the last one was taken"
	case e.Kind != unpack.Directory && l.isAbove(e.Name):
		why = "the layer has entries below this name, which is not a directory"
	case l.isBelowLeaf(e.Name):
		why = "the name is below something that is not a directory"
		l.doubts(e.Name)
	default:
		return
	}
	if l.odd++; l.odd <= maxOddities {
		x.missed(e.Name, errors.New(why))
	}
}

// isBelowLeaf reports whether a parent of a name is not a directory.
func (l *layerFacts) isBelowLeaf(name string) (below bool) {
	above(name, func(dir string) bool {
		below = l.leaves.has(l, dir)
		return !below
	})
	return below
}

// note records the name of an entry, replacing an earlier one.
func (l *layerFacts) note(e unpack.Entry) {
	l.addParents(e.Name)
	key := l.hash(e.Name)
	l.names[key] = struct{}{}
	delete(l.links, e.Name)
	if e.Kind == unpack.Directory {
		delete(l.leaves, key)
	} else {
		l.leaves[key] = struct{}{}
	}
	above(e.Name, func(dir string) bool {
		parent := l.hash(dir)
		_, known := l.parents[parent]
		l.parents[parent] = struct{}{}
		return !known // the directories above it exist, too
	})
}

// hardLinked adds a hard link: the file under another name. The bytes of a link
// to a file outside of the layer are not examined.
func (l *layerFacts) hardLinked(x *examiner, e unpack.Entry) {
	p, program := l.programs[e.Target]
	switch {
	case isDatabase(e.Name):
		x.missed(e.Name, errors.New("a hard link, which is not followed"))
	case program:
		p.file.Name = "./" + e.Name
		l.programs[e.Name] = p
	case !l.holds(e.Target):
		x.missed(e.Name, errors.New("a hard link to a file of another layer, which is not followed"))
	}
}

// program records a file if it is a Go program.
func (l *layerFacts) program(x *examiner, name string, body io.Reader) error {
	head := make([]byte, unpack.HeadSize)
	n, err := full(body, head)
	switch {
	case err != nil && err != io.EOF:
		return err
	case isArchive(name, head[:n]) && ecosystem(name) == "":
		x.missed(name, errors.New("an archive in the layer of an image, which is not opened"))
		return nil
	case !isProgram(head[:n]):
		return nil
	}
	at, size, err := x.spool.fill(io.MultiReader(strings.NewReader(string(head[:n])), body))
	if err != nil {
		return err
	}
	bin, is := x.goProgram(name, at)
	if !is {
		return nil
	}
	p := program{bin: bin, file: spdx.File{Name: "./" + name}, sums: &sums{}}
	l.programs[name] = p
	x.spool.readers.Go(func() { p.sums.compute(io.NewSectionReader(at, 0, size)) })
	x.spool, x.other = x.other, x.spool
	return nil
}
