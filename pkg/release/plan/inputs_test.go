package plan_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/testing/checkschema"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// taking uses everything that a step can take; each row below changes one fact
// of it.
const taking = `apiVersion: waybill/v1
kind: Release
name: box
source: {repository: "https://example.test/box"}
lock: release.lock.yaml
modules: [sub]
downloads:
  firmware.bin: "https://dl.example.test:8443/firmware-1.4.bin?a=b"
  helper-amd64: "http://127.0.0.1:4711/helper"
defaults: {step: {tools: [cross], limits: {disk: 10Gi, memory: 1Gi}}}
lists:
  every: [linux/amd64, linux/arm64]
  bins: [serve, ctl]
steps:
- name: compile
  each: {platform: every}
  run: [make]
  outputs: [{class: binary, each: {bin: bins}, name: "bin/{os}/{arch}/{bin}"}]
- name: link
  each: {platform: every}
  run: [link, "{in}/bin/{os}/{arch}/ctl", "{out}/box"]
  env: {FIRMWARE: "{in}/firmware.bin"}
  take: [+bins, firmware.bin]
  limits: {disk: 512Mi}
  outputs: [{class: file, name: "box-{arch}"}]
- name: gen
  each: {platform: [linux/amd64]}
  go: {ldflags: "-X main.in={in}"}
  tools: [go]
  take: ["helper-{arch}"]
  outputs: [{class: binary, name: gen}]
- name: layout
  run: [mk, "{out}/box.tar"]
  take: [box-amd64, box-arm64]
  outputs: [{class: archive, name: box.tar}]
- name: image
  image: {import: box.tar, platforms: every}
  outputs: [{class: image, name: box, alsoPerArch: "box-{arch}"}]
- name: plain
  image: {base: scratch, platforms: [linux/amd64], files: {/gen: gen}, entrypoint: [/gen]}
  outputs: [{class: image, name: plain}]
places: {files: "https://dl.example.test/{version}/", images: registry.example.test}
`

func TestWhatStepsTake(t *testing.T) {
	p, err := expand(t, taking)
	if err != nil {
		t.Fatal(err)
	}
	link := stepOf(t, p, "link-linux-arm64")
	if !slices.Equal(link.Take, []string{"bin/linux/arm64/serve", "bin/linux/arm64/ctl"}) || !slices.Equal(link.Downloads, []string{"firmware.bin"}) {
		t.Errorf("it takes %q and %q", link.Take, link.Downloads)
	}
	if !slices.Equal(link.Inputs(), link.Take) {
		t.Errorf("its inputs are %q", link.Inputs())
	}
	if plan.InputDir != "../in" || !slices.Equal(link.Run, []string{"link", "../in/bin/linux/arm64/ctl", "../out/box"}) || !slices.Equal(link.Env, []string{"FIRMWARE=../in/firmware.bin"}) {
		t.Errorf("it runs %q with %q", link.Run, link.Env)
	}
	if want := (plan.Limits{Disk: 512 << 20, Memory: 1 << 30}); *link.Limits != want {
		t.Errorf("limits %+v, want %+v", *link.Limits, want)
	}
	gen := stepOf(t, p, "gen-linux-amd64")
	if !slices.Equal(gen.Downloads, []string{"helper-amd64"}) || gen.Take != nil || !slices.Contains(gen.Run, "-ldflags=-X main.in=../in") || gen.Limits.Disk != 10<<30 {
		t.Errorf("the go step is %+v", gen)
	}
	image := stepOf(t, p, "image")
	if image.Image.Import != "box.tar" || image.Image.Base != "" || image.Image.Platforms[1].Also != "box-arm64" || !slices.Equal(image.Inputs(), []string{"box.tar"}) {
		t.Errorf("the image is %+v, of %q", image.Image, image.Inputs())
	}
	if want := map[string]string{"firmware.bin": "https://dl.example.test:8443/firmware-1.4.bin?a=b", "helper-amd64": "http://127.0.0.1:4711/helper"}; len(p.Downloads) != 2 || p.Downloads["firmware.bin"] != want["firmware.bin"] || p.Downloads["helper-amd64"] != want["helper-amd64"] {
		t.Errorf("downloads %v, want %v", p.Downloads, want)
	}
	if !slices.Equal(p.Modules, []string{".", "sub"}) { // the go step's, too
		t.Errorf("modules %q", p.Modules)
	}
	q, err := expand(t, change(t, taking, "import: box.tar", "import: firmware.bin"))
	if err != nil {
		t.Fatal(err)
	}
	if image := stepOf(t, q, "image"); image.Image.Import != "firmware.bin" || !slices.Equal(image.Downloads, []string{"firmware.bin"}) || len(image.Inputs()) != 0 {
		t.Errorf("the image of a download is %+v with %q, of %q", image.Image, image.Downloads, image.Inputs())
	}
}

