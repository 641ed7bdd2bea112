package build

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/bench"
)

func request(t *testing.T, work string) Request {
	t.Helper()
	return Request{Work: work, Way: Bare, Example: filepath.Join("..", "..", "example"), Dir: t.TempDir(), Platforms: 2, Steps: 2, Files: 3, Bytes: 3001}
}

// TestProjects: each work has the commands that it is to have.
func TestProjects(t *testing.T) {
	for work, want := range map[string]string{Compile: "go go", Idle: "sh sh", Tree: "sh"} {
		dir := t.TempDir()
		if err := writeProject(request(t, work), dir); err != nil {
			t.Fatal(err)
		}
		steps, err := planned(dir)
		if err != nil {
			t.Fatalf("%s: %v", work, err)
		}
		var programs []string
		for _, s := range steps {
			programs = append(programs, s.Run[:min(1, len(s.Run))]...)
		}
		if got := strings.Join(programs, " "); got != want {
			t.Errorf("%s: runs %q, want %q", work, got, want)
		}
	}
	for name, change := range map[string]func(*Request){
		"no work":                func(r *Request) { r.Work = "sleep" },
		"more platforms":         func(r *Request) { r.Platforms = 9 },
		"no example":             func(r *Request) { r.Example = "none" },
		"an example of its own":  func(r *Request) { r.Example = "." },
		"no idle steps":          func(r *Request) { r.Work, r.Steps = Idle, 0 },
		"less than a byte":       func(r *Request) { r.Work, r.Files = Tree, 4000 },
		"a tree of nothing":      func(r *Request) { r.Work, r.Files = Tree, 0 },
		"a tree of too few":      func(r *Request) { r.Work, r.Bytes = Tree, 2 },
		"a tree of what is none": func(r *Request) { r.Work, r.Files = Tree, -1 },
	} {
		r := request(t, Compile)
		change(&r)
		if err := writeProject(r, t.TempDir()); err == nil {
			t.Errorf("%s: written", name)
		}
	}
}

// TestBare: what the bare commands wrote is what is hashed after.
func TestBare(t *testing.T) {
	for work, files := range map[string]int{Idle: 2, Tree: 3} {
		r := request(t, work)
		r.Way = Hash
		if err := Run(t.Context(), &bytes.Buffer{}, r); err == nil {
			t.Errorf("%s: hashed nothing", work)
		}
		for _, way := range []string{Bare, Sync, Hash, HashAll} {
			r.Way = way
			var said bytes.Buffer
			var took bench.Sample
			if err := Run(t.Context(), &said, r); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(said.Bytes(), &took); err != nil || took.Wall <= 0 {
				t.Errorf("%s, %s: %+v, %v", work, way, took, err)
			}
		}
		written := 0
		err := filepath.WalkDir(r.place(Bare), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.Contains(path, "/out/") {
				written++
			}
			return err
		})
		if err != nil || written != files {
			t.Errorf("%s: %d files, want %d (%v)", work, written, files, err)
		}
	}
	r := request(t, Idle)
	r.Way = "slowly"
	if err := Run(t.Context(), &bytes.Buffer{}, r); err == nil {
		t.Error("there is no such way")
	}
}

// TestFailure: the time of a failure says nothing.
func TestFailure(t *testing.T) {
	r := request(t, Tree)
	t.Setenv("PATH", t.TempDir())
	var said bytes.Buffer
	if err := Run(t.Context(), &said, r); err == nil || said.Len() > 0 {
		t.Errorf("%v: %s", err, &said)
	}
}
