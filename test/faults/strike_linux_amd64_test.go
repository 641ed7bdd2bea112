package faults_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// allStrikes is set where every call is struck and not some of them.
const allStrikes = "WAYBILL_STRIKES"

// How many calls are struck otherwise: by a kill, and by each failure of a disk.
const (
	someKills    = 12
	someFailures = 6
)

// victim is a command that is struck, again and again from the same state.
type victim struct {
	verb string
	from string          // the state that each strike has a copy of
	had  map[string]bool // entries of the log that the signatures there name
	want outcome         // of a run that nobody struck
}

// outcome is what a run leaves that the next one must leave too.
type outcome struct {
	names   []string // of files, whatever is in those of signatures
	blobs   int      // of images, with what is attached to them
	entries int      // of the log, for this state's signatures
}

// victims are sign of a state that is built and described, and seal of one
// that is signed.
func victims(t *testing.T) []*victim {
	t.Helper()
	if _, err := os.Stat(staged.Path("bare")); err != nil {
		args := []string{"--profile", "profile.yaml", "--state", "bare", "--source", "lantern"}
		for _, role := range []string{"builder", "builder-unisolated"} {
			args = append(args, "--identity-token", role+"="+freshToken(t, role))
		}
		want(t, staged.Run(t.Context(), append([]string{"waybill", "build", scene.Version}, args...)...), 0)
		want(t, staged.Run(t.Context(), append([]string{"waybill", "sbom", scene.Version}, args...)...), 0)
	}
	sign, seal := &victim{verb: "sign", from: "bare"}, &victim{verb: "seal", from: "signed"}
	for _, v := range []*victim{sign, seal} {
		v.had = named(t, v.from)
		state := v.verb + "-whole"
		before := entries(t)
		v.copy(t, state)
		want(t, v.run(t, state), 0)
		v.want = look(t, state, v.had)
		if v.want.entries != entries(t)-before || v.want.entries == 0 {
			t.Fatalf("%s: %d entries for %d signatures", v.verb, entries(t)-before, v.want.entries)
		}
		if v == sign {
			v.copyOf(t, state, "signed")
		}
	}
	return []*victim{sign, seal}
}