// TestVersionsInWhatIsTaken: the version in the name of an input is no change.
func TestVersionsInWhatIsTaken(t *testing.T) {
	text := change(t, change(t, change(t, taking, "name: box.tar}", "name: \"box-{version.number}.tar\"}"),
		"import: box.tar", "import: \"box-{version.number}.tar\""), "name: \"box-{arch}\"", "name: \"box-{version}-{arch}\"")
	text = change(t, text, "take: [box-amd64, box-arm64]", "take: [\"box-{version}-amd64\", \"box-{version}-arm64\"]")
	if d := plan.Compare(planOf(t, text, "v1.0.0"), planOf(t, text, "v1.1.0")); !d.IsEmpty() {
		t.Errorf("%+v", d.Changed)
	}
	d := plan.Compare(planOf(t, text, "v1.0.0"), planOf(t, change(t, text, "take: [+bins, firmware.bin]", "take: [firmware.bin]"), "v1.1.0"))
	if len(d.Changed) != 2 || d.Changed[0].Field != "take" || d.Changed[0].Is != "" {
		t.Errorf("a step that takes less: %+v", d.Changed)
	}
	if d := plan.Compare(planOf(t, text, "v1.0.0"), planOf(t, change(t, text, "firmware-1.4", "firmware-1.5"), "v1.1.0")); len(d.Changed) != 1 || d.Changed[0].Field != "downloads" {
		t.Errorf("another address: %+v", d.Changed)
	}
}

// TestNewKeysAreInNoOldPlan: the plan of a file that does not use them has the
// digest that it had before there were any, apart from the list of SBOMs.
func TestNewKeysAreInNoOldPlan(t *testing.T) {
	for _, name := range []string{"kubernetes", "goreleaser"} {
		_, p := golden(t, name)
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{`"downloads"`, `"modules"`, `"import"`, `"disk"`} {
			if key == `"modules"` && name == "kubernetes" {
				continue // it names one
			}
			if strings.Contains(string(raw), key) {
				t.Errorf("%s: the plan has %s", name, key)
			}
		}
		if want := "sha256:9f4142cb753769c282a085fd125e1bed933b4e79c2d00c278eac3e64957bd140"; name == "goreleaser" && p.WithoutSBOMList().Digest().String() != want {
			t.Errorf("%s: without its list of SBOMs the plan is %s, and was %s when verifiers first knew it", name, p.WithoutSBOMList().Digest(), want)
		}
		for _, s := range p.Steps {
			if s.Take != nil || s.Image != nil && (s.Image.Base == "" || s.Image.Platforms[0].Files == nil) {
				t.Errorf("%s: step %+v", name, s)
			}
		}
	}
}

