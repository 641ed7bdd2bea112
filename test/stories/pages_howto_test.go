package stories

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/testing/releases"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/builds"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
	"github.com/waybill-release/waybill/test/servers/process"
)

// distroless is who signs the base image of a page.
const distroless = "keyless@distroless.iam.gserviceaccount.com"

// TestDocsHowTo executes the pages for those who use what Kubernetes publishes.
// A release of Kubernetes in a lab stands for the public one: programs of
// testdata/pages, first in PATH, turn to it.
func TestDocsHowTo(t *testing.T) {
	w := newHowTo(t)
	for _, r := range []struct {
		name   string
		before func(*testing.T, page) // makes what the page says is there
	}{
		{"package-kubernetes.md", w.packages}, {"kubernetes-in-a-container.md", w.built}, {"verify-in-go.md", func(*testing.T, page) {}},
		{"github-releases.md", w.pushed}, {"verify-kubernetes.md", w.mirrored}, {"air-gap.md", w.carried}, {"promote-images.md", w.promotable},
		{"run-the-gate.md", w.asked}, {"admission.md", w.asked}, {"from-krel-and-kpromo.md", w.krelStaged}, {"evidence-for-other-tools.md", w.goreleased},
		{"observe-a-build.md", w.observed}, {"verify-the-source.md", w.sourced}, {"verify-github-release.md", w.attestedOnGitHub},
		{"mirrors.md", w.copiedByTag},
		{"attack-the-builder.md", isolates},
	} {
		t.Run(r.name, func(t *testing.T) {
			p := w.page(t, r.name)
			r.before(t, p)
			if err := p.run(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// howTo is the world of the pages.
type howTo struct {
	lab  *lab.Lab
	dir  string // of the profile for Kubernetes, and of the trust root
	base string // the base image, with its digest
	// other is an image that somebody else signed.
	other string
	made  *kubernetes.Release
	// builds is the API of a build service.
	builds *builds.Server
}

func newHowTo(t *testing.T) howTo {
	t.Helper()
	v, err := version.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	w := howTo{lab: lab.New(t), dir: t.TempDir(), made: kubernetes.Make(v)}
	w.builds = builds.New(w.lab.Bucket)
	t.Cleanup(w.builds.Close)
	signer := kubernetes.Signer{Lab: w.lab}
	for _, step := range []func() error{
		func() error { return w.made.Sign(t.Context(), signer) },
		func() error { return w.made.Publish(t.Context(), w.lab) },
		func() error { return kubernetes.WriteProfile(w.lab, w.dir) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	request(t, http.MethodPut, w.bucket()+"/stable-1.31.txt", []byte(upstream))
	base := w.made.Clone().Images[0]
	base.Name = "static-debian12"
	remote, err := registry.OpenRemote(w.lab.Registry+"/distroless", http.DefaultTransport)
	if err := errors.Join(err, base.Resign(signer, distroless)); err != nil {
		t.Fatal(err)
	}
	if err := base.Push(t.Context(), remote); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(w.made.Images, func(i *kubernetes.Image) bool { return i.Name == "kubectl" })
	w.other = w.lab.Registry + "/release/kubernetes/kubectl@" + w.made.Images[i].Index.Descriptor.Digest.String()
	w.base = w.lab.Registry + "/distroless/static-debian12@" + base.Index.Descriptor.Digest.String()
	return w
}

// bucket is where the lab has what dl.k8s.io/release has.
func (w howTo) bucket() string { return w.lab.Bucket + "/release/kubernetes" }

// page sets the scene of a page: a git repository with what the page says is
// there before its first line.
func (w howTo) page(t *testing.T, name string) page {
	t.Helper()
	dir, programs, checkout := filepath.Join(t.TempDir(), "work"), absolute(t, "testdata", "pages"), absolute(t, "..", "..")
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOCACHE").Output() // XDG_CACHE_HOME would move it
	if err != nil {
		t.Fatal(err)
	}
	issuer, _ := w.lab.Identity("release")
	gcs := "gs+" + w.lab.Bucket
	p := page{path: filepath.Join(checkout, "docs", "how-to", name), dir: dir, env: []string{
		"PATH=" + programs + ":" + bin + ":" + os.Getenv("PATH"), "BIN=" + bin, "LAB=" + w.dir, "BUCKET=" + w.bucket(), "CHECKOUT=" + checkout, "GOCACHE=" + strings.TrimSpace(string(cache)),
		"XDG_CACHE_HOME=" + filepath.Join(w.dir, "cache"), "GOWORK=off", "GOFLAGS=" + strings.TrimSpace(os.Getenv("GOFLAGS")+" -mod=mod -trimpath"), "CGO_ENABLED=0", // as the commands were built: nothing is compiled again

		"GH_CONFIG_DIR=" + w.dir, "GH_ENTERPRISE_TOKEN=" + releases.Token, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Packager", "GIT_AUTHOR_EMAIL=packager@example.test",
		"GIT_COMMITTER_NAME=Packager", "GIT_COMMITTER_EMAIL=packager@example.test",
	}}
	project := strings.TrimSuffix(name, ".md")
	p.lab = strings.NewReplacer(
		"https://accounts.google.com", issuer, "https://accounts.example.test", issuer,
		"gcr.io/distroless/static-debian12@sha256:…", w.base, "registry.k8s.io/kubectl@sha256:…", w.other,
		`"kubernetes", gate`, fmt.Sprintf("%q, gate", filepath.Join(w.dir, "profile.yaml")),
		"each: {platform: [linux/amd64]}", fmt.Sprintf("each: {platform: [%s/%s]}", runtime.GOOS, runtime.GOARCH),
		"kind: Profile", "kind: Profile\ntrustedRoot: trusted_root.json",
		"gs://example-staging/kubectl/", gcs+"/staging/"+project+"/", "gs://example-packages/kubectl/", gcs+"/release/"+project+"/",
		"gs://example-staging/lantern/", gcs+"/staging/"+project+"/", "gs://example-packages/lantern/", gcs+"/release/"+project+"/",
		"git+https://git.example.test/lantern", "git+file://"+dir, "projects/example/", w.builds.URL+"/projects/example/",
		"--repo example/candle", "--repo "+w.lab.GitHub+"/"+wholeRepo+" --trusted-root trusted_root.json --trusted-root github_root.json --certificate-oidc-issuer "+w.lab.Issuer+"/workflows",
		"github://example/lantern/", "github+"+w.lab.GitHub+"/"+onGitHub+"/",
		"staging: registry.example.test/staging/kubectl", "staging: "+w.lab.Registry+"/staging/"+project,
		"release: registry.example.test/kubectl", "release: "+w.lab.Registry+"/release/"+project,
		"--from-images registry.example.test/built", "--from-images "+w.lab.Registry+"/built",
		"registry.example.test/staging/kubectl", w.lab.Registry+"/staging/"+project, "registry.example.test/staging/", w.lab.Registry+"/staging/",
		"registry.example.test/eu", w.lab.Registry+"/eu", "registry.example.test/us", w.lab.Registry+"/us",
		"registry.example.test/prod", w.lab.Registry+"/prod", "registry.example.test/asia", w.lab.Registry+"/asia", "registry.example.test/africa", w.lab.Registry+"/africa", "127.0.0.1:8443", process.Address(t), "127.0.0.1:8444", process.Address(t),
		"127.0.0.1:8445", process.Address(t), "127.0.0.1:8446", process.Address(t), "registry: registry.example.test,", "registry: "+w.lab.Registry+",", "/v2/staging/kubectl/", "/v2/staging/"+project+"/",
		signedDigest, imageOf(t, "kubectl", "amd64", "arm64").Descriptor.Digest.String(), unsignedDigest, imageOf(t, "other", "amd64").Descriptor.Digest.String(),
	)
	for _, file := range []string{"policy.yaml", "profile.yaml"} {
		if err := p.write(block{file: file, text: string(contents(t, checkout, "docs", "how-to", file))}); err != nil {
			t.Fatal(err)
		}
	}
	save(t, w.lab.TrustedRoot, dir, "trusted_root.json")
	save(t, w.lab.SigningConfig, dir, "signing_config.json")
	save(t, []byte(w.lab.Token("packager@example.test")), dir, "packager.token")
	if out, err := exec.CommandContext(t.Context(), "git", "-C", dir, "init", "-q").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return p
}

// packages makes a package as pkgs.k8s.io has it, and one of the reader's.
func (w howTo) packages(t *testing.T, p page) {
	t.Helper()
	deb := debian(t, w.made.Files["bin/linux/amd64/kubectl"])
	save(t, deb, p.dir, "kubectl_1.31.2-1.1_amd64.deb")
	save(t, deb, p.dir, "dist", "kubectl_1.31.2-1_amd64.deb")
}

// pushed makes a repository on GitHub that has the tag once the page has made it,
// and a program.
func (w howTo) pushed(t *testing.T, p page) {
	t.Helper()
	api := w.lab.Releases()
	api.Spoil(func(_ http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/git/ref/tags/") {
			return false
		}
		out, err := exec.CommandContext(r.Context(), "git", "-C", p.dir, "rev-parse", upstream+"^{commit}").Output()
		if err == nil {
			api.Change(onGitHub, func(r *releases.Repository) {
				r.Tags = map[string]releases.Tag{upstream: {Commit: strings.TrimSpace(string(out))}}
			})
		}
		return false
	})
	save(t, []byte("a program"), p.dir, "dist", "bin", "lantern")
}

// built pushes an image as docker would: the docker of testdata/pages makes none.
func (w howTo) built(t *testing.T, _ page) {
	t.Helper()
	remote, err := registry.OpenRemote(w.lab.Registry+"/built", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	image := imageOf(t, "kubectl", "amd64", "arm64")
	_, err = image.Write(t.Context(), remote, "kubectl")
	if err := errors.Join(err, remote.Tag(t.Context(), "kubectl", upstream, image.Descriptor)); err != nil {
		t.Fatal(err)
	}
}

// debian makes a package with one program.
func debian(t *testing.T, program []byte) []byte {
	t.Helper()
	const control = "Package: kubectl\nVersion: 1.31.2-1.1\nArchitecture: amd64\nMaintainer: Nobody <nobody@example.test>\nDescription: made for tests\n"
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		body []byte
	}{
		{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", tarOf(t, "./control", 0o644, []byte(control))}, {"data.tar.gz", tarOf(t, "./usr/bin/kubectl", 0o755, program)},
	} {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n%s", m.name, 0, 0, 0, 0o100644, len(m.body), m.body)
		if len(m.body)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	return out.Bytes()
}

// tarOf makes a .tar.gz of one file.
func tarOf(t *testing.T, name string, mode int64, body []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(body))})
	_, written := w.Write(body)
	if err := errors.Join(err, written, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// absolute is the absolute path of a file.
func absolute(t *testing.T, elem ...string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// contents reads a file.
func contents(t *testing.T, elem ...string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(elem...))
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// save writes a file, and the directories above it.
func save(t *testing.T, body []byte, elem ...string) {
	t.Helper()
	path := filepath.Join(elem...)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, body, 0o644)); err != nil {
		t.Fatal(err)
	}
}
