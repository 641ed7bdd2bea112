package stories

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// mirror promotes signed files of the staged release to a bucket and to a
// directory, as a list says.
type mirror struct {
	*scene.Scene
	t     *testing.T
	files map[string][]byte // by name below the staging place
}

// openMirror stages the example, and lists its binaries for linux.
func openMirror(t *testing.T) mirror {
	t.Helper()
	m := mirror{Scene: open(t), t: t, files: map[string][]byte{}}
	want(t, m.Stage(t.Context()), 0)
	for _, name := range []string{"bin/linux/amd64/lantern", "bin/linux/arm64/lantern"} {
		m.files[name] = m.get("staging/lantern/" + scene.Version + "/" + name)
	}
	raw, err := os.ReadFile(m.Path("policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// A list has one bundle for each file: a signature by the release identity.
	text := strings.NewReplacer("provenance: require", `provenance: "off"`, "sbom: require", `sbom: "off"`).Replace(string(raw))
	m.write("files-policy.yaml", text)
	raw, err = os.ReadFile(m.Path("profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	m.write("files-profile.yaml", strings.Replace(string(raw), "policy: policy.yaml", "policy: files-policy.yaml", 1))
	m.list()
	return m
}

func (m mirror) write(name, text string) {
	m.t.Helper()
	if err := os.MkdirAll(filepath.Dir(m.Path(name)), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(m.Path(name), []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// bucket is how a list names a place of the lab.
func (m mirror) bucket(path string) string {
	return strings.Replace(m.Lab.Bucket, "http://", "gs+http://", 1) + "/" + path
}

// list writes the thin manifest, and a list of what m.files has.
func (m mirror) list() {
	m.t.Helper()
	m.write("artifacts/filestores/lantern/filepromoter-manifest.yaml", fmt.Sprintf("filestores:\n- base: %s\n  src: true\n- base: %s\n  service-account: promoter@example.test\n- base: file://%s\n",
		m.bucket("staging/lantern/"+scene.Version), m.bucket("release/mirror"), m.Path("mirror")))
	text := "files:\n"
	for name, body := range m.files {
		text += fmt.Sprintf("- name: %s\n  sha256: %q\n", name, digest.Of(digest.SHA256, body).Hex())
	}
	m.write("artifacts/manifests/lantern/"+scene.Version+".yaml", text)
}

// get reads an object of the bucket; nil if it is not there.
func (m mirror) get(path string) []byte {
	m.t.Helper()
	r, err := http.Get(m.Lab.Bucket + "/" + path)
	if err != nil {
		m.t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	if r.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

// set writes an object of the bucket, past all care.
func (m mirror) set(path string, body []byte) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), http.MethodPut, m.Lab.Bucket+"/"+path, strings.NewReader(string(body)))
	if err != nil {
		m.t.Fatal(err)
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil || r.StatusCode != http.StatusOK {
		m.t.Fatalf("writing %s: %v, %v", path, r, err)
	}
	r.Body.Close()
}

func (m mirror) plan(flags ...string) scene.Result {
	return m.Run(m.t.Context(), append([]string{"waybill", "promote", "plan", "artifacts"}, flags...)...)
}

// apply plans and promotes.
func (m mirror) apply(flags ...string) scene.Result {
	m.t.Helper()
	planned := m.plan("--output", "json")
	want(m.t, planned, 0)
	m.write("files-plan.json", planned.Stdout)
	return m.Run(m.t.Context(), append([]string{"waybill", "promote", "apply", "files-plan.json", "--profile", "files-profile.yaml", "--state", "files-state"}, flags...)...)
}

func TestPromoteFiles(t *testing.T) {
	m := openMirror(t)
	want(t, m.plan(), 0, "lantern: 2 files of gs+http://", "stores 1, files 2, copies 4", "requests: at least 6")
	want(t, m.plan("--diff"), 0, "missing  gs+http://", "same 0, missing 4, other 0, unknown 0")
	want(t, m.apply(), 0, "nothing was copied")
	if m.get("release/mirror/bin/linux/amd64/lantern") != nil {
		t.Error("a dry run copied")
	}
	want(t, m.apply("--confirm"), 0, "OK ", "verified=4 required=4")
	for name, body := range m.files {
		there, err := os.ReadFile(m.Path("mirror", filepath.FromSlash(name)))
		if err != nil || string(there) != string(body) || string(m.get("release/mirror/"+name)) != string(body) {
			t.Errorf("%s is not what was promoted: %v", name, err)
		}
		want(t, m.Run(t.Context(), "waybill", "gate", "file", m.Path("mirror", name), "--policy", "files-policy.yaml", "--name", name, "--trusted-root", "trusted_root.json"), 0)
	}
	want(t, m.plan("--diff"), 0, "same 4, missing 0, other 0, unknown 0")
	want(t, m.plan("--diff", "--output", "json"), 0, `"state": "same"`)
	want(t, m.apply("--confirm"), 0, "verified=4 required=4")

	// Other bytes at one destination stay, and stop nothing else.
	m.set("release/mirror/bin/linux/arm64/lantern", []byte("theirs"))
	if err := os.RemoveAll(m.Path("mirror")); err != nil {
		t.Fatal(err)
	}
	want(t, m.plan("--diff"), 1, "other    gs+http://", "same 1, missing 2, other 1, unknown 0", "FILE_CONFLICT")
	want(t, m.apply("--confirm"), 1, "FILE_CONFLICT", "verified=3 required=4")
	if string(m.get("release/mirror/bin/linux/arm64/lantern")) != "theirs" {
		t.Error("other bytes were written over")
	}
}

// TestPromoteFilesRefused: each row changes one fact.
func TestPromoteFilesRefused(t *testing.T) {
	m := openMirror(t)
	const amd, arm = "bin/linux/amd64/lantern", "bin/linux/arm64/lantern"
	staged := "staging/lantern/" + scene.Version + "/"
	bundle, other := m.get(staged+amd+".sigstore.json"), m.get(staged+arm+".sigstore.json")
	for _, c := range []struct {
		name   string
		change func()
		mend   func()
		said   string
	}{
		{"changed after it was listed", func() { m.set(staged+amd, []byte("malice")) }, func() { m.set(staged+amd, m.files[amd]) }, "TAMPERED"},
		{"the bundle of another file", func() { m.set(staged+amd+".sigstore.json", other) }, func() { m.set(staged+amd+".sigstore.json", bundle) }, "NOT_BOUND"},
		{"a bundle that is none", func() { m.set(staged+amd+".sigstore.json", []byte("{}")) }, func() { m.set(staged+amd+".sigstore.json", bundle) }, "REFUSED"},
	} {
		c.change()
		r := m.apply("--confirm")
		want(t, r, 1, c.said, "not copied to any destination (2)")
		if !strings.Contains(r.Stdout, "verified=2 required=4") {
			t.Errorf("%s: the other file did not go:\n%s", c.name, r.Stdout)
		}
		if m.get("release/mirror/"+amd) != nil || m.get("release/mirror/"+amd+".sigstore.json") != nil {
			t.Errorf("%s: it was promoted", c.name)
		}
		c.mend()
	}
	check := func(flags ...string) scene.Result {
		return m.Run(t.Context(), append([]string{"waybill", "gate", "check", "artifacts", "--trusted-root", "trusted_root.json"}, flags...)...)
	}
	want(t, check("--policy", "files-policy.yaml"), 0, "verified=2 required=2")
	want(t, check("--policy", "policy.yaml"), 1, "NO_PROVENANCE", "verified=0 required=2")
	want(t, check(), 2, "--policy")
	want(t, m.apply("--confirm"), 0, "verified=4 required=4")
	// A policy asks more than a list can carry, and is not bent.
	want(t, m.Run(t.Context(), "waybill", "promote", "apply", "files-plan.json", "--profile", "profile.yaml", "--confirm"), 1, "NO_PROVENANCE")
}

func TestPromoteFilesThatCannotBePlanned(t *testing.T) {
	m := mirror{Scene: open(t), t: t, files: map[string][]byte{"a": []byte("a")}}
	m.list()
	want(t, m.plan(), 0, "files 1, copies 2")
	want(t, m.plan("--to", "release"), 2, "the flag is for a version")
	want(t, m.plan("--profile", "profile.yaml"), 2, "want staging or release")
	want(t, m.plan("--profile", "profile.yaml", "--to", "release"), 2)
	want(t, m.Run(t.Context(), "waybill", "promote", "plan", scene.Version), 2, "a version, whose places only a profile names", "add --profile")
	m.write("images.yaml", "registries:\n- {name: a.example.test/x, src: true}\n- {name: b.example.test/x}\nimages:\n- name: demo\n  dmap: {\"sha256:"+strings.Repeat("1", 64)+"\": [v1]}\n")
	want(t, m.Run(t.Context(), "waybill", "promote", "plan", "artifacts", "images.yaml"), 2, "images and files cannot be in one plan")
	want(t, m.Run(t.Context(), "waybill", "promote", "plan", "images.yaml", "--diff"), 2, "the plan has no files")
	m.write("two.yaml", "filestores:\n- {base: gs://x/, src: true}\n- {base: "+m.bucket("release/mirror")+"}\nfiles:\n- {name: a, sha256: \""+strings.Repeat("1", 64)+"\"}\n")
	want(t, m.Run(t.Context(), "waybill", "promote", "plan", "artifacts", "two.yaml"), 1, "FILE_CONFLICT", "release/mirror/a")
	m.write("artifacts/manifests/lantern/more.yaml", "files:\n- {name: ../a, sha256: \""+strings.Repeat("1", 64)+"\"}\n")
	want(t, m.plan(), 2, "manifests/lantern/more.yaml", "not a file name: ")
}
