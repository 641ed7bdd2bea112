package stories

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// staged is a place as another tool leaves it, and the release.yaml for it.
type staged struct {
	outputs string
	files   map[string]string
	// there are names of the release that are checked to be public.
	there []string
}

// tookOver is the version that other tools make here.
const tookOver = "v0.2.0"

// goreleaser is what GoReleaser leaves in dist/: archives with SBOMs, the
// binaries in directories of their own, and what it keeps for itself.
func goreleaser() staged {
	l := staged{
		outputs: `outputs:
- {class: archive, each: {platform: [linux/amd64, linux/arm64, windows/amd64]}, name: "lantern_{version.number}_{os}_{arch}.tar.gz", sbom: "lantern_{version.number}_{os}_{arch}.tar.gz.sbom.json"}
- {class: binary, each: {platform: [linux/amd64, windows/amd64]}, name: "bin/{os}/{arch}/lantern{exe}", from: "lantern_{os}_{arch}_v1/lantern{exe}"}
- {class: binary, each: {platform: [linux/arm64]}, name: "bin/{os}/{arch}/lantern", from: "lantern_{os}_{arch}_v8.0/lantern"}
- {class: file, name: "lantern_{version.number}_checksums.txt"}
outside: [artifacts.json, metadata.json, config.yaml]
`,
		files: map[string]string{
			"artifacts.json": `[{"name":"lantern","type":"Binary"}]`, "metadata.json": `{"project_name":"lantern","version":"0.2.0"}`, "config.yaml": "version: 2\n",
			"lantern_linux_amd64_v1/lantern": "ELF amd64", "lantern_linux_arm64_v8.0/lantern": "ELF arm64", "lantern_windows_amd64_v1/lantern.exe": "MZ",
		},
		there: []string{"bin/linux/arm64/lantern", "bin/windows/amd64/lantern.exe", "lantern_0.2.0_linux_amd64.tar.gz.sbom.json", "lantern_0.2.0_checksums.txt"},
	}
	for _, platform := range []string{"linux_amd64", "linux_arm64", "windows_amd64"} {
		name := "lantern_0.2.0_" + platform + ".tar.gz"
		l.files[name] = "archive of " + platform
		l.files[name+".sbom.json"] = `{"spdxVersion":"SPDX-2.3","name":"` + name + `"}`
		l.files["lantern_0.2.0_checksums.txt"] += sum(l.files[name]).Hex() + "  " + name + "\n"
	}
	return l
}

