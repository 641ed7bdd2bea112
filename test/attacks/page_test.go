package attacks

import (
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestPageCommands runs the commands of an evidence page about a file, and those
// about the whole release, as its readers do: all succeed, and none does after one
// byte of the file changed.
func TestPageCommands(t *testing.T) {
	accepted(t, commands())
	if _, err := exec.LookPath("openssl"); err != nil && os.Getenv("CI") == "" {
		t.Skipf("the page has commands of openssl: %v", err)
	}
	r := theWorld(t).leveled(t)
	at := r.asked(t)
	accepted(t, os.WriteFile(filepath.Join(r.dir, "policy.yaml"), []byte(r.text), 0o644))
	dir := filepath.Join(r.dir, at.Version)
	page := filepath.Join(r.dir, "page.html")
	if got := r.Run(t.Context(), "k8s-verify-release", at.Version, "--profile", at.Profile, "--output", "html="+page); got.Code != 0 {
		t.Fatalf("%s\n%s%s", got, got.Stdout, got.Stderr)
	}
	run := func(line string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.NewReplacer("profile.yaml", at.Profile, "trusted_root.json", r.Path("trusted_root.json")).Replace(line))
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "PATH="+r.Bin+":"+os.Getenv("PATH"), "XDG_CACHE_HOME="+r.Path("cache")), r.Env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	whole := "k8s-verify-release " + at.Version + " --profile profile.yaml --files " + dir
	sum := "openssl dgst -sha256 " + binary
	lines := slices.DeleteFunc(commandsOf(string(must[[]byte](t)(os.ReadFile(page)))), func(line string) bool {
		return line != whole && !strings.HasSuffix(line, " "+binary) && !strings.Contains(line, "  "+binary+"'") || strings.HasPrefix(line, "cosign ")
	})
	want := []string{whole, "printf '%s\\n' '" + hexOf(t, filepath.Join(dir, binary)) + "  " + binary + "' | sha256sum -c", sum, whole + " " + binary}
	if !slices.Equal(lines, want) {
		t.Fatalf("the page has the commands\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	for _, line := range lines {
		if out, err := run(line); err != nil || line == sum && !strings.Contains(out, hexOf(t, filepath.Join(dir, binary))) {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	before := hexOf(t, filepath.Join(dir, binary))
	raw := must[[]byte](t)(os.ReadFile(filepath.Join(dir, binary)))
	raw[0] ^= 1
	accepted(t, os.WriteFile(filepath.Join(dir, binary), raw, 0o755))
	for _, line := range lines {
		if out, err := run(line); line == sum && strings.Contains(out, before) || line != sum && err == nil {
			t.Errorf("a byte changed, and it passes: %s\n%s", line, out)
		}
	}
}

// commandsOf lists the commands of a page.
func commandsOf(page string) (all []string) {
	for _, block := range regexp.MustCompile(`<pre>(.*?)</pre>`).FindAllString(page, -1) {
		for _, line := range regexp.MustCompile(`<code><bdi>([^<]*)</bdi></code>`).FindAllStringSubmatch(block, -1) {
			all = append(all, html.UnescapeString(line[1]))
		}
	}
	return all
}

func hexOf(t *testing.T, file string) string {
	t.Helper()
	return digest.Of(digest.SHA256, must[[]byte](t)(os.ReadFile(file))).Hex()
}
