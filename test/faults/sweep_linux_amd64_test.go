package faults_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// swept is a command that is struck again and again, each time with a directory of
// its own, in a scene with a published release.
type swept struct {
	name string
	code int  // how it ends if it is not struck
	same bool // each run leaves the same bytes
	step bool // what is accepted may lack the next steps
	// prepare makes what is there before, and args are the command.
	prepare func(w sweeping, dir string)
	args    func(w sweeping, dir string) []string
	// accepted asks a verifier, or another reader, whether what is there is whole.
	accepted func(w sweeping, dir string) scene.Result
}

// sweeping is a scene that is swept.
type sweeping struct {
	*scene.Scene
	t *testing.T
}

// sweeps are the commands that write, besides sign, seal and promote.
func sweeps() []swept {
	verifyKit := func(w sweeping, path string) scene.Result {
		return w.run("k8s-verify-release", scene.Version, "--profile", "profile.yaml", "--kit", path)
	}
	return []swept{
		{
			name: "kit export", same: true,
			args: func(_ sweeping, dir string) []string {
				return []string{"waybill", "kit", "export", scene.Version, dir + "/whole.kit", "--profile", "profile.yaml"}
			},
			accepted: func(w sweeping, dir string) scene.Result { return verifyKit(w, dir+"/whole.kit") },
		},
		{
			name: "kit export, evidence only", same: true,
			args: func(_ sweeping, dir string) []string {
				return []string{"waybill", "kit", "export", scene.Version, dir + "/part.kit", "--profile", "profile.yaml", "--evidence-only", "--zstd"}
			},
			accepted: func(w sweeping, dir string) scene.Result {
				return w.run("waybill", "verify", "release", scene.Version, "state/files/lantern-linux-amd64.tar.gz", "--profile", "profile.yaml", "--kit", dir+"/part.kit")
			},
		},
		{
			name: "kit delta", same: true,
			prepare: func(w sweeping, dir string) { w.copy("evidence.kit", dir+"/evidence.kit") },
			args: func(_ sweeping, dir string) []string {
				return []string{"waybill", "kit", "delta", dir + "/evidence.kit", "release.kit", dir + "/change.kit"}
			},
			accepted: func(w sweeping, dir string) scene.Result { return verifyKit(w, dir+"/change.kit") },
		},
		{
			name: "kit import", same: true,
			args: func(w sweeping, dir string) []string {
				return []string{"waybill", "kit", "import", scene.Version, "release.kit", "--profile", "profile.yaml", "--to", dir + "/files", "--to-images", w.images(dir)}
			},
			accepted: func(w sweeping, dir string) scene.Result {
				return w.run("k8s-verify-release", scene.Version, "--profile", "profile.yaml", "--files", dir+"/files", "--images", w.images(dir))
			},
		},
		{
			name: "release",
			prepare: func(w sweeping, dir string) {
				w.copy("state", dir+"/state")
				w.write(dir+".yaml", strings.NewReplacer(`release: "`+w.Places.Files+"/release/lantern", `release: "`+dir+"/files",
					w.Places.Images+"/release/lantern", w.images(dir)).Replace(w.read("profile.yaml")))
			},
			args: func(_ sweeping, dir string) []string {
				return []string{"waybill", "release", scene.Version, "--profile", dir + ".yaml", "--state", dir + "/state", "--confirm"}
			},
			accepted: func(w sweeping, dir string) scene.Result {
				return w.run("k8s-verify-release", scene.Version, "--profile", dir+".yaml")
			},
		},
		{
			name: "rebuild",
			args: func(w sweeping, dir string) []string {
				return []string{"waybill", "rebuild", scene.Version, "--profile", "profile.yaml", "--source", w.Source(), "lantern-linux-amd64.tar.gz", "--output", "table", "--output", "json=" + dir + "/verdict.json"}
			},
			accepted: func(w sweeping, dir string) scene.Result {
				return w.run("waybill", "report", dir+"/verdict.json")
			},
		},
		{
			name: "sbom images", same: true,
			prepare: func(w sweeping, dir string) { w.check(os.Mkdir(w.Path(dir, "sboms"), 0o755)) },
			args: func(_ sweeping, dir string) []string {
				return []string{"waybill", "sbom", "images", "images-plan.json", "--to", dir + "/sboms", "--supplier", "Lantern", "--namespace", "https://example.test/"}
			},
			accepted: func(w sweeping, dir string) scene.Result {
				return w.run("waybill", "sbom", "images", "images-plan.json", "--to", dir+"/sboms", "--merge")
			},
		},
		{
			// An unexplained entry is an alarm in each run, whatever happened before.
			name: "watch", code: 1,
			prepare: func(w sweeping, dir string) { w.copy("watched", dir+"/watched") },
			args: func(w sweeping, dir string) []string {
				return []string{"waybill", "watch", "--profile", "profile.yaml", "--log", w.Lab.Rekor, "--state", dir + "/watched", "--release", scene.Version}
			},
		},
		{
			name: "feature reconcile", step: true,
			prepare: func(w sweeping, dir string) {
				w.copy("site", dir+"/site")
				w.write(dir+".yaml", strings.Replace(w.read("features.yaml"), "site: site", "site: "+dir+"/site", 1))
			},
			args: func(w sweeping, dir string) []string {
				w.token()
				return []string{"waybill", "feature", "reconcile", dir + ".yaml", "--once", "--identity-token", "reconciler=reconciler.token", "--confirm"}
			},
			accepted: func(w sweeping, dir string) scene.Result {
				return w.run("waybill", "feature", "get", "StatusPage", "--config", dir+".yaml")
			},
		},
	}
}