func TestTakingRefuses(t *testing.T) {
	rows := []struct{ name, old, with, at, says string }{
		{"a name that nobody has", "take: [+bins, firmware.bin]", "take: [+bins, software.bin]", "software.bin]", "which no earlier step makes"},
		{"a later step's output", "take: [+bins, firmware.bin]", "take: [+bins, box.tar]", "box.tar]\n  limits", "which no earlier step makes"},
		{"its own output", "take: [box-amd64, box-arm64]", "take: [box-amd64, box.tar]", "box.tar]\n  outputs", "which no earlier step makes"},
		{"an image as a file", "files: {/gen: gen}", "files: {/gen: oci/box}", "oci/box}", "an image is no file"},
		{"an image by its repository", "files: {/gen: gen}", "files: {/gen: box}", "box}, entry", "an image is no file"},
		{"an output twice", "take: [+bins, firmware.bin]", "take: [+bins, \"bin/{os}/{arch}/ctl\"]", "\"bin/{os}/{arch}/ctl\"]\n", "twice"},
		{"a download twice", "take: [+bins, firmware.bin]", "take: [firmware.bin, \"firmware{channel}.bin\"]", "", "which no earlier step makes"},
		{"the same list twice", "take: [+bins, firmware.bin]", "take: [+bins, ctl]", "ctl]\n  limits", "a second time"},
		{"nothing", "take: [box-amd64, box-arm64]", "take: []", "[]", "empty"},
		{"a word that may be two", "helper-amd64:", "ctl:", "+bins, firmware.bin]", "which is ambiguous: "},
		{"the whole source", "take: [box-amd64, box-arm64]", "take: source", "source\n", "want a list"},
		{"the inputs of a step that takes nothing", "run: [make]", "run: [make, \"{in}/x\"]", "\"{in}/x\"", "{in} is not defined here"},
		{"the inputs in a name", "name: \"box-{arch}\"", "name: \"{in}-{arch}\"", "\"{in}-", "{in} is not defined here"},
		{"an image that takes", "- name: image", "- name: image\n  take: [box.tar]", "[box.tar]\n  image", "only for a step that runs"},
		{"a variable named in", "each: {bin: bins}", "each: {in: bins}", "bins}, name: \"bin", "another name"},
		// Images of archives.
		{"a base of an import", "import: box.tar,", "import: box.tar, base: scratch,", "scratch, platforms: every", "has its own base"},
		{"files of an import", "import: box.tar,", "import: box.tar, files: {/gen: gen},", "{/gen: gen}, platforms: every", "has its own files"},
		{"an entrypoint of an import", "import: box.tar,", "import: box.tar, entrypoint: [x],", "[x]", "has its own entrypoint"},
		{"no platforms of an import", "import: box.tar, platforms: every", "import: box.tar", "{import", "platforms"},
		{"an import of nothing", "import: box.tar", "import: crate.tar", "crate.tar", "which no earlier step makes"},
		{"an import of an image", "files: {/gen: gen}, entrypoint: [/gen]}", "files: {/gen: gen}, entrypoint: [/gen], import: box}", "", "has its own base"},
		{"neither base nor import", "import: box.tar, ", "", "{platforms", "import an archive"},
		{"a file of a download", "files: {/gen: gen}", "files: {/gen: firmware.bin}", "firmware.bin}, entry", "is a download"},
		// Downloads.
		{"no downloads", "  firmware.bin: \"https://dl.example.test:8443/firmware-1.4.bin?a=b\"\n  helper-amd64: \"http://127.0.0.1:4711/helper\"\n", "  {}\n", "{}", "empty"},
		{"a download with a directory", "  firmware.bin:", "  lib/firmware.bin:", "lib/firmware.bin:", "want a file name of letters"},
		{"a download that includes a list", "  firmware.bin:", "  +bins:", "+bins:", "letters, digits"},
		{"a download above", "  firmware.bin:", "  ..:", "..:", "letters, digits"},
		{"a download named as an output", "  firmware.bin:", "  box.tar: \"https://dl.example.test/x\"\n  firmware.bin:", "box.tar, platforms", "which is ambiguous: "},
		{"a download named as evidence", "  firmware.bin:", "  SHA256SUMS: \"https://dl.example.test/x\"\n  firmware.bin:", "SHA256SUMS:", "has the name of an artifact"},
		{"a download named as a directory", "  firmware.bin:", "  release.yaml: \"https://dl.example.test/x\"\n  firmware.bin:", "release.yaml:", "has the name of an artifact"},
		{"a download named as a directory", "  firmware.bin:", "  bin: \"https://dl.example.test/x\"\n  firmware.bin:", "", "directory of them"},
		{"plain http", "https://dl.example", "http://dl.example", "\"http://dl", "want https"},
		{"another protocol", "https://dl.example", "ftp://dl.example", "\"ftp://dl", "want https"},
		{"credentials", "https://dl.example", "https://me:secret@dl.example", "\"https://me", "no credentials"},
		{"a fragment", "?a=b", "#sha256", "\"https://dl.example.test:8443", "plain spelling"},
		{"another spelling", "https://dl.example", "HTTPS://dl.example", "\"HTTPS://", "plain spelling"},
		{"no path", "https://dl.example.test:8443/firmware-1.4.bin?a=b", "https://dl.example.test", "\"https://dl.example.test\"", "path"},
		{"a placeholder", "firmware-1.4", "firmware-{version}", "\"https://dl.example.test:8443", "want an address"},
		{"an address in digits", "https://dl.example.test:8443", "https://192.0.2.7", "\"https://192", "host name of the public network"},
		{"a metadata address", "https://dl.example.test:8443", "https://169.254.169.254", "\"https://169", "host name of the public network"},
		{"a host without a domain", "https://dl.example.test:8443", "https://intranet", "\"https://intranet", "host name of the public network"},
		{"a port that is none", ":8443", ":99999", "\"https://dl.example.test:9", "host name of the public network"},
		{"a word", "\"https://dl.example.test:8443/firmware-1.4.bin?a=b\"", "firmware", "firmware\n", "want https"},
		{"no host", "https://dl.example.test:8443/", "https:", "\"https:firmware", "plain spelling"},
		{"a long address", "firmware-1.4.bin?a=b", strings.Repeat("a", 2048), "", "want an address"},
		{"a long name", "  firmware.bin:", "  " + strings.Repeat("a", 129) + ": \"https://dl.example.test/x\"\n  firmware.bin:", strings.Repeat("a", 129) + ":", "letters, digits"},
		{"a space", "firmware-1.4", "firmware 1.4", "\"https://dl.example.test:8443", "want an address"},
		{"a number", "\"http://127.0.0.1:4711/helper\"", "7", "7\ndefaults", "quote it"},
		{"the disk without a unit", "disk: 512Mi", "disk: \"512\"", "\"512\"", "24Gi"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			text := change(t, taking, r.old, r.with)
			_, err := expand(t, text)
			refused(t, err, r.says)
			var faults plan.Faults
			if !errors.As(err, &faults) || len(faults) == 0 {
				t.Fatalf("no faults in %v", err)
			}
			if r.at == "" {
				return
			}
			line, column := place(t, text, r.at)
			if !slices.ContainsFunc(faults, func(f plan.Fault) bool { return f.Line == line && f.Column == column }) {
				t.Errorf("want a fault at %d:%d, got %v", line, column, err)
			}
		})
	}
}

