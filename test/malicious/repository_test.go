package malicious

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// hostile is one thing that a repository tries. Rows with code are refused, in
// every mode; the others are built, and nothing of theirs took effect.
type hostile struct {
	name, tries string
	code        verdict.Code
	says        string
	spoil       func(*testing.T, *release)
}

const built verdict.Code = ""

// repositories is the table of the hostile repository.
func repositories() []hostile {
	return []hostile{
		{"nothing", "nothing: the twin of all others", built, "", func(*testing.T, *release) {}},
		{"hooks", "runs hooks", built, "", hooks},
		{"filters", "runs filters that its attributes name, and changes bytes", built, "", filters},
		{"lfs", "names files that another server would give", built, "", largeFiles},
		{"programs", "names programs for git to run: fsmonitor, ssh, pager, askpass, credentials, signatures", built, "", programs},
		{"include", "has git read another configuration", built, "", include},
		{"modules", "names commands and places of submodules", built, "", modulesFile},
		{"loop", "holds links in a circle", built, "", adds("120000", "circle", "circle")},
		{"replace", "replaces the commit by another, as git would show it", built, "", replaceRefs},
		{"grafts", "gives the commit other parents", built, "", grafts},
		{"submodule", "holds a submodule", verdict.FileType, "submodules are not followed", addsID("160000", "module", strings.Repeat("1", 40))},
		{"link-out", "holds a link out of the tree", verdict.FileType, "leaves the tree", adds("120000", "evil", "../../outside")},
		{"link-absolute", "holds a link to a file of the machine", verdict.FileType, "leaves the tree", adds("120000", "evil", "/etc/passwd")},
		{"link-through", "holds a link through another link", verdict.FileType, "leaves the tree", adds("120000", "evil", "loop/../../outside")},
		{"device", "holds an entry that is no file, link or directory", verdict.FileType, "unknown mode", adds("60000", "disk", "x")},
		{"dot-git", "holds .GIT, git's directory where case is ignored", verdict.Path, "git's own directory", adds("100644", ".GIT", "x")},
		{"short-name", "holds git~1, git's directory by its short name", verdict.Path, "git's own directory", adds("100644", "git~1", "x")},
		{"stream", "holds .git::$INDEX_ALLOCATION, git's directory as a stream", verdict.Path, "git's own directory", adds("100644", ".git::$INDEX_ALLOCATION", "x")},
		{"invisible", "holds .g\\u200cit, with a letter that some file systems ignore", verdict.Path, "git's own directory", adds("100644", ".g\u200cit", "x")},
		{"climb", "holds a directory ..", verdict.Path, "another directory", adds("100644", "..", "x")},
		{"slash", "holds a name with a slash", verdict.Path, "separator", adds("100644", "../outside", "x")},
		{"backslash", "holds a name that climbs on other systems", verdict.Path, "separator", adds("100644", `..\outside`, "x")},
		{"twice", "holds one name twice: a link, and a file to write through it", verdict.Tampered, "twice", twice},
		{"bomb", "holds ten billion files, in eleven objects", verdict.Limit, "too many entries", bomb("abcdefghij", 10)},
		{"deep", "holds a directory deeper than any path", verdict.Limit, "too deep", bomb("d", 150)},
		{"forged", "stores other bytes under the id of a file", verdict.Tampered, "", forged},
		{"absent", "lacks a file, and names a program that would fetch it", verdict.Missing, "", promisor},
		{"alternates", "takes objects from another repository of the machine", "SOURCE_SHARED", "alternates", alternates},
		{"objects-link", "keeps its objects behind a link", "SOURCE_SHARED", "objects is not a directory", objectsLink},
		{"branch-moves", "moves its branch during the build", built, "", func(_ *testing.T, b *release) { b.then = moveBranch }},
		{"tag-moves", "moves its tag during the build, and holds what was asked for no more", verdict.SourceMoved, "moved", func(_ *testing.T, b *release) { b.then = moveTag }},
		{"tag-goes", "removes its tag during the build", verdict.SourceMoved, "moved", func(_ *testing.T, b *release) {
			b.then = func(t *testing.T, b *release) { b.git(t, "", "tag", "-d", "v0.1.0") }
		}},
		{"config-link", "has release.yaml lead to another file", verdict.FileType, "not a regular file", configLink},
	}
}

