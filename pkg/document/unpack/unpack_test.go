package unpack_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tarOf packs files by name, in order: name, content, name, content…
func tarOf(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := 0; i < len(pairs); i += 2 {
		must(t, w.WriteHeader(&tar.Header{Name: pairs[i], Typeflag: tar.TypeReg, Size: int64(len(pairs[i+1]))}))
		_, err := io.WriteString(w, pairs[i+1])
		must(t, err)
	}
	must(t, w.Close())
	return buf.Bytes()
}

func gz(t testing.TB, plain []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	_, err := w.Write(plain)
	must(t, err)
	must(t, w.Close())
	return buf.Bytes()
}

func zst(t testing.TB, plain []byte) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	must(t, err)
	return w.EncodeAll(plain, nil)
}

func zipOf(t testing.TB, pairs ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for i := 0; i < len(pairs); i += 2 {
		f, err := w.Create(pairs[i])
		must(t, err)
		_, err = io.WriteString(f, pairs[i+1])
		must(t, err)
	}
	must(t, w.Close())
	return buf.Bytes()
}

// walk lists what an archive holds.
func walk(raw []byte) (map[string]string, error) {
	found := map[string]string{}
	err := unpack.New().Archive(bytes.NewReader(raw), int64(len(raw)), func(e unpack.Entry, body io.Reader) error {
		text, err := io.ReadAll(body)
		found[e.Name] = string(text)
		return err
	})
	return found, err
}

func TestFormats(t *testing.T) {
	plain := tarOf(t, "a/one", "1", "./a/two", "2")
	for name, raw := range map[string][]byte{
		"tar": plain, "tar.gz": gz(t, plain), "tar.zst": zst(t, plain), "zip": zipOf(t, "a/one", "1", "a/two", "2"),
	} {
		found, err := walk(raw)
		if err != nil || len(found) != 2 || found["a/one"] != "1" || found["a/two"] != "2" {
			t.Errorf("%s: %v %v", name, found, err)
		}
	}
	for name, raw := range map[string][]byte{"nothing": nil, "text": []byte("text"), "a compressed text": gz(t, []byte(strings.Repeat("text ", 200)))} {
		if _, err := walk(raw); !errors.Is(err, unpack.ErrFormat) && err == nil {
			t.Errorf("%s is called an archive", name)
		}
	}
}

func refused(t *testing.T, what string, err error, code verdict.Code) {
	t.Helper()
	var e *verdict.Error
	if !errors.As(err, &e) || e.Finding.Code != code {
		t.Errorf("%s: want %s, got %v", what, code, err)
	}
}

// TestLongBombs: what expands beyond measure is refused before it fills anything.
func TestLongBombs(t *testing.T) {
	zeros := strings.Repeat("\x00", 96<<20)
	_, err := walk(gz(t, tarOf(t, "zeros", zeros)))
	refused(t, "a gzip bomb", err, verdict.Limit)
	_, err = walk(zst(t, tarOf(t, "zeros", zeros)))
	refused(t, "a zstd bomb", err, verdict.Limit)
	_, err = walk(zipOf(t, "zeros", zeros))
	refused(t, "a zip bomb", err, verdict.Limit)
	_, err = walk(overlapping(t))
	refused(t, "entries that lie over each other", err, verdict.ArchiveHidden)
	_, err = walk(zipOf(t, "one", zeros[:32<<20], "two", zeros[:32<<20], "three", zeros[:32<<20]))
	refused(t, "a zip of small bombs", err, verdict.Limit)
	for name, raw := range map[string][]byte{
		"tar.gz": gz(t, tarOf(t, "zeros", zeros[:32<<20])), "zip": zipOf(t, "one", zeros[:16<<20], "two", zeros[:16<<20]),
	} {
		if _, err := walk(raw); err != nil {
			t.Errorf("the twin, a small %s: %v", name, err)
		}
	}
}

