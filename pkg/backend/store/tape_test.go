package store_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// pack makes an archive as tar -C DIR -cf FILE . does.
func pack(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	for _, h := range entries {
		content := h.Linkname
		if h.Typeflag == tar.TypeReg {
			h.Linkname, h.Size = "", int64(len(content))
		}
		h.Mode = 0o644
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			_, _ = io.WriteString(w, content)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return raw.Bytes()
}

// file is an entry; its content travels as Linkname to pack.
func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Linkname: content}
}

func openTar(t *testing.T, raw []byte) (store.Place, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "release.tar")
	if err := os.WriteFile(path, raw, 0o644); err != nil {
		t.Fatal(err)
	}
	place, err := store.Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return place, path
}

// coded is the code of a refusal.
func coded(err error) string {
	if err == nil {
		return ""
	}
	return string(verdict.FindingOf("", err).Code)
}

func TestTape(t *testing.T) {
	checkplaces.Read(t, func(t *testing.T) store.Place {
		entries := []tar.Header{{Typeflag: tar.TypeDir, Name: "./"}, {Typeflag: tar.TypeDir, Name: "./bin/"}}
		for name, content := range checkplaces.Contents() {
			entries = append(entries, file("./"+name, content))
		}
		place, _ := openTar(t, pack(t, entries...))
		return place
	})
}

func TestTapeIsNotBelievedBlindly(t *testing.T) {
	good := pack(t, file("a", "A"), file("b", "B"))
	more := pack(t, file("c", "C"))
	var squeezed bytes.Buffer
	w := gzip.NewWriter(&squeezed)
	_, _ = w.Write(good)
	_ = w.Close()
	for name, c := range map[string]struct {
		raw  []byte
		want string
	}{
		"untouched (twin)":             {good, ""},
		"padded (twin)":                {append(slices.Clone(good), make([]byte, 10240)...), ""},
		"nothing in it (twin)":         {pack(t), ""},
		"cut in an entry":              {good[:700], "ARCHIVE_PARSE"},
		"cut before its end":           {good[:2048], "ARCHIVE_PARSE"},
		"half an end":                  {good[:2560], "ARCHIVE_PARSE"},
		"an archive behind it":         {slices.Concat(good, more), "ARCHIVE_HIDDEN"},
		"a byte behind it":             {append(slices.Clone(good), 'x'), "ARCHIVE_HIDDEN"},
		"compressed":                   {squeezed.Bytes(), "ARCHIVE_PARSE"},
		"empty":                        {nil, "ARCHIVE_PARSE"},
		"a name that climbs":           {pack(t, file("../a", "A")), "PATH"},
		"an absolute name":             {pack(t, file("/a", "A")), "PATH"},
		"a directory that climbs":      {pack(t, tar.Header{Typeflag: tar.TypeDir, Name: "../"}), "PATH"},
		"an object twice":              {pack(t, file("a", "A"), file("a", "B")), "ARCHIVE_TWICE"},
		"an object under two spelling": {pack(t, file("a", "A"), file("./a", "B")), "ARCHIVE_TWICE"},
		"a symbolic link":              {pack(t, tar.Header{Typeflag: tar.TypeSymlink, Name: "a", Linkname: "b"}), "FILE_TYPE"},
		"a hard link":                  {pack(t, file("b", "B"), tar.Header{Typeflag: tar.TypeLink, Name: "a", Linkname: "b"}), "FILE_TYPE"},
		"a device":                     {pack(t, tar.Header{Typeflag: tar.TypeChar, Name: "a"}), "FILE_TYPE"},
	} {
		t.Run(name, func(t *testing.T) {
			place, _ := openTar(t, c.raw)
			if _, err := place.List(t.Context()); coded(err) != c.want {
				t.Errorf("listing: %v, want %q", err, c.want)
			}
			if c.want == "" {
				return
			}
			if body, _, err := place.Open(t.Context(), "a"); err == nil {
				body.Close()
				t.Error("an object of it was opened")
			}
		})
	}
}

