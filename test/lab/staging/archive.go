package staging

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
)

// Archive is an archive with files in it, in the format that its name says:
// zip, or tar compressed by gzip.
func Archive(name string, files Files) []byte {
	var out bytes.Buffer
	write := writeTar
	if strings.HasSuffix(name, ".zip") {
		write = writeZip
	}
	if err := write(&out, files); err != nil {
		panic("staging: " + err.Error()) // a buffer refuses nothing
	}
	return out.Bytes()
}

func writeTar(w io.Writer, files Files) error {
	packed := gzip.NewWriter(w)
	out := tar.NewWriter(packed)
	for _, name := range files.Names() {
		if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(files[name]))}); err != nil {
			return err
		}
		if _, err := out.Write(files[name]); err != nil {
			return err
		}
	}
	if err := out.Close(); err != nil {
		return err
	}
	return packed.Close()
}

func writeZip(w io.Writer, files Files) error {
	out := zip.NewWriter(w)
	for _, name := range files.Names() {
		f, err := out.Create(name)
		if err != nil {
			return err
		}
		if _, err := f.Write(files[name]); err != nil {
			return err
		}
	}
	return out.Close()
}
