package git

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// object stores an object of any content, as git itself would refuse to.
func (r repository) object(kind, content string) string {
	r.t.Helper()
	cmd := exec.Command("git", "hash-object", "-t", kind, "-w", "--literally", "--stdin")
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(content)
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (r repository) tree(mode, name, id string) string {
	var raw []byte
	if _, err := fmt.Sscanf(id, "%x", &raw); err != nil {
		r.t.Fatal(err)
	}
	return r.object("tree", mode+" "+name+"\x00"+string(raw))
}

func (r repository) commitOf(tree string) Commit {
	id := r.object("commit", "tree "+tree+"\nauthor A <a@b> 1 +0000\ncommitter C <c@d> 1700000000 +0000\n\nx\n")
	return Commit{Repository: r.dir, Commit: id}
}

func TestCheckoutRefusesHostileTrees(t *testing.T) {
	r := newRepository(t)
	blob := r.object("blob", "payload")
	empty := r.object("tree", "")
	for _, c := range []struct{ mode, name, id, want string }{
		{"100644", "file", blob, ""},
		{"100644", "caf\u00e9 menu", blob, ""},
		{"100644", ".gitignore", blob, ""},
		{"100644", "..", blob, "PATH"},
		{"40000", ".", empty, "PATH"},
		{"100644", "../outside", blob, "PATH"},
		{"100644", "/etc/x", blob, "PATH"},
		{"100644", `..\outside`, blob, "PATH"},
		{"100644", "", blob, "PATH"},
		{"100644", "a\nb", blob, "PATH"},
		{"100644", "\xff", blob, "PATH"},
		{"40000", ".git", empty, "PATH"},
		{"40000", ".GIT", empty, "PATH"},
		{"40000", ".git ", empty, "PATH"},
		{"40000", ".git.", empty, "PATH"},
		{"40000", "git~1", empty, "PATH"},
		{"40000", ".g\u200cit", empty, "PATH"},
		{"40000", ".git::$INDEX_ALLOCATION", empty, "PATH"},
		{"160000", "module", strings.Repeat("1", 40), "FILE_TYPE"},
		{"100666", "odd", blob, "FILE_TYPE"},
		{"120000", "link", r.object("blob", "file"), ""},
		{"120000", "link", r.object("blob", "a/b"), ""},
		{"120000", "link", r.object("blob", "../outside"), "FILE_TYPE"},
		{"120000", "link", r.object("blob", "/etc/passwd"), "FILE_TYPE"},
		{"120000", "link", r.object("blob", "a/../../outside"), "FILE_TYPE"},
		{"120000", "link", r.object("blob", "a/.."), "FILE_TYPE"},
		{"120000", "link", r.object("blob", ""), "FILE_TYPE"},
		{"100644", "absent", strings.Repeat("2", 40), "MISSING"},
		{"100644", "a tree", empty, "TAMPERED"},
		{"40000", "a file", blob, "TAMPERED"},
	} {
		dir := filepath.Join(t.TempDir(), "out")
		err := Checkout(t.Context(), r.commitOf(r.tree(c.mode, c.name, c.id)), dir)
		if (c.want == "") != (err == nil) || code(err) != c.want {
			t.Errorf("%s %q: %v, want %q", c.mode, c.name, err, c.want)
		}
		if _, err := os.Lstat(filepath.Join(dir, "..", "outside")); err == nil {
			t.Errorf("%s %q: written outside", c.mode, c.name)
		}
	}
}

// TestTreesThatReadTwoWays: a name stands once, in its place.
func TestTreesThatReadTwoWays(t *testing.T) {
	r := newRepository(t)
	blob, empty := bytesOf(t, r.object("blob", "x")), bytesOf(t, r.object("tree", ""))
	for raw, want := range map[string]string{
		"100644 a\x00" + blob + "100644 b\x00" + blob:                           "",
		"100644 a.b\x00" + blob + "40000 a\x00" + empty:                         "",
		"100644 b\x00" + blob + "100644 a\x00" + blob:                           "TAMPERED",
		"100644 a\x00" + blob + "100644 a\x00" + blob:                           "TAMPERED",
		"120000 a\x00" + blob + "100644 a.b\x00" + blob + "40000 a\x00" + empty: "TAMPERED",
		"40000 a\x00" + empty + "100644 a.b\x00" + blob:                         "TAMPERED",
	} {
		err := Checkout(t.Context(), r.commitOf(r.object("tree", raw)), filepath.Join(t.TempDir(), "out"))
		if code(err) != want || (err == nil) != (want == "") {
			t.Errorf("%q: %v, want %q", raw, err, want)
		}
	}
}

func TestLinksBelowTheTop(t *testing.T) {
	for at, targets := range map[string]map[string]bool{
		"a/b/link": {"../../c": true, "../x": true, "./x": true, "../../../c": false, "x/../y": false, "../../..": false},
		"link":     {"a": true, "..": false, "./..": false},
	} {
		for target, ok := range targets {
			if reason := checkLink(at, target); (reason == "") != ok {
				t.Errorf("%s -> %s: %q, want followed %v", at, target, reason, ok)
			}
		}
	}
}

// TestBytesProveThemselves: whoever can write to the object store, or has git
// replace objects, changes what git says but not what is believed.
func TestBytesProveThemselves(t *testing.T) {
	r, id := released(t)
	good, err := Resolve(t.Context(), r.dir, "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	r.git("replace", id, r.git("rev-parse", "main"))
	if got, err := Resolve(t.Context(), r.dir, "v1.0.0"); err != nil || got != good {
		t.Errorf("with a replacement: %+v, %v", got, err)
	}
	r.git("replace", "--delete", id)

	blob := r.git("rev-parse", id+":release.yaml")
	other := r.object("blob", "kind: Hostile!\n")
	file := func(id string) string { return filepath.Join(r.dir, ".git", "objects", id[:2], id[2:]) }
	raw, err := os.ReadFile(file(other))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file(blob)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file(blob), raw, 0o444); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(t.Context(), good, "release.yaml"); err == nil {
		t.Errorf("read %q from a forged object", got)
	}
	if err := Checkout(t.Context(), good, filepath.Join(t.TempDir(), "out")); err == nil {
		t.Error("a forged object was checked out")
	}
	wrong := good
	wrong.Tree = r.git("rev-parse", "main^{tree}")
	if err := Checkout(t.Context(), wrong, filepath.Join(t.TempDir(), "out")); code(err) != "TAMPERED" {
		t.Errorf("another tree was named: %v, want TAMPERED", err)
	}
}

// TestNothingRuns: neither configuration nor attributes nor hooks of the
// repository make a program run or bytes change.
func TestNothingRuns(t *testing.T) {
	r := newRepository(t)
	marker := filepath.Join(t.TempDir(), "ran")
	script := "sh -c 'touch " + marker + "; cat'"
	r.write("file.txt", "line\r\n", 0o644)
	r.write(".gitattributes", "* text=auto eol=crlf ident filter=evil\n", 0o644)
	r.write("id.txt", "$Id$\n", 0o644)
	r.commit()
	for _, key := range []string{"filter.evil.smudge", "filter.evil.process", "core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "diff.external"} {
		r.git("config", key, script)
	}
	r.write(".git/hooks/post-checkout", "#!/bin/sh\ntouch "+marker+"\n", 0o755)
	t.Setenv("GIT_EXTERNAL_DIFF", "touch "+marker)
	t.Setenv("GIT_OBJECT_DIRECTORY", "/nowhere")
	c, err := Resolve(t.Context(), r.dir, "main")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if err := Checkout(t.Context(), c, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a program of the repository ran")
	}
	for name, want := range map[string]string{"id.txt": "$Id$\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, []byte(want)) {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
}
