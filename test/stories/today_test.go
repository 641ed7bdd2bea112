package stories

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
	"github.com/waybill-release/waybill/test/scene"
)

// upstream is the version of Kubernetes that is published here.
const upstream = "v1.31.2"

// TestKubernetesToday: a release without a manifest is verified as far as that
// can be done, is never called complete, and is refused for each thing that is
// wrong with it. That no manifest is found is no way around one.
func TestKubernetesToday(t *testing.T) {
	s := &scene.Scene{Options: scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir()}, Lab: lab.New(t)}
	v, err := version.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	r := kubernetes.Make(v)
	for _, step := range []func() error{
		func() error { return r.Sign(t.Context(), kubernetes.Signer{Lab: s.Lab}) },
		func() error { return r.Publish(t.Context(), s.Lab) },
		func() error { return kubernetes.WriteProfile(s.Lab, s.Dir) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"k8s-verify-release", upstream, "--profile", "profile.yaml", "--evidence", "evidence"}, more...)...)
	}
	object := func(name string) string { return s.Lab.Bucket + "/release/kubernetes/" + upstream + "/" + name }
	want(t, verify(), 0, "in part", "Not checked: a signed list of the release's contents", "level 2 fails for", "the list of 1.31", "verified=174 required=174 missing=0 extra=0")
	t.Run("waybill says the same", func(t *testing.T) {
		a := parse(t, s.Run(t.Context(), "waybill", "verify", "release", upstream, "--profile", "profile.yaml", "--evidence", "evidence", "--output", "json"))
		if a.Outcome != "accepted" || a.Counts.Verified != 174 || strings.Contains(a.Headline, "nothing extra") {
			t.Errorf("%+v", a.Counts)
		}
	})
	t.Run("a profile that says sealed", func(t *testing.T) {
		raw, err := os.ReadFile(s.Path("profile.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		before, _, _ := bytes.Cut(raw, []byte("unsealed:"))
		if err := os.WriteFile(s.Path("sealed.yaml"), before, 0o600); err != nil {
			t.Fatal(err)
		}
		want(t, s.Run(t.Context(), "k8s-verify-release", upstream, "--profile", "sealed.yaml"), 1, "EVIDENCE_MISSING")
	})
	t.Run("what a manifest would have said", func(t *testing.T) {
		want(t, verify("--source", "."), 2, "USAGE")
		want(t, verify("--depth", "full"), 2, "USAGE")
		want(t, verify("--require-level", "build=1"), 2, "USAGE", "its provenance is unsigned, which shows level 1 at most")
	})
	t.Run("a build of continuous integration", func(t *testing.T) {
		want(t, s.Run(t.Context(), "k8s-verify-release", "v1.32.0-alpha.0.123+2a4f1c09d3be1f", "--profile", "profile.yaml"), 1, "UNSIGNED", "such builds of Kubernetes have no signatures")
	})
	t.Run("a part of it", func(t *testing.T) { todayParts(t, s, r, verify) })
	t.Run("downloaded", func(t *testing.T) { todayDownloaded(t, s, r, verify) })
	t.Run("mirrored", func(t *testing.T) { todayMirrored(t, s) })
	t.Run("no version", func(t *testing.T) {
		want(t, s.Run(t.Context(), "k8s-verify-release", "1.31.2", "--profile", "not-there.yaml"), 2, "USAGE VERSION", "want a lower-case v")
	})
	t.Run("files at hand", func(t *testing.T) { todayGiven(t, s, r) })
	t.Run("offline", func(t *testing.T) { todayOffline(t, s, r) })
	for _, c := range []struct {
		name, object string
		body         []byte // nil: the object is deleted
		said         []string
	}{
		{"a file too much", "bin/linux/amd64/kubectl-again", []byte("x"), []string{"EXTRA", "extra=1", "→ do not use it: no document of the release names it; find out who put it there"}},
		{"a file too few", "bin/linux/s390x/kubelet", nil, []string{"MISSING", "missing=1", "→ fetch the file again from where the project publishes it"}},
		{"other bytes", "bin/linux/arm64/kubectl", []byte("x"), []string{"TAMPERED"}},
		{"no signature", "kubernetes-server-linux-amd64.tar.gz.sig", nil, []string{"UNSIGNED", "do not use it until the project has signed it"}},
		{"a sidecar that lies", "kubernetes-server-linux-amd64.tar.gz.sha512", []byte(strings.Repeat("0", 128)), []string{"EVIDENCE_CONFLICT"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			request(t, http.MethodPut, object(c.object), c.body)
			want(t, verify(), 1, append(c.said, "REFUSED", c.object[:20])...)
			request(t, http.MethodPut, object(c.object), r.Files[c.object])
		})
	}
	want(t, verify(), 0, "in part") // mended, it is as good as it was
}

// TestKubernetesAutumn is the same release as it is published since autumn 2026:
// by the commands, each of its forms once with an attack, and mended.
func TestKubernetesAutumn(t *testing.T) {
	s := &scene.Scene{Options: scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir()}, Lab: lab.New(t)}
	v, err := version.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	r, signer := kubernetes.Make(v), kubernetes.Signer{Lab: s.Lab}
	for _, step := range []func() error{
		func() error { return r.Sign(t.Context(), signer) },
		func() error { return r.Autumn(t.Context(), signer) },
		func() error { return r.Publish(t.Context(), s.Lab) },
		func() error { return kubernetes.WriteProfile(s.Lab, s.Dir) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	verify := func(more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"k8s-verify-release", upstream, "--profile", "profile.yaml", "--evidence", "evidence"}, more...)...)
	}
	want(t, verify(), 0, "in part", "Not checked: a signed list", "verified=174 required=174 missing=0 extra=0", "shows level 2 of SLSA build at most", "55 × provenance",
		"54 × https://slsa.dev/verification_summary/v1", `"K8S_PROMOTION_MANIFEST_REVIEWED", which is no SLSA level and does not count`)
	want(t, verify("--platform", "linux/amd64"), 0, "verified=45 required=45")
	want(t, verify("--require-level", "build=1"), 2, "USAGE")
	image := strings.TrimPrefix(s.Lab.Registry, "http://") + "/release/kubernetes/kubeadm:" + upstream
	want(t, s.Run(t.Context(), "waybill", "gate", "image", image, "--policy", "policy.yaml", "--trusted-root", "trusted_root.json", "--stage", "release"), 0,
		`the manifest holds the file "kubeadm"`, "verified=5 required=5")
	object := s.Lab.Bucket + "/release/kubernetes/" + upstream + "/provenance.json"
	published := r.Files["provenance.json"]
	if err := r.SignProvenance(signer, kubernetes.Trust, r.Provenance()); err != nil {
		t.Fatal(err)
	}
	request(t, http.MethodPut, object, r.Files["provenance.json"])
	want(t, verify("--only", "files"), 1, "IDENTITY_ROLE", "signed by the release identity, want the builder identity", "provenance.json")
	request(t, http.MethodPut, object, published)
	images, err := registry.OpenRemote(s.Lab.Registry+"/release/kubernetes", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	proxy := r.Images[3]
	failed := kubernetes.NewSummary("kube-proxy", proxy.Index.Descriptor.Digest)
	failed.Failed = true
	made, err := failed.Sign(signer, kubernetes.Summaries)
	if err != nil {
		t.Fatal(err)
	}
	want(t, verify(), 0, "verified=174") // mended, it is as good as it was
	proxy.Index.Referring["kube-proxy"] = append(proxy.Index.Referring["kube-proxy"], made)
	if err := proxy.Push(t.Context(), images); err != nil {
		t.Fatal(err)
	}
	want(t, verify("--only", "images"), 1, "VSA_RESULT", "oci/kube-proxy", "read why the verifier rejected it")
}

