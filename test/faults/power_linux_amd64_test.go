package faults_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// TestLongRow42PowerIsCut: a file of a state directory is empty, or its first half is
// there, as after a power cut on a disk that keeps no order. The next act goes on
// or is refused with something to do, and the acts from the first on make the
// release whole again, unless they are told to begin anew.
func TestLongRow42PowerIsCut(t *testing.T) {
	for _, v := range victims(t) {
		if v.verb == "seal" {
			for _, name := range stateFiles(t, v.from) {
				t.Run(name, func(t *testing.T) { v.cut(t, name) })
			}
		}
	}
}

// stateFiles are the files of a state, one of those that are alike.
func stateFiles(t *testing.T, state string) (names []string) {
	t.Helper()
	seen := map[string]bool{}
	err := filepath.WalkDir(staged.Path(state), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimPrefix(path, staged.Path(state)+"/")
		top, _, _ := strings.Cut(name, "/")
		kind := top + " " + filepath.Ext(name)
		switch {
		case top == name || name == "images/index.json":
			kind = name
		case strings.HasPrefix(name, "images/blobs/"):
			kind = "images " + blobKind(t, path)
		}
		if !seen[kind] && (os.Getenv(allStrikes) != "" || top != "fetched" && top != "logs") {
			names = append(names, name)
		}
		seen[kind] = true
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// blobKind tells manifests from what they list.
func blobKind(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, 4<<10)
	n, err := f.Read(head)
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{`"manifests"`, `"subject"`, `"layers"`, "dsseEnvelope", `"rootfs"`} {
		if strings.Contains(string(head[:n]), kind) {
			return kind
		}
	}
	return "layer"
}

func (v *victim) cut(t *testing.T, name string) {
	t.Helper()
	for part, divisor := range map[string]int64{"nothing": 0, "half": 2} {
		if divisor > 0 && strings.HasPrefix(name, "files/") && os.Getenv(allStrikes) == "" {
			continue // it takes long, and comes to the same
		}
		v.copy(t, "cut")
		path := staged.Path("cut", name)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		var size int64
		if divisor > 0 {
			size = info.Size() / divisor
		}
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size); err != nil {
			t.Fatal(err)
		}
		if r := v.run(t, "cut"); r.Code > 2 || r.Code > 0 && !strings.Contains(r.Stdout+r.Stderr, "→") {
			t.Errorf("%s of it is left: seal ends with %d\n%s", part, r.Code, r.Stderr)
		} else if r.Code == 0 {
			continue
		} else {
			t.Logf("%s of it is left: %s", part, strings.TrimSpace(r.Stderr))
		}
		again := v.again(t, "cut")
		if name == "release.json" {
			want(t, again, 2, "remove cut or use another --state, and build again")
			continue
		}
		want(t, again, 0)
	}
}

// again does everything from the build to the seal.
func (v *victim) again(t *testing.T, state string) (r scene.Result) {
	t.Helper()
	args := []string{"--profile", "profile.yaml", "--state", state}
	for _, role := range []string{"builder", "builder-unisolated", "release"} {
		args = append(args, "--identity-token", role+"="+freshToken(t, role))
	}
	for _, verb := range []string{"build", "sbom", "sign", "seal"} {
		all := append([]string{"waybill", verb, scene.Version}, args...)
		if verb == "build" {
			all = append(all, "--source", "lantern")
		}
		if verb == "sign" || verb == "seal" {
			all = append(all, "--confirm")
		}
		if r = staged.Run(t.Context(), all...); r.Code != 0 {
			return r
		}
	}
	return r
}
