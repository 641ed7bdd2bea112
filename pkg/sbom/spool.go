package sbom

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

const (
	// maxHeld is how much of one file is kept in memory; the rest goes to disk.
	// Few programs are larger, and the part on disk is read once more.
	maxHeld = 32 << 20
	// pieceSize is the unit of allocation.
	pieceSize = 1 << 20
)

// spool gives random access to a stream. The rest of a large stream goes to a
// temporary file, which is unlinked before it is read. A spool holds one stream
// at a time, and reuses its memory for the next.
type spool struct {
	pieces [][]byte
	held   int64 // bytes of the stream in memory
	disk   *os.File
	// readers read the stream in the background; the next stream waits for them.
	readers sync.WaitGroup
	// spare says that another spool is in use for the same reader.
	spare bool
}

// fill reads all of r. The result is valid until the next fill.
func (s *spool) fill(r io.Reader) (io.ReaderAt, int64, error) {
	s.readers.Wait()
	most := maxHeld / pieceSize
	if s.spare {
		most /= 4
	}
	s.held = 0
	for i := range most {
		if i == len(s.pieces) {
			s.pieces = append(s.pieces, make([]byte, pieceSize))
		}
		n, err := full(r, s.pieces[i])
		s.held += int64(n)
		if err == io.EOF {
			return s, s.held, nil
		}
		if err != nil {
			return nil, 0, err
		}
	}
	if err := s.open(); err != nil {
		return nil, 0, err
	}
	more, err := io.CopyBuffer(struct{ io.Writer }{s.disk}, struct{ io.Reader }{r}, make([]byte, 256<<10))
	if err != nil {
		return nil, 0, err
	}
	return &spooled{s, more}, s.held + more, nil
}

// full fills p. Unlike [io.ReadFull] it does not report a broken stream as a
// complete one.
func full(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	if n == len(p) {
		return n, nil
	}
	return n, err
}

// ReadAt implements [io.ReaderAt] for the part in memory.
func (s *spool) ReadAt(p []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, fs.ErrInvalid
	}
	for n < len(p) && off < s.held {
		m := copy(p[n:], s.pieces[off/pieceSize][off%pieceSize:min(pieceSize, s.held-off/pieceSize*pieceSize)])
		n, off = n+m, off+int64(m)
	}
	if n < len(p) {
		err = io.EOF
	}
	return n, err
}

// spooled is a stream with a part on disk.
type spooled struct {
	*spool
	onDisk int64
}

// ReadAt implements [io.ReaderAt].
func (s *spooled) ReadAt(p []byte, off int64) (n int, err error) {
	if off < s.held {
		if n, err = s.spool.ReadAt(p, off); n == len(p) || err != io.EOF {
			return n, err
		}
	}
	m, err := io.NewSectionReader(s.disk, 0, s.onDisk).ReadAt(p[n:], off+int64(n)-s.held)
	return n + m, err
}

// open creates the temporary file, or empties it if it exists.
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
		return fmt.Errorf("creating a temporary file for a large file: %w", err)
	}
	s.disk = f
	// On systems that cannot unlink an open file, close removes it.
	_ = os.Remove(f.Name())
	return nil
}

// close frees the space.
func (s *spool) close() {
	s.readers.Wait()
	if s.disk == nil {
		return
	}
	name := s.disk.Name()
	_ = s.disk.Close()  // it is not read again
	_ = os.Remove(name) // it may be removed already
	s.disk = nil
}

// Readable returns content with random access. A file is read in place; another
// stream is stored until done is called: in memory if it is small, else in a
// temporary file.
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
