package stories

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/test/lab/staging"
	"github.com/waybill-release/waybill/test/scene"
)

// tookOver is the version that other tools make here.
const tookOver = "v0.2.0"

// toolmade is what another tool left, and how it is sealed.
type toolmade struct {
	example string // the release.yaml that pkg/release/plan shows for it
	files   staging.Files
	images  []string
	// there are names of the release that must be published.
	there []string
	// rebuilt is a file that may have other bytes, by what the tool says.
	rebuilt string
	// rows change one fact of the place.
	rows []fromRow
}

// fromRow changes the files of a place, and names the code of the refusal.
type fromRow struct {
	name   string
	change func(staging.Files)
	code   string
	says   string
}

func krelMade() toolmade {
	const stage = tookOver + "/gcs-stage/" + tookOver + "/"
	become := func(name string, body []byte) func(staging.Files) { return func(f staging.Files) { f[name] = body } }
	m := toolmade{
		example: "from-krel.yaml", files: staging.Krel(tookOver, "94db9bed00000000000000000000000000000000"), images: staging.KrelImages(), rebuilt: stage + "bin/linux/amd64/kubectl",
		there: []string{"bin/linux/amd64/kube-apiserver", "bin/linux/arm64/kubectl.sha256", "bin/linux/amd64/kube-scheduler.docker_tag",
			"provenance.json", "SHA256SUMS", "kubernetes-src.tar.gz", "kubernetes-release.spdx"},
	}
	sums := m.files[stage+"SHA256SUMS"]
	m.rows = []fromRow{
		{"an image archive more", become(tookOver+"/release-images/amd64/helper.tar", []byte("x")), "SEAL_EXTRA", "helper.tar"},
		{"a file that stays behind less", func(f staging.Files) { delete(f, "src.tar.gz") }, "", ""},
		{"a program changed", become(stage+"bin/linux/amd64/kubectl", append(staging.Program("linux/amd64", "kubectl"), '!')), "EVIDENCE_CONFLICT", "SHA256SUMS has a different digest for this file"},
		{"a sidecar changed", become(stage+"kubernetes.tar.gz.sha256", []byte(strings.Repeat("0", 64))), "EVIDENCE_CONFLICT", "kubernetes.tar.gz.sha256 has a different digest for this file"},
		{"a line of the sums more", become(stage+"SHA256SUMS", append([]byte(strings.Repeat("0", 64)+"  bin/linux/amd64/helper\n"), sums...)), "SEAL_MISSING", "SHA256SUMS lists this file"},
		{"provenance of other bytes", func(f staging.Files) {
			other := maps.Clone(f)
			other[stage+"bin/linux/s390x/kubelet"] = []byte("other bytes")
			f["provenance.json"] = staging.KrelProvenance(other, tookOver, "94db9bed")
		}, "NOT_BOUND", "bin/linux/s390x/kubelet"},
		{"provenance that leaves a program out", func(f staging.Files) {
			other := maps.Clone(f)
			delete(other, stage+"bin/windows/amd64/kube-proxy.exe")
			f["provenance.json"] = staging.KrelProvenance(other, tookOver, "94db9bed")
		}, "NOT_BOUND", "does not name this artifact"},
		{"provenance that is none", become("provenance.json", []byte(`{"_type":"https://in-toto.io/Statement/v0.1"}`)), "PAYLOAD_PARSE", "provenance.json"},
		{"an SBOM of another release", become(stage+"kubernetes-release.spdx", staging.Krel("v9.9.9", "", "bin/linux/arm64/kubectl")["v9.9.9/gcs-stage/v9.9.9/kubernetes-release.spdx"]), "SBOM_SUBJECT", "bin/linux/arm64/kubectl"},
		{"a broken SBOM", become(stage+"kubernetes-release.spdx", []byte("SPDXVersion: SPDX-2.3\n")), "PAYLOAD_PARSE", "kubernetes-release.spdx"},
		{"a program of another platform", func(f staging.Files) {
			maps.Copy(f, staging.Krel(tookOver, "94db9bed", "bin/linux/arm64/kubectl"))
		}, "PLATFORM", "bin/linux/arm64/kubectl"},
		{"an archive without files", become(stage+"kubernetes-node-linux-arm64.tar.gz", staging.Archive(".tar.gz", nil)), "SEAL_MISSING", "the archive contains no file"},
	}
	return m
}

