package sbom

import (
	"bytes"
	"fmt"
	"io"
	"os"
)

// maxHeld is how much of one file is held in memory before it goes to disk.
const maxHeld = 8 << 20

// spool makes a stream readable at any place. What is large lies in a
// temporary file, which has no name any more by the time it is read. One spool
// holds one stream at a time.
type spool struct {
	held bytes.Buffer
	disk *os.File
}

// fill takes all of r. The answer is valid until the next fill.
func (s *spool) fill(r io.Reader) (io.ReaderAt, int64, error) {
	s.held.Reset()
	s.held.Grow(maxHeld)
	n, err := io.Copy(&s.held, io.LimitReader(r, maxHeld))
	if err != nil {
		return nil, 0, err
	}
	if n < maxHeld {
		return bytes.NewReader(s.held.Bytes()), n, nil
	}
	if err := s.open(); err != nil {
		return nil, 0, err
	}
	size, err := io.Copy(s.disk, io.MultiReader(bytes.NewReader(s.held.Bytes()), r))
	if err != nil {
		return nil, 0, err
	}
	return io.NewSectionReader(s.disk, 0, size), size, nil
}

func (s *spool) open() error {
	if s.disk != nil {
		if err := s.disk.Truncate(0); err != nil {
			return err
		}
		_, err := s.disk.Seek(0, io.SeekStart)
		return err
	}
	f, err := os.CreateTemp("", "waybill-spool-*")
	if err != nil {
		return fmt.Errorf("making room for a large file: %w", err)
	}
	s.disk = f
	// On systems that keep the name of an open file, close removes it.
	_ = os.Remove(f.Name())
	return nil
}

// close gives the room back.
func (s *spool) close() {
	if s.disk == nil {
		return
	}
	name := s.disk.Name()
	_ = s.disk.Close()  // nobody reads it again
	_ = os.Remove(name) // it may be gone already
	s.disk = nil
}

// Readable makes content of a stream. A file is read where it is; what comes
// from elsewhere is kept, until done is called: in memory if it is small, else
// in a temporary file.
func Readable(r io.Reader) (c Content, done func(), err error) {
	if f, ok := r.(*os.File); ok {
		info, err := f.Stat()
		if err != nil {
			return Content{}, nil, err
		}
		return Content{ReaderAt: f, Size: info.Size()}, func() {}, nil
	}
	s := &spool{}
	at, size, err := s.fill(r)
	if err != nil {
		s.close()
		return Content{}, nil, err
	}
	return Content{ReaderAt: at, Size: size}, s.close, nil
}