// krel is what krel stages of Kubernetes: below the build's own directory the
// provenance of all, the source, and below the version's the files with their
// sidecars, the sums and image archives. The SBOM is tag-value.
func krel() staged {
	const stage = tookOver + "/gcs-stage/" + tookOver + "/"
	l := staged{
		outputs: `lists:
  server: [linux/amd64, linux/arm64]
  control: [kube-apiserver, kube-scheduler]
outputs:
- {class: binary, each: {platform: server, bin: [+control, kubectl]}, name: "bin/{os}/{arch}/{bin}", from: "{version}/gcs-stage/{version}/bin/{os}/{arch}/{bin}", provenance: provenance.json}
- {class: file, each: {platform: server, bin: [+control, kubectl], sum: [sha256, sha512]}, name: "bin/{os}/{arch}/{bin}.{sum}", from: "{version}/gcs-stage/{version}/bin/{os}/{arch}/{bin}.{sum}"}
- {class: file, each: {platform: server, bin: control}, name: "bin/{os}/{arch}/{bin}.tar", from: "{version}/gcs-stage/{version}/bin/{os}/{arch}/{bin}.tar", provenance: provenance.json}
- {class: file, each: {platform: server, bin: control}, name: "bin/{os}/{arch}/{bin}.docker_tag", from: "{version}/gcs-stage/{version}/bin/{os}/{arch}/{bin}.docker_tag"}
- {class: archive, each: {platform: server}, name: "kubernetes-server-{os}-{arch}.tar.gz", from: "{version}/gcs-stage/{version}/kubernetes-server-{os}-{arch}.tar.gz", provenance: provenance.json}
- {class: archive, name: kubernetes-src.tar.gz, from: "{version}/gcs-stage/{version}/kubernetes-src.tar.gz", provenance: provenance.json}
- {class: file, name: kubernetes-release.spdx, from: "{version}/gcs-stage/{version}/kubernetes-release.spdx"}
- {class: file, each: {sums: [SHA256SUMS, SHA512SUMS]}, name: "{sums}", from: "{version}/gcs-stage/{version}/{sums}"}
outside:
- src.tar.gz
- "{version}/release-images/amd64/kube-apiserver.tar"
- "{version}/release-images/amd64/kube-scheduler.tar"
- "{version}/release-images/arm64/kube-apiserver.tar"
- "{version}/release-images/arm64/kube-scheduler.tar"
`,
		files: map[string]string{
			"src.tar.gz": "the source", stage + "kubernetes-src.tar.gz": "the source", stage + "kubernetes-release.spdx": "SPDXVersion: SPDX-2.3\n",
			stage + "SHA256SUMS": "", stage + "SHA512SUMS": "",
		},
		there: []string{"bin/linux/amd64/kube-apiserver", "bin/linux/arm64/kubectl.sha256", "bin/linux/amd64/kube-scheduler.docker_tag", "provenance.json", "SHA256SUMS", "kubernetes-src.tar.gz"},
	}
	for _, arch := range []string{"amd64", "arm64"} {
		l.files[stage+"kubernetes-server-linux-"+arch+".tar.gz"] = "server " + arch
		for _, bin := range []string{"kube-apiserver", "kube-scheduler", "kubectl"} {
			name := stage + "bin/linux/" + arch + "/" + bin
			set := digest.SetOf([]byte("ELF " + bin + arch))
			l.files[name], l.files[name+".sha256"], l.files[name+".sha512"] = "ELF "+bin+arch, set.SHA256.Hex(), set.SHA512.Hex()
			l.files[stage+"SHA256SUMS"] += set.SHA256.Hex() + "  bin/linux/" + arch + "/" + bin + "\n"
			l.files[stage+"SHA512SUMS"] += set.SHA512.Hex() + "  bin/linux/" + arch + "/" + bin + "\n"
			if bin != "kubectl" {
				l.files[name+".tar"], l.files[name+".docker_tag"] = "image "+bin+arch, tookOver
				l.files[tookOver+"/release-images/"+arch+"/"+bin+".tar"] = "image " + bin + arch
			}
		}
	}
	l.files["provenance.json"] = fmt.Sprintf(`{"_type":"https://in-toto.io/Statement/v0.1","predicateType":"https://slsa.dev/provenance/v0.2",`+
		`"subject":[{"name":"kubernetes-src.tar.gz","digest":{"sha256":%q}}],"predicate":{"builder":{"id":"https://git.k8s.io/release/docs/krel"},"buildType":"https://cloudbuild.googleapis.com/CloudBuildYaml@v1"}}`, sum("the source").Hex())
	return l
}

// TestSealFrom: what another tool made is sealed as it lies there, if that is
// exactly what release.yaml says, and is published and verified like any other
// release, at the level that nothing shows.
func TestSealFrom(t *testing.T) {
	for name, l := range map[string]staged{"GoReleaser": goreleaser(), "krel": krel()} {
		t.Run(name, func(t *testing.T) { sealFrom(t, l) })
	}
}

