//go:build unix

// Command waybill-release makes the releases v0.1.0-rc.1 and v0.1.0 of this
// repository in a lab, as its own release.yaml says, and has them verified: by
// the candidate's own program, by cosign 2 and 3, and by sha256sum.
// Two others build it again from its provenance, and sign that the bytes are equal.
//
// The repository is cloned, and only the clone is tagged. Policy and profile are
// those of the repository, with the addresses of the lab in place of GitHub's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/waybill-release/waybill/pkg/testing/releases"
	"github.com/waybill-release/waybill/test/lab"
)

// What is released: a candidate, then the release.
const (
	candidate = "v0.1.0-rc.1"
	final     = "v0.1.0"
)

// repository is the one that the policy names.
const repository = "waybill-release/waybill"

func main() {
	bin := flag.String("bin", "bin", "directory of the built commands")
	peers := flag.String("peers", "test/bin", "directory with cosign2 and cosign3")
	source := flag.String("source", ".", "the repository; its last commit is released")
	keep := flag.String("keep", "", "work in this directory, which must not exist, and leave it there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *bin, *peers, *source, *keep); err != nil {
		stop()
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// maker makes releases in a directory.
type maker struct {
	ctx        context.Context //nolint:containedctx // one run, from main to its end
	bin, peers string
	dir        string
	lab        *lab.Lab
	commit     string
	start      time.Time
	steps      int
}

func run(ctx context.Context, bin, peers, source, keep string) error {
	m := &maker{ctx: ctx, start: time.Now()}
	var err error
	if m.bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	if m.peers, err = filepath.Abs(peers); err != nil {
		return err
	}
	if m.dir, err = place(keep); err != nil {
		return err
	}
	if keep == "" {
		defer func() { _ = os.RemoveAll(m.dir) }() // what is left is in a temporary directory
	}
	m.say("starting the lab: identities as of GitHub's workflows, certificates, log, timestamps, registry, bucket, GitHub")
	if m.lab, err = lab.Start(ctx, lab.Options{Dir: m.path("lab")}); err != nil {
		return err
	}
	defer m.lab.Close()
	if err := m.prepare(source); err != nil {
		return err
	}
	for _, step := range []func() error{
		func() error { return m.release(candidate) }, func() error { return m.release(final) },
		m.verifiedByCandidate, m.verifiedByOthers, m.imagesRun, m.rebuiltByOthers,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	m.say("done: %s and %s were released and verified, in %s", candidate, final, time.Since(m.start).Round(time.Second))
	if keep == "" {
		fmt.Println("      nothing is kept; `make release KEEP=DIR` keeps all of it in DIR")
		return nil
	}
	fmt.Printf(`
  %[1]s/%[2]s      the files of the release, as a user downloads them
  %[1]s/state-%[2]s   what the build left, with its logs
  %[1]s/lab           the lab: bin/waybill-lab up --dir %[1]s/lab brings it back
  %[1]s/profile.yaml  to verify by: bin/waybill verify release %[2]s --profile %[1]s/profile.yaml
`, m.dir, final)
	return nil
}

// place makes the directory to work in.
func place(keep string) (string, error) {
	if keep == "" {
		return os.MkdirTemp("", "waybill-release-")
	}
	dir, err := filepath.Abs(keep)
	if err != nil {
		return "", err
	}
	return dir, os.Mkdir(dir, 0o755)
}

// prepare clones and tags, and writes profile and policy for the lab.
func (m *maker) prepare(source string) error {
	m.say("cloning the last commit; only the clone is tagged")
	if changed, err := m.output(source, "git", "status", "--porcelain"); err != nil || changed != "" {
		fmt.Printf("      not released, because they are not committed:\n%s%v\n", changed, err)
	}
	if _, err := m.output(m.dir, "git", "clone", "-q", absolute(source), "waybill"); err != nil {
		return err
	}
	commit, err := m.output(m.path("waybill"), "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	m.commit = strings.TrimSpace(commit)
	for _, version := range []string{candidate, final} {
		if _, err := m.output(m.path("waybill"), "git", "-c", "user.name=Waybill", "-c", "user.email=release@lab.invalid", "tag", "-a", "-m", version, version); err != nil {
			return err
		}
	}
	tag := releases.Tag{Commit: m.commit, Annotated: true}
	m.lab.Releases().Change(repository, func(r *releases.Repository) { r.Tags = map[string]releases.Tag{candidate: tag, final: tag} })
	m.say("policy and profile are those of the commit, with the lab in place of GitHub:")
	issuer, _ := m.identity("release.yml", final)
	err = m.adapt("policies/waybill-release.yaml", "policy.yaml",
		"https://token.actions.githubusercontent.com", issuer,
		`trustRoot: {lab: "off"}`+"\n", "",
		`repository: "git+https://github.com/`+repository+`"`, `repository: "git+file://`+m.path("waybill")+`"`)
	if err != nil {
		return err
	}
	bucket := strings.Replace(m.lab.Bucket, "http://", "gs+http://", 1)
	modules, err := m.modules()
	if err != nil {
		return err
	}
	err = m.adapt(".github/profile.yaml", "profile.yaml",
		"policy: ../policies/waybill-release.yaml\nsigningConfig: signing_config.json", "policy: policy.yaml\ntrustedRoot: trusted_root.json\nsigningConfig: signing_config.json\nmodules: {proxy: \""+modules+"\"}",
		"staging: staging/", "staging: "+bucket+"/staging/waybill/",
		"release: github://"+repository+"/", "release: "+strings.Replace(m.lab.GitHub, "http://", "github+http://", 1)+"/"+repository+"/",
		"staging: ghcr.io/waybill-release/staging", "staging: "+m.lab.Registry+"/staging",
		"release: ghcr.io/waybill-release", "release: "+m.lab.Registry+"/release")
	if err != nil {
		return err
	}
	return errors.Join(
		m.prepareConsumer(),
		os.WriteFile(m.path("trusted_root.json"), m.lab.TrustedRoot, 0o644),
		os.WriteFile(m.path("signing_config.json"), m.lab.SigningConfig, 0o644))
}

// adapt copies a file of the clone with replacements, and says them. Each must
// have something to replace.
func (m *maker) adapt(from, to string, pairs ...string) error {
	raw, err := os.ReadFile(m.path("waybill", from))
	if err != nil {
		return err
	}
	text := string(raw)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			return fmt.Errorf("%s has no %q to replace", from, pairs[i])
		}
		fmt.Printf("      %s: %q → %q\n", to, strings.TrimSpace(pairs[i]), pairs[i+1])
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return os.WriteFile(m.path(to), []byte(text), 0o644)
}

// identity is that of one of our workflows at a version's tag.
func (m *maker) identity(file, version string) (issuer, subject string) {
	return lab.Workflow{Repository: repository, File: file, Tag: version}.Identity(m.lab)
}

// token writes a token of one of our workflows.
func (m *maker) token(file, version string) (string, error) {
	text, err := lab.Workflow{Repository: repository, File: file, Tag: version, Commit: m.commit}.Token(m.lab)
	if err != nil {
		return "", err
	}
	name := m.path(file + ".token")
	return name, os.WriteFile(name, []byte(text), 0o600)
}

// release takes a version the whole way.
func (m *maker) release(version string) error {
	builder, err := m.token("build.yml", version)
	if err != nil {
		return err
	}
	releaser, err := m.token("release.yml", version)
	if err != nil {
		return err
	}
	state := []string{version, "--profile", "profile.yaml", "--state", "state-" + version, "--confirm"}
	m.say("%s: build for six platforms", version)
	if err := m.waybill(append([]string{"build", "--source", "waybill", "--identity-token", "builder=" + builder}, state[:len(state)-1]...)...); err != nil {
		return err
	}
	m.say("%s: describe, sign, seal, stage", version)
	if err := m.waybill(append([]string{"stage", "--source", "waybill", "--identity-token", "release=" + releaser}, state...)...); err != nil {
		return err
	}
	m.say("%s: judge what is staged, publish exactly that, judge it again", version)
	return m.waybill(append([]string{"release"}, state...)...)
}

func (m *maker) waybill(args ...string) error {
	return m.command(filepath.Join(m.bin, "waybill"), args...)
}

// command runs a program, and shows it, the end of what it prints, and its time.
func (m *maker) command(program string, args ...string) error {
	start, before := time.Now(), childrenCPU()
	fmt.Printf("      $ %s %s\n", filepath.Base(program), strings.Join(args, " "))
	out, err := m.output(m.dir, program, args...)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	fmt.Printf("        %s (%s, %s of processors)\n", lines[len(lines)-1], time.Since(start).Round(100*time.Millisecond), (childrenCPU() - before).Round(100*time.Millisecond))
	return nil
}

// childrenCPU is the processor time of all programs that have ended.
func childrenCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// output runs a program and returns its output; if it fails, the error has all
// that it printed.
func (m *maker) output(dir, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(m.ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+m.path("cache"), "HOME="+m.dir, "DOCKER_CONFIG="+m.dir, "GH_ENTERPRISE_TOKEN="+releases.Token)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if strings.HasPrefix(program, m.bin) { // steps take minutes
		cmd.Stderr = io.MultiWriter(&stderr, os.Stderr)
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", program, strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}

func (m *maker) path(elem ...string) string {
	return filepath.Join(append([]string{m.dir}, elem...)...)
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (m *maker) say(format string, args ...any) {
	m.steps++
	fmt.Printf("%4s  %d. %s\n", time.Since(m.start).Round(time.Second), m.steps, fmt.Sprintf(format, args...))
}
