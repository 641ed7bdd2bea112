package unpack_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// unpacker is a program that unpacks, as people use it.
type unpacker struct {
	name, program string
	of            string // tar or zip
	words         string // of the shell, with archive $1 and directory $2
	script        string // of python, for all archives at once
}

const (
	pythonTar = `
import os, sys, tarfile
for line in open(sys.argv[1]):
    source, target = line.rstrip("\n").split(" ")
    os.makedirs(target)
    try:
        with tarfile.open(source, "r:") as t: t.extractall(target)
    except Exception: pass
`
	pythonZip = `
import os, sys, zipfile
for line in open(sys.argv[1]):
    source, target = line.rstrip("\n").split(" ")
    os.makedirs(target)
    try:
        with zipfile.ZipFile(source) as z: z.extractall(target)
    except Exception: pass
`
)

func allUnpackers() []unpacker {
	return []unpacker{
		{name: "GNU tar", program: "tar", of: "tar", words: `tar --no-same-owner -xf "$1" -C "$2"`},
		{name: "bsdtar", program: "bsdtar", of: "tar", words: `bsdtar --no-same-owner -xf "$1" -C "$2"`},
		{name: "busybox tar", program: "busybox", of: "tar", words: `EXTRACT_UNSAFE_SYMLINKS=1 busybox tar -o -xf "$1" -C "$2"`},
		{name: "python tarfile", program: "python3", of: "tar", script: pythonTar},
		{name: "unzip", program: "unzip", of: "zip", words: `unzip -qq -o "$1" -d "$2"`},
		{name: "bsdtar of zip", program: "bsdtar", of: "zip", words: `bsdtar --no-same-owner -xf "$1" -C "$2"`},
		{name: "bsdtar of a zip in a pipe", program: "bsdtar", of: "zip", words: `cat "$1" | bsdtar --no-same-owner -xf - -C "$2"`},
		{name: "7z", program: "7z", of: "zip", words: `7z x -y -bd -o"$2" "$1"`},
		{name: "python zipfile", program: "python3", of: "zip", script: pythonZip},
	}
}

// installed are the unpackers of this machine. CI has them all.
func installed(t *testing.T) []unpacker {
	t.Helper()
	var found []unpacker
	var missing []string
	for _, u := range allUnpackers() {
		if _, err := exec.LookPath(u.program); err == nil {
			found = append(found, u)
		} else {
			missing = append(missing, u.program)
		}
	}
	switch {
	case len(missing) == 0:
	case os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_UNPACKERS") != "":
		t.Fatalf("not installed, and required here: %s (Debian packages libarchive-tools, busybox, unzip, p7zip-full and python3)", strings.Join(missing, ", "))
	case len(found) == 0:
		t.Skip("no program that unpacks is installed: Debian packages tar, libarchive-tools, busybox, unzip, p7zip-full and python3")
	default:
		t.Logf("not asked, for they are not installed: %s", strings.Join(missing, ", "))
	}
	return found
}

// run has a program unpack archives, each into a directory of its own, in one
// process that starts the others.
func (u unpacker) run(t *testing.T, archives []string, into string) {
	t.Helper()
	var list strings.Builder
	for _, a := range archives {
		fmt.Fprintf(&list, "%s %s\n", a, filepath.Join(into, filepath.Base(a)))
	}
	must(t, os.MkdirAll(into, 0o755))
	listed := into + ".list"
	must(t, os.WriteFile(listed, []byte(list.String()), 0o644))
	command := exec.Command("python3", "-c", u.script, listed)
	if u.script == "" {
		command = exec.Command("sh", "-c", `one() { `+u.words+`; }
			while read -r source target; do mkdir -p "$target"; (one "$source" "$target") </dev/null >/dev/null 2>&1; done <"$0"; chmod -R u+rwX "$1"`, listed, into)
	}
	command.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "TAR_OPTIONS=")
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", u.name, err, out)
	}
}

// tree is what an archive unpacks to: by name "file CONTENT", "directory" or
// "link TARGET".
type tree map[string]string

func (tr tree) parents(name string) {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		tr[dir] = "directory"
	}
}

// judged is the tree that a reading gives; nil if the archive is refused.
func judged(read func(unpack.Visit) error) (tree, error) {
	found := tree{}
	err := read(func(e unpack.Entry, body io.Reader) error {
		content, err := io.ReadAll(body)
		switch e.Kind {
		case unpack.File:
			found[e.Name] = "file " + string(content)
		case unpack.Directory:
			found[e.Name] = "directory"
		case unpack.HardLink:
			found[e.Name] = found[e.Target]
		case unpack.SymLink:
			found[e.Name] = "link " + e.Target
		}
		found.parents(e.Name)
		return err
	})
	if err != nil {
		return nil, err
	}
	delete(found, ".")
	return found, nil
}

// unpacked is the tree in a directory.
func unpacked(t *testing.T, dir string) tree {
	t.Helper()
	found := tree{}
	must(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		short, _ := filepath.Rel(dir, name)
		switch {
		case short == ".":
		case d.IsDir():
			found[short] = "directory"
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(name)
			found[short] = "link " + target
			return err
		case d.Type().IsRegular():
			content, err := os.ReadFile(name)
			found[short] = "file " + string(content)
			return err
		default:
			found[short] = d.Type().String()
		}
		return nil
	}))
	return found
}

