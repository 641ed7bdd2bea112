package servers

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/servers/process"
)

var (
	// typed is a command of a transcript, with what it prints.
	typed = regexp.MustCompile(`(?m)^\$ ((?:.*\\\n)*.*\n)((?:[^$].*\n|\n)*)`)
	exits = regexp.MustCompile(`\(exit (\d+)\)\n\z`)
)

// page types the transcript of docs/how-to/run-the-gate.md: crane, cosign and
// oras through the proxy. An ellipsis stands for what differs from run to run,
// and a line with nothing else for any lines.
func (p gateProxy) page(t *testing.T) {
	const path = "../../docs/how-to/run-the-gate.md"
	raw, err := os.ReadFile(filepath.FromSlash(path))
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(raw), "<!-- transcript: checked by test/servers TestGateProxy -->\n```console\n")
	text, _, closed := strings.Cut(text, "```")
	commands := typed.FindAllStringSubmatch(text, -1)
	if !found || !closed || len(commands) == 0 {
		t.Fatalf("%s has no transcript, or one that does not end", path)
	}
	env := p.pageWorld(t)
	issuer, subject := p.Lab.Identity(lab.RoleRelease)
	real := strings.NewReplacer("gate.example.test", p.host, "registry.example.test", p.behind, "https://accounts.example.test", issuer, "packager@example.test", subject)
	for _, c := range commands {
		command, shows, status := real.Replace(c[1]), c[2], 0
		if at := exits.FindStringSubmatch(shows); at != nil {
			status, _ = strconv.Atoi(at[1])
			shows = strings.TrimSuffix(shows, at[0])
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
		cmd.Env, cmd.Dir = env, p.pushes["crane"].dir
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		pattern := regexp.MustCompile(`(?m)^…\n`).ReplaceAllString(regexp.QuoteMeta(real.Replace(shows)), `(?:.*\n)*?`)
		pattern = `\A` + strings.ReplaceAll(pattern, "…", ".*") + `\z`
		if got := cmd.ProcessState.ExitCode(); got != status || shows != "" && !regexp.MustCompile(pattern).Match(out) {
			t.Fatalf("%s shows\n$ %s%s(exit %d)\nbut the command ends with %d and prints\n%s", path, c[1], shows, status, got, out)
		}
	}
}

// pageWorld makes what the page says is there, and returns what its commands see:
// the clients, whose credentials may push, and in the directory kubelet those that
// may only pull.
func (p gateProxy) pageWorld(t *testing.T) []string {
	c, programs := p.pushes["crane"], t.TempDir()
	for name, peer := range map[string]string{"crane": "crane", "oras": "oras", "cosign": "cosign3"} {
		if err := os.Symlink(process.Peer(t, peer), filepath.Join(programs, name)); err != nil {
			t.Fatal(err)
		}
	}
	machine := filepath.Join(c.dir, "kubelet")
	if err := os.Mkdir(machine, 0o700); err != nil {
		t.Fatal(err)
	}
	token := p.mint(t, "kubelet@example.test")
	p.login(t, client{dir: machine}, token)
	writeText(t, filepath.Join(machine, "token"), token)
	for _, name := range []string{"trusted_root.json", "signing_config.json"} {
		raw, err := os.ReadFile(p.Path(name))
		if err != nil {
			t.Fatal(err)
		}
		writeText(t, filepath.Join(c.dir, name), string(raw))
	}
	writeText(t, filepath.Join(c.dir, "release.token"), p.Lab.Token(lab.RoleRelease))
	writeText(t, filepath.Join(c.dir, "sbom.json"), `{"bom": 1}`)
	if out, err := exec.CommandContext(t.Context(), "tar", "cf", filepath.Join(c.dir, "layer.tar"), "-C", c.dir, "sbom.json").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	env := []string{"PATH=" + programs + ":" + os.Getenv("PATH")}
	for _, e := range c.env {
		if !strings.HasPrefix(e, "PATH=") {
			env = append(env, e)
		}
	}
	return env
}
