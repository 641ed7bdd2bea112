package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// TestVectors writes all vectors and asks the conformance command each of
// them, by file and by digest, knowing nothing but the files.
func TestVectors(t *testing.T) {
	dir, command := t.TempDir(), filepath.Join(t.TempDir(), "conformance")
	if out, err := exec.Command("go", "build", "-o", command, "../../conformance").CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	n, err := write(t.Context(), dir, vectors())
	if err != nil {
		t.Fatal(err)
	}
	cases, err := filepath.Glob(filepath.Join(dir, "*", "expect"))
	if err != nil || len(cases) != n || n < 50 {
		t.Fatalf("%d directories of %d vectors: %v", len(cases), n, err)
	}
	for _, expect := range cases {
		c := filepath.Dir(expect)
		t.Run(filepath.Base(c), func(t *testing.T) {
			want := "expect: pass"
			if strings.HasSuffix(c, "_fail") {
				want = "expect: refuse "
			}
			if !strings.HasPrefix(contents(t, expect), want) {
				t.Errorf("its header says\n%s", contents(t, expect))
			}
			set := digest.SetOf([]byte(artifact))
			known := set.SHA256
			if strings.HasSuffix(c, "-sha512") {
				known = set.SHA512 // one digest does not say the other
			}
			for _, subject := range []string{filepath.Join(c, "artifact"), known.String()} {
				out, err := exec.Command(command, append(question(t, c), subject)...).CombinedOutput()
				if accepted := err == nil; accepted == strings.HasSuffix(c, "_fail") {
					t.Errorf("accepted is %t for %s\n%s", accepted, subject, out)
				}
			}
		})
	}
}

func question(t *testing.T, dir string) []string {
	t.Helper()
	args := []string{"verify-bundle", "--bundle", filepath.Join(dir, "bundle.sigstore.json"), "--trusted-root", filepath.Join(dir, "trusted_root.json")}
	if key := filepath.Join(dir, "key.pub"); exists(key) {
		return append(args, "--key", key)
	}
	return append(args, "--certificate-identity", strings.TrimSpace(contents(t, filepath.Join(dir, "identity"))),
		"--certificate-oidc-issuer", strings.TrimSpace(contents(t, filepath.Join(dir, "issuer"))))
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func contents(t *testing.T, path string) string {
	t.Helper()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// TestVectorsHaveTwins: every refusal starts from a genuine bundle that is a
// vector itself, no name stands twice, and many codes are met.
func TestVectorsHaveTwins(t *testing.T) {
	names, passes, codes := map[string]bool{}, map[string]bool{}, map[verdict.Code]bool{}
	for _, v := range vectors() {
		passes[v.name] = v.code == ""
	}
	for _, v := range vectors() {
		if names[v.dir()] || v.why == "" {
			t.Errorf("%s stands twice or says nothing", v.dir())
		}
		names[v.dir()] = true
		if v.code != "" && !passes[v.twin()] {
			t.Errorf("%s has no twin that passes", v.dir())
		}
		codes[v.code] = true
	}
	t.Logf("%d vectors, %d codes", len(names), len(codes)-1)
	if len(codes) < 20 {
		t.Errorf("%d codes", len(codes)-1)
	}
}