func sealFrom(t *testing.T, l staged) {
	d := &desk{&workshop{Scene: open(t)}}
	strict := d.read(t, "policy.yaml")
	require := "checks: {provenance: require, signature: require, sbom: require}"
	edit(t, d.Path("policy.yaml"), require, "checks: {provenance: \"off\", signature: require, sbom: \"off\"}")
	d.lay(t, l)
	from := func(role string, more ...string) scene.Result {
		args := append([]string{"waybill", "seal", tookOver, "--from", "dist", "--source", "lantern", "--profile", "profile.yaml", "--state", "from"}, more...)
		if role != "" {
			d.write(t, role+".token", []byte(d.Lab.Token(role)))
			args = append(args, "--identity-token", "release="+role+".token")
		}
		return d.Run(t.Context(), args...)
	}
	run := func(args ...string) scene.Result {
		return d.Run(t.Context(), append(args, "--profile", "profile.yaml")...)
	}
	differences(t, d, l, from)
	want(t, from(""), 0, "are there as planned; nothing was done", l.there[0])
	d.absent(t, "from")
	want(t, from("", "--confirm"), 2, "--identity-token")
	want(t, from("verifier", "--confirm"), 1, "SIGNED_AS_ELSE")
	want(t, from("release", "--confirm"), 0, "took over", "sealed")
	want(t, from("release", "--confirm"), 0, "signed 0 files", "sealed already")
	d.write(t, "builder.token", []byte(d.Lab.Token("builder")))
	d.write(t, "builder-unisolated.token", []byte(d.Lab.Token("builder-unisolated")))
	want(t, run("waybill", "build", tookOver, "--source", "lantern", "--state", "other", "--identity-token", "builder=builder.token",
		"--identity-token", "builder-unisolated=builder-unisolated.token"), 2, "nothing to build")
	want(t, run("waybill", "sbom", tookOver, "--state", "from"), 2, "another tool")
	want(t, run("waybill", "seal", tookOver, "--state", "from", "--identity-token", "release=release.token"), 2, "--from PLACE")

	want(t, run("waybill", "promote", tookOver, "--state", "from", "--to", "staging", "--confirm"), 0)
	want(t, run("waybill", "release", tookOver, "--state", "from", "--confirm"), 0, "ACCEPTED, PARTIAL", "provenance", "Build level 0 of 3")
	want(t, run("k8s-verify-release", tookOver), 0, "ACCEPTED, PARTIAL", "Build level 0 of 3")
	for _, name := range l.there {
		if _, err := os.Stat(d.Path("from", "files", filepath.FromSlash(name))); err != nil {
			t.Error(err)
		}
	}
	d.write(t, "policy.yaml", strict)
	want(t, run("k8s-verify-release", tookOver), 1, "NO_PROVENANCE", "NO_SBOM")
}

// differences: one file more or less, in the place or in release.yaml, and
// nothing is signed or copied.
func differences(t *testing.T, d *desk, l staged, from func(string, ...string) scene.Result) {
	victim := ""
	for name := range l.files {
		if strings.HasSuffix(name, ".tar.gz") && name != "src.tar.gz" && (victim == "" || name < victim) {
			victim = name
		}
	}
	rewrite(t, d.Path("dist", "helper"), []byte("nobody planned this"))
	want(t, from("release", "--confirm"), 1, "SEAL_EXTRA", "helper")
	if err := os.Rename(d.Path("dist", "helper"), d.Path("helper")); err != nil {
		t.Fatal(err)
	}
	at := d.Path("dist", filepath.FromSlash(victim))
	if err := os.Remove(at); err != nil {
		t.Fatal(err)
	}
	want(t, from("release", "--confirm"), 1, "SEAL_MISSING", path.Base(victim))
	rewrite(t, at, []byte(l.files[victim]))
	d.absent(t, "from")
	r := d.Run(t.Context(), "waybill", "seal", scene.Version, "--from", "dist", "--source", "lantern", "--profile", "profile.yaml", "--state", "from")
	want(t, r, 2, "it has steps")
}

// lay writes the layout, and commits and tags the release.yaml for it.
func (d *desk) lay(t *testing.T, l staged) {
	t.Helper()
	for name, body := range l.files {
		at := d.Path("dist", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		rewrite(t, at, []byte(body))
	}
	head := "apiVersion: waybill/v1\nkind: Release\nname: lantern\nsource: {repository: " + fmt.Sprintf("%q", d.Repository()) + "}\n"
	places := "places: {files: \"https://dl.example.test/lantern/{version}/\"}\n"
	rewrite(t, d.Path("lantern", "release.yaml"), []byte(head+l.outputs+places))
	tag(t, d.Scene, tookOver)
}