// TestSavedPlansTakeWhatIsThere: a plan that somebody wrote is held against
// the same rules.
func TestSavedPlansTakeWhatIsThere(t *testing.T) {
	p, err := expand(t, taking)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := plan.Parse(raw); err != nil || again.Digest() != p.Digest() {
		t.Fatalf("the twin: %v", err)
	}
	for name, row := range map[string]struct{ old, with, says string }{
		"an unknown download":           {`"downloads":["firmware.bin"]`, `"downloads":["software.bin"]`, "not declared"},
		"a download twice":              {`"downloads":["firmware.bin"]`, `"downloads":["firmware.bin","firmware.bin"]`, "twice"},
		"an output twice":               {`"take":["box-amd64","box-arm64"]`, `"take":["box-amd64","box-amd64"]`, "twice"},
		"an unknown output":             {`"take":["box-amd64","box-arm64"]`, `"take":["box-amd64","box-s390x"]`, "no earlier step makes"},
		"an output outside":             {`"take":["box-amd64","box-arm64"]`, `"take":["box-amd64","../box-arm64"]`, "no earlier step makes"},
		"a base and an import":          {`"import":"box.tar"`, `"import":"box.tar","base":"scratch"`, "either a base image or an archive"},
		"neither":                       {`"import":"box.tar",`, ``, "either a base image or an archive"},
		"an import of nothing":          {`"import":"box.tar"`, `"import":"crate.tar"`, "no earlier step makes"},
		"a download of an artifact":     {`"helper-amd64":`, `"SHA256SUMS":`, "name of an artifact"},
		"a download without an address": {`"http://127.0.0.1:4711/helper"`, `""`, "an address"},
		"a download of an image":        {`"image":{"base":"scratch"`, `"downloads":["firmware.bin"],"image":{"base":"scratch"`, "has no command"},
		"a step that sees nothing":      {`"run":["mk","../out/box.tar"],`, ``, "has no command"},
	} {
		_, err := plan.Parse([]byte(change(t, string(raw), row.old, row.with)))
		refused(t, err, row.says)
		if t.Failed() {
			t.Fatalf("in %s", name)
		}
	}
}

