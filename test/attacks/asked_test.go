package attacks

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

// asked is one way to ask about a release.
type asked struct {
	sealed, exists bool
	only, platform string
	depth          string
	file           string // at hand: none, ours, or one of another version
	place          string // what lies there
	mirror         bool   // said with --place, else with --files and --images
	offline        bool
}

// answer is the exit code that such a question must have.
func (a asked) answer() int {
	const refused, misuse = 1, 2
	swapped := a.place == "swapped" && a.only != "images" && (a.file == "none" || !a.sealed)
	switch {
	case !a.sealed && a.depth != "provenance": // there is nothing less to look at
		return misuse
	case !a.sealed && a.only == "images" && a.file != "none": // nothing would be left
		return misuse
	case a.place == "empty", a.place == "rewritten", !a.exists: // what is signed is not there, or of another version
		return refused
	case a.sealed && a.only == "images" && a.file != "none":
		return misuse
	case a.platform == "linux/riscv64": // nothing is of it
		return misuse
	case a.file == "foreign", swapped:
		return refused
	}
	return 0
}

// questions are all ways to ask, but for two: what matters where the answer can
// be yes is left out where it cannot.
func questions() (all []asked) {
	for _, place := range []string{"genuine", "swapped", "rewritten", "empty"} {
		for bits := range 16 {
			a := asked{place: place, sealed: bits&1 > 0, exists: bits&2 > 0, mirror: bits&4 > 0, offline: bits&8 > 0}
			if !a.exists && (place == "swapped" || place == "rewritten") || a.mirror != a.offline && (place != "genuine" || !a.exists) {
				continue
			}
			for _, a.only = range []string{"", "files", "images"} {
				for _, a.platform = range []string{"", "linux/amd64", "linux/riscv64"} {
					for _, a.depth = range []string{"provenance", "files"} {
						for _, a.file = range []string{"none", "ours", "foreign"} {
							all = append(all, a)
						}
					}
				}
			}
		}
	}
	return all
}

// TestEveryWayToAsk asks the built command in every way about releases with and
// without a manifest. The answer comes from a rule of this test.
func TestEveryWayToAsk(t *testing.T) {
	w := theWorld(t)
	build := exec.Command("go", "build", "-o", w.Path("..", "bin")+"/", "./cmd/k8s-verify-release")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	published := map[bool]subject{true: w.sealedSubject(t), false: w.unsealedSubject(t)}
	all := questions()
	var mu sync.Mutex
	codes := map[int]int{} // how often each
	var group errgroup.Group
	group.SetLimit(2)
	for _, a := range all {
		group.Go(func() error {
			r := w.Run(t.Context(), published[a.sealed].arguments(a)...)
			mu.Lock()
			defer mu.Unlock()
			codes[r.Code]++
			if want := a.answer(); r.Code != want {
				t.Errorf("exit %d, want %d: %+v\n%v\n%s%s", r.Code, want, a, r.Args, r.Stdout, r.Stderr)
			}
			if told := strings.Contains(r.Stdout, "/"+published[a.sealed].file+" is "); told && a.answer() != 0 && a.file == "foreign" {
				t.Errorf("%+v: it is said what the file is\n%s", a, r.Stdout)
			}
			return nil
		})
	}
	_ = group.Wait() // no function returns an error
	t.Logf("%d questions: %d accepted, %d refused, %d wrong use", len(all), codes[0], codes[1], codes[2])
	if codes[0] == 0 || codes[1] == 0 || codes[2] == 0 {
		t.Error("one of the answers was never given")
	}
}

// subject is a release in four places, and a file of it at hand.
type subject struct {
	profile, version, nobodys string // the versions that there are and are not
	files, images             string // where they belong
	dir                       string // has a directory for each place
	file                      string // the name of the one at hand
	flags                     []string
}

// arguments are the command that asks.
func (s subject) arguments(a asked) []string {
	args := []string{"k8s-verify-release", s.version, "--profile", s.profile}
	if !a.exists {
		args[1] = s.nobodys
	}
	files, images := filepath.Join(s.dir, a.place, "files"), filepath.Join(s.dir, a.place, "images")
	if a.mirror {
		args = append(args, "--place", strings.ReplaceAll(s.files, "{version}", args[1])+"="+files, "--place", s.images+"="+images)
	} else if args = append(args, "--files", files); a.file == "none" && a.only != "files" { // else the flag would have no use
		args = append(args, "--images", images)
	}
	for _, flag := range [][2]string{{"--only", a.only}, {"--platform", a.platform}, {"--depth", a.depth}} {
		if flag[1] != "" {
			args = append(args, flag[:]...)
		}
	}
	if a.offline {
		args = append(args, "--offline")
	}
	if a.file != "none" {
		args = append(args, filepath.Join(s.dir, a.file, s.file))
	}
	return append(args, s.flags...)
}

