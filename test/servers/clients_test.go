package servers

import (
	"bytes"
	"crypto/rand"
	"debug/buildinfo"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
	"github.com/waybill-release/waybill/test/servers/process"
)

const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"

// client is a program that others wrote, with no settings and credentials.
type client struct {
	path string
	env  []string
	dir  string
}

func openClient(t *testing.T, name string) client {
	t.Helper()
	const nowhere = "http://127.0.0.1:1" // loopback is never asked through it
	home := t.TempDir()
	return client{process.Peer(t, name), []string{
		"HOME=" + home, "DOCKER_CONFIG=" + home, "TMPDIR=" + home, "PATH=" + os.Getenv("PATH"), "HTTP_PROXY=" + nowhere, "HTTPS_PROXY=" + nowhere,
	}, home}
}

// version is the version that the client was built from.
func (c client) version(t *testing.T) string {
	t.Helper()
	info, err := buildinfo.ReadFile(c.path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// run returns what the client wrote to standard output. An error has the rest.
func (c client) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), c.path, args...)
	cmd.Env, cmd.Dir = c.env, c.dir
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %q: %w\n%s%s", filepath.Base(c.path), args, err, &out, &said)
	}
	return out.String(), nil
}

// must is run of what must succeed.
func (c client) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.run(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// repository is an image repository: a registry with a path, and a name in it.
type repository struct{ prefix, name string }

func (r repository) open(t *testing.T) *registry.Remote {
	t.Helper()
	remote, err := registry.OpenRemote(r.prefix, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	return remote
}

func (r repository) tagged(tag string) string { return r.prefix + "/" + r.name + ":" + tag }

func (r repository) at(d digest.Digest) string { return r.prefix + "/" + r.name + "@" + d.String() }

func (r repository) resolve(t *testing.T, tag string) registry.Descriptor {
	t.Helper()
	d, err := r.open(t).Resolve(t.Context(), r.name, tag)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// bundles are the bundles that refer to an image, as the product reads them.
func (r repository) bundles(t *testing.T, d digest.Digest) [][]byte {
	t.Helper()
	all, err := registry.Bundles(t.Context(), r.open(t), r.name, d)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// openDistribution is the registry of distribution over files below a directory.
func openDistribution(t *testing.T, root string) (string, *process.Process) {
	t.Helper()
	address, config := process.Address(t), filepath.Join(t.TempDir(), "config.yaml")
	writeText(t, config, fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}}\nhttp: {addr: %q}\nlog: {level: warn}\n", root, address))
	return address, process.Start(t, process.Server{
		Name: "distribution", Version: "v3.1.2", Args: []string{process.Peer(t, "registry"), "serve", config}, Ready: "http://" + address + "/v2/",
	})
}

// TestClients has the clients that others wrote read what we published, and
// judges what they pushed, in a registry with and one without referrers.
func TestClients(t *testing.T) {
	t.Parallel()
	s := staged(t)
	address, _ := openDistribution(t, t.TempDir())
	for name, at := range map[string]string{"distribution": address, "laboratory": s.Lab.Registry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := elsewhere(t, s, "", at+"/"+strings.ToLower(rand.Text()[:8])) // empty, also in a laboratory that is used again
			want(t, p.release(t), 0)
			want(t, p.verify(t), 0)
			c := clients{p, repository{p.Images, "lantern"}, openClient(t, "crane"), openClient(t, "oras"), openClient(t, "cosign2"), openClient(t, "cosign3")}
			t.Run("crane reads ours", c.craneReads)
			t.Run("oras reads ours", c.orasReads)
			t.Run("cosign reads ours", c.cosignReads)
			t.Run("oras copies ours", c.orasCopies)
			t.Run("crane and cosign 3 push", c.cosignPushes)
			t.Run("cosign 2 signs as it did before bundles", c.oldCosignPushes)
			t.Run("oras attaches", c.orasAttaches)
			t.Run("docker pushes", c.dockerPushes)
			if name == "distribution" { // the other saw the same
				c.saw(t)
			}
		})
	}
}

// clients are the clients of a registry, and what we published there.
type clients struct {
	published

	ours                          repository
	crane, oras, cosign2, cosign3 client
}

// saw records what the clients did, in one row for both registries.
func (c clients) saw(t *testing.T) {
	t.Helper()
	for _, r := range []row{
		{Server: "crane", Version: c.crane.version(t), Works: "digest, manifest, validate, pull and list of ours; we judge, and promote, what it pushes", Lacks: "copying what refers to an image", Does: "a copy by crane is refused (`EVIDENCE_MISSING`); `waybill promote` and `oras copy -r` take the evidence along"},
		{Server: "oras", Version: c.oras.version(t), Works: "discover and read all our evidence; copy a release with it; attach bundles, which count only for the image that they are about"},
		{Server: "cosign 2", Version: c.cosign2.version(t), Works: "verify and verify-attestation of index and platforms, with `--new-bundle-format`; we judge, and promote, its tags `.sig`"},
		{Server: "cosign 3", Version: c.cosign3.version(t), Works: "verify, verify-attestation and tree of ours; we judge, and promote, what it signs and attests"},
		{Server: "docker push, by its order of requests", Version: "20.10", Works: "we judge, sign and promote images of Docker's own media types, byte for byte"},
	} {
		r.Kind = "Clients"
		saw(t, r)
	}
}

// craneReads reads image and index with crane, and the fallback tag where that is
// how evidence is found.
func (c clients) craneReads(t *testing.T) {
	image := c.ours.resolve(t, scene.Version)
	if got := strings.TrimSpace(c.crane.must(t, "digest", "--insecure", c.ours.tagged(scene.Version))); got != image.Digest.String() {
		t.Errorf("crane resolves %s, want %s", got, image.Digest)
	}
	raw := c.crane.must(t, "manifest", "--insecure", c.ours.at(image.Digest))
	if digest.Of(digest.SHA256, []byte(raw)) != image.Digest {
		t.Errorf("crane reads another manifest:\n%s", raw)
	}
	c.crane.must(t, "validate", "--insecure", "--remote", c.ours.tagged(scene.Version))
	tape := filepath.Join(t.TempDir(), "image.tar")
	c.crane.must(t, "pull", "--insecure", "--platform", "linux/amd64", c.ours.tagged(scene.Version), tape)
	c.crane.must(t, "validate", "--tarball", tape)
	if tags := strings.Fields(c.crane.must(t, "ls", "--insecure", c.ours.prefix+"/"+c.ours.name)); !slices.Contains(tags, scene.Version) {
		t.Errorf("crane lists the tags %q", tags)
	}
}

// discovered are what oras lists as referring to an image.
func (c clients) discovered(t *testing.T, ref string, flags ...string) (found []string) {
	t.Helper()
	var said struct {
		Referrers []struct{ Digest, ArtifactType string }
	}
	raw := c.oras.must(t, append([]string{"discover", "--plain-http", "--format", "json", "--depth", "1", ref}, flags...)...)
	if err := json.Unmarshal([]byte(raw), &said); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	for _, r := range said.Referrers {
		if r.ArtifactType == bundleType {
			found = append(found, r.Digest)
		}
	}
	return found
}

// orasReads has oras discover all evidence of ours, and pull its bytes.
func (c clients) orasReads(t *testing.T) {
	image := c.ours.resolve(t, scene.Version)
	ours := c.ours.bundles(t, image.Digest)
	found := c.discovered(t, c.ours.tagged(scene.Version))
	if len(ours) == 0 || len(found) != len(ours) {
		t.Fatalf("oras discovers %d bundles of %d", len(found), len(ours))
	}
	sboms := 0
	for _, d := range found {
		var manifest struct {
			Layers      []struct{ Digest string }
			Subject     struct{ Digest string }
			Annotations map[string]string
		}
		raw := c.oras.must(t, "manifest", "fetch", "--plain-http", c.ours.prefix+"/"+c.ours.name+"@"+d)
		if err := json.Unmarshal([]byte(raw), &manifest); err != nil || len(manifest.Layers) != 1 || manifest.Subject.Digest != image.Digest.String() {
			t.Fatalf("%v: %s", err, raw)
		}
		if manifest.Annotations["dev.sigstore.bundle.predicateType"] == intoto.SPDXDocument {
			sboms++
		}
		bundle := c.oras.must(t, "blob", "fetch", "--plain-http", "--output", "-", c.ours.prefix+"/"+c.ours.name+"@"+manifest.Layers[0].Digest)
		if !slices.ContainsFunc(ours, func(b []byte) bool { return string(b) == bundle }) {
			t.Errorf("oras pulls a bundle that we do not read: %.200s", bundle)
		}
	}
	if sboms != 1 {
		t.Errorf("oras discovers %d SBOMs of the image, want 1", sboms)
	}
}

// asked is how cosign is asked about an image.
func (c clients) asked(verb, ref, role string, more ...string) []string {
	issuer, subject := c.Lab.Identity(role)
	return append([]string{
		verb, ref, "--certificate-identity", subject, "--certificate-oidc-issuer", issuer,
		"--trusted-root", c.Path("trusted_root.json"), "--use-signed-timestamps", "--allow-http-registry",
	}, more...)
}

// cosignReads has both versions of cosign verify the evidence of index and children.
func (c clients) cosignReads(t *testing.T) {
	image := c.ours.resolve(t, scene.Version)
	graph, err := registry.Graph(t.Context(), c.ours.open(t), c.ours.name, image)
	if err != nil || len(graph.Children) != 2 {
		t.Fatalf("%d children: %v", len(graph.Children), err)
	}
	two := []string{"--new-bundle-format", "--offline"}
	for _, d := range []digest.Digest{image.Digest, graph.Children[0].Descriptor.Digest, graph.Children[1].Descriptor.Digest} {
		ref := c.ours.at(d)
		c.cosign3.must(t, c.asked("verify", ref, lab.RoleRelease)...)
		c.cosign2.must(t, c.asked("verify", ref, lab.RoleRelease, two...)...)
		builder := lab.RoleBuilder
		if _, err := c.cosign3.run(t, c.asked("verify-attestation", ref, builder, "--type", "slsaprovenance1")...); err != nil {
			builder = lab.RoleBuilderUnisolated // where steps cannot be isolated
		}
		c.cosign3.must(t, c.asked("verify-attestation", ref, builder, "--type", "slsaprovenance1")...)
		c.cosign2.must(t, c.asked("verify-attestation", ref, builder, append(two, "--type", "slsaprovenance1")...)...)
		sbom := []string{"--type", "spdxjson"}
		c.cosign3.must(t, c.asked("verify-attestation", ref, lab.RoleRelease, sbom...)...)
		c.cosign2.must(t, c.asked("verify-attestation", ref, lab.RoleRelease, append(two, sbom...)...)...)
		if _, err := c.cosign3.run(t, c.asked("verify-attestation", ref, lab.RolePolicy, sbom...)...); err == nil {
			t.Errorf("cosign 3 accepts the SBOM of %s for another identity", ref)
		}
		if _, err := c.cosign3.run(t, c.asked("verify", ref, lab.RolePolicy)...); err == nil {
			t.Errorf("cosign 3 accepts %s for another identity", ref)
		}
	}
	if tree := c.cosign3.must(t, "tree", "--allow-http-registry", c.ours.tagged(scene.Version)); !strings.Contains(tree, "https://slsa.dev/provenance/v1") {
		t.Errorf("cosign tree shows\n%s", tree)
	}
}

// orasCopies copies the release with everything that refers to it: what we accept
// in one place, we accept in the other. crane copies the image alone.
func (c clients) orasCopies(t *testing.T) {
	with, without := c.ours, c.ours
	with.prefix, without.prefix = c.ours.prefix+"/with", c.ours.prefix+"/without"
	c.oras.must(t, "copy", "--recursive", "--from-plain-http", "--to-plain-http", c.ours.tagged(scene.Version), with.tagged(scene.Version))
	c.crane.must(t, "copy", "--insecure", c.ours.tagged(scene.Version), without.tagged(scene.Version))
	if a, b := with.resolve(t, scene.Version), without.resolve(t, scene.Version); a.Digest != b.Digest || a.Digest != c.ours.resolve(t, scene.Version).Digest {
		t.Errorf("copies have the digests %s and %s", a.Digest, b.Digest)
	}
	want(t, c.image(t, without.tagged(scene.Version), lab.RoleRelease), 1, "EVIDENCE_MISSING")
	// oras copies what refers to the index and to each of its children.
	want(t, c.image(t, with.tagged(scene.Version), lab.RoleRelease), 0)
	want(t, c.gate(t, with.tagged(scene.Version)), 0)
}

// image asks waybill verify image whether a role signed.
func (c clients) image(t *testing.T, ref, role string, flags ...string) scene.Result {
	t.Helper()
	issuer, subject := c.Lab.Identity(role)
	return c.Run(t.Context(), append([]string{
		"waybill", "verify", "image", ref, "--trusted-root", "trusted_root.json", "--certificate-identity", subject, "--certificate-oidc-issuer", issuer,
	}, flags...)...)
}

// gate asks waybill gate image by the policy of the release.
func (c clients) gate(t *testing.T, ref string) scene.Result {
	t.Helper()
	return c.Run(t.Context(), "waybill", "gate", "image", ref, "--policy", "policy.yaml", "--trusted-root", "trusted_root.json", "--release-version", scene.Version)
}

// other is an image of one platform that crane pushed, not signed.
func (c clients) other(t *testing.T, name string) repository {
	t.Helper()
	tape := filepath.Join(t.TempDir(), "image.tar")
	c.crane.must(t, "pull", "--insecure", "--platform", "linux/amd64", c.ours.tagged(scene.Version), tape)
	to := repository{c.ours.prefix + "/theirs", name}
	c.crane.must(t, "push", "--insecure", tape, to.tagged("v1"))
	return to
}

// signs are the flags with which cosign signs as a role.
func (c clients) signs(verb, role string, more ...string) []string {
	return append([]string{
		verb, "--identity-token", c.Lab.Token(role), "--yes", "--allow-http-registry",
		"--trusted-root", c.Path("trusted_root.json"), "--signing-config", c.Path("signing_config.json"),
	}, more...)
}

// cosignPushes pushes an image with crane, and signs and attests it with cosign 3.
// We judge it, promote it, and cosign verifies it where it was promoted to.
func (c clients) cosignPushes(t *testing.T) {
	to := c.other(t, "cosigned")
	ref := to.tagged("v1")
	want(t, c.image(t, ref, lab.RoleRelease), 1, "EVIDENCE_MISSING")
	c.cosign3.must(t, c.signs("sign", lab.RoleRelease, ref)...)
	want(t, c.image(t, ref, lab.RoleRelease), 0)
	want(t, c.image(t, ref, lab.RoleBuilder), 1, "IDENTITY")
	const inspected = "https://example.test/inspected/v1"
	writeText(t, filepath.Join(c.cosign3.dir, "predicate.json"), `{"inspected": true}`)
	want(t, c.image(t, ref, lab.RoleVerifier, "--type", inspected), 1)
	c.cosign3.must(t, c.signs("attest", lab.RoleVerifier, "--predicate", "predicate.json", "--type", inspected, ref)...)
	want(t, c.image(t, ref, lab.RoleVerifier, "--type", inspected), 0)
	// It is signed, but has no provenance: the policy of the release refuses it.
	want(t, c.gate(t, ref), 1, "PROVENANCE")
	// A policy that asks for the signature alone promotes it, with both bundles.
	image, promoted := to.resolve(t, "v1"), repository{c.ours.prefix + "/promoted", to.name}
	c.promote(t, to, promoted, image)
	if got := len(promoted.bundles(t, image.Digest)); got != 2 {
		t.Errorf("%d bundles were promoted, want 2", got)
	}
	c.cosign3.must(t, c.asked("verify", promoted.tagged("v1"), lab.RoleRelease)...)
	c.cosign3.must(t, c.asked("verify-attestation", promoted.tagged("v1"), lab.RoleVerifier, "--type", inspected)...)
	if found := c.discovered(t, promoted.tagged("v1")); len(found) != 2 {
		t.Errorf("oras discovers %d bundles, want 2", len(found))
	}
}

// promote promotes one image of a repository by a policy that asks for a signature.
func (c clients) promote(t *testing.T, from, to repository, image registry.Descriptor) {
	t.Helper()
	name := strings.ToLower(strings.NewReplacer("/", "-", " ", "-").Replace(t.Name()))
	issuer, subject := c.Lab.Identity(lab.RoleRelease)
	writeText(t, c.Path(name+"-policy.yaml"), fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: signed
roles: {release: [{issuer: %q, subject: %q, type: email}]}
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {signature: require, provenance: "off", sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {signature: require, provenance: "off"}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: "off"
closed: {files: "off", images: "off"}
`, issuer, subject))
	profile, err := os.ReadFile(c.Path(c.profile()))
	if err != nil {
		t.Fatal(err)
	}
	writeText(t, c.Path(name+"-profile.yaml"), strings.Replace(string(profile), "policy: policy.yaml", "policy: "+name+"-policy.yaml", 1))
	writeText(t, c.Path(name+".yaml"), fmt.Sprintf("registries:\n- {name: %s, src: true}\n- {name: %s}\nimages:\n- name: %s\n  dmap: {%q: [v1]}\n", from.prefix, to.prefix, from.name, image.Digest.String()))
	plan := c.Run(t.Context(), "waybill", "promote", "plan", name+".yaml", "-o", "json")
	want(t, plan, 0)
	writeText(t, c.Path(name+".json"), plan.Stdout)
	want(t, c.Run(t.Context(), "waybill", "promote", "apply", name+".json", "--profile", name+"-profile.yaml", "--state", name+"-state", "--confirm"), 0)
}

// beforeBundles is cosign 2 with the keys by which it signs as it did before
// bundles.
func beforeBundles(t *testing.T, l *lab.Lab, old client) client {
	t.Helper()
	var root struct {
		CAs []struct {
			CertChain struct{ Certificates []rawKey }
		} `json:"certificateAuthorities"`
		CT  []struct{ PublicKey rawKey } `json:"ctlogs"`
		Log []struct {
			BaseURL   string
			PublicKey rawKey
		} `json:"tlogs"`
	}
	if err := json.Unmarshal(l.TrustedRoot, &root); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"CT_LOG_PUBLIC_KEY_FILE": root.CT[0].PublicKey.pem("PUBLIC KEY")}
	for _, authority := range root.CAs[0].CertChain.Certificates {
		files["ROOT_FILE"] += authority.pem("CERTIFICATE")
	}
	for _, log := range root.Log {
		if log.BaseURL == l.RekorV1 {
			files["REKOR_PUBLIC_KEY"] = log.PublicKey.pem("PUBLIC KEY")
		}
	}
	for name, text := range files {
		writeText(t, filepath.Join(old.dir, name), text)
		old.env = append(slices.Clone(old.env), "SIGSTORE_"+name+"="+filepath.Join(old.dir, name))
	}
	return old
}

// oldCosignPushes signs with cosign 2 in the form from before bundles: a tag that
// ends with .sig, and an entry in the older log. We judge it, and promote it.
func (c clients) oldCosignPushes(t *testing.T) {
	to := c.other(t, "old")
	ref, old := to.tagged("v1"), beforeBundles(t, c.Lab, c.cosign2)
	old.must(t, "sign", "--allow-http-registry", "--yes", "--new-bundle-format=false", "--fulcio-url", c.Lab.Fulcio, "--rekor-url", c.Lab.RekorV1,
		"--oidc-issuer", c.Lab.Issuer, "--identity-token", c.Lab.Token(lab.RoleRelease), to.at(to.resolve(t, "v1").Digest))
	want(t, c.image(t, ref, lab.RoleRelease), 0)
	want(t, c.image(t, ref, lab.RoleBuilder), 1, "IDENTITY")
	promoted := repository{c.ours.prefix + "/old-promoted", to.name}
	c.promote(t, to, promoted, to.resolve(t, "v1"))
	want(t, c.image(t, promoted.tagged("v1"), lab.RoleRelease), 0)
}

// rawKey is a key or certificate of a trusted root.
type rawKey struct{ RawBytes []byte }

func (k rawKey) pem(kind string) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: k.RawBytes}))
}

// orasAttaches attaches with oras: a file of its own kind, which we note, and a
// bundle of ours to an image that it is about, and to one that it is not about.
func (c clients) orasAttaches(t *testing.T) {
	image := c.ours.resolve(t, scene.Version)
	graph, err := registry.Graph(t.Context(), c.ours.open(t), c.ours.name, image)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(graph.Children, func(g *registry.Node) bool { return g.Descriptor.Platform == "linux/amd64" })
	child := graph.Children[at].Descriptor
	alone := repository{c.ours.prefix + "/alone", "lantern"}
	c.crane.must(t, "copy", "--insecure", c.ours.at(child.Digest), alone.tagged("v1"))
	other := c.other(t, "attached")
	writeText(t, filepath.Join(c.oras.dir, "note.txt"), "a note\n")
	for i, raw := range c.ours.bundles(t, child.Digest) {
		name := fmt.Sprintf("%d.json", i)
		writeText(t, filepath.Join(c.oras.dir, name), string(raw))
		for _, to := range []repository{alone, other} {
			c.oras.must(t, "attach", "--plain-http", "--artifact-type", bundleType, to.tagged("v1"), name+":"+bundleType)
		}
	}
	c.oras.must(t, "attach", "--plain-http", "--artifact-type", "text/plain", alone.tagged("v1"), "note.txt:text/plain")
	want(t, c.image(t, alone.tagged("v1"), lab.RoleRelease), 0)
	want(t, c.image(t, other.tagged("v1"), lab.RoleRelease), 1, "NOT_BOUND")
	// oras pulls what it has attached, and reads the bundle that we accepted.
	found := c.discovered(t, alone.tagged("v1"))
	dir := t.TempDir()
	for _, d := range found {
		c.oras.must(t, "pull", "--plain-http", "--output", dir, alone.prefix+"/"+alone.name+"@"+d)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != len(c.ours.bundles(t, child.Digest)) {
		t.Errorf("oras pulled %d files: %v", len(files), err)
	}
}
