package stories

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// TestRememberedEvidence: with --state, a verified version is compared with the
// greatest lower version that was accepted before, and remembered. Without it,
// nothing is stored.
func TestRememberedEvidence(t *testing.T) {
	d := &desk{&workshop{Scene: open(t)}}
	want(t, d.Stage(t.Context()), 0)
	want(t, d.Release(t.Context()), 0)
	verify := func(flags ...string) scene.Result {
		return d.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--profile", "profile.yaml", "--verbose"}, flags...)...)
	}
	const none = "compared with those of an earlier release: none"
	want(t, verify(), 0, none)
	want(t, verify("--state", "memory", "--only", "files"), 0, none)
	d.absent(t, "memory") // a part of a release says nothing about the rest
	want(t, verify("--state", "memory"), 0, none)
	want(t, verify("--state", "memory"), 0, none) // not with itself
	list, err := os.ReadDir(d.Path("memory"))
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	name := "memory/" + list[0].Name()
	kept := string(d.read(t, name))
	for _, r := range []struct {
		version, old, with string
		code               int
		said               string
	}{
		{"v0.0.9", "release@", "release@", 0, "compared with those of an earlier release: v0.0.9"},
		{"v0.2.0", "release@", "former@", 0, none}, // a newer version was verified before
		{"v0.0.9", "release@", "former@", 1, "EVIDENCE_REGRESSED"},
		{"v0.0.9", `"binary signature"`, `1`, 2, "find out who changed the file"},
		{"latest", "release@", "release@", 2, "find out who changed the file"},
		{scene.Version, kept, "", 2, "find out who changed the file"},
	} {
		d.write(t, name, []byte(strings.ReplaceAll(strings.ReplaceAll(kept, r.old, r.with), scene.Version, r.version)))
		want(t, verify("--state", "memory"), r.code, r.said)
	}
	if err := os.Remove(d.Path(name)); err != nil {
		t.Fatal(err)
	}
	want(t, verify("--state", "memory"), 0, none) // forgotten, and said
	want(t, d.Run(t.Context(), "k8s-verify-release", "v1.31.2", "--profile", "kubernetes", "--offline", "--state", "memory"), 2, "only compared between releases with a manifest")
}
