//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// files writes files below a directory, whatever our own mask is.
func files(t *testing.T, dir string, all map[string]string) {
	t.Helper()
	for name, body := range all {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(body), 0o644)); err != nil { //nolint:gosec // for every account
			t.Fatal(err)
		}
	}
}

// stand skips where the walls of a mode do not: from then on a [*ModeError] is
// what was done.
func stand(t *testing.T, mode Mode) {
	t.Helper()
	_, err := probe(t.Context(), mode)
	had(t, err)
}

// image is an unpacked root that holds one static program and means harm: its
// links lead to the machine, and it has accounts of its own.
func image(t *testing.T, outside string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	compile := exec.Command("go", "build", "-o", filepath.Join(root, "tool", "bin", "look"), "./testdata/look")
	compile.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	files(t, root, map[string]string{
		"etc/passwd": "root::0:0::/:/bin/sh\n", "etc/shadow": "root::\n", "etc/own": "of the image", "etc/deep/own": "of the image",
		"var/lib/own": "of the image", "home/user/own": "x", "run/own": "x", "build/own": "x", "dev/own": "x", "tmp/own": "x", "file": "of the image",
	})
	for name, target := range map[string]string{
		"lib": outside, "up": "../../../../../../../.." + outside, "usr": "/tool", "etc/ssl": "/etc/deep", "etc/out": outside, "tool/out": outside,
	} {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestRootOfItsOwn: a step with a root sees that, and nothing of the machine's
// programs.
func TestRootOfItsOwn(t *testing.T) {
	outside := t.TempDir()
	files(t, outside, map[string]string{"secret": "of the machine"})
	root := image(t, outside)
	inBothModes(t, func(t *testing.T, mode Mode) {
		s, log := step(t, mode, "")
		s.Root, s.Env = root, []string{"PATH=/usr/bin"}
		s.Command = strings.Fields("look / /etc /usr /build /dev /tmp /etc/passwd /etc/own /etc/ssl/own /var/lib/own /file /lib/secret /up/secret /etc/out/secret /tool/out/secret /bin/sh")
		report, err := Run(t.Context(), mode, s)
		had(t, err)
		if err != nil {
			t.Fatal(err)
		}
		if how := fmt.Sprint(report.How); !strings.Contains(how, "the step's own root") {
			t.Errorf("the report says %s", how)
		}
		got := log.String()
		for _, want := range []string{
			"/ has tool", "/usr has bin", "/ has build", `/etc/own says "of the image"`, `/etc/ssl/own says "of the image"`, `/var/lib/own says "of the image"`,
			`/file says "of the image"`, `step:x:1000`,
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in\n%s", want, got)
			}
		}
		for _, no := range []string{"of the machine", "/ has home", "/ has run", "/ has root", "/ has sys", "/ has sbin", "shadow", "has own\n", "root::0:0", "ld.so"} {
			if lines := strings.ReplaceAll(got, "/etc has own\n", ""); strings.Contains(lines, no) {
				t.Errorf("%q in\n%s", no, got)
			}
		}
		// The twin, without the root, has the machine's programs and not the image's.
		s, _ = step(t, mode, "")
		s.Command, s.Env = []string{"test", "-x", "/bin/sh"}, []string{"PATH=" + systemPath}
		if err := run(t, mode, s); err != nil {
			t.Error(err)
		}
	})
}

// TestMountsInARoot: what is mounted into a root follows its links as the step
// does, not as this machine would.
func TestMountsInARoot(t *testing.T) {
	outside, input := t.TempDir(), t.TempDir()
	if err := os.Chmod(outside, 0o777); err != nil { //nolint:gosec // where a link led out, a place could be made there
		t.Fatal(err)
	}
	files(t, input, map[string]string{"f": "an input"})
	root := image(t, outside)
	inBothModes(t, func(t *testing.T, mode Mode) {
		stand(t, mode)
		for target, want := range map[string]string{
			"/build/in/a": "an input", "/new/place": "an input", "/usr/bin": "an input",
			"/lib/made": "", "/up/made": "", "/tool/made": "", "/usr/out/made": "", "/etc/out/made": "",
		} {
			s, log := step(t, mode, "")
			if err := os.MkdirAll(filepath.Join(s.Scratch, "home", "bin"), 0o755); err != nil {
				t.Fatal(err)
			}
			s.Root, s.Command = root, []string{"/build/look", target + "/f"}
			s.Mounts = []Mount{{Source: filepath.Join(root, "tool", "bin", "look"), Target: "/build/look"}, {Source: input, Target: target}}
			_, err := Run(t.Context(), mode, s)
			var unfit *ModeError
			if want == "" && !strings.Contains(fmt.Sprint(err), "creating the mount point") || want != "" && !strings.Contains(log.String(), want) {
				t.Errorf("%s: %v (%v), want %q in %s", target, err, errors.As(err, &unfit), want, log)
			}
		}
	})
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside of the root: %v, %v", left, err)
	}
}

