package stories

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// edit changes one fact of a file of the scene.
func edit(t *testing.T, path, old, with string) {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(body), old) {
		t.Fatalf("%q is not in %s:\n%s", old, path, body)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(body), old, with, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tag commits what lies in the project and tags it.
func tag(t *testing.T, s *scene.Scene, version string) {
	t.Helper()
	for _, args := range [][]string{{"add", "-A"}, {"commit", "-q", "-m", "lantern"}, {"tag", "-f", "-a", "-m", "lantern", version}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = s.Path("lantern")
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Lantern", "GIT_AUTHOR_EMAIL=lantern@example.test",
			"GIT_COMMITTER_NAME=Lantern", "GIT_COMMITTER_EMAIL=lantern@example.test")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
}

// TestPlanDiff: a change of release.yaml is seen before it is committed, and
// against what was planned before.
func TestPlanDiff(t *testing.T) {
	s := openExample(t, example)
	run := func(args ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "plan"}, args...)...)
	}
	r := run(scene.Version, "--source", "lantern", "--output", "json")
	want(t, r, 0, `"schema": "waybill/plan/v1"`, `"evidence": [`)
	if err := os.WriteFile(s.Path("saved.json"), []byte(r.Stdout), 0o644); err != nil {
		t.Fatal(err)
	}
	committed := "lantern@" + scene.Version
	want(t, run("diff", "saved.json", committed), 0, "nothing changes")
	want(t, run("diff", committed, "lantern", "--version", "v0.2.0"), 0, "nothing changes")
	edit(t, s.Path("lantern", "release.yaml"), "every: [linux/amd64, linux/arm64, darwin/arm64, windows/amd64]", "every: [linux/amd64, linux/arm64, windows/amd64, linux/riscv64]")
	want(t, run("diff", "saved.json", "lantern", "--version", scene.Version), 1, "PLAN_DIFFERS",
		"- binary       bin/darwin/arm64/lantern\n", "+ archive      lantern-linux-riscv64.tar.gz\n", "step compile-linux-riscv64 added")
	want(t, run("diff", "saved.json", "lantern", "--version", scene.Version, "--output", "json"), 1, `"lost": [`, `"name": "bin/darwin/arm64/lantern"`)
	want(t, run("diff", "saved.json", committed), 0, "nothing changes") // not committed yet
	edit(t, s.Path("saved.json"), `"waybill/plan/v1"`, `"waybill/plan/v9"`)
	want(t, run("diff", "saved.json", committed), 2, "schema")
	want(t, run("diff", "lantern", committed), 2, "--version")
	want(t, run("diff", committed), 2, "accepts 2")

	// Several versions are several releases.
	want(t, run("v0.2.0", "v0.3.0-alpha.0", "--dir", "lantern"), 0, "2 releases", "https://dl.example.test/lantern/v0.3.0-alpha.0/")
	want(t, run("v0.2.0", "v0.2.0", "--dir", "lantern"), 2, "would both be published")
	want(t, run("v0.2.0", "--dir", "lantern", "--parameter", "speed=high"), 2, "declares no such parameter")
	want(t, run("v0.2.0", "--dir", "nowhere"), 2, "waybill init")
	if err := os.Remove(s.Path("lantern", "release.yaml")); err != nil {
		t.Fatal(err)
	}
	tag(t, s, "v0.4.0")
	want(t, run("v0.4.0", "--source", "lantern"), 2, "release.yaml", "waybill init")
}