func goreleaserMade() toolmade {
	const archive = "lantern_0.2.0_linux_amd64.tar.gz"
	become := func(name string, body []byte) func(staging.Files) { return func(f staging.Files) { f[name] = body } }
	m := toolmade{
		example: "from-goreleaser.yaml", files: staging.GoReleaser(tookOver), rebuilt: "lantern_linux_arm64_v8.0/lantern",
		there: []string{"bin/linux/arm64/lantern", "bin/windows/amd64/lantern.exe", archive + ".sbom.json", "lantern_0.2.0_checksums.txt", "lantern_0.2.0_checksums.txt.pem"},
	}
	m.rows = []fromRow{
		{"a file more", become("helper", []byte("x")), "SEAL_EXTRA", "helper"},
		{"a target more", become("lantern_freebsd_amd64_v1/lantern", []byte("x")), "SEAL_EXTRA", "freebsd"},
		{"a file less", func(f staging.Files) { delete(f, archive) }, "SEAL_MISSING", archive},
		{"an archive changed", become(archive, []byte("other bytes")), "EVIDENCE_CONFLICT", "lantern_0.2.0_checksums.txt has a different digest for this file"},
		{"an archive and its line changed", func(f staging.Files) {
			sums := string(f["lantern_0.2.0_checksums.txt"])
			f["lantern_0.2.0_checksums.txt"] = []byte(strings.Replace(sums, sum(string(f[archive])).Hex(), sum("other bytes").Hex(), 1))
			f[archive] = []byte("other bytes")
		}, "SBOM_SUBJECT", archive},
		{"the SBOM of another archive", become(archive+".sbom.json", m.files["lantern_0.2.0_linux_arm64.tar.gz.sbom.json"]), "SBOM_SUBJECT", archive},
		{"a program of another platform", become("lantern_linux_arm64_v8.0/lantern", staging.Program("linux/amd64", "lantern")), "PLATFORM", "bin/linux/arm64/lantern"},
		{"a program of another system", become("lantern_windows_amd64_v1/lantern.exe", staging.Program("linux/amd64", "lantern")), "PLATFORM", "bin/windows/amd64/lantern.exe"},
		{"an empty program", become("lantern_linux_arm64_v8.0/lantern", nil), "SEAL_MISSING", "the program is empty"},
		{"an empty archive", become(archive, nil), "PAYLOAD_PARSE", "but the file is not one"},
		{"an archive without files", become(archive, staging.Archive(archive, nil)), "SEAL_MISSING", "the archive contains no file"},
		{"a zip without files", become("lantern_0.2.0_windows_amd64.zip", staging.Archive(".zip", nil)), "SEAL_MISSING", "the archive contains no file"},
		{"an archive of another platform", become(archive, m.files["lantern_0.2.0_linux_arm64.tar.gz"]), "PLATFORM", "every program in the archive"},
		{"half an archive", become(archive, m.files[archive][:60]), "PAYLOAD_PARSE", "the archive is broken"},
		{"what the tool keeps for itself changed", become("metadata.json", []byte("{}")), "", ""},
	}
	return m
}

// TestSealFrom: what another tool made is sealed as it lies there, if that is
// exactly what release.yaml says and does not contradict itself, and is
// published and verified like any other release.
func TestSealFrom(t *testing.T) { sealFrom(t, goreleaserMade()) }

// TestLongSealFromKrel: the same with the 388 files and 30 images of krel.
func TestLongSealFromKrel(t *testing.T) { sealFrom(t, krelMade()) }