// TestMaliciousRepositories: what a repository brings neither runs nor leads
// out, with walls and without, and nothing is signed for what is refused.
func TestMaliciousRepositories(t *testing.T) {
	w := openWorld(t)
	for _, mode := range []sandbox.Mode{w.walls(t), sandbox.Unisolated} {
		t.Run(string(mode), func(t *testing.T) {
			for _, r := range repositories() {
				t.Run(r.name, func(t *testing.T) {
					b := w.prepare(t, mode, row{act: "nothing"})
					r.spoil(t, b)
					err := w.build(t, b)
					if _, err := os.Lstat(b.marker()); err == nil {
						t.Error("a program of the repository ran")
					}
					if _, err := os.Lstat(filepath.Join(b.state, "outside")); err == nil {
						t.Error("something was written outside")
					}
					if r.code == built {
						noErr(t, err)
						says(t, w, b, builderOf(mode))
						return
					}
					if codeOf(err) != r.code || !strings.Contains(err.Error(), r.says) {
						t.Fatalf("%s %v, want %s with %q", codeOf(err), err, r.code, r.says)
					}
					if names := b.released(t); len(names) > 0 {
						t.Errorf("released all the same: %v", names)
					}
				})
			}
		})
	}
}

func builderOf(mode sandbox.Mode) string {
	if mode == sandbox.Isolated {
		return provenance.BuilderIsolated
	}
	return provenance.BuilderUnisolated
}

// TestHostileAddresses: no spelling of a repository makes git run a program or
// read what was not meant.
func TestHostileAddresses(t *testing.T) {
	w := openWorld(t)
	marker := filepath.Join(t.TempDir(), "ran")
	b := w.prepare(t, sandbox.Unisolated, row{act: "nothing"})
	for address, code := range map[string]verdict.Code{
		b.source:                                          built,
		"git+file://" + b.source:                          built,
		"ext::sh -c touch% " + marker:                     verdict.Usage,
		"git+ext://sh -c touch " + marker:                 verdict.Usage,
		"ext://x":                                         verdict.Usage,
		"git+https://user:secret@example.test/x":          verdict.Usage,
		"git+ssh://-oProxyCommand=touch " + marker + "/x": verdict.Usage,
		"git+ssh://-oProxyCommand=touch@example.test/x":   verdict.Usage,
		"git+ssh://-l@example.test/x":                     verdict.Usage,
		"git+file://example.test" + b.source:              verdict.Usage,
		"--upload-pack=touch " + marker:                   verdict.Usage,
	} {
		_, _, err := pipeline.ReadPlan(t.Context(), pipeline.Source{Repository: address}, w.version, nil)
		if codeOf(err) != code {
			t.Errorf("%q: %v, want %q", address, err, code)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a password is in %v", err)
		}
	}
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a program ran")
	}
}

// marker is what programs of the repository would make.
func (b *release) marker() string { return filepath.Join(filepath.Dir(b.source), "ran") }

// script is a program that shows that it ran.
func (b *release) script() string { return "sh -c 'touch " + b.marker() + "; cat'" }

func (b *release) git(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "git", args...)
	cmd.Dir, cmd.Stdin = b.source, strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Mallory",
		"GIT_AUTHOR_EMAIL=m@evil.example", "GIT_COMMITTER_NAME=Mallory", "GIT_COMMITTER_EMAIL=m@evil.example")
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, complaint.String())
	}
	return strings.TrimSpace(out.String())
}

// object stores an object of any content, as git itself would refuse to.
func (b *release) object(t *testing.T, kind, content string) string {
	t.Helper()
	return b.git(t, content, "hash-object", "-t", kind, "-w", "--literally", "--stdin")
}

// commit writes a file of the repository and releases it.
func (b *release) commit(t *testing.T, name, body string) {
	t.Helper()
	noErr(t, os.WriteFile(filepath.Join(b.source, name), []byte(body), 0o644))
	b.git(t, "", "add", name)
	b.git(t, "", "commit", "-q", "-m", "more")
	b.git(t, "", "tag", "-f", "v0.1.0")
}

func (b *release) configure(t *testing.T, settings ...string) {
	t.Helper()
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		b.git(t, "", "config", name, value)
	}
}

