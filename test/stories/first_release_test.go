package stories

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/lab"
)

// first is a project that was never released, and a lab beside its files.
type first struct{ dir string }

// newFirst makes the project of a maintainer who knows GoReleaser.
func newFirst(t *testing.T) first {
	t.Helper()
	uses(t, "git")
	f := first{t.TempDir()}
	platform := "goos: [" + runtime.GOOS + "]\n  goarch: [" + runtime.GOARCH + "]\n"
	for name, text := range map[string]string{
		"go.mod": "module github.com/example/hello\n\ngo 1.26\n", "README.md": "# hello\n", "LICENSE": "none\n",
		"main.go": "package main\n\nvar version = \"dev\"\n\nfunc main() { println(\"hello \" + version) }\n",
		".goreleaser.yaml": `version: 2
project_name: hello
before:
  hooks: [go mod tidy]
builds:
- env: [CGO_ENABLED=0]
  ` + platform + `  ldflags:
  - -s -w -X main.version={{.Version}} -X main.date={{.Date}}
archives:
- formats: [tar.gz]
  name_template: "{{ .ProjectName }}_{{ .Version }}_{{ .Os }}_{{ .Arch }}"
  format_overrides: [{goos: windows, formats: [zip]}]
  files: [LICENSE, README.md]
checksum: {name_template: checksums.txt}
changelog: {use: github}
signs: [{cmd: cosign, artifacts: checksum}]
`,
	} {
		save(t, []byte(text), f.dir, name)
	}
	at := filepath.Join(f.dir, "lab")
	l, err := lab.Start(t.Context(), lab.Options{Dir: at})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, role := range lab.Roles() {
		token, err := lab.RequestToken(t.Context(), l.Issuer, lab.TokenRequest{As: role})
		if err != nil {
			t.Fatal(err)
		}
		save(t, []byte(token), at, lab.TokenDir, role)
	}
	if _, err := l.Publish(at); err != nil {
		t.Fatal(err)
	}
	return f
}

// run runs a program in the project, and compares its exit status and output.
func (f first) run(t *testing.T, status int, program string, args []string, says ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.test", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.test")
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("%s %v: %v, want status %d\n%s", program, args, err, status, out)
	}
	for _, want := range says {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s %v does not say %q:\n%s", program, args, want, out)
		}
	}
	return string(out)
}

func (f first) waybill(t *testing.T, status int, line string, says ...string) string {
	t.Helper()
	return f.run(t, status, filepath.Join(bin, "waybill"), strings.Fields(line), says...)
}

func (f first) git(t *testing.T, line string) string {
	t.Helper()
	return f.run(t, 0, "git", strings.Fields(line))
}