// lenient is the policy that asks for nothing that the tools do not give.
const lenient = `checks: {provenance: "off", signature: require, sbom: "off"}`

func sealFrom(t *testing.T, m toolmade) {
	d := &desk{&workshop{Scene: open(t)}}
	strict := d.read(t, "policy.yaml")
	edit(t, d.Path("policy.yaml"), "checks: {provenance: require, signature: require, sbom: require}", lenient)
	edit(t, d.Path("policy.yaml"), "checks: {provenance: require, signature: require}", `checks: {provenance: "off", signature: require}`)
	d.lay(t, m)
	from := func(role, dist, state string, more ...string) scene.Result {
		return d.sealsFrom(t, m, role, dist, state, more...)
	}
	for i, r := range m.rows {
		t.Run(r.name, func(t *testing.T) {
			changed := maps.Clone(m.files)
			r.change(changed)
			dist, state := fmt.Sprintf("dist-%d", i), fmt.Sprintf("state-%d", i)
			if err := changed.Write(d.Path(dist)); err != nil {
				t.Fatal(err)
			}
			if r.code == "" {
				want(t, from("", dist, state), 0, "present as planned: files ")
				return
			}
			want(t, from("release", dist, state, "--confirm"), 1, r.code, r.says)
			if signed, _ := filepath.Glob(d.Path(state, "files", "*.sigstore.json")); len(signed) > 0 {
				t.Errorf("signed all the same: %q", signed)
			}
		})
	}
	want(t, from("", "dist", "from"), 0, "present as planned: files ", "nothing was done", m.there[0])
	d.absent(t, "from")
	want(t, from("", "dist", "from", "--confirm"), 2, "--identity-token")
	want(t, from("verifier", "dist", "from", "--confirm"), 1, "SIGNED_AS_ELSE")
	want(t, from("release", "dist", "from", "--confirm"), 0, "imported ", "sealed")
	want(t, from("release", "dist", "from", "--confirm"), 0, "signed 0 files", "sealed already")
	d.notTwice(t, m)
	d.unbuildable(t)
	d.published(t, m)
	d.write(t, "policy.yaml", strict)
	want(t, d.Run(t.Context(), "k8s-verify-release", tookOver, "--profile", "profile.yaml"), 1, "NO_PROVENANCE", "NO_SBOM")
	want(t, from("release", "dist", "strict", "--confirm"), 1, "NO_PROVENANCE")
}

// unbuildable: the stages of a build are of no use to such a release.
func (d *desk) unbuildable(t *testing.T) {
	t.Helper()
	run := func(args ...string) scene.Result {
		return d.Run(t.Context(), append(args, "--profile", "profile.yaml")...)
	}
	d.write(t, "builder.token", []byte(d.Lab.Token("builder")))
	d.write(t, "builder-unisolated.token", []byte(d.Lab.Token("builder-unisolated")))
	want(t, run("waybill", "build", tookOver, "--source", "lantern", "--state", "other", "--identity-token", "builder=builder.token",
		"--identity-token", "builder-unisolated=builder-unisolated.token"), 2, "nothing to build")
	want(t, run("waybill", "sbom", tookOver, "--state", "from"), 2, "another tool")
	want(t, run("waybill", "seal", tookOver, "--state", "from", "--identity-token", "release=release.token"), 2, "--from PLACE")
}

// published takes what was sealed its way to the users.
func (d *desk) published(t *testing.T, m toolmade) {
	t.Helper()
	run := func(args ...string) scene.Result {
		return d.Run(t.Context(), append(args, "--profile", "profile.yaml")...)
	}
	want(t, run("waybill", "promote", tookOver, "--state", "from", "--to", "staging", "--confirm"), 0)
	want(t, run("waybill", "release", tookOver, "--state", "from", "--confirm"), 0, "in part", "provenance", "Build level 0 of 3")
	want(t, run("k8s-verify-release", tookOver), 0, "in part", "Build level 0 of 3", "1 × list of SBOMs")
	for _, name := range m.there {
		if got := d.read(t, filepath.Join("from", "files", filepath.FromSlash(name))); len(got) == 0 {
			t.Errorf("%s is empty", name)
		}
	}
}