func (tr tree) differs(other tree) string {
	for name, what := range tr {
		if other[name] != what {
			return fmt.Sprintf("%.80q is %.60q, not %.60q", name, other[name], what)
		}
	}
	for name, what := range other {
		if _, there := tr[name]; !there {
			return fmt.Sprintf("%.80q is there too, as %.60q", name, what)
		}
	}
	return ""
}

// made is one generated archive and the readings that accept it.
type made struct {
	path, of string
	raw      []byte
	tree     tree
}

// TestUnpackers makes archives that programs disagree about, out of a seed:
// WAYBILL_SEED names another one. Each is refused, or every program unpacks it to the very
// names, kinds and bytes that were judged.
func TestUnpackers(t *testing.T) {
	programs := installed(t)
	seed := uint64(1)
	if text := os.Getenv("WAYBILL_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		must(t, err)
	}
	const tars, zips = 2400, 1200
	g := generator{rand.New(rand.NewPCG(seed, 0))}
	dir := t.TempDir()
	var accepted, others []made
	codes, counts, edited := map[verdict.Code]int{}, map[string]int{}, 0
	for i := range tars + zips {
		m, hostile := made{of: "tar"}, false
		if i < tars {
			m.raw, hostile = g.tar()
		} else {
			m.of = "zip"
			m.raw, hostile = g.zip()
		}
		r, size := bytes.NewReader(m.raw), int64(len(m.raw))
		tr, err := judged(func(v unpack.Visit) error { return unpack.New().Archive(r, size, v) })
		if m.of == "tar" {
			asPlace, bad := judged(func(v unpack.Visit) error { return unpack.New().Place(r, size, v) })
			switch {
			case bad == nil && (err != nil || asPlace.differs(tr) != ""):
				t.Fatalf("seed %d: archive %d is read in one way as a place, and in another as an archive: %v", seed, i, err)
			case bad == nil:
				counts["places"]++
			}
		}
		m.tree, m.path = tr, filepath.Join(dir, fmt.Sprintf("%04d.%s", i, m.of))
		if err != nil {
			codes[codeOf(err)]++
			others = append(others, m)
			continue
		}
		accepted = append(accepted, m)
		counts[m.of]++
		if hostile {
			edited++
		}
	}
	t.Logf("seed %d: %d tar and %d zip archives; accepted %d tar (%d of them as places) and %d zip, %d of all after something was done to them; refused: %v",
		seed, tars, zips, counts["tar"], counts["places"], counts["zip"], edited, codes)
	if counts["tar"] < tars/8 || counts["places"] < tars/12 || counts["zip"] < zips/12 || edited < (tars+zips)/40 {
		t.Error("too few archives are accepted to prove anything")
	}
	compare(t, seed, programs, dir, accepted)
	disagree(t, programs, dir, others)
}

func codeOf(err error) verdict.Code {
	var refused *verdict.Error
	if errors.As(err, &refused) {
		return refused.Finding.Code
	}
	return "OTHER"
}

// compare holds what programs unpack against what was judged.
func compare(t *testing.T, seed uint64, programs []unpacker, dir string, archives []made) {
	t.Helper()
	for _, u := range programs {
		var paths []string
		for _, m := range archives {
			if m.of == u.of {
				must(t, os.WriteFile(m.path, m.raw, 0o644))
				paths = append(paths, m.path)
			}
		}
		into := filepath.Join(dir, strings.ReplaceAll(u.name, " ", "-"))
		u.run(t, paths, into)
		same := 0
		for _, m := range archives {
			if m.of != u.of {
				continue
			}
			if why := m.tree.differs(unpacked(t, filepath.Join(into, filepath.Base(m.path)))); why != "" {
				keep := filepath.Join(os.TempDir(), fmt.Sprintf("waybill-%d-%s", seed, filepath.Base(m.path)))
				_ = os.WriteFile(keep, m.raw, 0o644)
				t.Errorf("seed %d: %s unpacks %s to another tree than was judged: %s", seed, u.name, keep, why)
				continue
			}
			same++
		}
		t.Logf("%s: %d of %d accepted archives unpack to the tree that was judged", u.name, same, len(paths))
	}
}

// disagree counts, of some of the refused archives, those that programs really
// unpack in different ways: the refusals are of something.
func disagree(t *testing.T, programs []unpacker, dir string, archives []made) {
	t.Helper()
	const most = 200
	trees := map[string]map[string]bool{}
	for i, m := range archives {
		if i%(len(archives)/most+1) == 0 {
			must(t, os.WriteFile(m.path, m.raw, 0o644))
			trees[m.path] = map[string]bool{}
		}
	}
	for _, u := range programs {
		var paths []string
		for p := range trees {
			if strings.HasSuffix(p, "."+u.of) {
				paths = append(paths, p)
			}
		}
		into := filepath.Join(dir, "refused-"+strings.ReplaceAll(u.name, " ", "-"))
		u.run(t, paths, into)
		for _, p := range paths {
			trees[p][fmt.Sprint(unpacked(t, filepath.Join(into, filepath.Base(p))))] = true
		}
	}
	differ := 0
	for _, t := range trees {
		if len(t) > 1 {
			differ++
		}
	}
	t.Logf("%d of %d refused archives are unpacked in different ways by these programs", differ, len(trees))
	if len(programs) == len(allUnpackers()) && differ < len(trees)/10 {
		t.Error("what is refused is hardly anything that programs disagree about")
	}
}