// TestFirstRelease: a project of GoReleaser is converted, released and verified
// with three commands and three flags, after each mistake that a first user
// made. No file is written by hand.
func TestFirstRelease(t *testing.T) {
	f := newFirst(t)

	// Nothing is there yet: each refusal names what to do.
	f.waybill(t, 2, "release v0.1.0 --confirm", "--profile", "waybill init")
	f.waybill(t, 2, "plan v0.1.0", "--source", "waybill init")
	f.waybill(t, 2, "init --lab nowhere", "nowhere", "waybill-lab up")
	f.waybill(t, 2, "init --from ko", "want goreleaser")
	f.waybill(t, 0, "init --lab lab", "run git init", "nothing was written")

	f.git(t, "init -q -b main")
	f.git(t, "remote add origin git@github.com:example/hello.git")
	f.waybill(t, 0, "init --lab lab --from goreleaser --confirm",
		"not carried over: builds[0].ldflags: -X main.date", "not carried over: before", "not carried over: changelog", "not carried over: signs", "+ tool go")
	f.waybill(t, 0, "init --lab lab --from goreleaser --confirm", "nothing to do")

	// No commit, no tag.
	f.waybill(t, 2, "plan v0.1.0", "has no", "create the tag")
	f.git(t, "add --all")
	f.git(t, "commit -q -m release")
	f.waybill(t, 2, "release v0.1.0 --confirm", "create the tag")
	f.git(t, "tag v0.1.0")
	f.waybill(t, 0, "plan v0.1.0", "bin/"+runtime.GOOS+"/"+runtime.GOARCH+"/hello")

	// Without --confirm it says what it would do, and does nothing.
	f.waybill(t, 0, "release v0.1.0", "is not staged", "git+https://github.com/example/hello", "would be published at gs+http://", "nothing was done")
	if _, err := os.Stat(filepath.Join(f.dir, ".waybill")); !os.IsNotExist(err) {
		t.Errorf("a dry run made .waybill: %v", err)
	}
	edit(t, filepath.Join(f.dir, "main.go"), "hello ", "Hello ")
	f.waybill(t, 1, "release v0.1.0 --confirm", "SOURCE_DIRTY", "main.go")
	f.git(t, "checkout main.go")

	f.waybill(t, 0, "release v0.1.0 --confirm", "— build", "— promote", "nothing extra")
	f.waybill(t, 0, "verify release v0.1.0 --profile profile.yaml --download got", "nothing extra")
	f.run(t, 0, filepath.Join(f.dir, "got", "bin", runtime.GOOS, runtime.GOARCH, "hello"), nil, "hello 0.1.0")
	f.waybill(t, 0, "inspect got/release.manifest.sigstore.json", "git+https://github.com/example/hello")
	f.waybill(t, 0, "status v0.1.0", "public: yes")
	f.waybill(t, 0, "release v0.1.0 --confirm", "nothing extra")

	// The next version does not meet the state of the first.
	f.git(t, "commit -q --allow-empty -m next")
	f.git(t, "tag v0.2.0")
	f.waybill(t, 0, "status v0.2.0", "public: no")
	f.waybill(t, 0, "stage v0.2.0")
	if got := f.git(t, "status --porcelain"); strings.Contains(got, ".waybill") || strings.Contains(got, "lab/") {
		t.Errorf("untracked files:\n%s", got)
	}
}

// TestSourceOfAnotherPolicy: the remote of a clone is only a claim. Where the
// policy names another repository, the release is refused as before.
func TestSourceOfAnotherPolicy(t *testing.T) {
	f := newFirst(t)
	f.git(t, "init -q -b main")
	f.git(t, "remote add origin https://github.com/example/hello")
	f.waybill(t, 0, "init --lab lab --confirm")
	f.git(t, "add --all")
	f.git(t, "commit -q -m release")
	f.git(t, "tag v0.1.0")
	f.waybill(t, 0, "doctor v0.1.0", "0 bad")
	f.git(t, "remote set-url origin https://github.com/stranger/hello")
	f.waybill(t, 1, "doctor v0.1.0", "SOURCE_REPOSITORY", "git+file://")
	f.waybill(t, 1, "release v0.1.0 --confirm", "SOURCE_REPOSITORY")
	f.git(t, "remote set-url origin https://github.com/example/hello")

	// An identity of the profile that a release does not have is a mistake, and
	// those of the command line are the only ones.
	edit(t, filepath.Join(f.dir, "profile.yaml"), "builder-unisolated:", "bilder:")
	f.waybill(t, 2, "doctor v0.1.0", "bilder", "builder-unisolated")
	edit(t, filepath.Join(f.dir, "profile.yaml"), "bilder:", "builder-unisolated:")
	f.waybill(t, 2, "doctor v0.1.0 --identity-token release=lab/tokens/release", "no token was given for builder")
	f.waybill(t, 1, "doctor v0.1.0 --identity-token release=lab/tokens/builder --identity-token builder=lab/tokens/builder --identity-token builder-unisolated=lab/tokens/builder-unisolated", "SIGNED_AS_ELSE")
}