// TestLockStories: a lock that does not fit stops everything; lock mends it,
// and shows what it does before it does it.
func TestLockStories(t *testing.T) {
	s := open(t)
	path := s.Path("lantern", "release.lock.yaml")
	was, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plan := func() scene.Result { return s.Run(t.Context(), "waybill", "plan", "v0.2.0", "--dir", "lantern") }
	lock := func(flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "lock", "--dir", "lantern"}, flags...)...)
	}
	want(t, plan(), 0)
	edit(t, path, `"static":`, `"debian":`)
	want(t, plan(), 1, "LOCK_STALE", `does not pin base "static"`, `pins base "debian"`, "run waybill lock")
	want(t, lock(), 2, "--base static=")
	_, rest, _ := strings.Cut(string(was), `digest: "`)
	digest, _, _ := strings.Cut(rest, `"`)
	pinned := "static=" + s.Lab.Registry + "/base/static@" + digest
	want(t, lock("--base", pinned), 0, "+ base static", "- base debian", "nothing was written")
	want(t, plan(), 1, "LOCK_STALE")
	want(t, lock("--base", pinned, "--confirm"), 0, "wrote release.lock.yaml")
	want(t, plan(), 0)
	want(t, lock(), 0, "is up to date")

	// The source is committed with a lock that does not fit: no stage begins.
	edit(t, path, "static", "debian")
	tag(t, s, scene.Version)
	want(t, s.Stage(t.Context()), 1, "LOCK_STALE")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	tag(t, s, scene.Version)
	want(t, s.Stage(t.Context()), 1, "LOCK_STALE", "the source does not have it")
}

// TestInitStory: from a Go program to a plan in three commands.
func TestInitStory(t *testing.T) {
	s := open(t)
	dir := s.Path("fresh")
	for name, body := range map[string]string{
		"go.mod": "module example.test/acme/fresh\n\ngo 1.26\n", "cmd/fresh/main.go": "package main\n\nfunc main() {}\n", "LICENSE": "none\n",
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) scene.Result { return s.Run(t.Context(), append([]string{"waybill"}, args...)...) }
	want(t, run("init", "--dir", "fresh"), 0, "name: fresh", "nothing was written")
	if _, err := os.Stat(filepath.Join(dir, "release.yaml")); !os.IsNotExist(err) {
		t.Fatalf("it was written: %v", err)
	}
	want(t, run("init", "--dir", "fresh", "--confirm"), 0, "+ tool go", "+ module .")
	want(t, run("init", "--dir", "fresh", "--confirm"), 0, "nothing to do")
	want(t, run("plan", "v1.0.0", "--dir", "fresh"), 0, "bin/linux/amd64/fresh")
	want(t, run("lock", "--dir", "fresh", "--confirm"), 0, "up to date")
	edit(t, filepath.Join(dir, "go.mod"), "go 1.26", "go 1.26.0")
	want(t, run("plan", "v1.0.0", "--dir", "fresh"), 1, "LOCK_STALE", "go.mod or go.sum changed")
	want(t, run("lock", "--dir", "fresh", "--confirm"), 0, "- module . go.mod", "+ module . go.mod")
	want(t, run("plan", "v1.0.0", "--dir", "fresh"), 0, "bin/windows/amd64/fresh.exe", "fresh_1.0.0_linux_amd64.tar.gz")
	edit(t, filepath.Join(dir, "policy.yaml"), "sequence: 1", "sequence: 2")
	want(t, run("init", "--dir", "fresh", "--confirm"), 0, "has other content  policy.yaml", "none was changed")
	if err := os.Remove(filepath.Join(dir, "profile.yaml")); err != nil {
		t.Fatal(err)
	}
	want(t, run("init", "--dir", "fresh", "--confirm"), 2, "policy.yaml", "never overwritten", "--force")
	want(t, run("init", "--dir", "nowhere"), 2, "go.mod")
	want(t, run("schema", "release"), 0, `"title": "Release"`)
	want(t, run("schema", "lock"), 0, `"title": "Lock"`)
	want(t, run("schema", "poem"), 2, "release")
	for _, command := range []string{"init", "lock", "schema", "plan diff"} {
		want(t, run(append(strings.Fields(command), "--help")...), 0, "EXIT STATUS", "Examples:")
	}
}

