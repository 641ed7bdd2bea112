package plan_test

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// example is the project that the demo and the stories release.
const example = "../../../test/example/release.yaml"

func exampleText(t testing.TB) string {
	t.Helper()
	raw, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func ver(t testing.TB, s string) version.Version {
	t.Helper()
	v, err := version.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// expand parses and expands; a refusal of either is returned.
func expand(t testing.TB, text string) (plan.Plan, error) {
	t.Helper()
	c, err := plan.ParseConfig([]byte(text))
	if err != nil {
		return plan.Plan{}, err
	}
	return c.Expand(ver(t, "v0.1.0"))
}

// change replaces one fact of a configuration.
func change(t testing.TB, text, old, new string) string {
	t.Helper()
	if strings.Count(text, old) == 0 {
		t.Fatalf("%q is not in the configuration", old)
	}
	return strings.Replace(text, old, new, 1)
}

// refused demands CONFIG, and a message that names the fault.
func refused(t *testing.T, err error, names string) {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	f := verdict.FindingOf("", err)
	if f.Code != verdict.ConfigParse || f.Code.Outcome() != verdict.Malformed {
		t.Errorf("refused as %s: %v, want CONFIG", f.Code, err)
	}
	if !strings.Contains(err.Error(), names) {
		t.Errorf("the refusal does not name %q: %v", names, err)
	}
}

// small is the least configuration: every row below changes one fact of it.
const small = `apiVersion: waybill/v1
kind: Release
name: tool
source: {repository: "https://example.test/tool"}
lock: release.lock.yaml
lists:
  every: [linux/amd64, windows/arm64]
steps:
- name: compile
  each: {platform: every}
  run: [make, "{out}/{os}"]
  env: {ARCH: "{arch}"}
  outputs: [{class: binary, name: "bin/{os}/{arch}/tool{exe}"}]
- name: pack
  archive: {format: tar.gz, root: tool, add: [LICENSE, doc/guide.md], take: [bin/linux/amd64/tool]}
  outputs: [{class: archive, name: tool.tar.gz}]
- name: image
  image: {base: static, platforms: every, files: {/bin/tool: "bin/{os}/{arch}/tool{exe}"}, entrypoint: [/bin/tool]}
  outputs: [{class: image, name: tool}]
places:
  files: "https://dl.example.test/tool/{version}/"
  images: registry.example.test/tool
`

func TestConfigAccepts(t *testing.T) {
	rows := []struct{ name, old, new string }{
		{"as it is", "kind: Release", "kind: Release"},
		{"a file among outputs", "class: binary", "class: file"},
		{"an archive that a command makes", "class: binary", "class: archive"},
		{"a brace", `"{out}/{os}"`, `"{{out}/{os}"`},
		{"the name of the release", "name: tool.tar.gz", `name: "{name}.tar.gz"`},
		{"no files of the source", "add: [LICENSE, doc/guide.md], ", ""},
		{"a list that nobody uses", "lists:\n", "lists:\n  other: [linux/arm]\n"},
		{"an SBOM's directory is free", "name: tool.tar.gz", "name: sbom/tool.tar.gz"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if _, err := expand(t, change(t, small, r.old, r.new)); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestConfigRefuses(t *testing.T) {
	rows := []struct{ name, old, new, says string }{
		// The shape.
		{"another version of the file", "waybill/v1", "waybill/v2", "apiVersion"},
		{"another kind", "kind: Release", "kind: Lock", "kind"},
		{"a name in upper case", "name: tool\n", "name: Tool\n", "name"},
		{"no name", "name: tool\n", "", "name"},
		{"no source", `source: {repository: "https://example.test/tool"}`, "", "source.repository"},
		{"another lock", "lock: release.lock.yaml", "lock: other.yaml", "lock"},
		{"an unknown key at the top", "kind: Release", "kind: Release\nartifacts: {}", "artifacts"},
		{"an unknown key in a step", "  run:", "  privileged: true\n  run:", "privileged"},
		{"an unknown key in an output", "class: binary,", "class: binary, mode: 7,", "mode"},
		{"a key twice", "kind: Release", "kind: Release\nkind: Release", "kind"},
		{"two documents", "places:", "---\nplaces:", "document"},
		// Lists.
		{"an empty list", "lists:\n", "lists:\n  none: []\n", "lists.none"},
		{"an item twice", "[linux/amd64, windows/arm64]", "[linux/amd64, linux/amd64]", "linux/amd64"},
		{"a list that is not there", "platform: every", "platform: most", "most"},
		{"a platform of three parts", "windows/arm64", "windows/arm64/v8", "os/arch"},
		{"a platform of one part", "windows/arm64", "windows", "os/arch"},
		// Steps.
		{"two steps of one name", "name: pack", "name: compile", "compile"},
		{"a step without a name", "- name: pack\n  archive", "- archive", "step"},
		{"a step that does nothing", `  run: [make, "{out}/{os}"]`, "", "exactly one"},
		{"an empty command", `run: [make, "{out}/{os}"]`, "run: []", "steps[0].run: empty"},
		{"a step that does two things", "  run:", "  archive: {format: tar.gz, root: a, take: [b]}\n  run:", "exactly one"},
		{"a step without outputs", `outputs: [{class: archive, name: tool.tar.gz}]`, "outputs: []", "outputs"},
		{"an environment without a command", "- name: pack", "- name: pack\n  env: {A: b}", "env"},
		{"an unknown class", "class: binary", "class: firmware", "firmware"},
		{"a class that only the release makes", "class: binary", "class: sbom", "sbom"},
		{"a command that makes an image", "class: binary", "class: image", "image"},
		// Archives and images.
		{"an unknown format", "tar.gz, root", "zip, root", "zip"},
		{"a root with a slash", "root: tool", "root: a/b", "root"},
		{"the archive would be empty", "take: [bin/linux/amd64/tool]", "take: []", "take"},
		{"an archive called a binary", "class: archive", "class: binary", "archive"},
		{"a file of the source from outside", "LICENSE,", "../LICENSE,", "../LICENSE"},
		{"an absolute file of the source", "LICENSE,", "/etc/passwd,", "/etc/passwd"},
		{"an entry twice", "LICENSE,", "LICENSE, LICENSE,", "LICENSE"},
		{"an entry that a taken file hides", "LICENSE,", "tool,", "tool"},
		{"two taken files of one entry", "take: [bin/linux/amd64/tool]", "take: [bin/linux/amd64/tool, bin/linux/amd64/tool]", "tool"},
		{"an image on no platform", "platforms: every, ", "", "image.platforms"},
		{"an image repeated", "- name: image", "- name: image\n  each: {platform: every}", "each"},
		{"an image without files", `files: {/bin/tool: "bin/{os}/{arch}/tool{exe}"}`, "files: {}", "files"},
		{"an image without an entrypoint", "entrypoint: [/bin/tool]", "entrypoint: []", "entrypoint"},
		{"an image without a base", "base: static, ", "", "image.base"},
		{"a base that nobody pins", "lock: release.lock.yaml\n", "", "release.lock.yaml"},
		{"an image called a binary", "class: image", "class: binary", "image"},
		{"an image of two names", "[{class: image,", "[{class: image, name: a}, {class: image,", "exactly one"},
		{"two files of one path in an image", "files: {", "files: {\"/bin/{name}\": bin/linux/amd64/tool, ", "/bin/tool"},
		{"a repository in upper case", "{class: image, name: tool}", "{class: image, name: Tool}", "lower-case"},
		// Templates.
		{"an unknown placeholder in a command", "{out}", "{home}", "{home}"},
		{"an unknown placeholder in a name", "tool{exe}", "tool{suffix}", "{suffix}"},
		{"an unknown placeholder in an environment", `"{arch}"`, `"{cpu}"`, "{cpu}"},
		{"a platform where there is none", "name: tool.tar.gz", `name: "tool-{os}.tar.gz"`, "{os}"},
		{"an open brace", `name: tool.tar.gz`, `name: "tool{version"`, "brace"},
		// Places.
		{"no file place", `  files: "https://dl.example.test/tool/{version}/"`, "", "places.files"},
		{"a file place for all versions", "/{version}/", "/", "{version}"},
		{"a file place that is no directory", "/{version}/", "/{version}", "slash"},
		{"no registry", "  images: registry.example.test/tool\n", "", "places.images"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := expand(t, change(t, small, r.old, r.new))
			refused(t, err, r.says)
		})
	}
}

func TestNoStepsAreRefused(t *testing.T) {
	head, _, _ := strings.Cut(small, "steps:")
	_, places, _ := strings.Cut(small, "places:")
	_, err := expand(t, head+"steps: []\nplaces:"+strings.ReplaceAll(places, "images:", "images:"))
	refused(t, err, "steps")
}

func TestParseLock(t *testing.T) {
	sha256, sha512 := "sha256:"+strings.Repeat("a", 64), "sha512:"+strings.Repeat("a", 128)
	lock := "apiVersion: waybill/v1\nkind: Lock\nbases:\n  static: {image: registry.example.test/static, digest: \"" + sha256 + "\"}\n"
	l, err := plan.ParseLock([]byte(lock))
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Bases["static"]; got.Image != "registry.example.test/static" || got.Digest.String() != sha256 {
		t.Errorf("base static is %v", got)
	}
	rows := []struct{ name, old, new, says string }{
		{"another kind", "kind: Lock", "kind: Release", "kind Lock"},
		{"no image", "image: registry.example.test/static, ", "", "image"},
		{"no digest", `, digest: "` + sha256 + `"`, "", "digest"},
		{"a digest of a registry that has none", sha256, sha512, "sha256"},
		{"a short digest", sha256, sha256[:20], "digest"},
		{"a tag in a digest's place", `"` + sha256 + `"`, "v1", "digest"},
		{"an unknown key", "image:", "mirror: v1, image:", "mirror"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := plan.ParseLock([]byte(change(t, lock, r.old, r.new)))
			refused(t, err, r.says)
		})
	}
}
