package malicious

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// moment is when a build is interrupted: as soon as something is seen.
type moment struct {
	name, tries string
	held        bool // the step waits until it is ended
	seen        func(*interrupted) bool
}

func moments() []moment {
	exists := func(name ...string) func(*interrupted) bool {
		return func(b *interrupted) bool {
			_, err := os.Lstat(filepath.Join(append([]string{b.state}, name...)...))
			return err == nil
		}
	}
	return []moment{
		{"at-the-start", "ends the build before its first step", true, exists("release.json")},
		{"before-a-step", "ends it when one step is done and the next is due", true, exists("files", "provenance", "first.sigstore.json")},
		{"while-it-runs", "ends it while a step runs that has written half of an output", true, func(b *interrupted) bool { return b.logged("BEGUN") }},
		{"after-it-ends", "ends it when a step has ended and nothing has left it", false, func(b *interrupted) bool { return b.logged("ENDING") }},
		{"while-it-leaves", "ends it while outputs leave the step", false, exists("files", "many", "a.txt")},
		{"when-all-left", "ends it when the provenance of the step has left", false, exists("files", "provenance", "second.sigstore.json")},
	}
}

// interrupted is one build, run by the built command.
type interrupted struct {
	*scene.Scene
	state string
	flags []string
}

// stage is the scene of all interruptions, and a build that nobody interrupts.
func stage(t *testing.T) (*scene.Scene, map[string]string) {
	t.Helper()
	bin := t.TempDir()
	compile := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "./cmd/waybill")
	compile.Dir, compile.Env = filepath.Join("..", ".."), append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	s := must(scene.Open(t.Context(), scene.Options{Verbose: true, Bin: bin, Dir: filepath.Join(t.TempDir(), "scene"), Example: filepath.Join("testdata", "interrupted")}))(t)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	whole := begin(t, s)
	out := whole.finish(t)
	if strings.Contains(out, "done already") {
		t.Fatalf("a first build took something over:\n%s", out)
	}
	files := whole.files(t)
	if len(files) != 29 { // 26 parts, first, third, and release.yaml
		t.Fatalf("a whole build has %d files", len(files))
	}
	return s, files
}

func begin(t *testing.T, s *scene.Scene) *interrupted {
	t.Helper()
	b := &interrupted{Scene: s, state: filepath.Join(t.TempDir(), "state")}
	b.flags = []string{"build", scene.Version, "--profile", "profile.yaml", "--state", b.state, "--source", "lantern"}
	for _, role := range []string{lab.RoleBuilder, lab.RoleBuilderUnisolated} {
		token := s.Path(role + ".token")
		noErr(t, os.WriteFile(token, []byte(s.Lab.Token(role)), 0o600))
		b.flags = append(b.flags, "--identity-token", role+"="+token)
	}
	return b
}

// start starts the command, with nothing that an earlier one has said.
func (b *interrupted) start(t *testing.T) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	noErr(t, os.RemoveAll(filepath.Join(b.state, "logs")))
	var said bytes.Buffer
	cmd := exec.Command(filepath.Join(b.Bin, "waybill"), b.flags...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = b.Dir, &said, &said
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+b.Path("cache"))
	noErr(t, cmd.Start())
	return cmd, &said
}

// finish lets a build come to its end.
func (b *interrupted) finish(t *testing.T) string {
	t.Helper()
	cmd, said := b.start(t)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("the build: %v\n%s", err, said)
			}
			return said.String()
		case <-time.After(pace):
			if b.logged("BEGUN") {
				b.goOn(t)
			}
		}
	}
}

// pace is how often a test looks whether something has happened.
const pace = 2 * time.Millisecond

func (b *interrupted) logged(word string) bool {
	raw, err := os.ReadFile(filepath.Join(b.state, "logs", "second.log"))
	return err == nil && bytes.Contains(raw, []byte(word))
}

// goOn tells the step to go on, where it sees it.
func (b *interrupted) goOn(t *testing.T) {
	t.Helper()
	for _, home := range must(filepath.Glob(filepath.Join(b.state, "work", "second-*", "home")))(t) {
		_ = os.WriteFile(filepath.Join(home, "go-on"), nil, 0o644) // the step may have ended
	}
}

