package scene

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/test/lab"
)

// commitTime is when the example was committed: fixed, so that every scene
// builds the same bytes.
var commitTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// Quick is a release.yaml of two files, each made by one command in no time.
const Quick = `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
steps:
- name: draw
  run: [sh, -c, "echo a lot > {out}/lot"]
  outputs: [{class: file, name: lot}]
- name: copy
  run: [sh, -c, "cat {in}/lot > {out}/copy"]
  take: [lot]
  outputs: [{class: file, name: copy}]
places: {files: "https://dl.example.test/lantern/{version}/"}
`

func (s *Scene) writeTrust(context.Context) error {
	if err := s.writeFile("trusted_root.json", s.Lab.TrustedRoot); err != nil {
		return err
	}
	return s.writeFile("signing_config.json", s.Lab.SigningConfig)
}

// pushBase makes the base image on the spot: two platforms, one file.
func (s *Scene) pushBase(ctx context.Context) error {
	const passwd = "root:x:0:0:root:/:/sbin/nologin\n"
	file := image.File{Path: "/etc/passwd", Mode: 0o644, Size: int64(len(passwd)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(passwd)), nil
	}}
	platform := func(arch string) image.Platform {
		return image.Platform{OS: "linux", Arch: arch, Files: []image.File{file}}
	}
	built, err := image.Build(ctx, image.Spec{
		Base: image.Scratch(), Entrypoint: []string{"/etc/passwd"}, Created: commitTime, Platforms: []image.Platform{platform("amd64"), platform("arm64")},
	})
	if err != nil {
		return err
	}
	remote, err := registry.OpenRemote(s.Lab.Registry+"/base", http.DefaultTransport)
	if err != nil {
		return err
	}
	d, err := built.Write(ctx, remote, "static")
	if err != nil {
		return err
	}
	return s.writeLock(ctx, s.Lab.Registry+"/base/static@"+d.Digest.String())
}

// writeLock pins what the project is made with, as waybill lock does.
func (s *Scene) writeLock(ctx context.Context, base string) error {
	raw, err := os.ReadFile(filepath.Join(s.Example, plan.ConfigName))
	if err != nil {
		return err
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		return err
	}
	if !config.Locked() {
		return nil
	}
	bases := map[string]string{}
	if slices.Contains(config.Needs().Bases, "static") {
		bases["static"] = base
	}
	if slices.ContainsFunc(config.Needs().Tools, missing) {
		return nil // of a tool that is not here the story makes an image, and the lock
	}
	lock, err := lock.Lock(ctx, lock.Request{
		Config: config, Bases: bases, Source: os.DirFS(s.Example), Transport: http.DefaultTransport, Program: program,
	})
	if err != nil {
		return err
	}
	return s.writeFile("lantern/"+plan.LockName, lock.Encode())
}

// missing reports whether the PATH has no such program.
func missing(name string) bool {
	_, err := exec.LookPath(name)
	return err != nil
}

// program opens a program of the PATH.
func program(name string) (fs.File, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

// writeProject copies the example into a repository, commits and tags it.
func (s *Scene) writeProject(ctx context.Context) error {
	err := filepath.WalkDir(s.Example, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(s.Example, path)
		if err != nil {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return s.writeFile(filepath.Join("lantern", name), body)
	})
	if err != nil {
		return fmt.Errorf("copying the example: %w", err)
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "lantern: first light"}, {"tag", "-a", "-m", "lantern " + Version, Version},
	} {
		if err := s.git(ctx, args...); err != nil {
			return err
		}
	}
	return nil
}

func (s *Scene) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.Path("lantern")
	at := commitTime.Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Lantern", "GIT_AUTHOR_EMAIL=lantern@example.test", "GIT_AUTHOR_DATE="+at,
		"GIT_COMMITTER_NAME=Lantern", "GIT_COMMITTER_EMAIL=lantern@example.test", "GIT_COMMITTER_DATE="+at)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// Repository is how provenance names the project's repository.
func (s *Scene) Repository() string {
	if s.service != nil {
		return "git+" + s.service.server.URL + "/source/lantern"
	}
	if s.first != nil {
		return s.first.Repository()
	}
	return "git+file://" + s.Path("lantern")
}

// Source is the repository as commands name it.
func (s *Scene) Source() string {
	if s.service != nil {
		return s.Repository()
	}
	if s.first != nil {
		return s.first.Path("lantern")
	}
	return "lantern"
}

func (s *Scene) writePolicy(context.Context) error {
	policy := Policy(s.Lab, s.Repository())
	if s.service != nil {
		policy = s.Declared(policy)
	}
	return s.writeFile("policy.yaml", policy)
}

// Policy is the policy of a project that is released in a lab.
func Policy(l *lab.Lab, repository string) []byte {
	identity := func(role string) string {
		issuer, subject := l.Identity(role)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	return fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Policy
name: lantern-release
roles:
  release: [%s]
  verifier: [%s]
  policy: [%s]
builders:
- id: %s
  level: 2
  signers: [%s]
- id: %s
  level: 1
  signers: [%s]
source: {repository: %q}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`, identity("release"), identity("verifier"), identity("policy"),
		provenance.BuilderIsolated, identity("builder"), provenance.BuilderUnisolated, identity("builder-unisolated"), repository)
}

func (s *Scene) writeProfile(context.Context) error {
	return s.writeFile("profile.yaml", fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Profile
name: lantern
policy: policy.yaml
trustedRoot: trusted_root.json
signingConfig: signing_config.json
places:
  files:
    canonical: "https://dl.example.test/lantern/{version}/"
    staging: "%[1]s/staging/lantern/{version}/"
    release: "%[1]s/release/lantern/{version}/"
  images:
    canonical: registry.example.test/lantern
    staging: "%[2]s/staging/lantern"
    release: "%[2]s/release/lantern"
modules: {proxy: %[3]q}
`, s.Places.Files, s.Places.Images, s.Lab.Modules))
}