// TestOneRoot: a step runs in one file system.
func TestOneRoot(t *testing.T) {
	text := change(t, full, "tools: [cross]", "tools: [cross, make, sh]")
	c, err := plan.ParseConfig([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	l := whole(t)
	l.Tools["make"], l.Tools["sh"] = plan.ToolLock{Program: "make", Digest: sum("make")}, plan.ToolLock{Program: "sh", Digest: sum("sh")}
	if err := l.Covers(c); err != nil {
		t.Fatalf("the twin of one image and two programs: %v", err)
	}
	p, err := c.Expand(ver(t, "v0.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	if name, tool, ok := l.RootOf(stepOf(t, p, "compile-linux-amd64")); !ok || name != "cross" || tool.Image != "registry.example.test/cross" {
		t.Errorf("the root is %s %+v, %t", name, tool, ok)
	}
	if name, _, ok := l.RootOf(stepOf(t, p, "helper-linux-amd64")); ok {
		t.Errorf("a step of a program has the root %s", name)
	}
	l.Tools["sh"] = plan.ToolLock{Image: "registry.example.test/sh", Tag: "v1", Digest: sum("sh")}
	// What the defaults say is of no weight where nothing runs.
	apart, err := plan.ParseConfig([]byte(change(t, change(t, change(t, text, "  run: [make,", "  tools: [make, cross]\n  run: [make,"),
		"tools: [go]", "tools: [go, sh]"), "{tools: [cross, make, sh]", "{tools: [cross, sh]")))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Covers(apart); err != nil {
		t.Errorf("two images of two steps: %v", err)
	}
	err = l.Covers(c)
	refused(t, err, `tools "cross" and "sh" are both pinned as images`)
	var faults plan.Faults
	if line, _ := place(t, text, "tools: [cross, make"); !errors.As(err, &faults) || faults[0].Line != line {
		t.Errorf("want a fault in line %d: %v", line, err)
	}
}

func TestDownloadsArePinned(t *testing.T) {
	c, err := plan.ParseConfig([]byte(taking))
	if err != nil {
		t.Fatal(err)
	}
	lock := func() plan.Lock { return stocked(t) }
	if err := lock().Covers(c); err != nil {
		t.Fatalf("the twin: %v", err)
	}
	again, err := plan.ParseLock(lock().Encode())
	if err != nil || len(again.Downloads) != 2 || again.Downloads["firmware.bin"] != lock().Downloads["firmware.bin"] {
		t.Errorf("read back as %+v, %v", again.Downloads, err)
	}
	if s := checkschema.Load(t, plan.LockSchema()); s.Accepts(string(lock().Encode())) != nil {
		t.Errorf("the schema refuses it: %v", s.Accepts(string(lock().Encode())))
	}
	moved := lock()
	moved.Downloads["firmware.bin"] = plan.DownloadLock{URL: "https://dl.example.test/firmware", Size: 7, Digest: sum("firmware")}
	staleness(t, moved.Covers(c), `release.yaml says "https://dl.example.test:8443/firmware-1.4.bin?a=b"`)
	gone := lock()
	delete(gone.Downloads, "firmware.bin")
	staleness(t, gone.Covers(c), `does not pin download "firmware.bin"`)
	more := lock()
	more.Downloads["software.bin"] = more.Downloads["firmware.bin"]
	staleness(t, more.Covers(c), `pins download "software.bin"`)
	changed := lock()
	changed.Downloads["firmware.bin"] = plan.DownloadLock{URL: lock().Downloads["firmware.bin"].URL, Size: 9, Digest: sum("another")}
	if lines := lock().Difference(changed); len(lines) != 2 || !strings.HasPrefix(lines[0], "- download firmware.bin https://") || !strings.Contains(lines[1], " 9 bytes sha256:") {
		t.Errorf("the difference is %q", lines)
	}
	for name, row := range map[string]struct{ old, with, says string }{
		"no size":         {", size: 7", "", "size"},
		"nothing":         {"size: 7", "size: 0", "want 1 to"},
		"too much":        {"size: 7", "size: 17179869185", "want 1 to"},
		"no address":      {`url: "https://dl.example.test:8443/firmware-1.4.bin?a=b", `, "", "address"},
		"a plain address": {"https://dl.example", "http://dl.example", "want https"},
		"no digest":       {`, digest: "` + sum("firmware").String() + `"`, "", "digest"},
		"a short digest":  {sum("firmware").String(), "sha256:abc", "sha256"},
	} {
		_, err := plan.ParseLock([]byte(change(t, string(lock().Encode()), row.old, row.with)))
		if err == nil || verdict.FindingOf("", err).Code != verdict.ConfigParse || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