// sealedSubject is the sealed release of the world.
func (w *world) sealedSubject(t *testing.T) subject {
	s := subject{
		profile: "profile.yaml", version: w.version.String(), nobodys: "v0.99.0", dir: t.TempDir(), file: "lantern",
		files: "https://dl.example.test/lantern/{version}/", images: "registry.example.test/lantern",
	}
	for place, change := range map[string]func(*attacked){
		"genuine": func(*attacked) {}, "swapped": func(r *attacked) { r.swap(t, binary, "lantern-linux-amd64.tar.gz") },
		"rewritten": func(r *attacked) { r.flip(t, releasemanifest.Name) },
	} {
		r := w.attacked(t)
		change(r)
		accepted(t, os.Rename(r.dir, filepath.Join(s.dir, place)))
	}
	s.rest(t, must[[]byte](t)(os.ReadFile(filepath.Join(s.dir, "genuine", "files", binary))))
	return s
}

// unsealedSubject is a small release as Kubernetes publishes them.
func (w *world) unsealedSubject(t *testing.T) subject {
	s := subject{
		profile: filepath.Join(w.Dir, "unsealed", "profile.yaml"), version: "v1.30.2", nobodys: "v1.99.0", dir: t.TempDir(), file: "kubectl",
		files: "https://dl.k8s.io/release/{version}/", images: "registry.k8s.io", flags: []string{"--evidence", filepath.Join(w.Dir, "unsealed", "evidence")},
	}
	accepted(t, os.MkdirAll(filepath.Dir(s.profile), 0o700))
	accepted(t, kubernetes.WriteProfile(w.Lab, filepath.Dir(s.profile)))
	r := small(t, s.version)
	accepted(t, r.Sign(t.Context(), kubernetes.Signer{Lab: w.Lab}))
	old := small(t, "v1.20.0")
	accepted(t, old.SignFile(kubernetes.Signer{Lab: w.Lab}, kubernetes.Staging, kubectl))
	swapped := r.Clone()
	for _, suffix := range []string{"", ".sig", ".cert"} {
		swapped.Files[kubectl+suffix] = old.Files[kubectl+suffix]
	}
	rewritten := swapped.Clone()
	rewritten.Document() // and signed by nobody
	for place, r := range map[string]*kubernetes.Release{"genuine": r, "swapped": swapped, "rewritten": rewritten} {
		for name, body := range r.Files {
			writeFile(t, filepath.Join(s.dir, place, "files", filepath.FromSlash(name)), body)
		}
		layout := must[*registry.Layout](t)(registry.OpenLayout(filepath.Join(s.dir, place, "images")))
		for _, i := range r.Images {
			accepted(t, i.Push(t.Context(), layout))
		}
	}
	s.rest(t, r.Files[kubectl])
	writeFile(t, filepath.Join(s.dir, "foreign", s.file), old.Files[kubectl])
	// The answers of the log are kept, so that it can be asked about offline.
	if first := w.Run(t.Context(), s.arguments(asked{exists: true, place: "genuine", file: "ours"})...); first.Code != 0 {
		t.Fatalf("%s%s", first.Stdout, first.Stderr)
	}
	if first := w.Run(t.Context(), s.arguments(asked{exists: true, place: "genuine", file: "none"})...); first.Code != 0 {
		t.Fatalf("%s%s", first.Stdout, first.Stderr)
	}
	return s
}

// rest writes the files at hand, and the place in which there is nothing.
func (s subject) rest(t *testing.T, ours []byte) {
	t.Helper()
	accepted(t, os.MkdirAll(filepath.Join(s.dir, "empty", "files"), 0o700))
	accepted(t, os.MkdirAll(filepath.Join(s.dir, "empty", "images"), 0o700))
	writeFile(t, filepath.Join(s.dir, "ours", s.file), ours)
	writeFile(t, filepath.Join(s.dir, "foreign", s.file), []byte("of another release"))
}

const kubectl = "bin/linux/amd64/kubectl"

// small is a release with few files and one image, of a version whose source
// nobody has read.
func small(t *testing.T, of string) *kubernetes.Release {
	t.Helper()
	r := kubernetes.Make(must[version.Version](t)(version.Parse(of)))
	r.Images = r.Images[3:4]
	for name := range r.Files {
		if !strings.HasSuffix(name, "/kubectl") && !strings.HasSuffix(name, r.Images[0].Name+".tar") && name != "kubernetes.tar.gz" {
			delete(r.Files, name)
		}
	}
	r.Document()
	if r.Files[kubectl] == nil || r.Files[k8slayout.ReleaseSBOM] == nil {
		t.Fatal(fmt.Sprint("it lacks a file: ", r.Names()))
	}
	return r
}

func writeFile(t *testing.T, path string, body []byte) {
	t.Helper()
	accepted(t, os.MkdirAll(filepath.Dir(path), 0o700))
	accepted(t, os.WriteFile(path, body, 0o600))
}