// openSweeping opens the scene: a published release, kits of it, a plan of its image,
// a log that was followed up to an unexplained entry, and a site whose next
// pass makes a transition.
func openSweeping(t *testing.T) sweeping {
	t.Helper()
	s, err := scene.Open(t.Context(), scene.Options{Bin: staged.Bin, Dir: t.TempDir(), Example: filepath.Join("..", "scene", "shell")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	w := sweeping{s, t}
	issuer, _ := s.Lab.Identity("release")
	w.write("policy.yaml", strings.Replace(w.read("policy.yaml"), "roles:\n", fmt.Sprintf("roles:\n  reconciler: [{issuer: %q, subject: %q, type: email}]\n", issuer, reconciler), 1))
	want(t, s.Stage(t.Context()), 0)
	w.check(os.CopyFS(s.Path("staged"), os.DirFS(s.Path("state"))))
	want(t, s.Release(t.Context()), 0)
	w.check(errors.Join(os.RemoveAll(s.Path("state")), os.Rename(s.Path("staged"), s.Path("state"))))

	want(t, w.run("waybill", "kit", "export", scene.Version, "release.kit", "--profile", "profile.yaml"), 0)
	want(t, w.run("waybill", "kit", "export", scene.Version, "evidence.kit", "--profile", "profile.yaml", "--evidence-only"), 0)

	found := w.run("waybill", "inspect", w.Places.Images+"/release/lantern/lantern:"+scene.Version, "--output", "json")
	want(t, found, 0)
	at := strings.Index(found.Stdout, "sha256:")
	w.write("images.yaml", fmt.Sprintf("registries:\n- {name: %[1]s/release/lantern, src: true}\n- {name: %[1]s/elsewhere}\nimages:\n- name: lantern\n  dmap: {%[2]q: [%[3]s]}\n",
		w.Places.Images, found.Stdout[at:at+len("sha256:")+64], scene.Version))
	plan := w.run("waybill", "promote", "plan", "images.yaml", "-o", "json")
	want(t, plan, 0)
	w.write("images-plan.json", plan.Stdout)

	watch := []string{"waybill", "watch", "--profile", "profile.yaml", "--log", s.Lab.Rekor, "--state", "watched", "--release", scene.Version}
	want(t, w.run(watch...), 0)
	_, err = s.Sign(t.Context(), "release", []byte(w.read("state/plan.json")))
	w.check(err)

	w.check(os.Mkdir(s.Path("site"), 0o755))
	w.write("features.yaml", "apiVersion: waybill/v1\nkind: Features\nsite: site\nprofile: profile.yaml\nidentity: reconciler-0\nevery: 1s\nreporters: [{identity: promoter, every: 1s}]\ndynamic: [StatusPage]\n")
	w.token()
	want(t, w.run("waybill", "feature", "reconcile", "features.yaml", "--once", "--identity-token", "reconciler=reconciler.token", "--confirm"), 0)
	return w
}

// reconciler reconciles features.
const reconciler = "reconciler@lab.invalid"

func (w sweeping) token() {
	w.t.Helper()
	text, err := w.Lab.Mint(reconciler, map[string]any{"exp": time.Now().Add(time.Hour).Unix()})
	w.check(err)
	w.write("reconciler.token", text)
}

func (w sweeping) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w sweeping) run(args ...string) scene.Result { return w.Run(w.t.Context(), args...) }

func (w sweeping) read(name string) string {
	w.t.Helper()
	raw, err := os.ReadFile(w.Path(name))
	w.check(err)
	return string(raw)
}

func (w sweeping) write(name, text string) {
	w.t.Helper()
	w.check(os.WriteFile(w.Path(name), []byte(text), 0o600))
}

func (w sweeping) copy(from, to string) {
	w.t.Helper()
	if info, err := os.Stat(w.Path(from)); err == nil && !info.IsDir() {
		w.write(to, w.read(from))
		return
	}
	w.check(os.CopyFS(w.Path(to), os.DirFS(w.Path(from))))
}

// images is a registry prefix of one directory's own.
func (w sweeping) images(dir string) string { return w.Places.Images + "/" + dir }

// strike prepares a directory, runs the command with it, and strikes it. Temporary
// files are in the directory, too.
func (w sweeping) strike(v swept, dir string, s faults.Strike) (faults.Struck, string) {
	w.t.Helper()
	w.check(os.MkdirAll(w.Path(dir, "tmp"), 0o755))
	if v.prepare != nil {
		v.prepare(w, dir)
	}
	log, err := os.Create(w.Path(dir + ".log"))
	w.check(err)
	defer log.Close()
	args := v.args(w, dir)
	cmd := exec.Command(filepath.Join(w.Bin, args[0]), args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = w.Dir, log, log
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.Path(dir, "cache"), "TMPDIR="+w.Path(dir, "tmp"))
	struck, err := s.Run(cmd)
	switch {
	case err != nil && os.Getenv("CI") != "":
		w.t.Fatalf("CI strikes always: %v", err)
	case err != nil:
		w.t.Skipf("nothing can be traced here: %v", err)
	}
	return struck, w.read(dir + ".log")
}

// left is what is in a directory besides temporary files and caches: names, with a
// digest where each run leaves the same bytes, and what is there of killed writers.
func (w sweeping) left(v swept, dir string) (names, remains []string) {
	w.t.Helper()
	root := w.Path(dir)
	w.check(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case name == "tmp" || name == "cache":
			return fs.SkipDir
		case store.IsStaging(filepath.ToSlash(path)), strings.HasPrefix(d.Name(), ".waybill-kit-"):
			remains = append(remains, name)
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return nil
		}
		raw, err := os.ReadFile(path)
		if key := privateKey(raw); key != "" {
			w.t.Errorf("%s has a private key: %s", name, key)
		}
		if v.same {
			name += fmt.Sprintf(" %x", sha256.Sum256(raw))
		}
		names = append(names, name)
		return err
	}))
	return names, remains
}

