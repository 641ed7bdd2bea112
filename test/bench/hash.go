package bench

import (
	"cmp"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
)

// bareBuffer is the unit of reading, the best that was found.
const bareBuffer = 256 << 10

type bareFile struct {
	path string
	size int64
}

// HashTree hashes every file below a directory and does nothing else: as many
// workers as processors, one buffer each, the biggest file first. It is the
// limit that a verifier is measured against. It returns the bytes it hashed.
func HashTree(dir string, sha512Too bool) (int64, error) {
	files, err := filesBelow(dir)
	if err != nil {
		return 0, err
	}
	slices.SortFunc(files, func(a, b bareFile) int { return cmp.Compare(b.size, a.size) })
	queue := make(chan bareFile, len(files))
	var total int64
	for _, f := range files {
		total += f.size
		queue <- f
	}
	close(queue)
	var group sync.WaitGroup
	errs := make([]error, runtime.GOMAXPROCS(0))
	for i := range errs {
		group.Go(func() { errs[i] = hashQueue(queue, sha512Too) })
	}
	group.Wait()
	return total, errors.Join(errs...)
}

func filesBelow(dir string) ([]bareFile, error) {
	var files []bareFile
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		files = append(files, bareFile{path: path, size: info.Size()})
		return nil
	})
	return files, err
}

func hashQueue(queue <-chan bareFile, sha512Too bool) error {
	hashes := []hash.Hash{sha256.New()}
	if sha512Too {
		hashes = append(hashes, sha512.New())
	}
	buf, sums := make([]byte, bareBuffer), make([]byte, 0, sha512.Size)
	for f := range queue {
		if err := hashFile(f.path, hashes, buf); err != nil {
			return err
		}
		for _, h := range hashes {
			h.Sum(sums)
			h.Reset()
		}
	}
	return nil
}

func hashFile(path string, hashes []hash.Hash, buf []byte) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		n, err := f.Read(buf)
		for _, h := range hashes {
			h.Write(buf[:n])
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("hashing %q: %w", path, err)
		}
	}
}
