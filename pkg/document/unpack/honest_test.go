package unpack_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/unpack"
)

// sources writes files as an honest release has them.
func sources(t *testing.T) (dir string, want tree) {
	t.Helper()
	dir, want = t.TempDir(), tree{}
	for name, content := range map[string]string{
		"README.md": "read me", "empty": "", "bin/linux/amd64/tool": strings.Repeat("\x7fELF program ", 9000), "dir with a space/file": "x",
		strings.Repeat("long/", 22) + "name": "long", strings.Repeat("n", 120): "of one long part", "é/ü.txt": "letters",
	} {
		must(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
		want[name] = "file " + content
		want.parents(name)
	}
	must(t, os.Mkdir(filepath.Join(dir, "nothing"), 0o755))
	want["nothing"] = "directory"
	return dir, want
}

// TestHonestArchives: what the usual programs pack is read, and gives what was
// packed.
func TestHonestArchives(t *testing.T) {
	installed(t)
	dir, want := sources(t)
	const python = `python3 -c '
import sys, tarfile
with tarfile.open(sys.argv[1], "w", format=getattr(tarfile, sys.argv[2])) as t: t.add(".")' `
	for name, words := range map[string]string{
		"GNU tar": `tar -cf "$1" .`, "GNU tar of POSIX": `tar --format=posix -cf "$1" .`, "GNU tar of ustar": `tar --format=ustar --exclude=nnn* -cf "$1" *`,
		"GNU tar, sorted": `tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -cf "$1" .`,
		"bsdtar":          `bsdtar --no-xattrs --no-fflags --no-acls -cf "$1" .`, "bsdtar of GNU": `bsdtar --format gnutar -cf "$1" *`,
		"bsdtar of POSIX": `bsdtar --no-xattrs --no-fflags --no-acls --format pax -cf "$1" .`,
		"python of POSIX": python + `"$1" PAX_FORMAT`, "python of GNU": python + `"$1" GNU_FORMAT`, "busybox": `busybox tar -cf "$1" .`,
	} {
		raw := packedBy(t, dir, words)
		if raw == nil {
			continue
		}
		for _, read := range []func(unpack.Visit) error{
			func(v unpack.Visit) error { return unpack.New().Place(bytes.NewReader(raw), int64(len(raw)), v) },
			func(v unpack.Visit) error { return unpack.New().Archive(bytes.NewReader(raw), int64(len(raw)), v) },
		} {
			expected := maps.Clone(want)
			if strings.Contains(words, "--exclude") { // of a name that the format has no room for
				delete(expected, strings.Repeat("n", 120))
			}
			hold(t, name, expected, read)
		}
	}
	for name, words := range map[string]string{
		"python zipfile": `python3 -m zipfile -c "$1" *`, "7z": `7z a -tzip -bd "$1" . >/dev/null`, "bsdtar of zip": `bsdtar --format zip -cf "$1" *`,
		"python, streamed": `python3 -c '
import os, sys, zipfile
class Pipe:
    def __init__(self, f): self.f = f
    def write(self, b): return self.f.write(b)
    def flush(self): self.f.flush()
with open(sys.argv[1], "wb") as f, zipfile.ZipFile(Pipe(f), "w", zipfile.ZIP_DEFLATED) as z:
    for d, _, names in os.walk("."):
        z.write(d)
        for n in names: z.write(os.path.join(d, n))' "$1"`,
		"zip": `zip -qr "$1" . -x "é*"`, "zip, streamed": `zip -qr - . -x "é*" | cat >"$1"`, "jar": `jar --create --file "$1" --no-manifest .`,
	} {
		if raw := packedBy(t, dir, words); raw != nil {
			expected := maps.Clone(want)
			if strings.Contains(words, "-x") { // of which nothing would say how its letters are encoded
				delete(expected, "é")
				delete(expected, "é/ü.txt")
			}
			hold(t, name, expected, func(v unpack.Visit) error { return unpack.New().Archive(bytes.NewReader(raw), int64(len(raw)), v) })
		}
	}
	var tarred, zipped bytes.Buffer
	tw, zw := tar.NewWriter(&tarred), zip.NewWriter(&zipped)
	must(t, tw.AddFS(os.DirFS(dir)))
	must(t, tw.Close())
	must(t, zw.AddFS(os.DirFS(dir)))
	must(t, zw.Close())
	hold(t, "Go", want, func(v unpack.Visit) error {
		return unpack.New().Place(bytes.NewReader(tarred.Bytes()), int64(tarred.Len()), v)
	})
	hold(t, "Go, zip", want, func(v unpack.Visit) error {
		return unpack.New().Archive(bytes.NewReader(zipped.Bytes()), int64(zipped.Len()), v)
	})
}

func hold(t *testing.T, name string, want tree, read func(unpack.Visit) error) {
	t.Helper()
	got, err := judged(read)
	if err != nil {
		t.Errorf("%s: %v", name, err)
	} else if why := want.differs(got); why != "" {
		t.Errorf("%s: %s", name, why)
	}
}

// packedBy is an archive that a program makes of a directory, nil if there is
// no such program.
func packedBy(t *testing.T, dir, words string) []byte {
	t.Helper()
	if _, err := exec.LookPath(strings.Fields(words)[0]); err != nil {
		t.Logf("not asked: %v", err)
		return nil
	}
	to := filepath.Join(t.TempDir(), "packed.zip")
	command := exec.Command("sh", "-c", words, "sh", to)
	command.Dir, command.Env = dir, append(os.Environ(), "LC_ALL=C.UTF-8", "TAR_OPTIONS=", "JAVA_TOOL_OPTIONS=")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", words, err, out)
	}
	raw, err := os.ReadFile(to)
	must(t, err)
	return raw
}
