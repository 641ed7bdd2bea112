package stories

import (
	"encoding/json"
	"encoding/pem"
	"encoding/xml"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// acts runs an action of this repository in a new workspace of the project.
func (r *runner) acts(t *testing.T, name string, with map[string]string, env ...string) ended {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"profile.yaml", "policy.yaml", "trusted_root.json", "signing_config.json"} {
		save(t, contents(t, r.scene.Path(file)), dir, file)
	}
	return r.actsIn(t, dir, name, with, env...)
}

func (r *runner) actsIn(t *testing.T, dir, name string, with map[string]string, env ...string) ended {
	t.Helper()
	env = append(env, "ACTIONS_ID_TOKEN_REQUEST_URL="+r.tokens.URL, "ACTIONS_ID_TOKEN_REQUEST_TOKEN=job-of-release")
	return r.action(t, name, with, dir, append(env, "PATH="+r.programs+":"+bin+":"+os.Getenv("PATH")))
}

// TestActionVerifyRelease: the outcome of the action, its status and its files
// are those of the verdict.
func TestActionVerifyRelease(t *testing.T) {
	d := &desk{&workshop{Scene: published(t)}}
	r := newRunner(t, d.Scene)
	const name = "release/lantern/" + scene.Version + "/bin/linux/amd64/lantern"
	version := map[string]string{"version": scene.Version}
	verifies := func(t *testing.T, with map[string]string, code int, outcome string) ended {
		t.Helper()
		e := r.acts(t, "verify-release", with)
		ends(t, e, code)
		if e.outputs["outcome"] != outcome {
			t.Errorf("outcome %q, want %q\n%s", e.outputs["outcome"], outcome, e.log)
		}
		return e
	}
	e := verifies(t, version, 0, "accepted")
	reported(t, e, 0)

	was := d.read(t, filepath.Join("state", "files", "bin", "linux", "amd64", "lantern"))
	d.bucket(t, http.MethodPut, name, "other bytes")
	e = verifies(t, version, 1, "refused")
	reported(t, e, 1)
	if !strings.Contains(e.summary, "TAMPERED") || !strings.Contains(e.summary, "bin/linux/amd64/lantern") {
		t.Errorf("the summary is\n%s", e.summary)
	}
	d.bucket(t, http.MethodPut, name, string(was))
	reported(t, verifies(t, version, 0, "accepted"), 0)

	verifies(t, map[string]string{"version": "v0.1"}, 2, "malformed")
	verifies(t, map[string]string{"version": scene.Version, "profile": "missing.yaml"}, 2, "malformed")
	for _, flag := range []string{"--help", "-h", "--version"} { // they succeed, and decide nothing
		verifies(t, map[string]string{"version": flag}, 2, "malformed")
	}
	// What a user passes is an argument, and never a part of the script.
	hostile := verifies(t, map[string]string{"version": "$(touch injected); touch injected"}, 2, "malformed")
	if _, err := os.Stat(filepath.Join(hostile.dir, "injected")); err == nil {
		t.Error("the version was executed")
	}
	edit(t, d.Path("profile.yaml"), `release: "gs+`+d.Lab.Bucket, `release: "gs+http://127.0.0.1:1`)
	verifies(t, version, 3, "unavailable")
}