// overlapping is a zip whose directory names one stretch of bytes many times.
func overlapping(t *testing.T) []byte {
	digits := make([]byte, 0, 1<<13)
	for i := range 1000 {
		digits = strconv.AppendInt(digits, int64(i*i*i*7919), 36)
	}
	raw := zipOf(t, "a", string(digits))
	at := bytes.Index(raw, []byte("PK\x01\x02"))
	end := bytes.Index(raw, []byte("PK\x05\x06"))
	one, tail := raw[at:end], bytes.Clone(raw[end:])
	const n = 20
	out := bytes.Clone(raw[:at])
	for i := range n {
		entry := bytes.Clone(one)
		entry[46] = byte('a' + i%26)
		out = append(out, entry...)
	}
	binary.LittleEndian.PutUint16(tail[8:], n)
	binary.LittleEndian.PutUint16(tail[10:], n)
	binary.LittleEndian.PutUint32(tail[12:], uint32(n*len(one)))
	return append(out, tail...)
}

// endless is a tar of directory entries without end.
type endless struct{ block []byte }

func (e endless) ReadAt(p []byte, at int64) (int, error) {
	for n := 0; n < len(p); {
		n += copy(p[n:], e.block[(at+int64(n))%int64(len(e.block)):])
	}
	return len(p), nil
}

func TestTooManyEntries(t *testing.T) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	must(t, w.WriteHeader(&tar.Header{Name: "d/", Typeflag: tar.TypeDir}))
	err := unpack.New().Archive(endless{buf.Bytes()[:512]}, 1<<40, func(unpack.Entry, io.Reader) error { return nil })
	refused(t, "entries without end", err, verdict.Limit)
}

// TestDepth: archives in archives are walked so deep and no deeper.
func TestDepth(t *testing.T) {
	nest := func(n int) error {
		raw := tarOf(t, "end", "here")
		for range n {
			raw = tarOf(t, "inner.tar", string(raw))
		}
		w := unpack.New()
		var visit unpack.Visit
		visit = func(_ unpack.Entry, body io.Reader) error {
			head := make([]byte, unpack.HeadSize)
			n, _ := io.ReadFull(body, head)
			if format := unpack.Sniff(head[:n]); format != unpack.None {
				return w.Stream(io.MultiReader(bytes.NewReader(head[:n]), body), format, visit)
			}
			return nil
		}
		return w.Archive(bytes.NewReader(raw), int64(len(raw)), visit)
	}
	must(t, nest(unpack.MaxDepth-1))
	refused(t, "one too deep", nest(unpack.MaxDepth), verdict.Limit)
}

