package sign

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// File is a file that may be signed as it is.
type File struct {
	Name    string
	Digests digest.Set
	Size    int64
}

// enveloped is how the bytes begin that the signature of a DSSE envelope is
// made over. A signature of a file of such bytes would hold for that envelope
// too, and say whatever its author likes.
const enveloped = "DSSEv1 "

// Files reads what is to be signed, by names below a directory, before anybody
// is asked for anything. It names everything that is wrong: no names at all, a
// name twice, names that lead elsewhere or that others would read differently,
// what is missing, is no regular file, or changes while it is read. What was
// hashed is what was opened.
func Files(dir string, names []string) ([]File, error) {
	if len(names) == 0 {
		return nil, verdict.Refuse(verdict.NoArtifact, dir, "there is nothing to sign")
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, dir, err)
	}
	defer root.Close()
	seen := map[string]bool{}
	var files []File
	var all []error
	for _, name := range names {
		f, err := readFile(root, name, seen)
		if err != nil {
			all = append(all, err)
		}
		files = append(files, f)
	}
	if len(all) > 0 {
		return nil, errors.Join(all...)
	}
	return files, nil
}

func readFile(root *os.Root, name string, seen map[string]bool) (File, error) {
	if err := store.CheckName(name); err != nil {
		return File{}, err
	}
	if seen[name] {
		return File{}, verdict.Refuse(verdict.Usage, name, "the name is given twice")
	}
	seen[name] = true
	info, err := plain(root, name)
	if err != nil {
		return File{}, err
	}
	f, err := root.Open(name)
	if err != nil {
		return File{}, verdict.Wrap(verdict.PlaceDown, name, err)
	}
	defer f.Close()
	return sumOpen(f, name, info, digest.Sum)
}

// plain demands a regular file, in directories that are none but directories.
func plain(root *os.Root, name string) (info fs.FileInfo, err error) {
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' {
			continue
		}
		info, err = root.Lstat(name[:i])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, verdict.Refuse(verdict.Missing, name, "there is no such file")
		case err != nil:
			return nil, verdict.Wrap(verdict.PlaceDown, name, err)
		case i < len(name) && !info.IsDir(), i == len(name) && !info.Mode().IsRegular():
			return nil, verdict.Refuse(verdict.FileType, name, "%q is %s: only regular files are signed, and no links are followed", name[:i], kindOf(info.Mode()))
		}
	}
	return info, nil
}

func kindOf(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m.IsRegular():
		return "a file"
	}
	return "a device, pipe or socket"
}

// sumOpen hashes an open file, which must be the one that was looked at, and
// be the same before and after.
func sumOpen(f *os.File, name string, looked fs.FileInfo, sum func(io.Reader) (digest.Set, int64, error)) (File, error) {
	before, err := f.Stat()
	if err != nil {
		return File{}, verdict.Wrap(verdict.PlaceDown, name, err)
	}
	if !os.SameFile(looked, before) {
		return File{}, changed(name)
	}
	buffered := bufio.NewReaderSize(f, 256<<10)
	if head, _ := buffered.Peek(len(enveloped)); string(head) == enveloped {
		return File{}, verdict.Refuse(verdict.MaterialKind, name, "its bytes are an attestation's, as they are signed; signing the file would sign the attestation")
	}
	set, size, err := sum(buffered)
	if err != nil {
		return File{}, verdict.Wrap(verdict.PlaceDown, name, err)
	}
	after, err := f.Stat()
	if err != nil {
		return File{}, verdict.Wrap(verdict.PlaceDown, name, err)
	}
	if size != before.Size() || size != after.Size() || !before.ModTime().Equal(after.ModTime()) {
		return File{}, changed(name)
	}
	return File{Name: name, Digests: set, Size: size}, nil
}

func changed(name string) error {
	return verdict.Refuse(verdict.FileChanged, name, "it changed while it was read")
}
