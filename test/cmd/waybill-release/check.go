//go:build unix

package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// verifiedByCandidate downloads both releases, and verifies the final one with
// the program in the candidate's archive.
func (m *maker) verifiedByCandidate() error {
	m.say("a user downloads %s, which verifies it", candidate)
	verify := []string{"--profile", "profile.yaml"}
	if err := m.waybill(append([]string{"verify", "release", candidate, "--download", m.path(candidate)}, verify...)...); err != nil {
		return err
	}
	packed := fmt.Sprintf("waybill-%s-%s-%s.tar.gz", candidate, runtime.GOOS, runtime.GOARCH)
	program := m.path("waybill-"+candidate, "waybill")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		return err
	}
	if _, err := m.output(m.dir, "tar", "-xzf", m.path(candidate, packed), "--strip-components=1", "-C", filepath.Dir(program)); err != nil {
		return err
	}
	m.say("the programs of %s verify %s, contents of archives and images included", candidate, final)
	if err := m.command(program, "--version"); err != nil {
		return err
	}
	return errors.Join(
		m.command(program, append([]string{"verify", "release", final, "--depth", "full", "--output", "table", "--output", "json=" + m.path("verdict.json")}, verify...)...),
		m.command(program, append([]string{"verify", "release", final, "--download", m.path(final)}, verify...)...),
		m.command(filepath.Join(filepath.Dir(program), "k8s-verify-release"), append([]string{final}, verify...)...))
}

// verifiedByOthers has files and images verified by programs that others wrote.
func (m *maker) verifiedByOthers() error {
	m.say("sha256sum compares every file of %s", final)
	if _, err := m.output(m.path(final), "sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"); err != nil {
		return err
	}
	m.say("cosign 2 and 3 verify files, provenance and images, and refuse our other identity")
	archive := fmt.Sprintf("waybill-%s-linux-amd64.tar.gz", final)
	asked := 0
	for _, of := range []struct{ program, more string }{{"cosign2", "--new-bundle-format --offline"}, {"cosign3", ""}} {
		more := strings.Fields(of.more)
		for _, ask := range []struct {
			file, not string
			args      []string
		}{
			{"release.yml", "build.yml", []string{"verify-blob", "--bundle", archive + ".sigstore.json", archive}},
			{"release.yml", "build.yml", []string{"verify-blob", "--bundle", "SHA256SUMS.sigstore.json", "SHA256SUMS"}},
			{"release.yml", "build.yml", []string{"verify-blob", "--bundle", "bin/windows/amd64/waybill.exe.sigstore.json", "bin/windows/amd64/waybill.exe"}},
			{"build.yml", "release.yml", []string{"verify-blob-attestation", "--type", "slsaprovenance1", "--bundle", "provenance/pack-linux-amd64.sigstore.json", archive}},
			{"release.yml", "build.yml", []string{"verify", "--allow-http-registry", m.lab.Registry + "/release/waybill:" + final}},
			{"release.yml", "build.yml", []string{"verify", "--allow-http-registry", m.lab.Registry + "/release/k8s-verify-release:" + final}},
		} {
			args := append(append(ask.args, "--trusted-root", m.path("trusted_root.json"), "--use-signed-timestamps"), more...)
			if err := m.cosign(of.program, ask.file, args); err != nil {
				return err
			}
			if m.cosign(of.program, ask.not, args) == nil {
				return fmt.Errorf("%s accepts %s of %s", of.program, ask.args, ask.not)
			}
			asked++
		}
	}
	fmt.Printf("        %d answers, each with a refused twin\n", asked)
	return nil
}

// signature is the type of statement by which an image is signed.
const signature = `"type":"https://sigstore.dev/cosign/sign/v1"`

// cosign asks whether a workflow signed something. Of an image, cosign accepts
// any statement, provenance too; what is asked for is a signature.
func (m *maker) cosign(program, file string, args []string) error {
	issuer, subject := m.identity(file, final)
	out, err := m.output(m.path(final), filepath.Join(m.peers, program), append(args, "--certificate-identity", subject, "--certificate-oidc-issuer", issuer)...)
	if err == nil && args[0] == "verify" && !strings.Contains(out, signature) {
		return fmt.Errorf("%s says nothing of a signature: %s", program, out)
	}
	return err
}

// imagesRun runs the program of each image where nothing else is, under the
// image's account.
func (m *maker) imagesRun() error {
	if os.Geteuid() != 0 || runtime.GOOS != "linux" {
		m.say("images: not run, because that needs root on Linux")
		return nil
	}
	m.say("the images of %s run: nothing but the program is there, and it is not root", final)
	for _, repo := range []string{"waybill", "k8s-verify-release"} {
		ref, err := name.ParseReference(m.lab.Registry + "/release/" + repo + ":" + final)
		if err != nil {
			return err
		}
		image, err := remote.Image(ref, remote.WithContext(m.ctx), remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
		if err != nil {
			return err
		}
		if err := m.runImage(image, m.path("rootfs-"+repo)); err != nil {
			return fmt.Errorf("running %s: %w", ref, err)
		}
	}
	return nil
}

// runImage unpacks the regular files of an image and runs its entrypoint.
func (m *maker) runImage(image v1.Image, root string) error {
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	var user, group uint32
	if _, err := fmt.Sscanf(config.Config.User, "%d:%d", &user, &group); err != nil || user == 0 {
		return fmt.Errorf("user %q: want numbers, and not root", config.Config.User)
	}
	layers := mutate.Extract(image)
	defer layers.Close()
	for r := tar.NewReader(layers); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(root, filepath.FromSlash(h.Name))
		body, err := io.ReadAll(r)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, body, os.FileMode(h.Mode))); err != nil { //nolint:gosec // modes of files are small
			return err
		}
	}
	cmd := exec.CommandContext(m.ctx, config.Config.Entrypoint[0], "--version")
	cmd.Dir, cmd.Env = "/", []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: user, Gid: group}}
	out, err := cmd.CombinedOutput()
	fmt.Printf("        %s as %d: %s", config.Config.Entrypoint[0], user, out)
	return err
}
