package stories

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// kitDelta: a delta holds what changed between two kits, and is read with the older
// one beside it as the newer one is. What is altered in either is refused.
func kitDelta(t *testing.T, s *scene.Scene, pin string) {
	delta := func(args ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "kit", "delta"}, args...)...)
	}
	const second = "Revision 2 of the manifest"
	for _, path := range []string{"change.kit", "same.kit"} {
		want(t, delta("a.kit", "second.kit", path), 0, path+": ", " files, ", "beside a.kit")
	}
	change := contents(t, s.Path("change.kit"))
	if !bytes.Equal(change, contents(t, s.Path("same.kit"))) || len(change) > len(contents(t, s.Path("second.kit")))/4 {
		t.Errorf("two deltas differ, or %d bytes are much more than the change", len(change))
	}
	verify := func(kit string, args ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--kit", kit, "--pin", pin}, args...)...)
	}
	want(t, verify("change.kit"), 0, second)
	want(t, s.Run(t.Context(), "waybill", "kit", "import", scene.Version, "change.kit", "--pin", pin, "--to", "changed", "--to-images", s.Lab.Registry+"/changed/lantern"), 0, second)
	want(t, delta("change.kit", "a.kit", "back.kit", "--zstd"), 0) // of a delta
	want(t, verify("back.kit"), 0)
	want(t, delta("z.kit", "second.kit", "packed.kit", "--zstd"), 0) // of a compressed kit
	want(t, verify("packed.kit"), 0, second)
	want(t, s.Run(t.Context(), "waybill", "kit", "export", scene.Version, "e2.kit", "--profile", "profile.yaml", "--evidence-only"), 0)
	want(t, delta("e.kit", "e2.kit", "evidence.kit"), 0)
	want(t, verify("evidence.kit"), 1, "MISSING")
	want(t, delta("a.kit", "second.kit", "change.kit"), 2, "does not exist")
	if err := os.Link(s.Path("a.kit"), s.Path("a kit.kit")); err != nil {
		t.Fatal(err)
	}
	want(t, delta("a kit.kit", "second.kit", "no.kit"), 2, "rename it") // a delta could not name it
	want(t, delta("profile.yaml", "second.kit", "no.kit"), 2, "ends in .kit")
	kitted{"files/x": "x"}.write(t, s.Path("none.kit"))
	want(t, delta("a.kit", "none.kit", "no.kit"), 1, "ARCHIVE_PARSE")
	if _, err := os.Stat(s.Path("no.kit")); err == nil {
		t.Error("a delta that cannot be read was written")
	}

	older, newer, parts := readKit(t, s.Path("a.kit")), readKit(t, s.Path("second.kit")), readKit(t, s.Path("change.kit"))
	lines := strings.SplitAfter(parts["delta"], "\n")
	header, list := lines[0], lines[1:]
	changed := parts.some(t, "files/", "")
	keep := func(kitted) {}
	for i, row := range []struct {
		name   string
		base   func(base kitted)
		change func(delta kitted)
		code   string
	}{
		{"as they are, packed again (twin)", keep, keep, ""},
		{"no older kit", nil, keep, "KIT_BASE"},
		{"the newer kit in place of the older one", func(base kitted) { clear(base); maps.Copy(base, newer) }, keep, "KIT_BASE"},
		{"an older kit with a file of other bytes", func(base kitted) { base[strings.TrimSpace(list[0])] += "x" }, keep, "TAMPERED"},
		{"an older kit with a file less", func(base kitted) { delete(base, strings.TrimSpace(list[0])) }, keep, "KIT_BASE"},
		{"an older kit with another policy", func(base kitted) { base["trust/policy.yaml"] += "\n" }, keep, "KIT_SELF_TRUST"},
		{"an older kit with files of its own, which are not read", func(base kitted) { base["more/x"], base["files/x"] = "x", "x" }, keep, ""},
		{"another manifest", keep, func(d kitted) { d["delta"] = strings.Replace(d["delta"], "sha256:", "sha256:0", 1) }, "KIT_BASE"},
		{"a delta of itself", keep, func(d kitted) { d["delta"] = strings.Replace(d["delta"], "a.kit", "change.kit", 1) }, "KIT_BASE"},
		{"an older kit elsewhere", keep, func(d kitted) { d["delta"] = "../" + d["delta"] }, "ARCHIVE_PARSE"},
		{"an older kit below", keep, func(d kitted) { d["delta"] = "x/" + d["delta"] }, "ARCHIVE_PARSE"},
		{"an older kit that is no kit", keep, func(d kitted) { d["delta"] = strings.Replace(d["delta"], "a.kit", "a.tar", 1) }, "ARCHIVE_PARSE"},
		{"no digest", keep, func(d kitted) { d["delta"] = "a.kit\n" }, "ARCHIVE_PARSE"},
		{"nothing in the list", keep, func(d kitted) { d["delta"] = "" }, "ARCHIVE_PARSE"},
		{"a name twice in the list", keep, func(d kitted) { d["delta"] += list[0] }, "ARCHIVE_TWICE"},
		{"a name in the list and in the delta", keep, func(d kitted) { d[strings.TrimSpace(list[0])] = "x" }, "ARCHIVE_TWICE"},
		{"a name that the older kit lacks", keep, func(d kitted) { d["delta"] += "files/x\n" }, "KIT_BASE"},
		{"a name that leads out", keep, func(d kitted) { d["delta"] += "files/../../x\n" }, "KIT_BASE"},
		{"a name less", keep, func(d kitted) { d["delta"] = header + strings.Join(list[1:], "") }, "MISSING"},
		{"only what changed", keep, func(d kitted) { d["delta"] = header }, "ARCHIVE_PARSE"},
		{"a file that changed, as it was", keep, func(d kitted) {
			delete(d, "files/release.manifest.sigstore.json")
			d["delta"] += "files/release.manifest.sigstore.json\n"
		}, ""},
		{"a changed file less", keep, func(d kitted) { delete(d, changed) }, "MISSING"},
		{"another policy", keep, func(d kitted) {
			d["trust/policy.yaml"] = older["trust/policy.yaml"] + "\n"
			d["delta"] = strings.Replace(d["delta"], "trust/policy.yaml\n", "", 1)
		}, "KIT_SELF_TRUST"},
		{"a file more", keep, func(d kitted) { d["files/x"] = "x" }, "EXTRA"},
	} {
		t.Run(row.name, func(t *testing.T) {
			base, d, dir := maps.Clone(older), maps.Clone(parts), fmt.Sprintf("delta-%d", i)
			if err := os.Mkdir(s.Path(dir), 0o755); err != nil {
				t.Fatal(err)
			}
			if row.change(d); row.base != nil {
				row.base(base)
				base.write(t, s.Path(dir+"/a.kit"))
			}
			d.write(t, s.Path(dir+"/change.kit"))
			kitRefused(t, s, dir+"/change.kit", pin, row.code)
		})
	}
}
