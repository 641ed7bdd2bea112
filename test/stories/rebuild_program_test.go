package stories

import (
	"archive/zip"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// program makes a Go program of a module, v1.0.10, of which a module proxy has
// another version, and sets the variables by which the go command finds both.
func program(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for version, said := range map[string]string{"v1.0.10": "ten", "v1.0.11": "eleven"} {
		files := map[string]string{
			"go.mod":          "module example.test/beacon\n\ngo 1.26\n",
			"cmd/beacon/m.go": "package main\n\nvar name = \"none\"\n\nfunc main() { println(name, \"" + said + "\") }\n",
		}
		var archive bytes.Buffer
		z := zip.NewWriter(&archive)
		for name, text := range files {
			w, err := z.Create("example.test/beacon@" + version + "/" + name)
			if err == nil {
				_, err = w.Write([]byte(text))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		at := filepath.Join(dir, "proxy", "example.test", "beacon", "@v", version)
		save(t, archive.Bytes(), at+".zip")
		save(t, []byte(files["go.mod"]), at+".mod")
		save(t, []byte("v1.0.10\nv1.0.11\n"), filepath.Join(filepath.Dir(at), "list"))
		save(t, []byte(`{"Version":"`+version+`"}`), at+".info")
	}
	for name, value := range map[string]string{"GOPROXY": "file://" + filepath.Join(dir, "proxy"), "GOSUMDB": "off", "GOFLAGS": ""} {
		t.Setenv(name, value)
	}
	c := exec.CommandContext(t.Context(), "go", "install", "-trimpath", "-tags=one_tag_that_is_long_enough_to_lie", "-ldflags=-s -w", "example.test/beacon/cmd/beacon@v1.0.10")
	c.Env = append(os.Environ(), "GOBIN="+dir, "GOMODCACHE="+filepath.Join(dir, "cache"), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-modcacherw")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "beacon"))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestRebuildProgram builds a Go program of others again from its build
// information. What that does not say is named, what it says falsely makes other
// bytes, and no flag in it that names a file or program is passed on. What says the
// truth makes the same bytes: see TestDocsRebuild.
func TestRebuildProgram(t *testing.T) {
	genuine, dir := program(t), t.TempDir()
	s := &scene.Scene{Options: scene.Options{Bin: bin, Dir: dir}}
	rebuild := func(name string, more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "rebuild", filepath.Join(dir, name), "--build-info"}, more...)...)
	}
	save(t, genuine, filepath.Join(dir, "genuine"))

	const tags = "-tags=one_tag_that_is_long_enough_to_lie"
	setting := func(text string) string { return text + strings.Repeat("x", len(tags)-len(text)) }
	next := strings.Replace(runtime.Version(), "go1.", "go9.", 1)
	for what, row := range map[string]struct {
		old, lie string
		status   int
		said     []string
	}{
		"another version":       {"\tv1.0.10\t", "\tv1.0.11\t", 1, []string{"REBUILD_MISMATCH", "section "}},
		"a version that is not": {"\tv1.0.10\t", "\tv1.0.12\t", 3, []string{"INPUT_GONE", "v1.0.12", "GOPROXY"}},
		"a directory":           {"\tv1.0.10\t", "\t(devel)\t", 3, []string{"SOURCE_GONE", "build the program yourself"}},
		"changed files":         {"\tv1.0.10\t", "\tv+dirty\t", 3, []string{"SOURCE_GONE", "changes that are in no commit"}},
		"another package":       {"example.test/beacon/cmd/beacon\n", "example.test/-eacon/cmd/beacon\n", 3, []string{"SOURCE_GONE", "no package of a module"}},
		"no -trimpath":          {"-trimpath=true", "-trimpath=fals", 3, []string{"SOURCE_GONE", "-trimpath"}},
		"cgo":                   {"CGO_ENABLED=0", "CGO_ENABLED=1", 3, []string{"TOOLCHAIN_UNAVAILABLE", "cgo"}},
		"another toolchain":     {runtime.Version(), next, 3, []string{"TOOLCHAIN_UNAVAILABLE", next, "put that version of Go first in PATH"}},
		"-toolexec":             {tags, setting("-toolexec=/tmp/"), 3, []string{"REBUILD_FAILED", "-toolexec"}},
		"-overlay":              {tags, setting("-overlay=/tmp/"), 3, []string{"REBUILD_FAILED", "-overlay"}},
		"-modfile":              {tags, setting("-modfile=/tmp/"), 3, []string{"REBUILD_FAILED", "-modfile"}},
		"GOFLAGS":               {tags, setting("GOFLAGS=-toolexec=/tmp/"), 3, []string{"REBUILD_FAILED", "GOFLAGS"}},
		"GOPROXY":               {tags, setting("GOPROXY=file:///tmp/"), 3, []string{"REBUILD_FAILED", "GOPROXY"}},
		"-ldflags":              {tags, setting("-ldflags=-X=a.b=c -extld=/tmp/"), 3, []string{"REBUILD_FAILED", "-extld"}},
		"a tag that is a flag":  {tags, setting("-tags=a -toolexec=/tmp/"), 3, []string{"REBUILD_FAILED", "-toolexec"}},
	} {
		t.Run(what, func(t *testing.T) {
			lies := bytes.ReplaceAll(genuine, []byte(row.old), []byte(row.lie))
			if bytes.Equal(lies, genuine) || len(lies) != len(genuine) {
				t.Fatalf("the program has no %q", row.old)
			}
			save(t, lies, filepath.Join(dir, "lies"))
			want(t, rebuild("lies"), row.status, row.said...)
		})
	}
	for _, flags := range []string{"-extld=/tmp/x", "-X=a.b=c -extld /tmp/x", "-s -extldflags=-fplugin=/tmp/x", "-linkmode=external", "-X 'a.b=c d'", "-X -extld=x"} {
		want(t, rebuild("genuine", "--ldflags", flags), 3, "REBUILD_FAILED", "is not passed on to the linker")
	}
	save(t, []byte("#!/bin/sh\n"), filepath.Join(dir, "script"))
	want(t, rebuild("script"), 3, "REBUILD_FAILED", "neither provenance nor build information")
	// Without the flag nothing unsigned counts, nor because a mirror dropped the provenance.
	want(t, s.Run(t.Context(), "waybill", "rebuild", filepath.Join(dir, "genuine")), 1, "UNSIGNED", "--build-info")
	want(t, s.Run(t.Context(), "waybill", "rebuild", scene.Version, "--build-info"), 2, "USAGE")
	want(t, rebuild("nowhere"), 2, "USAGE", "no such file")
	want(t, rebuild("genuine", "--sign", "https://one.example.test"), 2, "USAGE", "nothing is signed", "leave out --sign")
}