// files hashes everything in the place to be that is no evidence.
func (b *interrupted) files(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	root := filepath.Join(b.state, "files")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		// A copy that was never finished has a name that no place lists.
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".sigstore.json") || strings.HasPrefix(d.Name(), ".waybill-tmp-") {
			return err
		}
		body, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		found[filepath.ToSlash(name)] = fmt.Sprintf("%x", sha256.Sum256(body))
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return found
}

// process is one that is known by its number and by when it was started.
type process struct{ pid, started string }

// descendants are all processes below one.
func descendants(pid int) (list []process) {
	children := map[string][]process{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, stat := range stats {
		if p, parent, ok := lookAt(stat); ok {
			children[parent] = append(children[parent], p)
		}
	}
	next := children[fmt.Sprint(pid)]
	for len(next) > 0 {
		p := next[0]
		list, next = append(list, p), append(next[1:], children[p.pid]...)
	}
	return list
}

// lookAt reads the number, parent and start of a process that is not dead.
func lookAt(stat string) (p process, parent string, ok bool) {
	raw, err := os.ReadFile(stat)
	if err != nil {
		return process{}, "", false
	}
	// The name stands in brackets and may hold anything.
	field := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(field) < 20 || field[0] == "Z" || field[0] == "X" {
		return process{}, "", false
	}
	return process{pid: filepath.Base(filepath.Dir(stat)), started: field[19]}, field[1], true
}

func (p process) alive() bool {
	now, _, ok := lookAt("/proc/" + p.pid + "/stat")
	return ok && now == p
}

// TestLongInterruptedBuilds: whenever a build is ended, by a signal that it hears
// or by one that it cannot, nothing of it lives on, nothing half looks whole,
// and the next build comes to the very same files.
func TestLongInterruptedBuilds(t *testing.T) {
	(&world{report: sandbox.Examine(t.Context())}).walls(t) // without them, what leaves its group lives on, and the builder's page says so
	s, whole := stage(t)
	t.Run("altered", func(t *testing.T) { altered(t, s, whole) })
	for _, m := range moments() {
		for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGKILL} {
			t.Run(m.name+"/"+signal.String(), func(t *testing.T) {
				b := begin(t, s)
				b.interrupt(t, m, signal)
				b.nothingHalf(t, whole)
				second := filepath.Join(b.state, "files", "provenance", "second.sigstore.json")
				_, done := os.Lstat(second)
				said := b.finish(t)
				if got := b.files(t); !same(got, whole) {
					t.Errorf("the next build made %v, want %v\n%s", got, whole, said)
				}
				if reused := strings.Contains(said, "second is done already"); reused != (done == nil) {
					t.Errorf("the step was taken over: %v, its provenance: %v\n%s", reused, done, said)
				}
				if left, err := os.ReadDir(filepath.Join(b.state, "work")); err != nil || len(left) > 0 {
					t.Errorf("left behind: %v, %v", left, err)
				}
			})
		}
	}
}

// interrupt runs a build until the moment, and ends it.
func (b *interrupted) interrupt(t *testing.T, m moment, signal syscall.Signal) {
	t.Helper()
	cmd, said := b.start(t)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for !m.seen(b) {
		select {
		case err := <-ended:
			t.Fatalf("the build ended before the moment: %v\n%s", err, said)
		case <-time.After(pace):
			if !m.held && b.logged("BEGUN") {
				b.goOn(t)
			}
		}
	}
	below := descendants(cmd.Process.Pid)
	if err := cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	err := <-ended
	if err == nil && m.held {
		t.Fatalf("it ended well:\n%s", said)
	}
	if err != nil && signal == syscall.SIGINT && cmd.ProcessState.ExitCode() != 3 {
		t.Errorf("interrupted with status %d, want 3\n%s", cmd.ProcessState.ExitCode(), said)
	}
	for _, p := range below {
		for p.alive() { // the kernel ends it; where it did not, this test would never end
			if signal != syscall.SIGKILL {
				t.Errorf("process %s is alive after the end", p.pid)
				break
			}
			time.Sleep(pace)
		}
	}
}

