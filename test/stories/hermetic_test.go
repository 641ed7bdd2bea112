package stories

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/test/scene"
)

// openHermetic is a scene whose project has a dependency, everything of it
// locked.
func openHermetic(t *testing.T) sourced {
	t.Helper()
	s := openProject(t, filepath.Join("testdata", "hermetic"))
	s.Lab.PutModule("example.test/wick/@v/v0.1.0.zip", licensed(t, s.Lab.Modules))
	tidy := exec.CommandContext(t.Context(), "go", "mod", "tidy")
	tidy.Dir = s.Path("lantern")
	tidy.Env = append(os.Environ(), "GOPROXY="+s.Lab.Modules, "GOSUMDB=off", "GOFLAGS=-modcacherw", "GOWORK=off", "GOMODCACHE="+s.Path("modcache"))
	if out, err := tidy.CombinedOutput(); err != nil {
		t.Fatalf("go mod tidy: %v\n%s", err, out)
	}
	want(t, s.Run(t.Context(), "waybill", "lock", "--dir", "lantern", "--confirm"), 0)
	tag(t, s.Scene, scene.Version)
	return s
}

// licensed is the module of the lab under the licence of this project.
func licensed(t *testing.T, proxy string) []byte {
	t.Helper()
	text := contents(t, filepath.Join("..", "..", "LICENSE"))
	whole := read(t, proxy+"/example.test/wick/@v/v0.1.0.zip")
	from, err := zip.NewReader(bytes.NewReader(whole), int64(len(whole)))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	to := zip.NewWriter(&packed)
	for _, f := range from.File {
		if !strings.HasSuffix(f.Name, "/LICENSE") {
			err = to.Copy(f)
		} else if w, failed := to.Create(f.Name); failed == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// TestLongHermeticBuild: what a build fetched is fixed before its first step, the
// steps reach nothing else, and whoever builds the commit again, in another
// place at another time, gets the same bytes.
func TestLongHermeticBuild(t *testing.T) {
	s := openHermetic(t)
	want(t, s.build(t, "lantern", "state"), 0, "modules: ", "all match go.sum")

	t.Run("provenance", func(t *testing.T) {
		compile := s.predicate(t, "state", "compile-linux-amd64").BuildDefinition
		wick := materialOf(compile, "module example.test/wick")
		if wick.URI != "pkg:golang/example.test/wick@v0.1.0" || wick.Digest["dirHash"] != pinnedHash(t, s.Path("lantern", "go.sum")) || wick.Digest["sha256"] == "" {
			t.Errorf("the module is named %+v", wick)
		}
		if tool := materialOf(compile, "tool go"); tool.Digest["sha256"] == "" || tool.Digest["dirHash"] == "" {
			t.Errorf("the toolchain is named %+v", tool)
		}
		inside := compile.InternalParameters
		if isolated := inside.Isolation == "isolated"; inside.Hermetic != isolated || inside.Walls == nil || inside.Walls.Machine == isolated {
			t.Errorf("the compiler's step says %+v, walls %+v", inside, inside.Walls)
		}
		measure := s.predicate(t, "state", "measure").BuildDefinition
		if measure.InternalParameters.Hermetic || !measure.InternalParameters.Walls.Machine {
			t.Errorf("a step with the machine's programs calls itself hermetic: %+v", measure.InternalParameters)
		}
		if taken := materialOf(measure, "bin/linux/amd64/lantern"); taken.Digest["sha512"] == "" {
			t.Errorf("what it took is not named: %+v", measure.ResolvedDependencies)
		}
		for _, step := range []string{"compile-linux-amd64", "measure"} {
			if log := s.predicate(t, "state", step).RunDetails.Byproducts; len(log) != 2 || log[0].Name != "log" || log[1].Name != "otel-trace" {
				t.Errorf("step %s: byproducts %+v", step, log)
			}
		}
	})

	t.Run("again elsewhere", func(t *testing.T) {
		clone := filepath.Join(t.TempDir(), "some where", "else")
		if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", s.Path("lantern"), clone).CombinedOutput(); err != nil {
			t.Fatalf("git clone: %v\n%s", err, out)
		}
		state := filepath.Join(t.TempDir(), "state")
		want(t, s.build(t, clone, state), 0)
		first, second := made(t, s.Path("state")), made(t, state)
		if len(first) < 8 {
			t.Errorf("only %d files were made", len(first))
		}
		for name, body := range first {
			if !bytes.Equal(body, second[name]) {
				t.Errorf("%s is not the same: %d and %d bytes", name, len(body), len(second[name]))
			}
		}
		if len(second) != len(first) {
			t.Errorf("%d files, and %d the second time", len(first), len(second))
		}
	})

	t.Run("the legacy form", func(t *testing.T) {
		want(t, s.Stage(t.Context()), 0, "is done already", "OK ")
		name := s.Path("state", "files", filepath.FromSlash(plan.ProvenanceV02Name("compile-linux-amd64")))
		held, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		other, err := os.ReadFile(s.Path("state", "files", filepath.FromSlash(plan.ProvenanceV02Name("pack"))))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, other, 0o644); err != nil {
			t.Fatal(err)
		}
		want(t, s.Seal(t.Context()), 1, "NOT_BOUND", "differs from the step's provenance")
		if err := os.WriteFile(name, held, 0o644); err != nil {
			t.Fatal(err)
		}
		want(t, s.Seal(t.Context()), 0)
	})

	t.Run("the licence of a module", func(t *testing.T) {
		doc, err := spdx.Parse(contents(t, s.Path("state", "files", "bin", "linux", "amd64", "lantern.spdx.json")))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range doc.Packages() {
			if p.Name == "example.test/wick" && p.Licence == "Apache-2.0" {
				return
			}
		}
		t.Errorf("the SBOM does not declare it: %+v", doc.Packages())
	})

	t.Run("another module", func(t *testing.T) {
		s.Lab.PutModule("example.test/wick/@v/v0.1.0.zip", []byte("PK\x05\x06"+strings.Repeat("\x00", 18)))
		r := s.build(t, "lantern", "poisoned")
		want(t, r, 1, "FETCH_HASH", "example.test/wick@v0.1.0")
		s.nothingSigned(t, "poisoned")
		want(t, s.build(t, "lantern", "state"), 0, "is done already") // what was fetched before still holds
	})
}

// pinnedHash is what go.sum says of the code of the only module, as in-toto
// writes it.
func pinnedHash(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, hash, ok := strings.Cut(strings.SplitN(string(raw), "\n", 2)[0], " h1:")
	sum, err := base64.StdEncoding.DecodeString(hash)
	if !ok || err != nil {
		t.Fatalf("go.sum begins with %q: %v", raw, err)
	}
	return hex.EncodeToString(sum)
}

// made is everything that a build made, by name, but for what names its run.
func made(t *testing.T, state string) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	for _, place := range []string{"files", "images"} {
		err := filepath.WalkDir(filepath.Join(state, place), func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(path, state+string(filepath.Separator))
			if err != nil || d.IsDir() || slices.Contains(strings.Split(filepath.ToSlash(name), "/"), "provenance") {
				return err
			}
			if found[name], err = os.ReadFile(path); err != nil {
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}
