package sbom_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// program compiles a module with one dependency, which a directory replaces.
func program(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string]string{
		"go.mod":      "module example.org/lantern\n\ngo 1.24\n\nrequire example.org/wick v1.2.3\n\nreplace example.org/wick => ./wick\n",
		"main.go":     "package main\n\nimport \"example.org/wick\"\n\nfunc main() { wick.Light() }\n",
		"wick/go.mod": "module example.org/wick\n\ngo 1.24\n",
		"wick/w.go":   "package wick\n\n// Light lights.\nfunc Light() {}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return compile(t, dir, "-mod=mod", ".")
}

// compile builds a program in dir for a platform that need not be ours.
func compile(t *testing.T, dir string, args ...string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "program")
	build := exec.Command("go", append([]string{"build", "-trimpath", "-buildvcs=false", "-o", out}, args...)...)
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0", "GOFLAGS=", "GOOS=linux", "GOARCH=amd64")
	if log, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compiling: %v\n%s", err, log)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func contentOf(raw []byte) sbom.Content { return content(raw) }

func binary(content []byte) func() ([]byte, error) {
	return func() ([]byte, error) {
		return encoded(sbom.Binary(input(), "bin/linux/amd64/lantern", contentOf(content)))
	}
}

func TestBinary(t *testing.T) {
	content := program(t)
	doc := made(t, "bin/linux/amd64/lantern", digest.Of(digest.SHA256, content), binary(content))
	artifact := find(t, doc, "bin/linux/amd64/lantern")
	if !strings.Contains(artifact.Comment, "GOARCH=amd64") || artifact.Version != "v0.1.0" {
		t.Errorf("the settings of the build are missing: %+v", artifact)
	}
	// The toolchain does not know the version of the main module; the release does.
	main := find(t, doc, "example.org/lantern")
	if main.PURL != "pkg:golang/example.org/lantern@v0.1.0" || !related(doc, artifact.ID, spdx.GeneratedFrom, main.ID) {
		t.Errorf("main module: %+v", main)
	}
	wick := find(t, doc, "./wick")
	if wick.PURL != "" || !strings.Contains(wick.Comment, "Replaces example.org/wick v1.2.3") ||
		!related(doc, artifact.ID, spdx.DependsOn, wick.ID) {
		t.Errorf("replaced module: %+v", wick)
	}
	std, compiler := find(t, doc, "stdlib"), find(t, doc, "go")
	if !strings.HasPrefix(std.PURL, "pkg:golang/stdlib@1.") || !related(doc, compiler.ID, spdx.BuildToolOf, artifact.ID) {
		t.Errorf("toolchain: %+v %+v", std, compiler)
	}
	if related(doc, artifact.ID, spdx.Contains, spdx.NoAssertion) {
		t.Error("a binary that is known is called unknown")
	}
}

// TestBinaryModules describes a program with a dependency from elsewhere.
func TestBinaryModules(t *testing.T) {
	content := compile(t, ".", "./testdata/reader")
	doc := made(t, "bin/linux/amd64/lantern", digest.Of(digest.SHA256, content), binary(content))
	tools := find(t, doc, "github.com/spdx/tools-golang")
	if !strings.HasPrefix(tools.PURL, "pkg:golang/github.com/spdx/tools-golang@v") ||
		!strings.HasPrefix(tools.Sum, "h1:") || !tools.Digests.IsZero() {
		t.Errorf("a dependency: %+v", tools)
	}
}

// TestBinaryUnknown: without build information the document says so in words
// and in the graph.
func TestBinaryUnknown(t *testing.T) {
	for name, content := range map[string][]byte{
		"a script":                      []byte("#!/bin/sh\nexit 0\n"),
		"nothing":                       {},
		"an executable cut in the head": []byte("\x7fELF\x02\x01\x01"),
	} {
		doc := made(t, "bin/linux/amd64/lantern", digest.Of(digest.SHA256, content), binary(content))
		p := find(t, doc, "bin/linux/amd64/lantern")
		if !strings.Contains(p.Comment, "Nothing is known of the contents") ||
			!related(doc, p.ID, spdx.Contains, spdx.NoAssertion) || !related(doc, p.ID, spdx.DependsOn, spdx.NoAssertion) {
			t.Errorf("%s: the document passes over in silence: %+v", name, p)
		}
	}
}

// TestBinaryMangledHead bumps each byte of the head of an executable: an
// answer or a refusal, never a panic.
func TestBinaryMangledHead(t *testing.T) {
	content := program(t)
	for i := range 96 {
		mangled := bytes.Clone(content)
		mangled[i] ^= 0xff
		if _, err := sbom.Binary(input(), "b", contentOf(mangled)); err != nil {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
}

func TestBinaryRefuses(t *testing.T) {
	content := []byte("the bytes")
	for reason, row := range map[string]struct {
		sum  digest.Set
		size int64
	}{
		"digest is sha256:": {digest.SetOf([]byte("others")), 9},
		"ended after 9":     {digest.SetOf(content), 10},
		"more than the":     {digest.SetOf(content), 8},
	} {
		_, err := sbom.Binary(input(), "b", sbom.Content{ReaderAt: bytes.NewReader(content), Size: row.size, Digests: row.sum})
		refused(t, err, verdict.SBOMSubject, reason)
	}
}