// nothingHalf: every file that lies there is whole, and where provenance says
// that a step is done, all of its outputs are there.
func (b *interrupted) nothingHalf(t *testing.T, whole map[string]string) {
	t.Helper()
	found := b.files(t)
	for name, digest := range found {
		if whole[name] != digest {
			t.Errorf("%s is half: %s, want %s", name, digest, whole[name])
		}
	}
	for name := range whole {
		step := map[string]string{"first.txt": "first", "third.txt": "third"}[name]
		if strings.HasPrefix(name, "many/") {
			step = "second"
		}
		if _, err := os.Lstat(filepath.Join(b.state, "files", provenanceOf(step))); err == nil && found[name] == "" {
			t.Errorf("%s is said to be there, and is not", name)
		}
	}
	if same(found, whole) {
		return
	}
	if r := b.Run(t.Context(), "waybill", "sign", scene.Version, "--profile", "profile.yaml", "--state", b.state, "--identity-token", "release="+b.releaseToken(t), "--confirm"); r.Code == 0 {
		t.Errorf("what is half was signed:\n%s", r.Stderr)
	}
}

func (b *interrupted) releaseToken(t *testing.T) string {
	t.Helper()
	token := b.Path("release.token")
	noErr(t, os.WriteFile(token, []byte(b.Lab.Token(lab.RoleRelease)), 0o600))
	return token
}

func provenanceOf(step string) string { return filepath.Join("provenance", step+".sigstore.json") }

func same(a, b map[string]string) bool {
	names := func(m map[string]string) (list []string) {
		for name, digest := range m {
			list = append(list, name+" "+digest)
		}
		slices.Sort(list)
		return list
	}
	return slices.Equal(names(a), names(b))
}

// altered: a finished step is taken over only if everything that was recorded
// of it still holds.
func altered(t *testing.T, s *scene.Scene, whole map[string]string) {
	t.Helper()
	for name, row := range map[string]struct {
		file   string
		change func(path string) error
		reused bool
	}{
		"nothing":                         {"first.txt", func(string) error { return nil }, true},
		"an output is changed":            {"first.txt", func(p string) error { return os.WriteFile(p, []byte("firsT\n"), 0o644) }, false},
		"an output is gone":               {"first.txt", os.Remove, false},
		"an output is a link to the like": {"first.txt", moveAside, false},
		"the provenance is changed":       {provenanceOf("first"), flipPayload, false},
		"the provenance is another step's": {provenanceOf("first"), func(p string) error {
			raw, err := os.ReadFile(filepath.Join(filepath.Dir(p), "third.sigstore.json"))
			if err == nil {
				err = os.WriteFile(p, raw, 0o644)
			}
			return err
		}, false},
		"the provenance is gone":    {provenanceOf("first"), os.Remove, false},
		"a file is added":           {"first.txt", func(p string) error { return os.WriteFile(p+".more", nil, 0o644) }, true},
		"the configuration differs": {"release.yaml", flip, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := begin(t, s)
			_ = b.finish(t)
			noErr(t, row.change(filepath.Join(b.state, "files", row.file)))
			said := b.finish(t)
			if reused := strings.Contains(said, "first is done already"); reused != row.reused {
				t.Errorf("the step was taken over: %v\n%s", reused, said)
			}
			got := b.files(t)
			delete(got, "first.txt.more")
			if !same(got, whole) {
				t.Errorf("the next build made %v, want %v\n%s", got, whole, said)
			}
			raw := must(os.ReadFile(filepath.Join(b.state, "files", provenanceOf("first"))))(t)
			if !bytes.Contains(raw, []byte("dsseEnvelope")) {
				t.Error("no provenance of the step")
			}
		})
	}
}

func flip(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	raw[len(raw)/2] ^= 1
	return os.WriteFile(path, raw, 0o644)
}

// flipPayload changes a bit of what a bundle says. Around that, a bundle has
// bytes that nothing depends on, such as the hint which kind of entry it has.
func flipPayload(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	payload := regexp.MustCompile(`"payload": ?"[A-Za-z0-9+/]{40}`).FindIndex(raw)
	if payload == nil {
		return errors.New("the bundle has no payload")
	}
	raw[payload[1]-1] ^= 1
	return os.WriteFile(path, raw, 0o644)
}

// moveAside leaves a link to what was there.
func moveAside(path string) error {
	aside := filepath.Join(filepath.Dir(filepath.Dir(path)), "aside")
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	return os.Symlink(aside, path)
}
