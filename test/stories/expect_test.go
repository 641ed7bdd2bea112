package stories

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
	"github.com/waybill-release/waybill/test/scene"
)

// TestExpect: the list that is read in the build scripts of a tag is signed in the
// role policy, and a published release is verified by it. Each refusal differs
// from that in one fact.
func TestExpect(t *testing.T) {
	s := &scene.Scene{Options: scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir()}, Lab: lab.New(t)}
	d := desk{&workshop{Scene: s}}
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
	d.write(t, "signing_config.json", s.Lab.SigningConfig)
	edit(t, s.Path("profile.yaml"), "knownDefects: known-defects.yaml\n", "signingConfig: signing_config.json\n")
	layScripts(t, s.Path("kubernetes"), upstream, "v1.32.0")
	expect := func(file, tag string) {
		got := s.Run(t.Context(), "waybill", "expect", "kubernetes", "./kubernetes@"+tag)
		want(t, got, 0)
		d.write(t, file, []byte(got.Stdout))
	}
	verify := func(file string) scene.Result {
		return s.Run(t.Context(), "k8s-verify-release", upstream, "--profile", "profile.yaml", "--evidence", "evidence", "--expected", file)
	}
	sign := func(role, file string) scene.Result {
		d.write(t, role+".token", []byte(s.Lab.Token(role)))
		return s.Run(t.Context(), "waybill", "policy", "sign", file, "--profile", "profile.yaml", "--identity-token", "policy="+role+".token", "--confirm")
	}
	expect("expected.yaml", upstream)
	want(t, verify("expected.yaml"), 0) // the policy names no signer: the list is the user's own

	issuer, subject := s.Lab.Identity("policy")
	edit(t, s.Path("policy.yaml"), "roles:\n", "roles:\n  policy: [{issuer: \""+issuer+"\", subject: \""+subject+"\", type: email}]\n")
	t.Run("unsigned", func(t *testing.T) { want(t, verify("expected.yaml"), 1, "UNSIGNED") })
	t.Run("signed by the builder", func(t *testing.T) {
		want(t, sign(kubernetes.Staging, "expected.yaml"), 1, "SIGNED_AS_ELSE")
		raw := d.read(t, "expected.yaml")
		list, err := k8slayout.ParseList(raw)
		if err != nil {
			t.Fatal(err)
		}
		said, err := list.Statement("expected.yaml", raw)
		if err != nil {
			t.Fatal(err)
		}
		bundle, err := s.Sign(t.Context(), kubernetes.Staging, said.Raw())
		if err != nil {
			t.Fatal(err)
		}
		d.write(t, "expected.yaml.sigstore.json", bundle)
		want(t, verify("expected.yaml"), 1, "IDENTITY_ROLE")
		if err := os.Remove(s.Path("expected.yaml.sigstore.json")); err != nil {
			t.Fatal(err)
		}
	})
	want(t, sign("policy", "expected.yaml"), 0, "read back and verified")
	want(t, verify("expected.yaml"), 0, "the list of 1.31")
	want(t, s.Run(t.Context(), "waybill", "verify", "release", upstream, "--profile", "profile.yaml", "--evidence", "evidence", "--expected", "expected.yaml"), 0, "the list of 1.31")

	t.Run("changed after it was signed", func(t *testing.T) {
		d.write(t, "changed.yaml", append(d.read(t, "expected.yaml"), "# more\n"...))
		d.write(t, "changed.yaml.sigstore.json", d.read(t, "expected.yaml.sigstore.json"))
		want(t, verify("changed.yaml"), 1, "POLICY_SIG")
	})
	t.Run("of another minor version", func(t *testing.T) {
		expect("other.yaml", "v1.32.0")
		want(t, sign("policy", "other.yaml"), 0)
		want(t, verify("other.yaml"), 1, "VERSION", "the list is for 1.32")
	})
	t.Run("of a program that was never built", func(t *testing.T) {
		edit(t, s.Path("kubernetes", "hack", "lib", "golang.sh"), "  cmd/kubectl\n", "  cmd/kubectl\n  cmd/kubectl-lamp\n")
		layScripts(t, s.Path("kubernetes"))
		repository(t, s.Path("kubernetes"), "tag", "-f", upstream)
		expect("more.yaml", upstream)
		want(t, sign("policy", "more.yaml"), 0)
		want(t, verify("more.yaml"), 1, "MISSING", "kubectl-lamp")
	})
	t.Run("a construct that is not understood", func(t *testing.T) {
		edit(t, s.Path("kubernetes", "hack", "lib", "golang.sh"), "readonly KUBE_SUPPORTED_TEST_PLATFORMS=(", "KUBE_SUPPORTED_TEST_PLATFORMS+=(")
		layScripts(t, s.Path("kubernetes"))
		repository(t, s.Path("kubernetes"), "tag", "-f", upstream)
		want(t, s.Run(t.Context(), "waybill", "expect", "kubernetes", "./kubernetes@"+upstream), 2, "hack/lib/golang.sh:")
	})
}

// repository runs git in a directory, as a maintainer does.
func repository(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=L", "-c", "user.email=l@example.test"}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// layScripts commits build scripts to a new repository, with tags; in one that is
// there already, what was changed in it.
func layScripts(t *testing.T, dir string, tags ...string) {
	t.Helper()
	if len(tags) > 0 {
		for name, text := range kubernetes.Scripts() {
			save(t, []byte(text), dir, filepath.FromSlash(name))
		}
		repository(t, dir, "init", "-q")
	}
	repository(t, dir, "add", ".")
	repository(t, dir, "commit", "-q", "-m", "build scripts: "+strings.Join(tags, " "))
	for _, tag := range tags {
		repository(t, dir, "tag", tag)
	}
}