// todayParts asks about a platform, the files or the images alone: what is
// wrong elsewhere is not of them, and what is nobody's is too much on all.
func todayParts(t *testing.T, s *scene.Scene, r *kubernetes.Release, verify func(more ...string) scene.Result) {
	const mine, other = "bin/linux/amd64/kubectl", "bin/linux/s390x/kubelet"
	object := func(name string) string { return s.Lab.Bucket + "/release/kubernetes/" + upstream + "/" + name }
	on := []string{"--platform", "linux/amd64"}
	want(t, verify(on...), 0, "in part", "Not checked: other platforms than linux/amd64", "verified=45 required=45")
	want(t, verify("--only", "files"), 0, "in part", "Not checked: images", "verified=120 required=120")
	want(t, verify("--only", "images"), 0, "in part", "Not checked: files", "verified=55 required=55")
	want(t, verify("--platform", "linux/amd64", "--only", "images"), 0, "verified=19 required=19")
	want(t, verify("--platform", "linux/riscv64"), 2, "USAGE", "no artifact in the release is for platform")
	for _, c := range []struct {
		name, object string
		body         []byte
		part         int // how the platform's part ends
		said         string
	}{
		{"a file of another platform too few", other, nil, 0, "in part"},
		{"a file of the platform too few", mine, nil, 1, "MISSING"},
		{"other bytes of another platform", other, []byte("x"), 0, "in part"},
		{"other bytes of the platform", mine, []byte("x"), 1, "TAMPERED"},
		{"a file of another platform that nobody names", other + "-again", []byte("x"), 1, "EXTRA"},
	} {
		t.Run(c.name, func(t *testing.T) {
			request(t, http.MethodPut, object(c.object), c.body)
			want(t, verify(on...), c.part, c.said)
			want(t, verify("--only", "images"), 0)
			want(t, verify("--only", "files"), 1)
			request(t, http.MethodPut, object(c.object), r.Files[c.object])
		})
	}
}

