package git

import (
	"bufio"
	"bytes"
	"context" //nolint:gosec // the ids of git are what they are
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxMeta is the largest commit or tree object that is read.
const maxMeta = 64 << 20

// objects reads verified objects from one repository, through one git process.
type objects struct {
	repo string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	// requested ids that were not opened yet, in this order
	asked []string
}

// objects starts the process; the caller closes it.
func (r *Repository) objects(ctx context.Context) (*objects, error) {
	cmd := r.git.command(ctx, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, r.unavailable("reading objects", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, r.unavailable("reading objects", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, r.unavailable("reading objects", err)
	}
	return &objects{repo: r.uri, cmd: cmd, in: in, out: bufio.NewReaderSize(out, 256<<10)}, nil
}

// Close ends the process.
func (o *objects) Close() error {
	_ = o.in.Close()
	_, _ = io.Copy(io.Discard, o.out)
	return o.cmd.Wait()
}

func (o *objects) unavailable(id string, err error) error {
	return &verdict.UnavailableError{Place: o.repo, Op: "reading object " + id, Err: err}
}

// maxAsked bounds the requests sent ahead: few enough that all fit into a pipe,
// so that neither side blocks on the other.
const maxAsked = 100

// ask requests objects that are opened next, in this order, so that git reads
// one while we write another.
func (o *objects) ask(list []entry) error {
	var s strings.Builder
	for _, e := range list {
		s.WriteString(e.id + "\n")
		o.asked = append(o.asked, e.id)
	}
	if _, err := io.WriteString(o.in, s.String()); err != nil {
		return o.unavailable(list[0].id, err)
	}
	return nil
}

// open requests one object, if ask did not. All of its bytes must be read
// before the next.
func (o *objects) open(id, kind string) (*object, error) {
	if len(o.asked) == 0 {
		if err := o.ask([]entry{{id: id}}); err != nil {
			return nil, err
		}
	}
	if o.asked[0] != id {
		return nil, fmt.Errorf("reading object %s at %q: expected %s next", id, o.repo, o.asked[0])
	}
	o.asked = o.asked[1:]
	header, err := o.out.ReadString('\n')
	if err != nil {
		return nil, o.unavailable(id, err)
	}
	fields := strings.Fields(header)
	if len(fields) == 2 && fields[1] == "missing" {
		return nil, fmt.Errorf("reading object %s at %q: %w", id, o.repo, ErrNotFound)
	}
	if len(fields) != 3 || fields[0] != id {
		return nil, o.unavailable(id, fmt.Errorf("git answered %.200q", header))
	}
	size, err := strconv.ParseInt(fields[2], 10, 64)
	if err != nil || size < 0 {
		return nil, o.unavailable(id, fmt.Errorf("git answered %.200q", header))
	}
	if fields[1] != kind {
		// The process is not used after an error, so the rest may remain
		// unread.
		return nil, tampered(o.repo, id, "a "+fields[1]+" where a "+kind+" belongs")
	}
	return newObject(o, id, kind, size), nil
}

// object is the content of one object, hashed as it is read. The last byte is
// delivered only if the id is right.
type object struct {
	from *objects
	id   string
	size int64
	left int64
	sum  hash.Hash
	err  error
}

func newObject(from *objects, id, kind string, size int64) *object {
	obj := &object{from: from, id: id, size: size, left: size, sum: hashOf(id, kind, size)}
	if size == 0 {
		obj.err = obj.finish()
	}
	return obj
}

// Read implements [io.Reader].
func (obj *object) Read(p []byte) (int, error) {
	if obj.err != nil {
		return 0, obj.err
	}
	n, err := obj.from.out.Read(p[:min(int64(len(p)), obj.left)])
	obj.sum.Write(p[:n])
	obj.left -= int64(n)
	if obj.left == 0 {
		if obj.err = obj.finish(); obj.err != io.EOF {
			return 0, obj.err
		}
		return n, nil
	}
	if err != nil {
		obj.err = obj.from.unavailable(obj.id, err)
	}
	return n, obj.err
}

// finish returns io.EOF if the object hashes to the id asked for.
func (obj *object) finish() error {
	if c, err := obj.from.out.ReadByte(); err != nil || c != '\n' {
		return obj.from.unavailable(obj.id, errors.New("git's answer does not end where it should"))
	}
	if got := hex.EncodeToString(obj.sum.Sum(nil)); got != obj.id {
		return tampered(obj.from.repo, obj.id, got)
	}
	return io.EOF
}

// meta reads a whole commit or tree.
func (o *objects) meta(id, kind string, limit int64) ([]byte, error) {
	obj, err := o.open(id, kind)
	if err != nil {
		return nil, err
	}
	if obj.size > limit {
		return nil, verdict.Refuse(verdict.Limit, o.repo, "the %s %s has %d bytes, more than %d", kind, id, obj.size, limit)
	}
	return io.ReadAll(obj)
}

func (r *Repository) commit(ctx context.Context, id, ref string) (Commit, error) {
	if err := r.ensureCommit(ctx, id); err != nil {
		return Commit{}, err
	}
	o, err := r.objects(ctx)
	if err != nil {
		return Commit{}, err
	}
	defer func() { _ = o.Close() }()
	return o.commit(id, ref)
}

func (o *objects) commit(id, ref string) (Commit, error) {
	c, _, err := o.parseCommit(id)
	if err != nil {
		return Commit{}, err
	}
	c.Ref = ref
	return c, nil
}

// parseCommit reads the tree, the time and the parents of a commit. The first
// line is the tree, then come the parents, as git reads it. A commit that
// repeats one of these elsewhere could be read in two ways.
func (o *objects) parseCommit(id string) (c Commit, parents []string, err error) {
	raw, err := o.meta(id, "commit", maxMeta)
	if err != nil {
		return Commit{}, nil, err
	}
	c = Commit{Repository: o.repo, Commit: id}
	broken := tampered(o.repo, id, "a commit with a missing, repeated or misplaced tree, parent or time")
	header, _, _ := bytes.Cut(raw, []byte("\n\n"))
	for i, line := range bytes.Split(header, []byte("\n")) {
		key, value, _ := strings.Cut(string(line), " ")
		misplaced := false
		switch key {
		case "tree":
			misplaced, c.Tree = i != 0, value
		case "parent":
			misplaced, parents = i != 1+len(parents) || !isID(value), append(parents, value)
		case "committer":
			misplaced = !c.Time.IsZero()
			c.Time, err = committerTime(value)
		}
		if misplaced || err != nil {
			return Commit{}, nil, broken
		}
	}
	if !isID(c.Tree) || c.Time.IsZero() {
		return Commit{}, nil, broken
	}
	return c, parents, nil
}

// committerTime reads "Name <mail> 1700000000 +0100".
func committerTime(value string) (time.Time, error) {
	fields := strings.Fields(value[strings.LastIndexByte(value, '>')+1:])
	if len(fields) != 2 {
		return time.Time{}, errors.New("no time")
	}
	seconds, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(seconds, 0).UTC(), nil
}
