// Package journal records completed steps, so that a resumed run can skip them.
//
// A journal is a file of JSON lines. The first names the format; each further
// line is one [Entry], on disk before [Journal.Append] returns. Nothing is ever
// changed or removed. A last line that a crash left incomplete is cut off when
// the journal is opened; damage anywhere else is an error.
//
//	j, err := journal.Open("state/journal.jsonl")
//	…
//	defer j.Close()
//	err = j.Append(ctx, journal.Entry{Time: now, Act: "promote", Subject: name})
//
// A journal is only a hint: a resumed run must check the steps it lists against
// the actual place. It is not signed and proves nothing. One process writes at
// a time, enforced by an advisory lock on systems that have one.
//
// Other projects should not import this package: it changes without notice.
package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/filelock"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// formatVersion is the version written here, and the newest that can be read.
const formatVersion = 1

// maxLine is the longest line; an entry is a note, not a document.
const maxLine = 1 << 20

// Entry is one completed step.
type Entry struct {
	// Time when it was done, as the writer reports it.
	Time time.Time `json:"time"`
	// Act is the verb: "build", "sign", "promote".
	Act string `json:"act"`
	// Subject is what it was done to.
	Subject string `json:"subject,omitempty"`
	// Detail helps to resume the act; its form belongs to the act.
	Detail json.RawMessage `json:"detail,omitempty"`
}

// header is the first line.
type header struct {
	Journal string `json:"journal"`
	Version int    `json:"version"`
}

// damaged reports an invalid line before the last.
func (j *Journal) damaged(line int, err error) error {
	return verdict.Coded(verdict.ConfigParse, "reading journal %q: line %d: %w", j.path, line, err)
}

// BusyError reports a journal that another process has open.
type BusyError struct{ Path string }

// Error names the directory in use.
func (e *BusyError) Error() string {
	return fmt.Sprintf("%s: in use by another run", filepath.Dir(e.Path))
}

// Code is the reason code: the journal is free again when the other run ends.
func (e *BusyError) Code() string { return string(verdict.Busy) }

// Journal is an open journal. It is safe for concurrent use.
type Journal struct {
	path string

	disk sync.Mutex // held while writing to disk; locked before mu

	mu      sync.Mutex // guards the fields below
	file    *os.File
	entries []Entry // as they are in the file
	durable int     // how many of them are certainly on disk
	broken  error   // why no more may be appended
}

// Open opens the journal at path, or creates it. A journal that cannot be
// parsed is an error, so nothing recorded is ever lost.
func Open(path string) (*Journal, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, &verdict.UnavailableError{Place: path, Op: "opening journal", Err: err}
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, &verdict.UnavailableError{Place: path, Op: "opening journal", Err: err}
	}
	j := &Journal{path: path, file: f}
	if err := j.load(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return j, nil
}

// Read returns the entries of the journal at path without opening it: nothing
// is created, repaired or locked, and an incomplete last line is left out.
// Without a journal there are no entries.
func Read(path string) ([]Entry, error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, &verdict.UnavailableError{Place: path, Op: "reading journal", Err: err}
	}
	j := &Journal{path: path}
	err = j.parse(raw[:bytes.LastIndexByte(raw, '\n')+1])
	return j.entries, err
}

// Busy reports whether a process has the journal at path open.
func Busy(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close() // closing also unlocks
	free, err := filelock.Try(f)
	return err == nil && !free
}

// load locks the file, reads it, cuts off an incomplete last line, and writes
// the header of an empty one.
func (j *Journal) load() error {
	if free, err := filelock.Try(j.file); err != nil {
		return j.unavailable("locking journal", err)
	} else if !free {
		return &BusyError{Path: j.path}
	}
	var all bytes.Buffer
	if info, err := j.file.Stat(); err == nil {
		all.Grow(int(info.Size()) + bytes.MinRead)
	}
	if _, err := all.ReadFrom(j.file); err != nil {
		return j.unavailable("reading journal", err)
	}
	raw := all.Bytes()
	whole := bytes.LastIndexByte(raw, '\n') + 1
	if err := j.parse(raw[:whole]); err != nil {
		return err
	}
	if whole < len(raw) {
		if err := j.file.Truncate(int64(whole)); err != nil {
			return j.unavailable("repairing journal", err)
		}
	}
	if _, err := j.file.Seek(int64(whole), io.SeekStart); err != nil {
		return j.unavailable("opening journal", err)
	}
	if whole > 0 {
		return nil
	}
	if err := j.write(header{Journal: "waybill", Version: formatVersion}); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return j.unavailable("opening journal", err)
	}
	if err := syncDir(filepath.Dir(j.path)); err != nil {
		return j.unavailable("opening journal", err)
	}
	return nil
}