// todayDownloaded fetches a release without a manifest: nothing is shown before
// it is accepted, and what is shown can be verified again.
// todayMirrored: a mirror is compared with the files of a version that the gate accepts
// where the project publishes them.
func todayMirrored(t *testing.T, s *scene.Scene) {
	raw, err := os.ReadFile(s.Path("profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(s.Path("mirror"), 0o755), os.CopyFS(s.Path("mirror", upstream), os.DirFS(s.Path("got")))); err != nil {
		t.Fatal(err)
	}
	published := "gs" + strings.Replace(s.Lab.Bucket, "http", "+http", 1) + "/release/kubernetes/{version}/"
	mirrored := strings.Replace(string(raw), `release: "`+published+`"`, `staging: "`+published+`", release: "`+s.Path("mirror")+`/{version}/"`, 1)
	if err := os.WriteFile(s.Path("mirrored.yaml"), []byte(mirrored), 0o600); err != nil {
		t.Fatal(err)
	}
	plan := func() scene.Result {
		return s.Run(t.Context(), "waybill", "promote", "plan", upstream, "--profile", "mirrored.yaml", "--to", "release", "--output", "json")
	}
	r := plan()
	want(t, r, 0)
	if err := os.WriteFile(s.Path("plan.json"), []byte(r.Stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	compare := func() scene.Result {
		return s.Run(t.Context(), "waybill", "verify", "mirrors", "plan.json", "--profile", "mirrored.yaml")
	}
	want(t, compare(), 0, "1 mirror")
	const archive = "kubernetes-server-linux-amd64.tar.gz"
	for _, c := range []struct{ name, code string }{{archive, "TAMPERED"}, {archive + ".sig", "EVIDENCE_MISSING"}, {"bin/linux/arm64/kubectl", "MISSING"}} {
		at := s.Path("mirror", upstream, filepath.FromSlash(c.name))
		body, err := os.ReadFile(at)
		if err == nil && c.code == "TAMPERED" {
			err = os.WriteFile(at, []byte("x"), 0o600)
		} else if err == nil {
			err = os.Remove(at)
		}
		if err != nil {
			t.Fatal(err)
		}
		want(t, compare(), 1, c.code, c.name)
		if err := os.WriteFile(at, body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want(t, compare(), 0)
	object := s.Lab.Bucket + "/release/kubernetes/" + upstream + "/" + archive
	body, err := os.ReadFile(s.Path("got", archive))
	if err != nil {
		t.Fatal(err)
	}
	request(t, http.MethodPut, object, []byte("x"))
	want(t, plan(), 1, "TAMPERED") // a refused reference is not planned
	request(t, http.MethodPut, object, body)
}

func todayDownloaded(t *testing.T, s *scene.Scene, r *kubernetes.Release, verify func(more ...string) scene.Result) {
	const kubectl = "bin/linux/amd64/kubectl"
	object := s.Lab.Bucket + "/release/kubernetes/" + upstream + "/" + kubectl
	request(t, http.MethodPut, object, []byte("x"))
	want(t, verify("--download", "got"), 1, "TAMPERED", "Nothing was downloaded")
	if _, err := os.Stat(s.Path("got")); !os.IsNotExist(err) {
		t.Errorf("what was refused is shown: %v", err)
	}
	if out := verify("--print-sums").Stdout; strings.Contains(out, kubectl) {
		t.Errorf("sums of what was refused:\n%s", out)
	}
	request(t, http.MethodPut, object, r.Files[kubectl])
	want(t, verify("--download", "got"), 0, "Downloaded to", "The answers of the log are in evidence")
	for name, body := range r.Files {
		if name == "release-notes.json" || name == "announcement.html" {
			continue // nobody names them, and nothing is known of their bytes
		}
		if got, err := os.ReadFile(s.Path("got", filepath.FromSlash(name))); err != nil || !bytes.Equal(got, body) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(body), err)
		}
	}
	want(t, s.Run(t.Context(), "k8s-verify-release", upstream, "--profile", "profile.yaml", "--evidence", "evidence", "--files", "got", "--only", "files"), 0, "verified=120")
	// Without --evidence the answers of the log are kept beside the copy, which
	// can then be verified where there is no network; without them it can not.
	bare := []string{"k8s-verify-release", upstream, "--profile", "profile.yaml", "--only", "files"}
	want(t, s.Run(t.Context(), append(bare, "--download", "alone")...), 0, "The answers of the log are in alone.evidence")
	bare = append(bare, "--offline", "--files", "alone")
	want(t, s.Run(t.Context(), append(bare, "--evidence", "alone.evidence")...), 0, "verified=120")
	want(t, s.Run(t.Context(), bare...), 3)
	sums := verify("--print-sums")
	want(t, sums, 0, "verified=174")
	line := digest.Of(digest.SHA256, r.Files[kubectl]).Hex() + "  " + kubectl + "\n"
	if lines := strings.Count(sums.Stdout, "\n"); lines != 120 || !strings.Contains(sums.Stdout, line) {
		t.Errorf("%d sums:\n%s", lines, sums.Stdout)
	}
}

// todayGiven asks about files that were downloaded, and nothing else.
func todayGiven(t *testing.T, s *scene.Scene, r *kubernetes.Release) {
	const kubectl, kubelet = "bin/linux/amd64/kubectl", "bin/linux/amd64/kubelet"
	given := func(file string, body []byte) scene.Result {
		if err := os.WriteFile(s.Path(file), body, 0o600); err != nil {
			t.Fatal(err)
		}
		return s.Run(t.Context(), "k8s-verify-release", upstream, "--profile", "profile.yaml", "--evidence", "evidence", file)
	}
	want(t, given("kubectl", r.Files[kubectl]), 0, "kubectl is "+kubectl, "verified=2 required=2")
	want(t, given("kubectl", append([]byte("x"), r.Files[kubectl]...)), 1, "TAMPERED")
	want(t, given("kubectl", r.Files[kubelet]), 1, "NAME_SWAP", kubelet)
	want(t, given("kubectl2", []byte("x")), 1, "EXTRA", "→ the file is not part of this release")
	want(t, given("kube-proxy.docker_tag", r.Files["bin/linux/amd64/kube-proxy.docker_tag"]), 1, "UNSIGNED", "published unsigned")
}

// todayOffline verifies a copy on this machine with what the log answered
// before, and nobody is asked; without that, nothing is decided.
func todayOffline(t *testing.T, s *scene.Scene, r *kubernetes.Release) {
	for name, body := range r.Files {
		path := s.Path("copy", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	layout, err := registry.OpenLayout(s.Path("images"))
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range r.Images {
		if err := i.Push(t.Context(), layout); err != nil {
			t.Fatal(err)
		}
	}
	offline := []string{"k8s-verify-release", upstream, "--profile", "profile.yaml", "--offline", "--files", "copy", "--images", "images"}
	want(t, s.Run(t.Context(), append(offline, "--evidence", "evidence")...), 0, "in part", "verified=174 required=174")
	want(t, s.Run(t.Context(), offline...), 3, "LOG_UNASKED")
	// The profiles that are built in know other authorities than a lab's, and
	// the one that says sealed asks for a manifest before anything else.
	builtin := func(more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"k8s-verify-release", upstream, "--offline", "--files", "copy", "--images", "images"}, more...)...)
	}
	want(t, builtin("--evidence", "evidence"), 1, "verified=0 required=1")
	want(t, builtin("--profile", "kubernetes-sealed"), 1, "EVIDENCE_MISSING")
	want(t, builtin("--profile", "kubernetes-sealed", "--evidence", "evidence"), 2, "USAGE", "no log is searched")
}

// request writes an object of a lab's bucket, or deletes it where there are no
// bytes.
func request(t *testing.T, method, url string, body []byte) {
	t.Helper()
	if body == nil {
		method = http.MethodDelete
	}
	req, err := http.NewRequestWithContext(t.Context(), method, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		t.Fatalf("%s %s: %s", method, url, resp.Status)
	}
}