func freshToken(t *testing.T, role string) string {
	t.Helper()
	name := role + ".token"
	if err := os.WriteFile(staged.Path(name), []byte(staged.Lab.Token(role)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func (v *victim) copy(t *testing.T, state string) { v.copyOf(t, v.from, state) }

func (*victim) copyOf(t *testing.T, from, state string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(staged.Path(state)), os.CopyFS(staged.Path(state), os.DirFS(staged.Path(from)))); err != nil {
		t.Fatal(err)
	}
}

func (v *victim) args(t *testing.T, state string) []string {
	return []string{"waybill", v.verb, scene.Version, "--profile", "profile.yaml", "--state", state, "--identity-token", "release=" + freshToken(t, "release"), "--confirm"}
}

func (v *victim) run(t *testing.T, state string) scene.Result {
	return staged.Run(t.Context(), v.args(t, state)...)
}

// strike runs the command on a fresh copy of the state and strikes it.
func (v *victim) strike(t *testing.T, state string, s faults.Strike) (struck faults.Struck, said string) {
	t.Helper()
	v.copy(t, state)
	args := v.args(t, state)
	log, err := os.Create(staged.Path(state + ".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(filepath.Join(staged.Bin, args[0]), args[1:]...)
	cmd.Dir, cmd.Env = staged.Dir, append(os.Environ(), "XDG_CACHE_HOME="+staged.Path("cache"))
	cmd.Stdout, cmd.Stderr = log, log
	struck, err = s.Run(cmd)
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatalf("CI strikes always: %v", err)
	case err != nil:
		t.Skipf("nothing can be traced here: %v", err)
	}
	raw, err := os.ReadFile(log.Name())
	if err != nil {
		t.Fatal(err)
	}
	return struck, string(raw)
}

// look reads what a state has come to.
func look(t *testing.T, state string, had map[string]bool) (o outcome) {
	t.Helper()
	for index := range named(t, state) {
		if !had[index] {
			o.entries++
		}
	}
	err := filepath.WalkDir(staged.Path(state), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, staged.Path(state))
		raw, err := os.ReadFile(path)
		if key := privateKey(raw); key != "" {
			t.Errorf("%s has a private key: %s", name, key)
		}
		if strings.HasPrefix(name, "/images/blobs/") {
			o.blobs++
		} else {
			o.names = append(o.names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// privateKey finds how a private key of this kind begins, in any of the forms
// in which it could be written.
func privateKey(raw []byte) string {
	for form, head := range map[string]string{
		"PEM": "PRIVATE KEY", "PKCS #8": "\x30\x81\x87\x02\x01\x00\x30\x13\x06\x07\x2a\x86\x48\xce\x3d", "SEC 1": "\x30\x77\x02\x01\x01\x04\x20",
		"PKCS #8, base64": "MIGHAgEAMBMGByqGSM49", "SEC 1, base64": "MHcCAQEEI", "JWK": `"d":"`,
	} {
		if bytes.Contains(raw, []byte(head)) {
			return form
		}
	}
	return ""
}

// named are the entries of the log that the bundles of a state name.
func named(t *testing.T, state string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, part := range []string{"files", "images"} {
		err := filepath.WalkDir(staged.Path(state, part), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || part == "files" && !strings.HasSuffix(path, ".json") {
				return err
			}
			raw, err := os.ReadFile(path)
			if index := logIndex.FindSubmatch(raw); index != nil && bytes.Contains(raw, []byte("dev.sigstore.bundle")) {
				all[string(index[1])] = true
			}
			return err
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
	}
	return all
}

// converges runs the command again, which nobody strikes now.
func (v *victim) converges(t *testing.T, state, at string, before int) {
	t.Helper()
	if r := v.run(t, state); r.Code != 0 {
		t.Errorf("%s, then again: status %d\n%s%s", at, r.Code, r.Stdout, r.Stderr)
		return
	}
	got := look(t, state, v.had)
	if added := entries(t) - before; added != v.want.entries || got.entries != v.want.entries {
		t.Errorf("%s: the log has %d new entries for %d signatures, want %d", at, added, got.entries, v.want.entries)
	}
	if !slices.Equal(got.names, v.want.names) || got.blobs != v.want.blobs {
		t.Errorf("%s: it left other files than a run that nobody struck: %d blobs, want %d, and %q", at, got.blobs, v.want.blobs, others(got.names, v.want.names))
	}
	// Whoever seals verifies every signature; what is sealed already is
	// verified with its manifest.
	sealed := &victim{verb: "seal"}
	if r := sealed.run(t, state); r.Code != 0 || v.verb == "seal" && !strings.Contains(r.Stderr, "sealed already") {
		t.Errorf("%s, then sealed: status %d\n%s%s", at, r.Code, r.Stdout, r.Stderr)
	}
}

// others are the names that one list has and the other has not.
func others(a, b []string) []string {
	return slices.DeleteFunc(slices.Concat(a, b), func(name string) bool { return slices.Contains(a, name) && slices.Contains(b, name) })
}

// places are the calls to strike of n: all, or some at equal distances.
func places(n, some int) (list []int) {
	step := 1
	if os.Getenv(allStrikes) == "" {
		step = max(1, n/some)
	}
	for at := step; at <= n; at += step {
		list = append(list, at)
	}
	return list
}

// TestLongKilledAtEveryCall: sign and seal are killed before a call that can leave
// a trace, and run again. Every thing is in the log once, nothing half written
// stays, and no private key was ever on the disk.
func TestLongKilledAtEveryCall(t *testing.T) {
	for _, v := range victims(t) {
		t.Run(v.verb, func(t *testing.T) {
			counted, said := v.strike(t, "struck", faults.Strike{})
			if counted.Code != 0 {
				t.Fatalf("it does not end well when it is watched: %d\n%s", counted.Code, said)
			}
			kinds, killed := map[string]int{}, 0
			for _, at := range places(len(counted.Calls), someKills) {
				before := entries(t)
				struck, _ := v.strike(t, "struck", faults.Strike{At: at})
				if struck.Killed {
					killed++
					kinds[kind(struck.Calls[at-1])]++
				}
				last := struck.Calls[len(struck.Calls)-1]
				v.converges(t, "struck", fmt.Sprintf("killed at %d, %s", at, last), before)
			}
			t.Logf("%s: %d calls can leave a trace; killed before %d of them, and all converged with %d entries of the log: %v",
				v.verb, len(counted.Calls), killed, v.want.entries, kinds)
			if killed == 0 {
				t.Error("it was never killed")
			}
		})
	}
}

func kind(call string) string {
	name, on, _ := strings.Cut(call, " ")
	if name == "socket" {
		return name + " " + on
	}
	return name
}

// disks are the ways in which a disk fails, and the calls that it fails.
func disks() map[syscall.Errno][]string {
	return map[syscall.Errno][]string{
		syscall.ENOSPC: {"create", "write", "mkdir", "fsync", "rename", "link"},
		syscall.EIO:    {"create", "write", "mkdir", "fsync", "rename", "link", "unlink", "ftruncate"},
		syscall.EACCES: {"create", "mkdir", "rename", "link", "unlink"},
	}
}

// TestLongDiskFailsAtEveryCall: a call to the disk fails. Whoever runs it is told
// what failed, and the same command, on a disk that works, finishes it.
func TestLongDiskFailsAtEveryCall(t *testing.T) {
	list := victims(t)
	disks := disks()
	for _, errno := range slices.Sorted(maps.Keys(disks)) {
		for _, v := range list {
			t.Run(v.verb+" "+errno.Error(), func(t *testing.T) {
				counted, said := v.strike(t, "struck", faults.Strike{Only: disks[errno]})
				if counted.Code != 0 {
					t.Fatalf("it does not end well when it is watched: %d\n%s", counted.Code, said)
				}
				codes, ended := map[string]int{}, map[int]int{}
				for _, at := range places(len(counted.Calls), someFailures) {
					before := entries(t)
					struck, said := v.strike(t, "struck", faults.Strike{At: at, With: errno, Only: disks[errno]})
					if len(struck.Calls) < at {
						continue // this run had fewer of them
					}
					where := fmt.Sprintf("%v at %d, %s", errno, at, struck.Calls[at-1])
					codes[kind(struck.Calls[at-1])]++
					ended[struck.Code]++
					if struck.Code != 0 && (struck.Code != 3 || !strings.Contains(said, errno.Error())) {
						t.Errorf("%s: status %d, and it does not say what failed:\n%s", where, struck.Code, said)
					}
					v.converges(t, "struck", where, before)
				}
				t.Logf("%s: of %d calls to the disk these failed with %q: %v; it ended with %v, and all converged",
					v.verb, len(counted.Calls), errno, codes, ended)
			})
		}
	}
}