// TestOneSourceForMany: steps share a source, each sees it read-only where its
// own would be, and it may not show what no step sees.
func TestOneSourceForMany(t *testing.T) {
	source := filepath.Join(t.TempDir(), "source")
	files(t, source, map[string]string{"d/f": "shared"})
	if err := errors.Join(os.Chmod(filepath.Join(source, "d"), 0o700), os.Chmod(source, 0o700)); err != nil {
		t.Fatal(err)
	}
	inBothModes(t, func(t *testing.T, mode Mode) {
		for act, can := range map[string]bool{"read": true, "write": false} {
			for range 2 {
				s, _ := step(t, mode, act, "FILE=/build/src/d/f")
				s.Source = source
				if err := run(t, mode, s); (err == nil) != can {
					t.Errorf("%s: %v", act, err)
				}
			}
		}
		s, _ := step(t, mode, "")
		home, err := os.UserHomeDir()
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range []string{"/", home, filepath.Dir(s.Scratch), "/proc/self", "relative", filepath.Join(source, "d", "f"), filepath.Join(source, "absent")} {
			s.Source, s.Root = dir, ""
			var unfit *ModeError
			if _, err := Run(t.Context(), mode, s); !errors.As(err, &unfit) {
				t.Errorf("a source at %q: %v", dir, err)
			}
			s.Source, s.Root = "", dir
			if _, err := Run(t.Context(), mode, s); !errors.As(err, &unfit) {
				t.Errorf("a root at %q: %v", dir, err)
			}
		}
	})
	// An ordinary process could change what others get.
	for _, change := range []func(*Step){func(s *Step) { s.Source = source }, func(s *Step) { s.Root = source }} {
		s, _ := step(t, Unisolated, "status")
		if err := run(t, Unisolated, s); err != nil {
			t.Errorf("the twin: %v", err)
		}
		change(&s)
		var unfit *ModeError
		if _, err := Run(t.Context(), Unisolated, s); !errors.As(err, &unfit) || unfit.Code() != "NOT_ISOLATED" {
			t.Errorf("unisolated: %v", err)
		}
	}
}

// TestInputs: files and directories at any depth, as many as a release has,
// and never two at one place.
func TestInputs(t *testing.T) {
	const many = 3000
	dir := t.TempDir()
	files(t, dir, map[string]string{"file": "an input", "tree/a/b": "below", "module/v1/go.mod": "module m"})
	inBothModes(t, func(t *testing.T, mode Mode) {
		stand(t, mode)
		look := func(mounts []Mount, places ...string) (string, error) {
			s, log := step(t, mode, "")
			s.Mounts, s.Command, s.Env = mounts, append([]string{"head", "-n", "1"}, places...), []string{"PATH=" + systemPath}
			_, err := Run(t.Context(), mode, s)
			return log.String(), err
		}
		mounts := []Mount{{filepath.Join(dir, "tree"), "/build/in/tree"}, {filepath.Join(dir, "file"), "/build/in/tree/a/b"}, {filepath.Join(dir, "module"), "/build/modules"}}
		for i := range many {
			mounts = append(mounts, Mount{filepath.Join(dir, "file"), fmt.Sprintf("/build/in/bin/linux/arch%d/component-of-the-release-%04d", i%5, i)})
		}
		got, err := look(mounts, "/build/in/tree/a/b", "/build/modules/v1/go.mod", fmt.Sprintf("/build/in/bin/linux/arch4/component-of-the-release-%04d", many-1))
		if err != nil || strings.Count(got, "an input") != 2 || strings.Count(got, "module m") != 1 {
			t.Errorf("%v: %s", err, got)
		}
		for name, two := range map[string][]Mount{
			"two at one place":          {{filepath.Join(dir, "file"), "/build/in/x"}, {filepath.Join(dir, "tree", "a", "b"), "/build/in/x"}},
			"no place below another":    {{filepath.Join(dir, "tree"), "/build/in/tree"}, {filepath.Join(dir, "file"), "/build/in/tree/new"}},
			"a file below a file":       {{filepath.Join(dir, "file"), "/build/in/x"}, {filepath.Join(dir, "file"), "/build/in/x/y"}},
			"among the step's outputs":  {{filepath.Join(dir, "file"), "/build/out/x"}},
			"a directory upon one file": {{filepath.Join(dir, "tree"), "/build/in/tree"}, {dir, "/build/in/tree/a/b"}},
		} {
			var unfit *ModeError
			if _, err := look(two, "/dev/null"); !errors.As(err, &unfit) {
				t.Errorf("%s: %v", name, err)
			}
			if _, err := look(two[:len(two)-1], "/dev/null"); err != nil {
				t.Errorf("the twin of %s: %v", name, err)
			}
		}
	})
}
