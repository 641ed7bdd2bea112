package plan_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

var update = flag.Bool("update", false, "write the listings of the goldens again")

// golden reads a release.yaml of a real shape. The names of "kubernetes" are
// those of a Kubernetes release, on places of nobody.
func golden(t testing.TB, name string) (text string, p plan.Plan) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c, err := plan.ParseConfig(raw)
	if err != nil {
		t.Fatal(err)
	}
	p, err = c.Expand(ver(t, "v1.31.2"))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), p
}

// listed holds a plan against the listing that is kept beside its golden.
func listed(t *testing.T, name string, p plan.Plan) {
	t.Helper()
	var b strings.Builder
	for _, a := range p.Artifacts {
		fmt.Fprintf(&b, "%-12s %s\n", a.Class, a.Name)
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if b.String() != string(want) {
		t.Errorf("the plan of %s changed; look at the difference after go test -run %s -update", name, t.Name())
	}
}

// counted tells how many artifacts of each class there are.
func counted(p plan.Plan) map[plan.Class]int {
	counts := map[plan.Class]int{}
	for _, a := range p.Artifacts {
		counts[a.Class]++
	}
	return counts
}

func TestKubernetesShape(t *testing.T) {
	text, p := golden(t, "kubernetes")
	if n := strings.Count(text, "\n"); n > 60 {
		t.Errorf("the file has %d lines, more than 60", n)
	}
	if len(p.Artifacts) < 500 {
		t.Errorf("%d artifacts, fewer than 500", len(p.Artifacts))
	}
	listed(t, "kubernetes", p)
	// 4 servers of 12 and windows/amd64 of 6 programs, 6 light clients of 2;
	// test programs of 11 platforms.
	want := map[plan.Class]int{
		plan.Binary: 4*12 + 6 + 6*2 + 11*2, plan.Archive: 4 + 5 + 11 + 11 + 2,
		plan.Image: 6 + 6*4, plan.ImageChild: 6 * 4, plan.ConfigFile: 2, plan.Sums: 2,
	}
	files := want[plan.Binary] + want[plan.Archive]
	want[plan.Checksum] = 2 * files
	want[plan.Signature] = files + 2 + 1 // checksum files; the list of SBOMs
	want[plan.SBOM] = files + want[plan.Image] + 2
	want[plan.Provenance] = 11 + 1 + 31 + 1 + 6 // platforms, manifests, archives, source, images
	for class, n := range want {
		if got := counted(p)[class]; got != n {
			t.Errorf("%d of class %s, want %d", got, class, n)
		}
	}
	if len(p.Steps) != want[plan.Provenance] {
		t.Errorf("%d steps", len(p.Steps))
	}
}

// TestKubernetesNames holds the plan against what a Kubernetes release really
// publishes, name by name.
func TestKubernetesNames(t *testing.T) {
	_, p := golden(t, "kubernetes")
	there := map[plan.Class][]string{
		plan.Binary: {
			"bin/linux/amd64/kube-apiserver", "bin/linux/s390x/apiextensions-apiserver", "bin/linux/ppc64le/mounter",
			"bin/linux/arm64/kubelet", "bin/windows/amd64/kubectl.exe", "bin/windows/amd64/kube-proxy.exe", "bin/windows/amd64/kubeadm.exe",
			"bin/linux/386/kubectl", "bin/linux/arm/kubectl-convert", "bin/darwin/arm64/kubectl", "bin/windows/386/kubectl.exe",
			"bin/windows/arm64/kubectl-convert.exe",
		},
		plan.Archive: {
			"kubernetes-src.tar.gz", "kubernetes-manifests.tar.gz", "kubernetes-server-linux-amd64.tar.gz",
			"kubernetes-node-windows-amd64.tar.gz", "kubernetes-client-darwin-arm64.tar.gz", "kubernetes-test-linux-s390x.tar.gz",
		},
		plan.SBOM:       {"kubernetes-release.spdx", "kubernetes-source.spdx", "bin/linux/amd64/kubectl.spdx.json", "image/kube-proxy.spdx.json"},
		plan.Checksum:   {"bin/linux/amd64/kubectl.sha256", "kubernetes-src.tar.gz.sha512"},
		plan.Signature:  {"bin/linux/amd64/kubectl.sigstore.json", "SHA256SUMS.sigstore.json", "sboms.sigstore.json"},
		plan.Sums:       {"SHA256SUMS", "SHA512SUMS"},
		plan.Image:      {"oci/kube-apiserver", "oci/conformance", "oci/kubectl", "oci/kube-scheduler-arm64", "oci/conformance-s390x"},
		plan.ImageChild: {"oci/kube-proxy/linux/ppc64le"},
		plan.Provenance: {"provenance/compile-linux-amd64.sigstore.json", "provenance/images-kube-proxy.sigstore.json"},
		plan.ConfigFile: {"release.yaml", "release.lock.yaml"},
	}
	for class, names := range there {
		for _, name := range names {
			if a, ok := p.Find(name); !ok || a.Class != class {
				t.Errorf("%s: planned as %q, want %s", name, a.Class, class)
			}
		}
	}
	for _, name := range []string{
		"bin/windows/amd64/kube-apiserver.exe", "bin/linux/386/kubelet", "bin/darwin/arm64/kubectl.exe", "bin/linux/arm/kube-proxy",
		"kubernetes-server-windows-amd64.tar.gz", "kubernetes-node-darwin-arm64.tar.gz", "oci/kube-apiserver/windows/amd64",
		"SHA256SUMS.sha256", "release/stable.txt",
	} {
		if a, ok := p.Find(name); ok {
			t.Errorf("%s is planned as %s", name, a.Class)
		}
	}
	if want := []string{"release/stable.txt", "release/stable-1.txt", "release/stable-1.31.txt"}; !slices.Equal(p.Markers, want) {
		t.Errorf("markers %q, want %q", p.Markers, want)
	}
	if p.Files != "https://dl.example.test/release/v1.31.2/" || p.ReleaseCommit != "empty-child" || p.Tag != "v1.31.2" || len(p.Parameters) != 0 {
		t.Errorf("files %q, commit %q, tag %q, parameters %v", p.Files, p.ReleaseCommit, p.Tag, p.Parameters)
	}
}

// stepOf finds a step by instance.
func stepOf(t *testing.T, p plan.Plan, instance string) plan.Step {
	t.Helper()
	i := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.Instance == instance })
	if i < 0 {
		t.Fatalf("no step %s", instance)
	}
	return p.Steps[i]
}

