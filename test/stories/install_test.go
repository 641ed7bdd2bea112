package stories

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/waybill-release/waybill/test/scene"
)

// TestDocsInstall executes the page in an empty directory, against a release in
// the lab at the addresses of GitHub; cosign is the real one, with the lab's
// trust root. Its workflow, and those of the page on GitHub, pass actionlint.
func TestDocsInstall(t *testing.T) {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		t.Skip("the page is for linux/amd64")
	}
	uses(t, "curl")
	cosign := cosign3(t)
	d := waybillRelease(t)
	releases, authority := d.servesReleases(t, nil)
	repository, home := t.TempDir(), t.TempDir()
	for _, name := range []string{"profile.yaml", "policy.yaml", "trusted_root.json", "signing_config.json"} {
		save(t, d.read(t, name), repository, ".github", name)
	}
	script(t, repository, "git init -q -b main && git add . && git -c user.name=a -c user.email=a@example.test commit -qm policy && git tag "+scene.Version)
	issuer, subject := d.Lab.Identity("release")
	p := page{
		path: checkout(t, "docs", "install.md"), dir: t.TempDir(),
		env: []string{"HOME=" + home, authority, "PATH=" + filepath.Join(home, ".local", "bin") + ":" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + d.Path("cache"), "GIT_CONFIG_NOSYSTEM=1"},
		lab: strings.NewReplacer(
			"https://github.com/waybill-release/waybill/releases/download", releases.URL,
			"https://github.com/waybill-release/waybill/.github/workflows/release.yml@refs/tags/v0.1.0", subject,
			"https://token.actions.githubusercontent.com", issuer,
			"https://github.com/waybill-release/waybill waybill-policy", "file://"+repository+" waybill-policy",
			"cosign verify-blob", cosign+" verify-blob --trusted-root "+d.Path("trusted_root.json"),
		),
	}
	if err := p.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	listed := string(contents(t, p.dir, "verdict.txt"))
	for _, name := range []string{"waybill", "k8s-verify-release"} {
		if _, err := os.Stat(filepath.Join(home, ".local", "bin", name)); err != nil {
			t.Errorf("%v\n%s", err, listed)
		}
	}
	altered := p
	altered.dir = t.TempDir()
	other, authority := d.servesReleases(t, map[string][]byte{"/" + scene.Version + "/bin_linux_amd64_waybill": []byte("#!/bin/sh\n")})
	altered.env = append(altered.env, authority)
	altered.lab = strings.NewReplacer("https://github.com/waybill-release/waybill/releases/download", other.URL, "cosign verify-blob", cosign+" verify-blob --trusted-root "+d.Path("trusted_root.json"),
		"https://github.com/waybill-release/waybill/.github/workflows/release.yml@refs/tags/v0.1.0", subject, "https://token.actions.githubusercontent.com", issuer)
	if err := altered.run(t.Context()); err == nil || !strings.Contains(err.Error(), "verify-blob") {
		t.Errorf("an altered program: %v", err)
	}
}

// TestDocsPageWorkflows: the workflows on pages pass actionlint, and pin what
// they use.
func TestDocsPageWorkflows(t *testing.T) {
	for _, file := range []string{checkout(t, "docs", "install.md"), checkout(t, "docs", "how-to", "github-actions.md")} {
		blocks, err := page{path: file}.blocks()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, b := range blocks {
			if b.lang != "yaml" {
				continue
			}
			n++
			for _, fault := range lint(t, b.file, b.text) {
				t.Errorf("%s:%d: %s", file, b.line, fault)
			}
			for _, used := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(b.text, -1) {
				if !pinned.MatchString(used[1]) {
					t.Errorf("%s is not pinned", used[1])
				}
			}
		}
		if n == 0 {
			t.Errorf("%s has no workflow", file)
		}
	}
}

// TestFormula: the formula of a release in the lab names each of its archives
// with the bytes that were verified, and nothing if one is missing.
func TestFormula(t *testing.T) {
	d := waybillRelease(t)
	formula := filepath.Join(t.TempDir(), "waybill-formula")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", formula, "../cmd/waybill-formula").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sums := d.Run(t.Context(), "waybill", "verify", "release", scene.Version, "--profile", "profile.yaml", "--only", "files", "--print-sums")
	want(t, sums, 0)
	write := func(tag, sums string) (string, error) {
		cmd := exec.CommandContext(t.Context(), formula, tag)
		cmd.Stdin = strings.NewReader(sums)
		out, err := cmd.Output()
		return string(out), err
	}
	text, err := write(scene.Version, sums.Stdout)
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`url "https://github\.com/waybill-release/waybill/releases/download/v0\.1\.0/(\S+)"\n\s+sha256 "([0-9a-f]{64})"`).FindAllStringSubmatch(text, -1)
	seen := map[string]bool{}
	for _, n := range named {
		body := d.read(t, filepath.Join("state", "files", n[1]))
		if sum(string(body)).Hex() != n[2] {
			t.Errorf("%s has other bytes", n[1])
		}
		seen[n[1]] = true
	}
	for _, platform := range []string{"darwin-amd64", "darwin-arm64", "linux-amd64", "linux-arm64"} {
		name := fmt.Sprintf("waybill-%s-%s.tar.gz", scene.Version, platform)
		if !seen[name] {
			t.Errorf("%s is not in\n%s", name, text)
		}
		if _, err := write(scene.Version, strings.ReplaceAll(sums.Stdout, name, "other")); err == nil {
			t.Errorf("without the sum of %s there is a formula", name)
		}
	}
	// What Homebrew installs lies in the one directory that it enters.
	script(t, d.Dir, `tar -xzf "state/files/waybill-v0.1.0-linux-amd64.tar.gz" && test -x waybill/waybill && test -x waybill/k8s-verify-release`)
	for _, r := range []struct{ tag, sums string }{{"v0.1.1", sums.Stdout}, {"0.1", sums.Stdout}, {scene.Version, ""}, {scene.Version, sums.Stdout + sums.Stdout}, {scene.Version, "x  y\n" + sums.Stdout}} {
		if _, err := write(r.tag, r.sums); err == nil {
			t.Errorf("%s, %d bytes of sums: there is a formula", r.tag, len(r.sums))
		}
	}
}

// TestGoInstall: go install refuses a module that replaces or excludes another,
// and installs what its own go.mod selects.
func TestGoInstall(t *testing.T) {
	f, err := modfile.Parse("go.mod", contents(t, checkout(t, "go.mod")), nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Replace) > 0 || len(f.Exclude) > 0 || f.Module.Mod.Path != "github.com/waybill-release/waybill" {
		t.Errorf("%+v %+v %+v", f.Module, f.Replace, f.Exclude)
	}
	page := string(contents(t, checkout(t, "docs", "install.md")))
	for _, name := range []string{"waybill", "k8s-verify-release"} {
		if _, err := os.Stat(checkout(t, "cmd", name, "main.go")); err != nil || !strings.Contains(page, "go install "+f.Module.Mod.Path+"/cmd/"+name+"@v") {
			t.Error(errors.Join(err, fmt.Errorf("the page does not install %s", name)))
		}
	}
}

// cosign3 is the real cosign, which make peers builds. In CI it must be there.
func cosign3(t *testing.T) string {
	t.Helper()
	peers := os.Getenv("WAYBILL_PEERS")
	if peers == "" {
		peers = absolute(t, "..", "bin")
	}
	cosign := filepath.Join(peers, "cosign3")
	if _, err := os.Stat(cosign); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_PEERS") == "1" {
			t.Fatal(err)
		}
		t.Skipf("make peers builds it: %v", err)
	}
	return cosign
}
