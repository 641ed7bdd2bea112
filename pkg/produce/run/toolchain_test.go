package run

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// TestNoToolchainIsFetched: a source that asks for a newer Go, and a module
// proxy that has one, get the Go that the release pinned, or none (H25). In an
// environment that lets Go choose, the same source makes it ask.
func TestNoToolchainIsFetched(t *testing.T) {
	var asked atomic.Int64
	rogue := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "golang.org/toolchain") {
			asked.Add(1)
		}
		http.NotFound(w, r)
	}))
	defer rogue.Close()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.test/lantern\n\ngo 1.99.0\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	scratch := t.TempDir()
	if err := os.Mkdir(sandbox.Seen(sandbox.Unisolated, scratch).Temp, 0o700); err != nil {
		t.Fatal(err)
	}
	r := &run{Request: Request{Machine: Machine{Mode: sandbox.Unisolated}}}
	environment := r.environment(plan.Step{Env: []string{"GOFLAGS=-mod=mod", "GOCACHE=" + t.TempDir(), "GOPATH=" + t.TempDir()}}, surroundings{path: os.Getenv("PATH"), scratch: scratch, modules: rogue.URL})
	build := func(env []string) string {
		cmd := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, ".")
		cmd.Dir, cmd.Env = dir, env
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Fatalf("it was built: %s", out)
		}
		return string(out)
	}
	if said := build(environment); asked.Load() != 0 || !strings.Contains(said, "requires go >= 1.99.0") || !strings.Contains(said, "GOTOOLCHAIN=local") {
		t.Errorf("asked %d times: %s", asked.Load(), said)
	}
	choosing := append(slices.Clone(environment), "GOTOOLCHAIN=auto")
	if said := build(choosing); asked.Load() == 0 {
		t.Errorf("where it may choose nothing is asked: %s", said)
	}
}
