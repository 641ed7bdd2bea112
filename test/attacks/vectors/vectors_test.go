package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// command builds a command of the repository.
func command(t *testing.T, module, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(pkg))
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	build.Dir = module
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	return path
}

// TestVectors writes all vectors and asks the built commands each of them,
// knowing nothing but the files: the conformance command by file and by
// digest, and waybill, which must refuse with the very code of the header and
// no other.
func TestVectors(t *testing.T) {
	dir, suite, waybill := t.TempDir(), command(t, "../..", "./conformance"), command(t, "../../..", "./cmd/waybill")
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
			asked(t, waybill, c, contents(t, expect))
			if exists(filepath.Join(c, "ask")) {
				return // the protocol of the suite has no words for it
			}
			set := digest.SetOf([]byte(artifact))
			known := set.SHA256
			if strings.HasSuffix(c, "-sha512") {
				known = set.SHA512 // one digest does not say the other
			}
			for _, subject := range []string{filepath.Join(c, "artifact"), known.String()} {
				for _, alone := range []string{"", "yes"} { // everything is read by sigstore-go
					ask := exec.Command(suite, append(protocol(t, c), subject)...)
					ask.Env = append(os.Environ(), "WAYBILL_LIBRARY_ALONE="+alone)
					out, err := ask.CombinedOutput()
					if accepted := err == nil; accepted == strings.HasSuffix(c, "_fail") {
						t.Errorf("accepted is %t for %s, by the library alone: %q\n%s", accepted, subject, alone, out)
					}
				}
			}
		})
	}
}

// asked asks waybill, in the vector's directory.
func asked(t *testing.T, waybill, dir, expect string) {
	t.Helper()
	args := []string{"verify", "bundle", "bundle.sigstore.json", "artifact", "--trusted-root", "trusted_root.json", "--output", "json"}
	if kind := strings.TrimSpace(contents(t, filepath.Join(dir, "kind"))); kind != "blob" {
		args = append(args, "--type", kind)
	}
	for file, flag := range map[string]string{"identity": "--certificate-identity", "issuer": "--certificate-oidc-issuer"} {
		if path := filepath.Join(dir, file); exists(path) {
			args = append(args, flag, strings.TrimSpace(contents(t, path)))
		}
	}
	if exists(filepath.Join(dir, "key.pub")) {
		args = append(args, "--key", "key.pub")
	}
	if ask := filepath.Join(dir, "ask"); exists(ask) {
		args = append(args, strings.Split(strings.TrimSpace(contents(t, ask)), "\n")...)
	}
	cmd := exec.Command(waybill, args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	header, _, _ := strings.Cut(expect, "\n")
	_, text, _ := strings.Cut(header, "expect: refuse ")
	code, want := verdict.Code(text), 0
	if code != "" {
		want = verdict.ExitCode(code.Outcome())
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Fatalf("status %d, want %d\n%s%s", got, want, stdout.String(), stderr.String())
	}
	var v struct{ Findings []struct{ Code verdict.Code } }
	if code.Outcome() == verdict.Malformed {
		if !strings.Contains(stderr.String(), string(code)+" ") {
			t.Errorf("it does not say %s: %s", code, stderr.String())
		}
		return
	}
	if err := json.Unmarshal(stdout.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	for _, f := range v.Findings {
		if f.Code != code {
			t.Errorf("refused with %s, want %s\n%s", f.Code, code, stdout.String())
		}
	}
	if (len(v.Findings) == 0) != (code == "") {
		t.Errorf("%d findings\n%s", len(v.Findings), stdout.String())
	}
}

func protocol(t *testing.T, dir string) []string {
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
	if len(codes) < 40 {
		t.Errorf("%d codes", len(codes)-1)
	}
}
