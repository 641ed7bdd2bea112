package stories

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/test/lab/builds"
	"github.com/waybill-release/waybill/test/lab/staging"
	"github.com/waybill-release/waybill/test/scene"
)

// The digests on pages: of an image that the release identity signed, and of one
// that is unsigned.
const (
	signedDigest   = "sha256:2bc98ecf3f2f606d851d332becb553e6fc75492ac17132c56e8c4e41860255d3"
	unsignedDigest = "sha256:4aabadd384e7523b263dea77f6c8151886752d80859f3b806b5c1ef1f54fe0e0"
)

// types runs commands that a page assumes were run before its first line.
func (p page) types(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if err := p.typed(t.Context(), command{typed: c}); err != nil {
			t.Fatal(err)
		}
	}
}

// staged seals an image, and promotes it to the staging registry.
func (w howTo) staged(t *testing.T, p page) {
	t.Helper()
	w.built(t, p)
	if err := p.write(block{file: "release.yaml", text: `apiVersion: waybill/v1
kind: Release
name: kubectl-image
source: {repository: "https://git.example.test/kubectl-image"}
outputs: [{class: image, name: kubectl, platforms: [linux/amd64, linux/arm64]}]
places: {files: "https://packages.example.test/kubectl/{version}/", images: registry.example.test/kubectl}
`}); err != nil {
		t.Fatal(err)
	}
	p.types(t, `mkdir dist && git add release.yaml && git commit -q -m kubectl && git tag v1.31.2`,
		`waybill seal v1.31.2 --source . --from dist --from-images registry.example.test/built --profile profile.yaml --identity-token release=packager.token --confirm`,
		`waybill promote v1.31.2 --to staging --profile profile.yaml --confirm`, `rm -r .waybill dist`)
}