// tree releases the project's tree with more entries: "mode name id".
func (b *release) tree(t *testing.T, more ...[3]string) {
	t.Helper()
	for line := range strings.Lines(b.git(t, "", "ls-tree", "HEAD")) {
		meta, name, _ := strings.Cut(strings.TrimSpace(line), "\t")
		field := strings.Fields(meta)
		more = append(more, [3]string{strings.TrimPrefix(field[0], "0"), name, field[2]})
	}
	slices.SortStableFunc(more, func(a, b [3]string) int { return strings.Compare(a[1], b[1]) })
	var raw strings.Builder
	for _, e := range more {
		id := must(hex.DecodeString(e[2]))(t)
		fmt.Fprintf(&raw, "%s %s\x00%s", e[0], e[1], id)
	}
	commit := "tree " + b.object(t, "tree", raw.String()) + "\nauthor A <a@b> 1 +0000\ncommitter C <c@d> 1700000000 +0000\n\nharm\n"
	b.git(t, "", "update-ref", "refs/tags/v0.1.0", b.object(t, "commit", commit))
}

func adds(mode, name, content string) func(*testing.T, *release) {
	return func(t *testing.T, b *release) { b.tree(t, [3]string{mode, name, b.object(t, "blob", content)}) }
}

func addsID(mode, name, id string) func(*testing.T, *release) {
	return func(t *testing.T, b *release) { b.tree(t, [3]string{mode, name, id}) }
}

func twice(t *testing.T, b *release) {
	b.tree(t, [3]string{"120000", "evil", b.object(t, "blob", "LICENSE")}, [3]string{"100644", "evil", b.object(t, "blob", "x")})
}

// bomb is a tree that has the same tree under each of some names, so often.
func bomb(names string, levels int) func(*testing.T, *release) {
	return func(t *testing.T, b *release) {
		id := b.object(t, "tree", "")
		for range levels {
			var raw strings.Builder
			for _, name := range names {
				fmt.Fprintf(&raw, "40000 %c\x00%s", name, must(hex.DecodeString(id))(t))
			}
			id = b.object(t, "tree", raw.String())
		}
		b.tree(t, [3]string{"40000", "bomb", id})
	}
}

func hooks(t *testing.T, b *release) {
	dir := filepath.Join(b.source, ".git", "hooks")
	noErr(t, os.MkdirAll(dir, 0o755))
	for _, name := range []string{"post-checkout", "post-index-change", "reference-transaction", "pre-auto-gc", "post-merge", "fsmonitor-watchman"} {
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\ntouch "+b.marker()+"\n"), 0o755))
	}
}

func filters(t *testing.T, b *release) {
	b.commit(t, ".gitattributes", "* text=auto eol=crlf ident filter=evil diff=evil merge=evil\n")
	s := b.script()
	b.configure(t, "filter.evil.smudge="+s, "filter.evil.clean="+s, "filter.evil.process="+s, "filter.evil.required=true", "diff.evil.textconv="+s, "merge.evil.driver="+s)
}

