package stories

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/scene"
)

// TestOwnReleasePlans: release.yaml of this repository plans the names that the
// install page, the actions and the images of others rely on, and the lock pins
// the modules that go.mod selects.
func TestOwnReleasePlans(t *testing.T) {
	root := filepath.Join("..", "..")
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	config, err := plan.ParseConfig(read(plan.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	v, err := version.Parse("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	p, err := config.Expand(v)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"SHA256SUMS", "SHA512SUMS", "oci/waybill", "oci/waybill/linux/amd64", "oci/waybill/linux/arm64", "oci/k8s-verify-release/linux/arm64"}
	for _, platform := range []string{"linux-amd64", "linux-arm64", "darwin-amd64", "darwin-arm64", "windows-amd64", "windows-arm64"} {
		end, exe := ".tar.gz", ""
		if strings.HasPrefix(platform, "windows") {
			end, exe = ".zip", ".exe"
		}
		dir := "bin/" + strings.ReplaceAll(platform, "-", "/")
		want = append(want, "waybill-v0.1.0-"+platform+end, dir+"/waybill"+exe, dir+"/k8s-verify-release"+exe)
	}
	for _, name := range want {
		if _, planned := p.Find(name); !planned {
			t.Errorf("%s is not planned", name)
		}
	}
	for _, s := range p.Steps {
		if s.Image != nil && (s.Image.Base != plan.Scratch || s.Image.User != "65532:65532") {
			t.Errorf("%s: base %q, user %q; want scratch, and not root", s.Instance, s.Image.Base, s.Image.User)
		}
	}
	lock, err := plan.ParseLock(read(plan.LockName))
	if err != nil {
		t.Fatal(err)
	}
	now, err := plan.LockModule(".", plan.ModuleFiles{GoMod: read("go.mod"), GoSum: read("go.sum")})
	if err != nil {
		t.Fatal(err)
	}
	if held := lock.Modules["."]; held.GoMod != now.GoMod || held.GoSum != now.GoSum || !slices.Equal(held.Require, now.Require) {
		t.Errorf("%s does not pin the modules of go.mod and go.sum: run make lock, and commit it with them", plan.LockName)
	}
	if err := profile.Check(read(".github/profile.yaml")); err != nil {
		t.Error(err)
	}
}

// TestOwnPolicyInBothPrograms: both programs read the policy of our own releases,
// and refuse by it what a lab signed.
func TestOwnPolicyInBothPrograms(t *testing.T) {
	s := publish(t, open(t))
	own, err := os.ReadFile("../../policies/waybill-release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const lab = "trustRoot: {lab: \"off\"}\n"
	for policy, code := range map[string]string{string(own): "TRUST_LAB", strings.Replace(string(own), lab, "", 1): "IDENTITY"} {
		if err := os.WriteFile(s.Path("policy.yaml"), []byte(policy), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, program := range [][]string{{"k8s-verify-release"}, {"waybill", "verify", "release"}} {
			want(t, s.Run(t.Context(), append(program, scene.Version, "--profile", "profile.yaml")...), 1, code)
		}
	}
}

// zipped is the example with a zip archive and a user of its image.
func zipped(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "zipped")
	if err := os.CopyFS(dir, os.DirFS(shell)); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, plan.ConfigName))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, change := range [][2]string{{"format: tar.gz", "format: zip"}, {"{os}-{arch}.tar.gz", "{os}-{arch}.zip"}, {"base: static,", `base: static, user: "65532:65532",`}} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("the example has no %q", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	if err := os.WriteFile(filepath.Join(dir, plan.ConfigName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestZipAndNotes: a release with zip archives is made, verified to its content
// and refused for a changed entry; notes are printed only of what is accepted.
func TestZipAndNotes(t *testing.T) {
	s := publish(t, openExample(t, zipped(t)))
	full := []string{"waybill", "verify", "release", scene.Version, "--profile", "profile.yaml", "--depth", "full"}
	const archive = "lantern-linux-amd64.zip"
	at := s.Lab.Bucket + "/release/lantern/" + scene.Version + "/" + archive
	notes := func(flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "notes", scene.Version, "--profile", "profile.yaml"}, flags...)...)
	}
	want(t, s.Run(t.Context(), full...), 0)
	genuine := (&workshop{Scene: s}).read(t, "state/files/"+archive)
	files := unzip(t, genuine)
	if string(files["lantern/lantern"]) != "lantern "+scene.Version+" for linux/amd64\n" || files["lantern/LICENSE"] == nil || len(files) != 2 {
		t.Errorf("the archive has %d files: %q", len(files), files)
	}
	t.Run("notes", func(t *testing.T) {
		want(t, notes(), 0, archive, "sha256sum -c", "cosign verify-blob", "release@lab.invalid", "oci/lantern", "waybill verify release "+scene.Version)
		var n struct {
			Version   string
			Artifacts []struct {
				Name, Digest string
				Size         int64
			}
			Signed []struct{ Class, Name, Bundle, Identity string }
			Level  struct{ Level int }
		}
		r := notes("--output", "json")
		want(t, r, 0)
		if err := json.Unmarshal([]byte(r.Stdout), &n); err != nil {
			t.Fatal(err)
		}
		if n.Version != scene.Version || len(n.Artifacts) != 5 || len(n.Signed) != 4 || n.Level.Level < 1 {
			t.Errorf("notes %+v", n)
		}
		want(t, notes("--output", "html"), 2, "want markdown or json")
	})
	t.Run("image", func(t *testing.T) {
		ref, err := name.ParseReference(s.Lab.Registry + "/release/lantern/lantern:" + scene.Version)
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(ref, remote.WithContext(t.Context()))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := image.ConfigFile(); err != nil || c.Config.User != "65532:65532" {
			t.Errorf("%v, user %q", err, c.Config.User)
		}
	})
	t.Run("a changed entry", func(t *testing.T) {
		request(t, http.MethodPut, at, otherProgram(t, genuine))
		want(t, s.Run(t.Context(), full...), 1, "TAMPERED", archive)
		if r := notes(); r.Code != 1 || r.Stdout != "" || !strings.Contains(r.Stderr, "TAMPERED") {
			t.Errorf("status %d, stdout %q, stderr %s", r.Code, r.Stdout, r.Stderr)
		}
		request(t, http.MethodPut, at, genuine)
		want(t, s.Run(t.Context(), full...), 0)
		want(t, notes(), 0)
	})
}

func unzip(t *testing.T, raw []byte) map[string][]byte {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(raw), int64(len(raw)))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range r.File {
		body, err := r.Open(f.Name)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if _, err := b.ReadFrom(body); err != nil {
			t.Fatal(err)
		}
		files[f.Name] = b.Bytes()
	}
	return files
}

// otherProgram is an archive with the same names and another program.
func otherProgram(t *testing.T, raw []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, body := range unzip(t, raw) {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(bytes.ReplaceAll(body, []byte("lantern v"), []byte("LANTERN v"))); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