func (j *Journal) unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: j.path, Op: op, Err: err}
}

// parse reads complete lines.
func (j *Journal) parse(raw []byte) error {
	number := 0
	for line := range bytes.Lines(raw) {
		number++
		if number == 1 {
			if err := j.parseHeader(line); err != nil {
				return err
			}
			continue
		}
		var e Entry
		if err := strictjson.Unmarshal(line, &e); err != nil {
			return j.damaged(number, err)
		}
		if e.Act == "" {
			return j.damaged(number, errors.New("an entry without an act"))
		}
		j.entries = append(j.entries, e)
	}
	j.durable = len(j.entries)
	return nil
}

// parseHeader checks the version first: a newer header may have more fields.
func (j *Journal) parseHeader(line []byte) error {
	var h header
	if err := strictjson.UnmarshalOpen(line, &h); err != nil || h.Journal != "waybill" || h.Version < 1 {
		return j.damaged(1, errors.Join(errors.New("not a journal"), err))
	}
	if h.Version > formatVersion {
		return verdict.Coded(verdict.ConfigParse, "opening journal %q: it has version %d, this program knows version %d", j.path, h.Version, formatVersion)
	}
	return nil
}

// Append records e durably; concurrent calls share one sync of the disk. After
// an error the journal accepts no more entries: which entries are on disk is
// known only after it is opened again.
func (j *Journal) Append(ctx context.Context, e Entry) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("appending to journal: %w", err)
	}
	if e.Act == "" {
		return errors.New("appending to journal: an entry without an act")
	}
	e.Time = e.Time.UTC().Round(0)
	e.Detail = slices.Clone(e.Detail)
	number, err := j.add(e)
	if err != nil {
		return err
	}
	return j.sync(number)
}

// add writes an entry and returns its number, counted from 1.
func (j *Journal) add(e Entry) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.broken != nil {
		return 0, j.broken
	}
	if err := j.write(e); err != nil {
		return 0, err
	}
	j.entries = append(j.entries, e)
	return len(j.entries), nil
}

// sync waits until an entry, and all before it, are on disk.
func (j *Journal) sync(number int) error {
	j.disk.Lock()
	defer j.disk.Unlock()
	j.mu.Lock()
	written, durable, broken := len(j.entries), j.durable, j.broken
	j.mu.Unlock()
	switch {
	case durable >= number:
		return nil
	case broken != nil:
		return broken
	}
	err := j.file.Sync()
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil {
		j.broken = j.unavailable("appending to journal", err)
		return j.broken
	}
	j.durable = written
	return nil
}

// write writes one line in one piece.
func (j *Journal) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("appending to journal: %w", err)
	}
	if len(line) >= maxLine {
		return fmt.Errorf("appending to journal: an entry of %d bytes exceeds the limit", len(line))
	}
	if err := strictjson.Check(line); err != nil { // the line must be readable again
		return fmt.Errorf("appending to journal: %w", err)
	}
	if _, err = j.file.Write(append(line, '\n')); err != nil {
		j.broken = j.unavailable("appending to journal", err)
	}
	return j.broken
}

// Entries returns all entries that are on disk, oldest first.
func (j *Journal) Entries() []Entry {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.entries[:j.durable])
}

// Close closes the file. Everything is on disk already.
func (j *Journal) Close() error {
	j.disk.Lock()
	defer j.disk.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = errors.New("appending to journal: already closed")
	return j.file.Close()
}