// promotable stages a signed image and an unsigned one, and names the verifier.
func (w howTo) promotable(t *testing.T, p page) {
	t.Helper()
	w.staged(t, p)
	remote, err := registry.OpenRemote(w.lab.Registry+"/staging/"+strings.TrimSuffix(filepath.Base(p.path), ".md"), http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := imageOf(t, "other", "amd64").Write(t.Context(), remote, "kubectl"); err != nil {
		t.Fatal(err)
	}
	issuer, _ := w.lab.Identity("release")
	edit(t, filepath.Join(p.dir, "policy.yaml"), "roles:\n", "roles:\n  verifier: [{issuer: \""+issuer+"\", subject: promoter@example.test, type: email}]\n")
	save(t, []byte(w.lab.Token("promoter@example.test")), p.dir, "promoter.token")
}

// copiedByTag has a mirror with the image alone.
func (w howTo) copiedByTag(t *testing.T, p page) {
	t.Helper()
	w.promotable(t, p)
	remote, err := registry.OpenRemote(w.lab.Registry+"/africa", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	image := imageOf(t, "kubectl", "amd64", "arm64")
	_, err = image.Write(t.Context(), remote, "kubectl")
	if err := errors.Join(err, remote.Tag(t.Context(), "kubectl", upstream, image.Descriptor)); err != nil {
		t.Fatal(err)
	}
}

// asked stages an image, and makes the tokens of callers of the gate. A gate that a
// page leaves running is stopped.
func (w howTo) asked(t *testing.T, p page) {
	t.Helper()
	w.staged(t, p)
	for name, claims := range map[string]map[string]any{
		"caller": {"aud": audience}, "expired": {"aud": audience, "exp": time.Now().Add(-time.Hour).Unix()}, "other": {"aud": "sigstore"},
	} {
		text, err := w.lab.Mint("ci@example.test", claims)
		if err != nil {
			t.Fatal(err)
		}
		save(t, []byte(text), p.dir, name+".token")
	}
	t.Cleanup(func() {
		raw, _ := os.ReadFile(filepath.Join(p.dir, "gate.pid"))
		if pid, err := strconv.Atoi(strings.TrimSpace(string(raw))); err == nil {
			if gate, err := os.FindProcess(pid); err == nil {
				_ = gate.Kill() // it has ended if the page was right
			}
		}
	})
}

// goreleased lays out what GoReleaser leaves.
func (howTo) goreleased(t *testing.T, p page) {
	t.Helper()
	uses(t, "make")
	if err := staging.GoReleaser("v0.2.0").Write(filepath.Join(p.dir, "dist")); err != nil {
		t.Fatal(err)
	}
}

// observed commits the release.yaml of the page, and records a build of that
// commit.
func (w howTo) observed(t *testing.T, p page) {
	t.Helper()
	const archive = "lantern_0.2.0_linux_amd64.tar.gz"
	made := staging.Files{archive: staging.GoReleaser("v0.2.0")[archive]}
	if err := made.Write(filepath.Join(p.dir, "dist")); err != nil {
		t.Fatal(err)
	}
	all, err := p.blocks()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if b.file == "release.yaml" {
			err = p.write(b)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = p.dir, append(os.Environ(), p.env...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("add", "release.yaml")
	git("commit", "-q", "-m", "lantern v0.2.0")
	git("tag", "v0.2.0")
	b := builds.Build{Owner: "example", ID: "17", Repository: "git+file://" + p.dir, Tag: "v0.2.0", Commit: git("rev-parse", "HEAD"), Files: made, Listed: []string{"helper"}}
	if _, err := w.builds.CloudBuild(b, nil); err != nil {
		t.Fatal(err)
	}
	save(t, []byte(w.lab.Token("observer@example.test")), p.dir, "observer.token")
}

// sourced makes the clone of a project with a signed tag, the summary of its
// revision by a source verifier, and a checkout of Kubernetes.
func (w howTo) sourced(t *testing.T, p page) {
	t.Helper()
	uses(t, "ssh-keygen")
	for _, name := range []string{"verifier", "officer"} {
		save(t, []byte(w.lab.Token(name+"@example.test")), p.dir, name+".token")
	}
	p.types(t, `ssh-keygen -q -t ed25519 -N '' -f key && echo "maintainer@example.test $(cat key.pub)" > allowed_signers`,
		`git init -q lamp && cd lamp && git commit -q --allow-empty -m first && git tag v0.1.0 && git commit -q --allow-empty -m second -m 'Reviewed-by: L <l@example.test>'`,
		`git -C lamp -c gpg.format=ssh -c user.signingkey=$PWD/key.pub tag -s -m v0.2.0 v0.2.0`)
	layScripts(t, filepath.Join(p.dir, "kubernetes"), upstream)
	s := &scene.Scene{Options: scene.Options{Dir: p.dir}, Lab: w.lab}
	head, err := exec.CommandContext(t.Context(), "git", "-C", filepath.Join(p.dir, "lamp"), "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	const address = "git+https://git.example.test/lamp"
	raw, err := s.Sign(t.Context(), "source-verifier@example.test", fmt.Appendf(nil, `{"_type":%q,"subject":[{"digest":{"gitCommit":%q}}],"predicateType":%q,"predicate":{`+
		`"verifier":{"id":"https://source.example.test/verifier"},"timeVerified":%q,"resourceUri":%q,"policy":{"uri":"https://source.example.test/policy"},`+
		`"verificationResult":"PASSED","verifiedLevels":["SLSA_SOURCE_LEVEL_3"],"slsaVersion":"1.2"}}`,
		intoto.TypeV1, strings.TrimSpace(string(head)), vsa.PredicateType, time.Now().UTC().Format(time.RFC3339), address))
	if err != nil {
		t.Fatal(err)
	}
	save(t, raw, p.dir, "source.vsa.sigstore.json")
}

// krelStaged lays out what krel stages, without images, and the release.yaml that
// pkg/release/plan shows for it, with the addresses of the page.
func (w howTo) krelStaged(t *testing.T, p page) {
	t.Helper()
	w.promotable(t, p)
	files := staging.Krel("v1.33.5", "94db9bed00000000000000000000000000000000")
	if err := files.Write(filepath.Join(p.dir, "stage")); err != nil {
		t.Fatal(err)
	}
	var config []string
	for line := range strings.Lines(string(contents(t, "..", "..", "pkg", "release", "plan", "testdata", "from-krel.yaml"))) {
		switch {
		case strings.Contains(line, "class: image") || strings.HasPrefix(line, "  images:") || strings.HasPrefix(line, "markers:"):
			continue
		case strings.HasPrefix(line, "source:"):
			line = "source: {repository: \"https://git.example.test/kubernetes\", releaseCommit: empty-child}\n"
		}
		config = append(config, strings.Replace(line, "https://dl.k8s.io/release/", "https://packages.example.test/kubectl/", 1))
	}
	save(t, []byte(strings.Join(config, "")), p.dir, "release.yaml")
}

// mirrored makes a mirror on this machine of what Kubernetes publishes.
func (w howTo) mirrored(t *testing.T, p page) {
	t.Helper()
	for name, body := range w.made.Files {
		save(t, body, p.dir, "mirror", upstream, filepath.FromSlash(name))
	}
}

// carried publishes a release of a project.
func (w howTo) carried(t *testing.T, p page) {
	t.Helper()
	save(t, []byte("a program"), p.dir, "dist", "lantern")
	if err := p.write(block{file: "release.yaml", text: `apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://git.example.test/lantern"}
outputs: [{class: file, name: lantern}]
places: {files: "https://packages.example.test/kubectl/{version}/"}
`}); err != nil {
		t.Fatal(err)
	}
	p.types(t, `git add release.yaml && git commit -q -m lantern && git tag v1.0.0`,
		`waybill seal v1.0.0 --source . --from dist --profile profile.yaml --identity-token release=packager.token --confirm`,
		`waybill promote v1.0.0 --to staging --profile profile.yaml --confirm`, `waybill release v1.0.0 --profile profile.yaml --confirm`,
		`rm -r .waybill dist`)
}

// TestDeployAlerts: each alert rule fires for what it is about, and not for a
// replica, or a host, that differs in this alone.
func TestDeployAlerts(t *testing.T) {
	uses(t, "promtool")
	for name, condition := range map[string]string{"alerts.yaml": "waybill_gate_unrecorded_total[5m]) > 0", "alerts-watch.yaml": `{command="watch"} > 1800`} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rules := contents(t, "..", "..", "cmd", "waybill", "deploy", name)
			save(t, contents(t, "testdata", name), dir, "alerts.yaml")
			promtool := func(rules string, args ...string) error {
				save(t, []byte(rules), dir, "alerts-rules.yaml")
				cmd := exec.CommandContext(t.Context(), "promtool", args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					return fmt.Errorf("promtool %s: %w\n%s", strings.Join(args, " "), err, out)
				}
				return nil
			}
			if err := errors.Join(promtool(string(rules), "check", "rules", "alerts-rules.yaml"), promtool(string(rules), "test", "rules", "alerts.yaml")); err != nil {
				t.Error(err)
			}
			other := strings.Replace(string(rules), condition, strings.Replace(condition, "> ", "> 9000000", 1), 1)
			if err := promtool(other, "test", "rules", "alerts.yaml"); err == nil || other == string(rules) {
				t.Error("a rule that never fires passes the test")
			}
		})
	}
}