// fault is a way to strike.
type fault struct {
	name string
	faults.Strike
	some int // positions, unless all are asked for
}

func sweepFaults() []fault {
	list := []fault{{name: "kill", some: 3}}
	for _, errno := range slices.Sorted(maps.Keys(disks())) {
		list = append(list, fault{errno.Error(), faults.Strike{With: errno, Only: disks()[errno]}, 1})
	}
	writes := []string{"write", "pwrite", "copy_file_range"}
	return append(list, fault{"short write", faults.Strike{Short: true, Only: writes}, 1}, fault{"short write, disk full", faults.Strike{Short: true, With: syscall.ENOSPC, Only: writes}, 1})
}

// drawn are positions of n: all, or some that the seed chooses.
func drawn(n, some int, of string) []int {
	asked := os.Getenv(allStrikes)
	if asked == "all" || n <= some {
		some = n
	}
	seed, _ := strconv.ParseUint(asked, 10, 64) // 0 unless another one is asked for
	sum := sha256.Sum256([]byte(of))
	list := rand.New(rand.NewPCG(seed, uint64(sum[0])<<8|uint64(sum[1]))).Perm(n)[:some]
	slices.Sort(list)
	return list
}

// TestLongSweep strikes the other commands that write: each is killed before a call
// that can leave a trace, and calls to the disk fail or write a part. Nothing that
// is half there is accepted, and the next run leaves what an undisturbed run
// leaves, without anything being removed before it.
func TestLongSweep(t *testing.T) {
	fd, err := unix.Open(t.TempDir(), unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	switch { // where a killed writer leaves a name, it must be removed before the next run
	case err == nil:
		_ = unix.Close(fd)
	case os.Getenv("CI") != "":
		t.Fatalf("CI has files without a name: %v", err)
	default:
		t.Skipf("no files without a name here: %v", err)
	}
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	t.Setenv("WAYBILL_PATIENCE", "15s")
	w := openSweeping(t)
	for n, v := range sweeps() {
		t.Run(v.name, func(t *testing.T) {
			w, base := sweeping{w.Scene, t}, fmt.Sprintf("sweep-%d", n)
			whole, said := w.strike(v, base, faults.Strike{})
			if whole.Code != v.code {
				t.Fatalf("it does not end well when it is watched: %d\n%s", whole.Code, said)
			}
			goal, _ := w.left(v, base)
			if v.accepted != nil {
				want(t, v.accepted(w, base), 0)
			}
			for m, f := range sweepFaults() {
				t.Run(f.name, func(t *testing.T) {
					w := sweeping{w.Scene, t}
					calls, _ := w.strike(v, fmt.Sprintf("%s-%d", base, m), faults.Strike{Only: f.Only})
					ended := map[string]int{}
					for _, at := range drawn(len(calls.Calls), f.some, v.name+f.name) {
						f.At = at + 1
						ended[w.sweep(v, f.Strike, fmt.Sprintf("%s-%d-%d", base, m, f.At), goal)]++
					}
					t.Logf("of %d calls; it ended with %v", len(calls.Calls), ended)
				})
			}
		})
	}
}

// sweep strikes once, and runs the command again.
func (w sweeping) sweep(v swept, s faults.Strike, dir string, goal []string) string {
	w.t.Helper()
	struck, said := w.strike(v, dir, s)
	if n := len(struck.Calls); n < s.At { // fewer than the run that was counted
		w.check(os.RemoveAll(w.Path(dir)))
		if s.At = n; n == 0 {
			w.t.Fatalf("%s: there is no call to strike", dir)
		}
		return w.sweep(v, s, dir, goal)
	}
	call := struck.Calls[s.At-1]
	where := fmt.Sprintf("%v at %d, %s", s.With, s.At, call)
	names, remains := w.left(v, dir)
	whole := slices.Equal(names, goal)
	stays := struck.Killed || strings.HasPrefix(call, "unlink ") || strings.HasPrefix(call, "rename ") && strings.Contains(call, "/tmp/") // nothing can be removed
	if temporary, _ := os.ReadDir(w.Path(dir, "tmp")); !stays && len(temporary)+len(remains) > 0 {
		w.t.Errorf("%s: it left %v and %q", where, temporary, remains)
	}
	switch {
	case struck.Killed:
	case struck.Code == v.code && (v.accepted == nil || whole):
	case s.With == 0 || struck.Code != 3 || !strings.Contains(said, s.With.Error()):
		w.t.Errorf("%s: status %d, and it does not say what failed:\n%s", where, struck.Code, said)
	}
	if v.accepted != nil {
		if r := v.accepted(w, dir); r.Code == 0 && !whole && !v.step {
			w.t.Errorf("%s: it is accepted, and lacks %q", where, others(names, goal))
		}
	}
	again := w.run(v.args(w, dir)...)
	exists := strings.HasPrefix(v.name, "kit ") && whole && again.Code == 2
	if again.Code != v.code && !exists {
		w.t.Errorf("%s, then again: status %d\n%s%s", where, again.Code, again.Stdout, again.Stderr)
	}
	if v.accepted != nil {
		want(w.t, v.accepted(w, dir), 0)
	}
	if names, _ := w.left(v, dir); !slices.Equal(names, goal) {
		w.t.Errorf("%s: it left other files than an undisturbed run: %q", where, others(names, goal))
	}
	w.check(os.RemoveAll(w.Path(dir)))
	if struck.Killed {
		return "kill"
	}
	return fmt.Sprint(struck.Code)
}
