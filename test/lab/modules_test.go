package lab_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/modules"
)

// TestModules: the go command itself takes the lab for a module proxy, finds
// the version by name, and writes the go.sum that the lab promises.
func TestModules(t *testing.T) {
	l := lab.New(t)
	dir, cache := t.TempDir(), t.TempDir()
	program := "package main\n\nimport \"example.test/wick\"\n\nfunc main() { print(wick.Light()) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY="+l.Modules, "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOMODCACHE="+cache, "GOWORK=off")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, args := range [][]string{{"mod", "init", "example.test/app"}, {"get", modules.Path + "@latest"}, {"run", "."}} {
		out, err := run(args...)
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		if args[0] == "run" && out != "a light in the dark" {
			t.Errorf("the program says %q", out)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	promised, err := modules.GoSum()
	if err != nil || string(raw) != promised {
		t.Errorf("go.sum:\n%swant:\n%s%v", raw, promised, err)
	}
	if example, err := os.ReadFile(filepath.Join("..", "example", "go.sum")); err != nil || string(example) != promised {
		t.Errorf("the example pins:\n%swant:\n%s%v", example, promised, err)
	}
	if out, err := run("get", "example.test/oil@latest"); err == nil {
		t.Errorf("a module that nobody made: %s", out)
	}
	// A proxy that changes its mind is found out by go.sum.
	l.PutModule(modules.Path+"/@v/"+modules.Version+".mod", []byte("module example.test/wick // changed\n"))
	if code, body := call(t, "GET", l.Modules+"/"+modules.Path+"/@v/"+modules.Version+".mod", ""); code != 200 || !strings.Contains(body, "changed") {
		t.Errorf("the other answer: %d %s", code, body)
	}
	l.PutModule(modules.Path+"/@v/"+modules.Version+".mod", nil)
	if code, _ := call(t, "GET", l.Modules+"/"+modules.Path+"/@v/"+modules.Version+".mod", ""); code != 404 {
		t.Errorf("the answer that was taken away: %d", code)
	}
	if code, _ := call(t, "PUT", l.Modules+"/"+modules.Path+"/@v/list", "v9.9.9"); code != 405 {
		t.Errorf("writing: %d", code)
	}
}
