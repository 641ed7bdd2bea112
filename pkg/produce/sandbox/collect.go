package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// OutputLimits limit the outputs of a step; zero means the default.
type OutputLimits struct {
	File  int64 // bytes of one file; default 64 GiB
	Total int64 // bytes of all; default 1 TiB
	Count int   // files and directories; default 200 000
	// Names are the permitted files. Anything else is refused, including a
	// directory that contains none of them; nil permits any name.
	Names []string
}

// Output is a hashed regular file of a step.
type Output struct {
	Name    string // relative, with slashes
	Digests digest.Set
	Size    int64
}

// largestHole is how much longer than its blocks a file may be. Linkers leave
// holes of some pages, never of megabytes.
const largestHole = 64 << 20

// Collect checks everything in the output directory of a step, and hashes the
// files. It refuses everything that is not a regular file with one name, or
// that changes while it is read, because a released file must have the bytes
// that were hashed. No link is followed, and nothing is opened that could
// block.
func Collect(ctx context.Context, dir string, limits OutputLimits) ([]Output, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil, verdict.Refuse(verdict.FileType, "outputs", "the step made the output directory unreadable")
	}
	if err != nil {
		return nil, fmt.Errorf("reading outputs: %w", err)
	}
	defer root.Close()
	c := collector{root: root, limits: limits.filled(), declared: limits.declared()}
	if err := c.walk(ctx, root, ""); err != nil {
		var refused interface{ Code() string }
		if errors.As(err, &refused) {
			return nil, err
		}
		return nil, fmt.Errorf("reading outputs: %w", err)
	}
	slices.SortFunc(c.found, func(a, b Output) int { return strings.Compare(a.Name, b.Name) })
	return c.found, nil
}

// declared are the permitted names and their parent directories; nil if any
// name is permitted.
func (l OutputLimits) declared() map[string]bool {
	if l.Names == nil {
		return nil
	}
	all := map[string]bool{}
	for _, name := range l.Names {
		for ; name != "." && !all[name]; name = path.Dir(name) {
			all[name] = true
		}
	}
	return all
}

func (l OutputLimits) filled() OutputLimits {
	l.File = cmp.Or(l.File, 64<<30)
	l.Total = cmp.Or(l.Total, 1<<40)
	l.Count = cmp.Or(l.Count, 200_000)
	return l
}

type collector struct {
	root     *os.Root
	limits   OutputLimits
	declared map[string]bool
	found    []Output
	count    int
	total    int64
}

// maxDepth limits the depth of output directories. No name of a release needs
// more.
const maxDepth = 64

// walk visits one directory, in parts: a step may leave any number of names,
// and directories of any depth.
func (c *collector) walk(ctx context.Context, dir *os.Root, above string) error {
	if strings.Count(above, "/") >= maxDepth {
		return verdict.Refuse(verdict.OutputSize, "outputs", "the step left directories more than %d deep", maxDepth)
	}
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(1024)
		for _, e := range entries {
			if err := cmp.Or(ctx.Err(), c.visit(ctx, dir, above, e)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *collector) visit(ctx context.Context, dir *os.Root, above string, e fs.DirEntry) error {
	name := above + e.Name()
	if c.count++; c.count > c.limits.Count {
		return verdict.Refuse(verdict.OutputSize, "outputs", "the step left more than %d files and directories", c.limits.Count)
	}
	if why := oddName(e.Name()); why != "" {
		return verdict.Refuse(verdict.Path, harmless(name), "the step wrote a name that %s", why)
	}
	if c.declared != nil && !c.declared[name] {
		return verdict.Refuse("OUTPUT_EXTRA", name, "the step did not declare this output")
	}
	if e.IsDir() {
		below, err := dir.OpenRoot(e.Name())
		if errors.Is(err, fs.ErrPermission) {
			return verdict.Refuse(verdict.FileType, name, "the step made this output unreadable")
		}
		if err != nil {
			return err
		}
		defer below.Close()
		return c.walk(ctx, below, name+"/")
	}
	if !e.Type().IsRegular() {
		return verdict.Refuse(verdict.FileType, name, "an output must be a regular file, this is %s", kindOf(e.Type()))
	}
	o, err := c.hash(name)
	if err != nil {
		return err
	}
	c.found = append(c.found, o)
	return nil
}

// oddName refuses names that mean something else on other systems, or mislead
// readers.
func oddName(name string) string {
	switch {
	case !utf8.ValidString(name):
		return "is not UTF-8"
	case strings.ContainsAny(name, `\:`):
		return "has a separator of another system"
	case harmless(name) != name || strings.ContainsAny(name, "\n\t"):
		return "has a character that cannot be seen"
	case strings.HasPrefix(name, "-"):
		return "looks like a flag"
	case strings.HasSuffix(name, ".") || strings.HasSuffix(name, " ") || strings.HasPrefix(name, " "):
		return "has a dot at the end or a space at either end"
	}
	return ""
}

// kindOf names the kind of a file that is not regular.
func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSymlink != 0:
		return "a symbolic link"
	case mode&fs.ModeNamedPipe != 0:
		return "a pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a device"
}

// hash reads a file once, and compares its status before and after.
func (c *collector) hash(name string) (Output, error) {
	f, err := c.root.OpenFile(name, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrPermission) {
		return Output{}, verdict.Refuse(verdict.FileType, name, "the step made this output unreadable")
	}
	if err != nil {
		return Output{}, fmt.Errorf("opening %q: %w", name, err)
	}
	defer f.Close()
	before, err := fileStatus(f)
	if err != nil {
		return Output{}, fmt.Errorf("examining %q: %w", name, err)
	}
	if err := c.admit(name, before); err != nil {
		return Output{}, err
	}
	set, size, err := digest.Sum(io.LimitReader(f, before.size+1))
	if err != nil {
		return Output{}, fmt.Errorf("hashing %q: %w", name, err)
	}
	after, err := fileStatus(f)
	if err != nil {
		return Output{}, fmt.Errorf("examining %q: %w", name, err)
	}
	if size != before.size || after != before {
		return Output{}, verdict.Refuse("OUTPUT_CHANGED", name, "the file changed while it was read: a process of the step is still running, or another process writes here")
	}
	return Output{Name: name, Digests: set, Size: size}, nil
}

func (c *collector) admit(name string, seen fileState) error {
	switch {
	case !seen.regular:
		return verdict.Refuse(verdict.FileType, name, "an output must be a regular file, but the step replaced it")
	case seen.links > 1:
		return verdict.Refuse(verdict.FileType, name, "an output must have one name, but this has %d hard links", seen.links)
	case seen.size > c.limits.File:
		return verdict.Refuse(verdict.OutputSize, name, "the file has %d bytes, the limit is %d", seen.size, c.limits.File)
	case seen.blocks >= 0 && seen.size-seen.blocks > largestHole && seen.blocks < seen.size/2:
		return verdict.Refuse(verdict.OutputSize, name, "the file is sparse: %d bytes long, with %d on the disk", seen.size, seen.blocks)
	}
	if c.total += seen.size; c.total > c.limits.Total {
		return verdict.Refuse(verdict.OutputSize, name, "with this file the outputs exceed %d bytes", c.limits.Total)
	}
	return nil
}

// fileState is the status of a file that is compared before and after reading.
type fileState struct {
	regular bool
	size    int64
	links   uint64
	blocks  int64 // bytes on the disk; -1 if unknown
	times   [2]int64
	mode    fs.FileMode
}