func TestTapeMustStayTheSame(t *testing.T) {
	place, path := openTar(t, pack(t, file("a", "A")))
	if _, err := place.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pack(t, file("a", "A"), file("b", "B")), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := place.Open(t.Context(), "a"); code(err) != "UNAVAILABLE" || errors.Is(err, store.ErrNotFound) {
		t.Errorf("reading an archive that changed: %v, want UNAVAILABLE", err)
	}
}

// TestTapeHasOneReading: in each row Go's reader finds the object "b" with the
// genuine bytes, and GNU tar unpacks another object or other bytes.
func TestTapeHasOneReading(t *testing.T) {
	genuine := "genuine" + string(make([]byte, 1017)) // ends with zeros, as a tar archive does
	gnu := func(content string) []byte {
		h := rawarchive.Header{Name: "name", Kind: '0', Size: int64(len(content)), Format: rawarchive.GNU}
		return append(h.Bytes(), rawarchive.Body(content)...)
	}
	records := func(pairs ...string) []byte { return rawarchive.Extended('x', rawarchive.Records(pairs...)) }
	long := func(name string) []byte { return rawarchive.Extended('L', name+"\x00") }
	for name, row := range map[string]struct {
		entry []byte
		want  string
	}{
		"plain (twin)":                       {rawarchive.File("b", genuine), ""},
		"a name of GNU (twin)":               {append(long("b"), gnu(genuine)...), ""},
		"a record of its name (twin)":        {append(records("path", "b"), rawarchive.File("c", genuine)...), ""},
		"a name of POSIX, then one of GNU":   {slices.Concat(records("path", "a"), long("b"), gnu(genuine)), "ARCHIVE_AMBIGUOUS"},
		"a name of GNU, then one of POSIX":   {slices.Concat(long("b"), records("path", "a"), rawarchive.File("b", genuine)), "ARCHIVE_AMBIGUOUS"},
		"the name of a sparse file":          {append(records("GNU.sparse.name", "a"), rawarchive.File("b", genuine)...), "ARCHIVE_AMBIGUOUS"},
		"a sparse file that begins with one": {append(records("GNU.sparse.size", "1024", "GNU.sparse.numblocks", "1", "GNU.sparse.map", "124,900"), rawarchive.File("b", genuine[:900])...), "ARCHIVE_AMBIGUOUS"},
	} {
		t.Run(name, func(t *testing.T) {
			place, _ := openTar(t, rawarchive.Tar(rawarchive.File("a", "A"), row.entry))
			_, err := place.List(t.Context())
			body, _, opened := place.Open(t.Context(), "b")
			if coded(err) != row.want || coded(opened) != row.want {
				t.Fatalf("listing: %v, opening: %v, want %q", err, opened, row.want)
			}
			if row.want != "" {
				if f := verdict.FindingOf("", err); f.Subject == "" || !strings.Contains(f.Message, "release.tar") || f.Fix == "" {
					t.Errorf("entry, archive or next act is not named: %+v", f)
				}
				return
			}
			defer body.Close()
			if got, err := io.ReadAll(body); err != nil || string(got) != genuine {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// TestKitIsAPlaceBelow: a directory in a kit is a place, a directory on disk whose
// name ends like a kit's is one as well.
func TestKitIsAPlaceBelow(t *testing.T) {
	dir := t.TempDir()
	kit := filepath.Join(dir, "a.kit")
	if err := errors.Join(os.WriteFile(kit, pack(t, file("files/a", "in"), file("index.json", "out")), 0o600), os.MkdirAll(filepath.Join(dir, "b.kit", "files"), 0o700), os.WriteFile(filepath.Join(dir, "b.kit", "files", "a"), []byte("in"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{kit + "/files/", filepath.Join(dir, "b.kit") + "/files/"} {
		place, err := store.Open(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		all, err := place.List(t.Context())
		raw, unread := store.Read(t.Context(), place, "a", 10)
		if err != nil || unread != nil || len(all) != 1 || all[0].Name != "a" || string(raw) != "in" {
			t.Errorf("%s: %v, %q, %v, %v", at, all, raw, err, unread)
		}
		if _, _, err := place.Open(t.Context(), "index.json"); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: what is beside it: %v", at, err)
		}
	}
}
