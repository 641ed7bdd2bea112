package servers

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

// gateProxy is waybill gate proxy in front of a registry, and the clients that
// push and pull through it.
type gateProxy struct {
	*scene.Scene

	behind, host string
	token        string // of who may push
	pushes       map[string]client
	pulls        client // crane, of who may only pull
}

// openGateProxy starts the proxy. The policy asks for a signature of the release
// identity on each image, below prod.
func openGateProxy(t *testing.T, s *scene.Scene, behind string) gateProxy {
	t.Helper()
	p := gateProxy{Scene: s, behind: behind, host: process.Address(t), pushes: map[string]client{}}
	dir, admin := t.TempDir(), process.Address(t)
	issuer, subject := s.Lab.Identity(lab.RoleRelease)
	writeText(t, filepath.Join(dir, "policy.yaml"), fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: signed
roles: {release: [{issuer: %q, subject: %q, type: email}]}
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {signature: require, provenance: "off", sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {signature: require, provenance: "off"}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`, issuer, subject))
	writeText(t, filepath.Join(dir, "profile.yaml"), fmt.Sprintf("apiVersion: waybill/v1\nkind: Profile\nname: proxy\npolicy: policy.yaml\ntrustedRoot: %q\nplaces: {files: {canonical: \"https://dl.example.test/{version}/\", release: \"https://dl.example.test/{version}/\"}}\n", s.Path("trusted_root.json")))
	writeText(t, filepath.Join(dir, "callers.yaml"), fmt.Sprintf(`audience: %[1]s
callers: [{name: ci, token: {issuer: %[2]q, subject: ci@example.test}}, {name: kubelet, token: {issuer: %[2]q, subject: kubelet@example.test}}]
grants:
- {caller: ci, verbs: [pull, push], from: ["%[3]s/"], to: ["%[3]s/"], channels: [none]}
- {caller: kubelet, verbs: [pull], from: ["%[3]s/prod/"], to: ["%[3]s/prod/"], channels: [none]}
`, gateAudience, issuer, behind))
	writeText(t, filepath.Join(dir, "proxy.yaml"), fmt.Sprintf("apiVersion: waybill/v1\nkind: GateService\nprofile: profile.yaml\ncallers: callers.yaml\nlisten: %s\nadmin: %s\nlimits: {perCallerPerSecond: 1000}\nproxy: {registry: %q, guarded: [\"%[3]s/prod/\"]}\n", p.host, admin, behind))
	process.Start(t, process.Server{
		Name: "waybill gate proxy", Dir: dir, Env: []string{"WAYBILL_PATIENCE=5s"},
		Args: []string{filepath.Join(s.Bin, "waybill"), "gate", "proxy", "proxy.yaml"}, Ready: "http://" + admin + "/readyz",
	})
	p.token = p.mint(t, "ci@example.test")
	for _, name := range []string{"crane", "oras", "cosign2", "cosign3"} {
		p.pushes[name] = p.login(t, openClient(t, name), p.token)
	}
	p.pulls = p.login(t, openClient(t, "crane"), p.mint(t, "kubelet@example.test"))
	return p
}

func (p gateProxy) mint(t *testing.T, email string) string {
	t.Helper()
	text, err := p.Lab.Mint(email, map[string]any{"aud": gateAudience})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// login gives a client the token as a password, as docker login does.
func (p gateProxy) login(t *testing.T, c client, token string) client {
	t.Helper()
	writeText(t, filepath.Join(c.dir, "config.json"), fmt.Sprintf(`{"auths": {%q: {"auth": %q}}}`, p.host, base64.StdEncoding.EncodeToString([]byte("token:"+token))))
	return c
}

// refused runs a client and wants a code of the proxy.
func refused(t *testing.T, c client, code string, args ...string) {
	t.Helper()
	if out, err := c.run(t, args...); err == nil || !strings.Contains(err.Error(), code) {
		t.Errorf("%s %q: want %s: %v\n%s", filepath.Base(c.path), args, code, err, out)
	}
}

// signs has a version of cosign sign an image through the proxy.
func (p gateProxy) signs(t *testing.T, version, ref string, more ...string) {
	t.Helper()
	p.pushes[version].must(t, append([]string{"sign", ref, "--identity-token", p.Lab.Token(lab.RoleRelease), "--yes", "--allow-http-registry"}, more...)...)
}

// TestGateProxy pushes and pulls through the gate with the clients that others
// wrote: digest, then evidence, then tag.
func TestGateProxy(t *testing.T) {
	t.Parallel()
	s := small(t)
	address, _ := openDistribution(t, t.TempDir())
	var versions []string
	for _, name := range []string{"crane", "cosign3", "oras"} {
		versions = append(versions, openClient(t, name).version(t))
	}
	t.Cleanup(func() { // after both registries
		saw(t, row{
			Kind: "Clients", Server: "crane, cosign 3 and oras, through waybill gate proxy", Version: strings.Join(versions, ", "),
			Works: "push digest, evidence and tag; pull what the policy accepts", Lacks: "`docker push` to a guarded repository: it names only the tag (`TAG_FIRST`)",
			Does: "push to an open repository, and copy from there by digest, evidence and tag",
		})
	})
	for name, behind := range map[string]string{"distribution": address, "laboratory": s.Lab.Registry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := openGateProxy(t, s, behind)
			t.Run("digest evidence tag", p.inOrder)
			if name == "distribution" { // the page needs one of them
				t.Run("page", p.page)
			}
			t.Run("docker", p.docker)
			t.Run("conformance", p.conforms)
		})
	}
}

func (p gateProxy) inOrder(t *testing.T) {
	crane, oras, cosign3 := p.pushes["crane"], p.pushes["oras"], p.pushes["cosign3"]
	layer := filepath.Join(t.TempDir(), "layer.tar")
	if out, err := exec.CommandContext(t.Context(), "tar", "cf", layer, "-C", p.Path("."), "trusted_root.json").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	open, guarded := p.host+"/open/app:v1.0.0", p.host+"/prod/app"
	crane.must(t, "append", "--insecure", "--oci-empty-base", "-f", layer, "-t", open)
	sum := strings.TrimSpace(crane.must(t, "digest", "--insecure", open))
	refused(t, crane, "TAG_FIRST", "copy", "--insecure", open, guarded+":v1.0.0")
	crane.must(t, "copy", "--insecure", open, guarded+"@"+sum)
	refused(t, crane, "UNSIGNED", "tag", "--insecure", guarded+"@"+sum, "v1.0.0")
	refused(t, p.pulls, "UNSIGNED", "manifest", "--insecure", guarded+"@"+sum)
	p.signs(t, "cosign3", guarded+"@"+sum, "--trusted-root", p.Path("trusted_root.json"), "--signing-config", p.Path("signing_config.json"))
	crane.must(t, "tag", "--insecure", guarded+"@"+sum, "v1.0.0")
	tape := filepath.Join(t.TempDir(), "image.tar")
	p.pulls.must(t, "pull", "--insecure", guarded+":v1.0.0", tape)
	p.pulls.must(t, "validate", "--tarball", tape)
	issuer, subject := p.Lab.Identity(lab.RoleRelease)
	p.login(t, cosign3, p.mint(t, "kubelet@example.test")).must(t, "verify", guarded+":v1.0.0", "--certificate-identity", subject, "--certificate-oidc-issuer", issuer,
		"--trusted-root", p.Path("trusted_root.json"), "--use-signed-timestamps", "--allow-http-registry")
	p.login(t, cosign3, p.token)
	writeText(t, filepath.Join(oras.dir, "sbom.json"), `{"bom": 1}`)
	oras.must(t, "attach", "--plain-http", "--artifact-type", "application/spdx+json", guarded+":v1.0.0", "sbom.json:application/spdx+json")
	if tree := oras.must(t, "discover", "--plain-http", guarded+":v1.0.0"); !strings.Contains(tree, "sigstore.bundle") || !strings.Contains(tree, "application/spdx+json") {
		t.Errorf("oras discovers\n%s", tree)
	}
	refused(t, oras, "TAG_FIRST", "push", "--plain-http", p.host+"/prod/files:v1.0.0", "sbom.json:application/spdx+json")
	oras.must(t, "copy", "--recursive", "--from-plain-http", "--to-plain-http", guarded+":v1.0.0", p.host+"/prod/copied:v1.0.0")
	p.pulls.must(t, "manifest", "--insecure", p.host+"/prod/copied:v1.0.0")
	// Tags of evidence, as before there were referrers: the second signature is
	// added to the first, and nothing is removed.
	p.pushes["cosign2"] = beforeBundles(t, p.Lab, p.pushes["cosign2"])
	for range 2 {
		p.signs(t, "cosign2", guarded+"@"+sum, "--new-bundle-format=false", "--fulcio-url", p.Lab.Fulcio, "--rekor-url", p.Lab.RekorV1, "--oidc-issuer", p.Lab.Issuer)
	}
	sig := guarded + ":" + strings.Replace(sum, ":", "-", 1) + ".sig"
	if raw := p.pulls.must(t, "manifest", "--insecure", sig); strings.Count(raw, "dev.cosignproject.cosign/signature") != 2 {
		t.Errorf("the tag of signatures has\n%s", raw)
	}
	refused(t, crane, "EVIDENCE_KEPT", "delete", "--insecure", sig)
	refused(t, crane, "EVIDENCE_KEPT", "delete", "--insecure", guarded+"@"+strings.TrimSpace(crane.must(t, "digest", "--insecure", sig)))
}

// docker replays the order in which docker pushes: layers, configuration, and
// the manifest by its tag alone.
func (p gateProxy) docker(t *testing.T) {
	config, layer := []byte(`{"architecture":"amd64","os":"linux","config":{},"rootfs":{"type":"layers","diff_ids":[]}}`), []byte("\x1f\x8b not a layer that anyone unpacks")
	const kind = "application/vnd.docker.distribution.manifest.v2+json"
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": kind,
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digest.Of(digest.SHA256, config).String()},
		"layers": []any{map[string]any{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(layer), "digest": digest.Of(digest.SHA256, layer).String()}},
	})
	if err != nil {
		t.Fatal(err)
	}
	base, header := "/v2/prod/docker", map[string]string{"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("token:"+p.token)), "Content-Type": kind}
	pushed := func(there, tagged int) (all []exchange) {
		for _, blob := range [][]byte{layer, config} {
			sum := digest.Of(digest.SHA256, blob).String()
			all = append(all, exchange{method: http.MethodHead, path: base + "/blobs/" + sum, status: []int{there}})
			if there == http.StatusOK {
				continue
			}
			all = append(all,
				exchange{method: http.MethodPost, path: base + "/blobs/uploads/", status: []int{202}},
				exchange{method: http.MethodPatch, follow: true, body: blob, status: []int{202}},
				exchange{method: http.MethodPut, follow: true, path: "digest=" + sum, status: []int{201}})
		}
		return append(all, exchange{method: http.MethodPut, path: base + "/manifests/v1.0.0", body: manifest, status: []int{tagged}})
	}
	do := func(all ...exchange) {
		for i, e := range all {
			all[i].header = maps.Clone(header)
			if e.method == http.MethodPatch {
				all[i].header["Content-Type"] = "application/octet-stream"
			}
		}
		replay(t, "http://"+p.host, all)
	}
	sum := digest.Of(digest.SHA256, manifest).String()
	do(exchange{method: http.MethodGet, path: "/v2/", status: []int{200}})
	do(pushed(404, 403)...)
	do(exchange{method: http.MethodPut, path: base + "/manifests/" + sum, body: manifest, status: []int{201}})
	do(pushed(200, 403)...)
	p.signs(t, "cosign3", p.host+"/prod/docker@"+sum, "--trusted-root", p.Path("trusted_root.json"), "--signing-config", p.Path("signing_config.json"))
	do(pushed(200, 201)...)
	if raw := p.pulls.must(t, "manifest", "--insecure", p.host+"/prod/docker:v1.0.0"); raw != string(manifest) {
		t.Errorf("the manifest is\n%s", raw)
	}
}

var conformanceResult = regexp.MustCompile(`(?m)^ *OCI Conformance Test.*: *\w+$`)

// conforms asks the registry, and the proxy in front of it, what the distribution
// specification asks: an open repository answers the same.
func (p gateProxy) conforms(t *testing.T) {
	run := func(host, password string) string {
		c, dir := openClient(t, "conformance"), t.TempDir()
		c.env = append(c.env, "OCI_RESULTS_DIR="+dir, "OCI_REGISTRY="+host, "OCI_TLS=disabled", "OCI_REPO1=open/one", "OCI_REPO2=open/two", "OCI_LOG=error")
		if password != "" {
			c.env = append(c.env, "OCI_USERNAME=any", "OCI_PASSWORD="+password)
		}
		cmd := exec.CommandContext(t.Context(), c.path)
		cmd.Env, cmd.Dir = c.env, dir
		out, _ := cmd.CombinedOutput() // it fails where the registry does
		found := conformanceResult.FindAllString(string(out), -1)
		if len(found) < 100 {
			t.Fatalf("%d results:\n%.2000s", len(found), out)
		}
		return strings.Join(found, "\n")
	}
	direct, through := run(p.behind, ""), run(p.host, p.token)
	if direct != through {
		have := map[string]bool{}
		for line := range strings.Lines(direct) {
			have[line] = true
		}
		for line := range strings.Lines(through) {
			if !have[line] {
				t.Errorf("only through the proxy: %s", line)
			}
		}
	}
	t.Logf("%d results, %d of them Pass", strings.Count(direct, "\n")+1, strings.Count(direct, ": Pass"))
}