func TestNames(t *testing.T) {
	for _, name := range []string{"../evil", "a/../../evil", "/etc/passwd", `..\evil`, `C:\evil`, "a//b", "a\x1b[2J", "a\u202egpj"} {
		_, err := walk(zipOf(t, name, "x"))
		if strings.Contains(name, `\`) {
			refused(t, "zip "+name, err, verdict.ArchiveAmbiguous)
		} else {
			refused(t, "zip "+name, err, verdict.Path)
		}
		_, err = walk(tarOf(t, name, "x"))
		refused(t, "tar "+name, err, verdict.Path)
	}
	_, err := walk(zipOf(t, "a", "1", "a", "2"))
	refused(t, "twice", err, verdict.ArchiveTwice)
	_, err = walk(zipOf(t, "a", "1", "./a", "2"))
	refused(t, "twice in other words", err, verdict.ArchiveTwice)
}

// typed packs entries without content: "name", "directory/" or "link -> target".
func typed(t *testing.T, entries ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e, Typeflag: tar.TypeReg}
		if name, target, link := strings.Cut(e, " -> "); link {
			h.Name, h.Linkname, h.Typeflag = name, target, tar.TypeSymlink
		} else if strings.HasSuffix(e, "/") {
			h.Typeflag = tar.TypeDir
		}
		must(t, w.WriteHeader(h))
	}
	must(t, w.Close())
	return buf.Bytes()
}

// TestTwoThings: a name is a file, a link or a directory, in whichever order
// they come; no reader can unpack one that is two of them.
func TestTwoThings(t *testing.T) {
	for _, entries := range [][]string{
		{"a", "a/b"}, {"a/b", "a"}, {"a/b/c", "a"}, {"a", "a/"}, {"a/", "a"}, {"a", "a/b/"}, {"a/b", "a/b/c/d"},
		{"a -> x", "a/"}, {"a/", "a -> x"}, {"a/b/", "a -> x"},
	} {
		_, err := walk(typed(t, entries...))
		refused(t, strings.Join(entries, ", "), err, verdict.ArchiveTwice)
	}
	_, err := walk(typed(t, "a -> x", "a/b/"))
	refused(t, "a directory below a link", err, verdict.Path)
	for _, entries := range [][]string{{"a/", "a/b", "a/", "./a/c"}, {"a", "ab", "a.b/", "b/a"}, {"./", "a", "./"}, {"a -> x", "x/", "x/b"}} {
		if _, err := walk(typed(t, entries...)); err != nil {
			t.Errorf("the twin %q: %v", entries, err)
		}
	}
	_, err = walk(zipOf(t, "a", "1", "a/b", "2"))
	refused(t, "a zip with a file below a file", err, verdict.ArchiveTwice)
	_, err = walk(zipOf(t, "a/", "", "a", "2"))
	refused(t, "a zip with a directory that is a file", err, verdict.ArchiveTwice)
	_, err = walk(zipOf(t, "a/", "", "a/b", "2"))
	must(t, err)
}

// TestLyingSizes: what an archive declares is compared with what comes.
func TestLyingSizes(t *testing.T) {
	raw := zipOf(t, "a", strings.Repeat("abc", 1000))
	at := bytes.Index(raw, []byte("PK\x01\x02"))
	for _, size := range []uint32{1, 2999, 3001, 1 << 31} {
		lying := bytes.Clone(raw)
		binary.LittleEndian.PutUint32(lying[at+24:], size)
		if _, err := walk(lying); err == nil {
			t.Errorf("a zip that declares %d of 3000 bytes is taken", size)
		}
	}
	cut := tarOf(t, "a", strings.Repeat("abc", 1000))
	if _, err := walk(cut[:1024]); err == nil {
		t.Error("a tar that ends within a file is taken")
	}
	_, err := walk(append(tarOf(t, "a", "1"), tarOf(t, "b", "2")...))
	refused(t, "a second archive behind the first", err, verdict.ArchiveHidden)
}

// TestLayer: layers may do what archives of a release may not.
func TestLayer(t *testing.T) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []tar.Header{
		{Name: "dev/null", Typeflag: tar.TypeChar}, {Name: "bin", Typeflag: tar.TypeSymlink, Linkname: "/usr/bin"},
		{Name: "../../etc/passwd", Typeflag: tar.TypeReg}, {Name: "/etc/passwd", Typeflag: tar.TypeReg},
	} {
		must(t, w.WriteHeader(&h))
	}
	must(t, w.Close())
	var names []string
	var plain bytes.Buffer
	must(t, unpack.Layer(bytes.NewReader(gz(t, buf.Bytes())), &plain, func(e unpack.Entry, _ io.Reader) error {
		names = append(names, e.Name)
		return nil
	}))
	if strings.Join(names, " ") != "dev/null bin etc/passwd etc/passwd" || !bytes.Equal(plain.Bytes(), buf.Bytes()) {
		t.Errorf("%q", names)
	}
	err := unpack.Layer(bytes.NewReader(gz(t, tarOf(t, "zeros", strings.Repeat("\x00", 96<<20)))), io.Discard,
		func(unpack.Entry, io.Reader) error { return nil })
	refused(t, "a layer that is a bomb", err, verdict.Limit)
}

func FuzzArchive(f *testing.F) {
	plain := tarOf(f, "a/one", "1", "b", "2")
	pax := rawarchive.Tar(append(rawarchive.Extended('x', rawarchive.Records("path", "b", "size", "1")), rawarchive.File("b", "1")...))
	for _, raw := range [][]byte{pax, plain, gz(f, plain), zst(f, plain), zipOf(f, "a", "1", "b/c", "2")} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) > 1<<16 {
			t.Skip()
		}
		found, err := walk(raw)
		for name := range found {
			if clean, bad := unpack.CleanName(name); err == nil && (bad != nil || clean != name) {
				t.Errorf("the name %q came out of it", name)
			}
		}
		asPlace, bad := place(raw)
		if bad == nil && (err != nil || !maps.Equal(found, asPlace)) {
			t.Errorf("read in one way as a place, and in another as an archive: %v", err)
		}
	})
}