// sealsFrom runs seal --from as the holder of a token; an empty role has none.
func (d *desk) sealsFrom(t *testing.T, m toolmade, role, dist, state string, more ...string) scene.Result {
	t.Helper()
	args := append([]string{"waybill", "seal", tookOver, "--from", dist, "--source", "lantern", "--profile", "profile.yaml", "--state", state}, more...)
	if len(m.images) > 0 {
		args = append(args, "--from-images", d.Lab.Registry+"/krel")
	}
	if role != "" {
		d.write(t, role+".token", []byte(d.Lab.Token(role)))
		args = append(args, "--identity-token", "release="+role+".token")
	}
	return d.Run(t.Context(), args...)
}

// lay writes the layout, pushes the images, and commits and tags the
// release.yaml that pkg/release/plan shows for it, with the addresses of this project.
func (d *desk) lay(t *testing.T, m toolmade) {
	t.Helper()
	if err := m.files.Write(d.Path("dist")); err != nil {
		t.Fatal(err)
	}
	d.push(t, m.images)
	raw, err := os.ReadFile(filepath.Join("..", "..", "pkg", "release", "plan", "testdata", m.example))
	if err != nil {
		t.Fatal(err)
	}
	config := string(raw)
	for _, line := range strings.Split(config, "\n") {
		if strings.HasPrefix(line, "source:") {
			config = strings.Replace(config, line, fmt.Sprintf("source: {repository: %q}", d.Repository()), 1)
		}
	}
	config = strings.NewReplacer("https://dl.k8s.io/release/", "https://dl.example.test/lantern/", "images: registry.k8s.io", "images: registry.example.test/lantern").Replace(config)
	rewrite(t, d.Path("lantern", "release.yaml"), []byte(config))
	tag(t, d.Scene, tookOver)
}

// push makes and pushes images of the server platforms, each index and each
// platform alone, as krel does.
func (d *desk) push(t *testing.T, names []string) {
	t.Helper()
	for _, name := range names {
		d.pushAs(t, name, name)
	}
}

// pushAs pushes an image with a program of a name.
func (d *desk) pushAs(t *testing.T, repo, program string) {
	t.Helper()
	remote, err := registry.OpenRemote(d.Lab.Registry+"/krel", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	built := imageOf(t, program, "amd64", "arm64", "ppc64le", "s390x")
	pushed(t, remote, built, repo, built.Descriptor)
	for _, c := range built.Children {
		alone := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: c.Digest, Size: int64(len(c.Raw))}
		pushed(t, remote, built, repo+"-"+strings.TrimPrefix(c.Platform, "linux/"), alone)
	}
}

func pushed(t *testing.T, remote registry.Sink, built *image.Built, repo string, tagged registry.Descriptor) {
	t.Helper()
	if _, err := built.Write(t.Context(), remote, repo); err != nil {
		t.Fatal(err)
	}
	if err := remote.Tag(t.Context(), repo, tookOver, tagged); err != nil {
		t.Fatal(err)
	}
}

// imageOf makes an image with one program for each architecture of Linux.
func imageOf(t *testing.T, name string, arches ...string) *image.Built {
	t.Helper()
	spec := image.Spec{Base: image.Scratch(), Entrypoint: []string{"/" + name}, Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for _, arch := range arches {
		spec.Platforms = append(spec.Platforms, image.Platform{OS: "linux", Arch: arch, Files: []image.File{programFile("/"+name, staging.Program("linux/"+arch, name))}})
	}
	built, err := image.Build(context.Background(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func programFile(path string, body []byte) image.File {
	return image.File{Path: path, Mode: 0o755, Size: int64(len(body)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(body)), nil
	}}
}
