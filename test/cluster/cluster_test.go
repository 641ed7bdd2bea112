// Package cluster_test runs the files of cmd/waybill/deploy on a real Kubernetes
// control plane: make cluster builds it, and make test-cluster runs these tests.
// Nodes are those of test/lab/cluster/node, which run waybill as processes.
package cluster_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bin holds the commands, built from the root module.
var bin string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "waybill-cluster-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", dir+"/", "./cmd/waybill")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the command: %v\n%s", err, out)
		return 1
	}
	bin = dir
	return m.Run()
}

// deployed is a file of cmd/waybill/deploy.
func deployed(t testing.TB, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "cmd", "waybill", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
