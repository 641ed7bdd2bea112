// Package tree makes a large release the way every release is made: a project
// in a git repository, a lab to sign with, and the product's own commands from
// plan to publication. What comes out is a directory that anybody can verify.
//
//	err := tree.Make(ctx, tree.Request{Shape: shape, Dir: dir, Bin: bin})
//
// The bytes of the outputs are the same on every machine; the signatures are
// of the lab that made them, whose trusted root lies beside the tree.
package tree

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/test/lab"
)

// Version is the release that is made.
const Version = "v1.0.0"

const canonical = "https://dl.example.test/freight/{version}/"

//go:embed testdata/filler/main.go
var filler string

// Request says what to make and where. Dir must be empty or absent; Bin has
// the built commands.
type Request struct {
	Shape Shape
	Dir   string
	Bin   string
	Log   io.Writer
}

// Names of what says, beside a tree, who signed its files, for peers that want
// to be told.
const (
	RootName    = "trusted_root.json"
	IssuerName  = "release.issuer"
	SubjectName = "release.subject"
)

// Released is where the tree made in dir lies.
func Released(dir string) string { return filepath.Join(dir, "release", Version) }

// Profile is the profile of the tree made in dir.
func Profile(dir string) string { return filepath.Join(dir, "profile.yaml") }

// maker is a tree on its way.
type maker struct {
	Request
	lab *lab.Lab
}

// Make makes the tree, which takes about a minute for a gigabyte.
func Make(ctx context.Context, req Request) (err error) {
	if err := req.Shape.check(); err != nil {
		return err
	}
	if entries, err := os.ReadDir(req.Dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("making a tree in %q: it is not empty", req.Dir)
	}
	if err := os.MkdirAll(req.Dir, 0o755); err != nil {
		return err
	}
	l, err := lab.Start(ctx, lab.Options{Dir: filepath.Join(req.Dir, "lab")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	m := &maker{Request: req, lab: l}
	for _, do := range []func(context.Context) error{m.writeProject, m.writeConsumer, m.stage, m.forget, m.release, m.tidy} {
		if err := do(ctx); err != nil {
			return fmt.Errorf("making a tree in %q: %w", req.Dir, err)
		}
	}
	return nil
}

// writeProject commits the project to a repository and tags it.
func (m *maker) writeProject(ctx context.Context) error {
	err := m.write(map[string]string{
		"source/main.go":      filler,
		"source/go.mod":       "module example.test/freight\n\ngo 1.26\n",
		"source/sizes.txt":    m.Shape.sizesFile(),
		"source/release.yaml": m.Shape.releaseYAML("https://example.test/freight", canonical),
	})
	if err != nil {
		return err
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "freight: load"}, {"tag", "-a", "-m", "freight " + Version, Version},
	} {
		cmd := exec.CommandContext(ctx, "git", args...)
		const at = "2026-01-02T03:04:05Z"
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
			"GIT_AUTHOR_NAME=Freight", "GIT_AUTHOR_EMAIL=freight@example.test", "GIT_AUTHOR_DATE="+at,
			"GIT_COMMITTER_NAME=Freight", "GIT_COMMITTER_EMAIL=freight@example.test", "GIT_COMMITTER_DATE="+at)
		if err := m.run(cmd, filepath.Join(m.Dir, "source")); err != nil {
			return err
		}
	}
	return nil
}

// writeConsumer writes what a verifier needs: trust root, policy, profile.
func (m *maker) writeConsumer(context.Context) error {
	role := func(name string) string {
		issuer, subject := m.lab.Identity(name)
		return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
	}
	place := func(name string) string {
		u := url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(m.Dir, name)) + "/"}
		return u.String() + "{version}/"
	}
	files := map[string]string{
		RootName:              string(m.lab.TrustedRoot),
		"signing_config.json": string(m.lab.SigningConfig),
		"policy.yaml": fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: freight-release
roles:
  release: [%s]
builders:
- {id: %q, level: 2, signers: [%s]}
- {id: %q, level: 1, signers: [%s]}
source: {repository: %q, ref: "refs/tags/{version}"}
build: # as much as the shipped policies ask
  types: [%q]
  parameters:
  - {name: config.repository, is: "{repository}"}
  - {name: config.ref, is: "{ref}"}
  - {name: config.path, is: release.yaml}
  - {name: config.sha256, any: true}
  - {name: version, is: "{version}"}
  - {name: step, any: true}
  - {name: each, any: true, optional: true}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
  level: 1
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}, level: 1}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`, role("release"), provenance.BuilderIsolated, role("builder"), provenance.BuilderUnisolated, role("builder-unisolated"),
			"git+file://"+filepath.Join(m.Dir, "source"), provenance.BuildType),
		"profile.yaml": fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: freight
policy: policy.yaml
trustedRoot: trusted_root.json
signingConfig: signing_config.json
places:
  files: {canonical: %q, staging: %q, release: %q}
`, canonical, place("staging"), place("release")),
	}
	for _, name := range []string{"builder", "builder-unisolated", "release"} {
		files[name+".token"] = m.lab.Token(name)
	}
	files[IssuerName], files[SubjectName] = m.lab.Identity("release")
	return m.write(files)
}

func (m *maker) stage(ctx context.Context) error {
	args := []string{"stage", Version, "--profile", "profile.yaml", "--state", "state", "--source", "source", "--confirm"}
	for _, name := range []string{"builder", "builder-unisolated", "release"} {
		args = append(args, "--identity-token", name+"="+name+".token")
	}
	return m.run(exec.CommandContext(ctx, filepath.Join(m.Bin, "waybill"), args...), m.Dir)
}

func (m *maker) release(ctx context.Context) error {
	args := []string{"release", Version, "--profile", "profile.yaml", "--state", "state", "--confirm"}
	return m.run(exec.CommandContext(ctx, filepath.Join(m.Bin, "waybill"), args...), m.Dir)
}

// forget drops the files that were staged from: the release is promoted from
// staging alone, and a disk has seldom room for it three times.
func (m *maker) forget(context.Context) error { return os.RemoveAll(filepath.Join(m.Dir, "state")) }

// tidy keeps only what verification needs; the copies are as large as the tree.
func (m *maker) tidy(context.Context) error {
	var errs []error
	for _, name := range []string{"state", "staging", "builder.token", "builder-unisolated.token", "release.token"} {
		errs = append(errs, os.RemoveAll(filepath.Join(m.Dir, name)))
	}
	return errors.Join(errs...)
}

func (m *maker) run(cmd *exec.Cmd, dir string) error {
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, m.Log, m.Log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(cmd.Args[:2], " "), err)
	}
	return nil
}

func (m *maker) write(files map[string]string) error {
	for name, body := range files {
		path := filepath.Join(m.Dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(body), 0o600); err != nil {
			return err
		}
	}
	return nil
}