// reported compares the files of a verdict with the number of its findings.
func reported(t *testing.T, e ended, findings int) {
	t.Helper()
	var sarif struct {
		Runs []struct{ Results []any }
	}
	var junit struct {
		Suites []struct {
			Failures int `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	if err := json.Unmarshal(contents(t, e.dir, e.outputs["sarif"]), &sarif); err != nil {
		t.Fatal(err)
	}
	if err := xml.Unmarshal(contents(t, e.dir, e.outputs["junit"]), &junit); err != nil {
		t.Fatal(err)
	}
	failures := 0
	for _, suite := range junit.Suites {
		failures += suite.Failures
	}
	if len(sarif.Runs) != 1 || (len(sarif.Runs[0].Results) > 0) != (findings > 0) || (failures > 0) != (findings > 0) {
		t.Errorf("%d findings, but SARIF has %+v and JUnit %d failures", findings, sarif, failures)
	}
}

// waybillRelease makes a release in the lab that has the names of Waybill's own:
// the example project, with two programs for each platform, which start those
// built here.
func waybillRelease(t *testing.T) *desk {
	t.Helper()
	project := t.TempDir()
	if err := os.CopyFS(project, os.DirFS(shell)); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(project, "release.yaml"), "steps:\n", strings.ReplaceAll(`  unix: [linux/amd64, linux/arm64, darwin/amd64, darwin/arm64]
  commands: [waybill, k8s-verify-release]
steps:
- name: programs
  each: {platform: unix}
  run: [sh, -c, "mkdir -p {out}/bin/{os}/{arch} && for p in waybill k8s-verify-release; do printf '#!/bin/sh\\nexec BIN/%s \"$@\"\\n' $p > {out}/bin/{os}/{arch}/$p; done"]
  outputs: [{class: binary, each: {command: commands}, name: "bin/{os}/{arch}/{command}"}]
- name: archives
  each: {platform: unix}
  archive: {format: tar.gz, root: waybill, add: [LICENSE], take: ["bin/{os}/{arch}/waybill", "bin/{os}/{arch}/k8s-verify-release"]}
  outputs: [{class: archive, name: "waybill-{version}-{os}-{arch}.tar.gz"}]
- name: waybill
  image: {base: static, platforms: every, files: {/usr/local/bin/waybill: "bin/{os}/{arch}/waybill"}, entrypoint: [/usr/local/bin/waybill]}
  outputs: [{class: image, name: waybill}]
`, "BIN", bin))
	return &desk{&workshop{Scene: publish(t, openExample(t, project))}}
}

// servesReleases is the web server of GitHub's releases: the files of the
// release at their flat names, except those that are given.
func (d *desk) servesReleases(t *testing.T, other map[string][]byte) (*httptest.Server, string) {
	t.Helper()
	assets := map[string]string{}
	files := d.Path("state", "files")
	err := filepath.WalkDir(files, func(path string, e fs.DirEntry, err error) error {
		name, _ := filepath.Rel(files, path)
		assets["/"+scene.Version+"/"+strings.ReplaceAll(name, "/", "_")] = path
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if body, is := other[q.URL.Path]; is {
			_, _ = w.Write(body)
		} else if path, is := assets[q.URL.Path]; is {
			http.ServeFile(w, q, path)
		} else {
			http.NotFound(w, q)
		}
	}))
	t.Cleanup(s.Close)
	save(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), d.Path("releases.pem"))
	return s, "CURL_CA_BUNDLE=" + d.Path("releases.pem")
}

// TestActionSetupWaybill: the verifier runs only if it has the digest that the
// workflow names, and the programs are in the PATH only if it accepts them.
func TestActionSetupWaybill(t *testing.T) {
	uses(t, "curl")
	d := waybillRelease(t)
	r := newRunner(t, d.Scene)
	other := map[string][]byte{}
	releases, authority := d.servesReleases(t, other)
	verifier := d.read(t, filepath.Join("state", "files", "bin", "linux", "amd64", "waybill"))
	sum := digest.Of(digest.SHA256, verifier).Hex()
	zeros := strings.Repeat("0", 64)
	sets := func(t *testing.T, change map[string]string) ended {
		t.Helper()
		with := map[string]string{"version": scene.Version, "releases": releases.URL, "profile": d.Path("profile.yaml"), "sha256": "darwin/arm64 " + zeros + "\nlinux/amd64 " + sum + "\n"}
		for key, value := range change {
			with[key] = value
		}
		return r.acts(t, "setup-waybill", with, authority)
	}
	refused := func(t *testing.T, e ended, says string) {
		t.Helper()
		if e.code == 0 || len(e.path) > 0 || !strings.Contains(e.log, says) {
			t.Errorf("ended with %d, path %q, and not for %q:\n%s", e.code, e.path, says, e.log)
		}
	}
	accepted := func(t *testing.T) {
		t.Helper()
		e := sets(t, nil)
		ends(t, e, 0)
		if len(e.path) != 1 || e.outputs["directory"] != e.path[0] {
			t.Fatalf("path %q, outputs %q", e.path, e.outputs)
		}
		script(t, e.path[0], "./waybill --version | grep ^waybill && ./k8s-verify-release --version | grep ^k8s-verify-release")
	}
	accepted(t)
	refused(t, sets(t, map[string]string{"sha256": "linux/amd64 " + zeros}), "sha256 wants "+zeros)
	refused(t, sets(t, map[string]string{"sha256": "linux/arm64 " + sum}), "must have one digest for linux/amd64")
	refused(t, sets(t, map[string]string{"sha256": "linux/amd64 " + sum + "\nlinux/amd64 " + sum}), "must have one digest for linux/amd64")
	refused(t, sets(t, map[string]string{"sha256": ""}), "must have one digest for linux/amd64")
	refused(t, sets(t, map[string]string{"version": "v0.1.1"}), "404")
	refused(t, sets(t, map[string]string{"releases": strings.Replace(releases.URL, "https:", "http:", 1)}), "http")
	const asset = "/" + scene.Version + "/bin_linux_amd64_waybill"
	other[asset] = []byte("#!/bin/sh\n# accepts anything\n")
	refused(t, sets(t, nil), "sha256 wants "+sum)
	another := append(slices.Clone(verifier), "# of another release\n"...)
	other[asset] = another // it has the digest, and the release that it accepts has another program
	refused(t, sets(t, map[string]string{"sha256": "linux/amd64 " + digest.Of(digest.SHA256, another).Hex()}), "is not the program of the digest")
	delete(other, asset)
	const name = "release/lantern/" + scene.Version + "/bin/linux/amd64/waybill"
	d.bucket(t, http.MethodPut, name, "#!/bin/sh\n")
	refused(t, sets(t, nil), "TAMPERED")
	d.bucket(t, http.MethodPut, name, string(verifier))
	accepted(t)
}

// TestActionAttest: the files that the patterns name are signed and sealed, if
// they are exactly the outputs of release.yaml.
func TestActionAttest(t *testing.T) {
	d := &desk{&workshop{Scene: open(t)}}
	edit(t, d.Path("policy.yaml"), "checks: {provenance: require, signature: require, sbom: require}", lenient)
	edit(t, d.Path("lantern", "release.yaml"), "lock: release.lock.yaml\n", "")
	rewrite(t, d.Path("lantern", "release.yaml"), []byte(`apiVersion: waybill/v1
kind: Release
name: lantern
source: {repository: "https://example.test/lantern"}
outputs:
- {class: archive, each: {platform: [linux/amd64, linux/arm64]}, name: "lantern-{os}-{arch}.tar.gz"}
- {class: file, name: "docs/readme.txt"}
places: {files: "https://dl.example.test/lantern/{version}/", images: registry.example.test/lantern}
`))
	tag(t, d.Scene, scene.Version)
	r := newRunner(t, d.Scene)
	attests := func(t *testing.T, subjects string, change func(dir string)) ended {
		t.Helper()
		dir := t.TempDir()
		for _, file := range []string{"profile.yaml", "policy.yaml", "trusted_root.json", "signing_config.json"} {
			save(t, contents(t, d.Path(file)), dir, file)
		}
		for _, arch := range []string{"amd64", "arm64"} {
			save(t, tarOf(t, "lantern", 0o644, []byte(arch)), dir, "dist", "lantern-linux-"+arch+".tar.gz")
		}
		save(t, []byte("read me\n"), dir, "dist", "docs", "readme.txt")
		save(t, nil, dir, "dist", "checksums")
		if change != nil {
			change(dir)
		}
		return r.actsIn(t, dir, "attest", map[string]string{"subjects": subjects})
	}
	const both = "dist/*.tar.gz\ndist/**/*me.txt\n"
	e := attests(t, both, nil)
	ends(t, e, 0)
	issuer, subject := d.Lab.Identity("release")
	for _, name := range []string{"lantern-linux-amd64.tar.gz", "lantern-linux-arm64.tar.gz", "docs/readme.txt"} {
		file := filepath.Join(e.dir, e.outputs["files"], name)
		want(t, d.Run(t.Context(), "waybill", "verify", "file", file, "--bundle", file+".sigstore.json", "--trusted-root", d.Path("trusted_root.json"),
			"--certificate-identity", subject, "--certificate-oidc-issuer", issuer), 0)
	}
	ends(t, attests(t, "dist/*.tar.gz", nil), 1, "SEAL_MISSING")
	ends(t, attests(t, "dist/**/*", nil), 1, "SEAL_EXTRA", "checksums")
	ends(t, attests(t, "dist/*.zip", nil), 1, "no match")
	ends(t, attests(t, both+"*/docs/read*.txt\nother/read*", func(dir string) { save(t, nil, dir, "other", "readme.txt") }), 1, "SEAL_EXTRA")
	ends(t, attests(t, both+"other/*.gz", func(dir string) { save(t, nil, dir, "other", "lantern-linux-amd64.tar.gz") }), 1, "two files would be named lantern-linux-amd64.tar.gz")
}