func largeFiles(t *testing.T, b *release) {
	b.commit(t, ".gitattributes", "model.bin filter=lfs diff=lfs merge=lfs -text\n")
	b.commit(t, ".lfsconfig", "[lfs]\n\turl = https://evil.example.test/lfs\n")
	b.commit(t, "model.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("4", 64)+"\nsize 12345\n")
	b.configure(t, "filter.lfs.smudge="+b.script(), "filter.lfs.process="+b.script(), "filter.lfs.required=true")
}

func programs(t *testing.T, b *release) {
	for _, name := range []string{
		"core.fsmonitor", "core.sshCommand", "core.pager", "core.editor", "core.askPass", "core.gitProxy", "core.alternateRefsCommand", "credential.helper",
		"diff.external", "gpg.program", "gpg.ssh.program", "sequence.editor", "uploadpack.packObjectsHook", "pager.cat-file", "alias.cat-file", "alias.rev-parse",
	} {
		b.configure(t, name+"="+b.script())
	}
	b.configure(t, "core.hooksPath="+filepath.Join(b.source, ".git", "hooks"))
	hooks(t, b)
}

func include(t *testing.T, b *release) {
	other := filepath.Join(filepath.Dir(b.source), "other")
	noErr(t, os.WriteFile(other, []byte("[core]\n\tfsmonitor = \"touch "+b.marker()+"\"\n\tpager = \"touch "+b.marker()+"\"\n\tworktree = /\n"), 0o644))
	b.configure(t, "include.path="+other, "includeIf.gitdir:/.path="+other)
}

func modulesFile(t *testing.T, b *release) {
	b.commit(t, ".gitmodules", "[submodule \"../../hooks\"]\n\tpath = -evil\n\turl = ext::sh -c touch% "+b.marker()+"\n\tupdate = !touch "+b.marker()+"\n\tfetchRecurseSubmodules = true\n")
	b.configure(t, "submodule.recurse=true", "submodule.evil.update=!touch "+b.marker())
}

// failing is a commit whose step fails: if git showed it in place of ours, the
// build would too.
func failing(t *testing.T, b *release) (ours, theirs string) {
	t.Helper()
	ours = b.git(t, "", "rev-parse", "HEAD")
	body := must(os.ReadFile(filepath.Join(b.source, "release.yaml")))(t)
	b.git(t, "", "checkout", "-q", "-b", "other")
	noErr(t, os.WriteFile(filepath.Join(b.source, "release.yaml"), bytes.Replace(body, []byte("ACT: nothing"), []byte("ACT: fail"), 1), 0o644))
	b.git(t, "", "commit", "-q", "-a", "-m", "theirs")
	return ours, b.git(t, "", "rev-parse", "HEAD")
}

func replaceRefs(t *testing.T, b *release) {
	ours, theirs := failing(t, b)
	b.git(t, "", "replace", ours, theirs)
	b.git(t, "", "replace", ours+":release.yaml", theirs+":release.yaml")
}

func grafts(t *testing.T, b *release) {
	ours, theirs := failing(t, b)
	noErr(t, os.MkdirAll(filepath.Join(b.source, ".git", "info"), 0o755))
	noErr(t, os.WriteFile(filepath.Join(b.source, ".git", "info", "grafts"), []byte(ours+" "+theirs+"\n"), 0o644))
}

// loose is the file of a loose object.
func (b *release) loose(id string) string {
	return filepath.Join(b.source, ".git", "objects", id[:2], id[2:])
}

func forged(t *testing.T, b *release) {
	ours := b.git(t, "", "rev-parse", "HEAD:LICENSE")
	theirs := must(os.ReadFile(b.loose(b.object(t, "blob", "anything goes\n"))))(t)
	noErr(t, os.Remove(b.loose(ours)))
	noErr(t, os.WriteFile(b.loose(ours), theirs, 0o444))
}

func promisor(t *testing.T, b *release) {
	noErr(t, os.Remove(b.loose(b.git(t, "", "rev-parse", "HEAD:LICENSE"))))
	b.configure(t, "core.repositoryFormatVersion=1", "extensions.partialClone=origin", "remote.origin.promisor=true",
		"remote.origin.url=ext::sh -c touch% "+b.marker(), "protocol.ext.allow=always", "protocol.allow=always")
}

// alternates is a repository that has nothing of its own.
func alternates(t *testing.T, b *release) {
	private := filepath.Join(filepath.Dir(b.source), "private")
	objects := filepath.Join(b.source, ".git", "objects")
	noErr(t, os.Rename(objects, private))
	noErr(t, os.MkdirAll(filepath.Join(objects, "info"), 0o755))
	noErr(t, os.WriteFile(filepath.Join(objects, "info", "alternates"), []byte(private+"\n"), 0o644))
}

func objectsLink(t *testing.T, b *release) {
	private := filepath.Join(filepath.Dir(b.source), "private")
	objects := filepath.Join(b.source, ".git", "objects")
	noErr(t, os.Rename(objects, private))
	noErr(t, os.Symlink(private, objects))
}

func configLink(t *testing.T, b *release) {
	noErr(t, os.Remove(filepath.Join(b.source, "release.yaml")))
	noErr(t, os.Symlink("LICENSE", filepath.Join(b.source, "release.yaml")))
	b.git(t, "", "add", ".")
	b.git(t, "", "commit", "-q", "-m", "link")
	b.git(t, "", "tag", "-f", "v0.1.0")
}

func moveBranch(t *testing.T, b *release) {
	b.git(t, "", "commit", "-q", "--allow-empty", "-m", "more")
}

func moveTag(t *testing.T, b *release) {
	moveBranch(t, b)
	b.git(t, "", "tag", "-f", "v0.1.0")
}