// everyKind is a release.yaml with every kind of step.
const everyKind = `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
lock: release.lock.yaml
modules: [.]
parameters: {tone: {values: [warm, cold], default: warm}}
lists: {server: [linux/amd64, linux/arm64]}
steps:
- name: compile
  each: {platform: server}
  go: {ldflags: "-s -w -buildid= -X main.version={version}"}
  tools: [go]
  outputs: [{class: binary, name: "bin/{os}/{arch}/lantern"}]
- name: note
  run: [/bin/sh, -c, "echo {commit.time} {commit.id} {parameter.tone} $EPOCH > {out}/note.txt"]
  env: {EPOCH: "{commit.time}"}
  outputs: [{class: file, name: note.txt}]
- name: pack
  archive: {format: tar.gz, root: lantern, add: [LICENSE]}
  outputs:
  - {class: archive, each: {platform: server}, name: "lantern-{os}-{arch}.tar.gz", take: [lantern]}
  - {class: archive, name: lantern-src.tar.gz, take: source}
- name: sums
  checksums: {algorithm: sha512, take: [note.txt, lantern-src.tar.gz]}
  outputs: [{class: file, name: checksums.txt}]
- name: image
  image: {base: static, platforms: server, files: {/usr/local/bin/lantern: "bin/{os}/{arch}/lantern"}, entrypoint: [/usr/local/bin/lantern]}
  outputs: [{class: image, name: lantern, alsoPerArch: "lantern-{arch}"}]
sboms: {release: lantern-release.spdx, source: "{name}-source.spdx.json"}
places:
  files: {uri: "https://dl.example.test/lantern/{version}/", owns: prefix, sidecars: [sha256, sha512], sums: [SHA256SUMS]}
  images: {uri: registry.example.test/lantern, owns: {tags: ["{version}"]}}
`

// TestLongEveryKindOfStep: what the format can say is built, sealed, published and
// verified, to the last sidecar.
func TestLongEveryKindOfStep(t *testing.T) {
	s := openExample(t, small)
	if err := os.WriteFile(s.Path("lantern", "release.yaml"), []byte(everyKind), 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, s.Run(t.Context(), "waybill", "lock", "--dir", "lantern", "--confirm"), 0)
	lock := s.Path("lantern", "release.lock.yaml")
	pinned, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, lock, `program: "go", digest: "sha256:`, `program: "git", digest: "sha256:`)
	tag(t, s, scene.Version)
	for _, role := range []string{"builder", "builder-unisolated"} {
		if err := os.WriteFile(s.Path(role+".token"), []byte(s.Lab.Token(role)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s.Run(t.Context(), "waybill", "build", scene.Version, "--profile", "profile.yaml", "--source", "lantern", "--state", "other",
		"--identity-token", "builder=builder.token", "--identity-token", "builder-unisolated=builder-unisolated.token"), 1, "LOCK_STALE", "not the pinned one")
	if err := os.WriteFile(lock, pinned, 0o644); err != nil {
		t.Fatal(err)
	}
	tag(t, s, scene.Version)
	want(t, s.Stage(t.Context(), "--parameter", "tone=loud"), 2, "want warm or cold")
	want(t, s.Stage(t.Context(), "--parameter", "tone=cold"), 0)
	want(t, s.Release(t.Context()), 0)
	want(t, s.Verify(t.Context()), 0, "nothing extra")
	read := func(name string) string {
		body, err := os.ReadFile(s.Path("state", "files", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if words := strings.Fields(read("note.txt")); len(words) != 4 || words[0] != words[3] || len(words[1]) != 40 || words[2] != "cold" {
		t.Errorf("the step was told %q", words)
	}
	r := s.Run(t.Context(), "waybill", "inspect", "state/files/provenance/note.sigstore.json")
	want(t, r, 0, "parameters.tone", "cold")
	r = s.Run(t.Context(), "waybill", "inspect", "state/files/provenance/compile-linux-amd64.sigstore.json")
	want(t, r, 0, "tool go")
	if sum := read("note.txt.sha256"); len(sum) != 64 || !strings.Contains(read("SHA256SUMS"), sum+"  note.txt\n") {
		t.Errorf("the sidecar says %q", sum)
	}
	if list := read("checksums.txt"); !strings.HasPrefix(list, read("note.txt.sha512")+"  note.txt\n") || strings.Count(list, "\n") != 2 {
		t.Errorf("the checksums are %q", list)
	}
	want(t, s.Run(t.Context(), "waybill", "inspect", "state/files/lantern-source.spdx.json"), 0, "SPDX document")
	if lines := read("lantern-release.spdx"); !strings.HasPrefix(lines, "SPDXVersion: ") || !strings.Contains(lines, "GENERATED_FROM") {
		t.Errorf("the SBOM of the release is %.200q", lines)
	}
	for _, name := range []string{"SHA512SUMS", "checksums.txt.sha1"} {
		if _, err := os.Stat(s.Path("state", "files", name)); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
}
