package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// corpora is test material that others wrote, beside the checkout.
const corpora = "../../../shared/corpora"

// material skips where there is none, except in CI.
func material(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(corpora, name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI needs the test material: %v", err)
		}
		t.Skipf("the test material is not here: %v", err)
	}
	return path
}

// TestSigstoreConformance runs the client conformance suite of Sigstore: 70
// cases, by file and by digest. waybill verify bundle answers each as users ask
// it; the verifier does, and once more with everything read by the library alone.
func TestSigstoreConformance(t *testing.T) {
	suite := material(t, "sigstore-conformance")
	command := filepath.Join(t.TempDir(), "conformance")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	waybill := filepath.Join(t.TempDir(), "waybill")
	build := exec.Command("go", "build", "-o", waybill, "./cmd/waybill")
	build.Dir = "../.."
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building waybill: %v\n%s", err, out)
	}
	for _, by := range []string{askedCommand + "=" + waybill, libraryAlone + "=", libraryAlone + "=yes"} {
		run := exec.CommandContext(t.Context(), "sh", filepath.Join(suite, "run.sh"), command)
		run.Env = append(os.Environ(), by)
		passes(t, run)
	}
}

// passes demands that the suite counts no bad answer.
func passes(t *testing.T, suite *exec.Cmd) {
	t.Helper()
	out, err := suite.CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	total := lines[len(lines)-1]
	t.Log(total)
	if err != nil || total != "TOTAL ok=140 bad=0" {
		for _, line := range lines {
			if !strings.HasPrefix(line, "OK\t") {
				t.Error(line)
			}
		}
		t.Fatalf("the suite: %v", err)
	}
}
