package unpack

import (
	"archive/tar"
	"bufio"
	"io"
	"path"
	"strings"
)

// Layer walks one layer of an image. Layers are unpacked into a root of their
// own, by whoever runs the image: links may lead anywhere, devices may be
// there, and of two entries of one name the last one counts. Names are those
// below the root, whatever their spelling.
//
// also sees the layer as it is uncompressed.
func Layer(r io.Reader, also io.Writer, visit Visit) error {
	w := &Walker{limit: maxLayerEntries}
	packed := &counting{r: r}
	w.outermost(packed)
	begun := bufio.NewReaderSize(packed, 64<<10)
	head, err := begun.Peek(HeadSize)
	if err != nil && err != io.EOF {
		return err
	}
	format := Sniff(head)
	if format == None || format == Zip {
		format = Tar // an empty one has no magic
	}
	plain, err := Expand(begun, format)
	if err != nil {
		return err
	}
	defer plain.Close()
	out := io.TeeReader(&measured{r: plain, in: packed, w: w, ratio: format != Tar}, also)
	if err := w.layer(tar.NewReader(out), visit); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, begun)
	return err
}

func (w *Walker) layer(t *tar.Reader, visit Visit) error {
	for {
		h, err := t.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if err := w.entry(); err != nil {
			return err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		if h.Typeflag == tar.TypeXGlobalHeader || name == "" || len(name) > maxName {
			continue
		}
		e, body := Entry{Name: name, Size: h.Size, Leaves: leaves(h.Name)}, io.Reader(strings.NewReader(""))
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeGNUSparse:
			e.Kind = File
			body = &measured{r: t, in: &counting{n: maxExpansion / maxRatio}, w: w, ratio: true}
		case tar.TypeDir:
			e.Kind = Directory
		case tar.TypeLink:
			e.Kind, e.Target = HardLink, strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")
			e.Leaves = e.Leaves || leaves(h.Linkname)
		case tar.TypeSymlink:
			e.Kind, e.Target = SymLink, h.Linkname
		}
		if err := visit(e, body); err != nil {
			return err
		}
	}
}

// leaves reports whether a name leads out of the root: from there, not from
// the directory that it is in.
func leaves(name string) bool {
	clean := path.Clean(strings.TrimLeft(name, "/"))
	return clean == ".." || strings.HasPrefix(clean, "../")
}