// TestKubernetesSteps: what a step may use is spelled out in the plan.
func TestKubernetesSteps(t *testing.T) {
	_, p := golden(t, "kubernetes")
	compile := stepOf(t, p, "compile-windows-amd64")
	limits := plan.Limits{CPUs: 8, Memory: 24 << 30, Seconds: 7200}
	if !slices.Equal(compile.Tools, []string{"kube-cross"}) || len(compile.Network) != 0 || compile.Limits == nil || *compile.Limits != limits {
		t.Errorf("tools %q, network %q, limits %+v", compile.Tools, compile.Network, compile.Limits)
	}
	if want := []string{"KUBE_GIT_COMMIT={commit.id}", "KUBE_GIT_VERSION=v1.31.2", "SOURCE_DATE_EPOCH={commit.time}"}; !slices.Equal(compile.Env, want) {
		t.Errorf("environment %q, want %q", compile.Env, want)
	}
	at := compile.At("abc", 1700000000)
	if want := []string{"KUBE_GIT_COMMIT=abc", "KUBE_GIT_VERSION=v1.31.2", "SOURCE_DATE_EPOCH=1700000000"}; !slices.Equal(at.Env, want) {
		t.Errorf("environment of the commit %q, want %q", at.Env, want)
	}
	if compile.Env[0] != "KUBE_GIT_COMMIT={commit.id}" {
		t.Error("filling a step changed the plan")
	}
	// "take: [+ctl]" finds the programs of the archive's own platform.
	client := stepOf(t, p, "archives-kubernetes-client-windows-386.tar.gz")
	if want := []string{"bin/windows/386/kubectl.exe", "bin/windows/386/kubectl-convert.exe"}; !slices.Equal(client.Archive.Take, want) {
		t.Errorf("the client archive takes %q, want %q", client.Archive.Take, want)
	}
	source := stepOf(t, p, "source")
	if !source.Archive.Source || len(source.Archive.Take) != 0 || source.Network != nil || source.Tools != nil {
		t.Errorf("the source archive is %+v", source)
	}
	image := stepOf(t, p, "images-kube-proxy").Image
	if image.Base != "distroless-static" || len(image.Platforms) != 4 || image.Platforms[1].Also != "kube-proxy-arm64" ||
		image.Platforms[1].Files["/usr/local/bin/kube-proxy"] != "bin/linux/arm64/kube-proxy" {
		t.Errorf("the image is %+v", image)
	}
}

// TestEveryArtifactIsSpelledOut: name, class, step, platform, place and
// evidence, and all evidence that is named is planned.
func TestEveryArtifactIsSpelledOut(t *testing.T) {
	for _, name := range []string{"kubernetes", "goreleaser"} {
		_, p := golden(t, name)
		for _, a := range p.Artifacts {
			place := "files"
			if a.IsImage() {
				place = "images"
			}
			if a.Place != place || a.MediaType == "" {
				t.Errorf("%s: place %q, media type %q", a.Name, a.Place, a.MediaType)
			}
			if a.IsBuilt() != a.Has(plan.KindProvenance) {
				t.Errorf("%s: built %t, evidence %v", a.Name, a.IsBuilt(), a.Evidence)
			}
			for _, e := range a.Evidence {
				if e.Name == "" && e.Kind == "signature" && a.IsImage() {
					continue
				}
				if of, ok := p.Find(e.Name); !ok || of.IsImage() {
					t.Errorf("%s: its %s %q is not planned", a.Name, e.Kind, e.Name)
				}
			}
		}
	}
}

func TestGoReleaserShape(t *testing.T) {
	text, p := golden(t, "goreleaser")
	if n := strings.Count(text, "\n"); n > 20 {
		t.Errorf("the file has %d lines, more than 20", n)
	}
	listed(t, "goreleaser", p)
	step := stepOf(t, p, "compile-windows-amd64")
	run := []string{"go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -X main.version=v1.31.2", "-o", "../out/bin/windows/amd64/lantern.exe", "./cmd/lantern"}
	env := []string{"CGO_ENABLED=0", "GOARCH=amd64", "GOOS=windows"}
	if !slices.Equal(step.Run, run) || !slices.Equal(step.Env, env) {
		t.Errorf("the go step runs %q with %q", step.Run, step.Env)
	}
	if a, ok := p.Find("lantern_1.31.2_darwin_arm64.tar.gz"); !ok || a.Class != plan.Archive {
		t.Error("no archive for darwin/arm64")
	}
}

// BenchmarkExpand measures what a verifier pays for expanding the published
// release.yaml itself.
func BenchmarkExpand(b *testing.B) {
	for _, name := range []string{"kubernetes", "goreleaser"} {
		text, p := golden(b, name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c, err := plan.ParseConfig([]byte(text))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := c.Expand(p.Version); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(p.Artifacts)), "artifacts")
		})
	}
}
