package plan_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// full uses every part of the format; each row below changes one fact of it.
const full = `apiVersion: waybill/v1
kind: Release
name: tool
version: {scheme: kubernetes, tag: "release-{version}"}
source: {repository: "https://example.test/tool", releaseCommit: tagged}
lock: release.lock.yaml
modules: [sub]
parameters:
  flavour: {values: [plain, fips], default: plain}
  debug: {type: bool, default: false}
  jobs: {type: int, min: 1, max: 8, default: 4}
defaults:
  step: {tools: [cross], network: none, limits: {cpus: 2, memory: 4Gi, time: 90s, processes: 100}, env: {LANG: C, MODE: default}}
  evidence: {binary: [provenance, sbom, bundle], file: [provenance, bundle]}
lists:
  server: [linux/amd64, linux/arm64]
  every: [+server, windows/amd64]
  bins: [serve, ctl]
steps:
- name: compile
  each: {platform: every}
  run: [make, "JOBS={parameter.jobs}", "{out}"]
  network: [proxy.example.test, "files.example.test:8443"]
  limits: {time: 2h}
  env: {MODE: "{parameter.flavour}", EPOCH: "{commit.time}", EMPTY: ""}
  outputs:
  - {class: binary, each: {bin: bins}, name: "bin/{os}/{arch}/{bin}{exe}"}
  - {class: file, on: server, name: "share/{arch}.txt"}
- name: helper
  each: {platform: [linux/amd64]}
  go: {package: ./cmd/helper, dir: sub, tags: ["{parameter.flavour}"], ldflags: "-X main.v={version.number}", cgo: true}
  tools: [go]
  root: scratch
  outputs: [{class: binary, name: "bin/helper{exe}"}]
- name: pack
  archive: {format: tar.gz, root: tool, add: [LICENSE], take: [bin/helper]}
  outputs:
  - {class: archive, each: {platform: every}, name: "tool-{os}-{arch}.tar.gz", take: [+bins]}
  - {class: archive, name: tool-helper.tar.gz}
  - {class: archive, name: tool-source.tar.gz, take: source}
- name: sums
  checksums: {algorithm: sha512, take: [tool-helper.tar.gz, tool-source.tar.gz]}
  outputs: [{class: file, name: tool-checksums.txt}]
- name: image
  each: {bin: bins}
  image: {base: static, platforms: server, files: {"/bin/{bin}": "bin/{os}/{arch}/{bin}"}, entrypoint: ["/bin/{bin}", ""]}
  outputs: [{class: image, name: "tool/{bin}", alsoPerArch: "tool/{bin}-{arch}"}]
sboms: {release: "{name}.spdx.json", source: "{name}-source.spdx"}
places:
  files: {uri: "https://dl.example.test/{version}/", owns: prefix, sidecars: [sha256], sums: [SHA256SUMS]}
  images: {uri: registry.example.test, owns: {tags: ["{version}"]}}
markers: ["{channel}.txt", "{channel}-{major}.{minor}.txt"]
`

func TestFullAccepts(t *testing.T) {
	p, err := expand(t, full)
	if err != nil {
		t.Fatal(err)
	}
	compile := stepOf(t, p, "compile-linux-amd64")
	if !slices.Equal(compile.Run, []string{"make", "JOBS=4", "../out"}) {
		t.Errorf("runs %q", compile.Run)
	}
	if !slices.Equal(compile.Env, []string{"EMPTY=", "EPOCH={commit.time}", "LANG=C", "MODE=plain"}) {
		t.Errorf("environment %q", compile.Env)
	}
	if !slices.Equal(compile.Network, []string{"proxy.example.test:443", "files.example.test:8443"}) || !slices.Equal(compile.Tools, []string{"cross"}) {
		t.Errorf("network %q, tools %q", compile.Network, compile.Tools)
	}
	if want := (plan.Limits{CPUs: 2, Memory: 4 << 30, Seconds: 7200, Processes: 100}); *compile.Limits != want {
		t.Errorf("limits %+v, want %+v", *compile.Limits, want)
	}
	helper := stepOf(t, p, "helper-linux-amd64")
	if helper.Root != plan.Scratch || compile.Root != "" {
		t.Errorf("roots %q and %q, want scratch where it was said, and the machine's elsewhere", helper.Root, compile.Root)
	}
	run := []string{"go", "-C", "sub", "build", "-trimpath", "-buildvcs=false", "-tags=plain", "-ldflags=-X main.v=0.1.0", "-o", "../../out/bin/helper", "./cmd/helper"}
	if !slices.Equal(helper.Run, run) || !slices.Contains(helper.Env, "CGO_ENABLED=1") || !slices.Equal(helper.Tools, []string{"go"}) || len(helper.Network) != 0 {
		t.Errorf("helper is %+v", helper)
	}
	sums := stepOf(t, p, "sums")
	if sums.Checksums.Algorithm != "sha512" || len(sums.Checksums.Take) != 2 || p.Tag != "release-v0.1.0" || p.Parameters["debug"] != "false" {
		t.Errorf("sums %+v, tag %q, parameters %v", sums.Checksums, p.Tag, p.Parameters)
	}
	if a, _ := p.Find("share/arm64.txt"); a.Platform != "linux/arm64" || a.Has(plan.KindSBOM) || !a.Has("bundle") {
		t.Errorf("the file is planned as %+v", a)
	}
	if a, _ := p.Find("oci/tool/ctl-arm64"); a.Class != plan.Image || a.Of != "oci/tool/ctl/linux/arm64" || a.Platform != "linux/arm64" || !slices.Equal(a.Tags, []string{"v0.1.0"}) {
		t.Errorf("the image of one platform is planned as %+v", a)
	}
	if a, _ := p.Find("tool-source.spdx"); a.MediaType != "text/spdx" || p.SBOMs.Source != a.Name {
		t.Errorf("the source SBOM is planned as %+v", a)
	}
	for _, name := range []string{"share/windows.txt", "SHA512SUMS", "tool-helper.tar.gz.sha512", "share/arm64.txt.spdx.json"} {
		if _, planned := p.Find(name); planned {
			t.Errorf("%s is planned", name)
		}
	}
}

// TestFullRefuses: each row is refused at the place where its fault stands,
// with words that say what to do.
func TestFullRefuses(t *testing.T) {
	rows := []struct{ name, old, with, at, says string }{
		// Lists.
		{"a list that includes itself", "[+server, windows/amd64]", "[+every]", "+every", "includes itself"},
		{"two lists that include each other", "server: [linux/amd64, linux/arm64]", "server: [+every]", "", "includes itself"},
		{"an unknown list in a list", "[+server, windows/amd64]", "[+servers]", "+servers", "no list \"servers\""},
		{"an item that comes twice", "[+server, windows/amd64]", "[+server, linux/arm64]", "linux/arm64]\n  bins", "a second time"},
		{"an empty list", "bins: [serve, ctl]", "bins: []", "[]", "empty"},
		{"a list that is one word", "bins: [serve, ctl]", "bins: serve", "serve\nsteps", "a list"},
		{"a number for a word", "bins: [serve, ctl]", "bins: [serve, 7]", "7]", "quote it"},
		{"a list without a value", "bins: [serve, ctl]", "bins:", "", "no value"},
		{"an alias", "bins: [serve, ctl]", "bins: *server", "*server", "YAML_ALIAS"},
		{"a name of a list in upper case", "  bins: [serve", "  Bins: [serve", "Bins", "lower-case"},
		// Each.
		{"each over nothing", "each: {platform: every}", "each: {}", "{}", "empty"},
		{"a variable that means something", "{bin: bins}, name: \"bin/", "{version: bins}, name: \"bin/", "bins}, name: \"bin/", "another name"},
		{"a variable of step and output", "each: {bin: bins}, name: \"bin/", "each: {platform: every}, name: \"bin/", "platform: every}, name: \"bin/", "already"},
		{"a platform that is none", "each: {platform: [linux/amd64]}", "each: {platform: [linux]}", "[linux]}", "os/arch"},
		{"on what never runs", "on: server", "on: plan9/amd64", "plan9/amd64", "never runs for"},
		{"on without platforms", "name: tool-helper.tar.gz", "on: server, name: tool-helper.tar.gz", "server, name", "on needs each.platform"},
		{"on that leaves nothing", "class: binary, each: {bin: bins}", "class: binary, on: server, each: {bin: bins}", "name: compile", "has no output for windows/amd64"},
		// What a step may use.
		{"the host's network", "network: [proxy.example.test,", "network: [localhost,", "localhost", "host name"},
		{"an address", "network: [proxy.example.test,", "network: [192.0.2.7,", "192.0.2.7", "host name"},
		{"a wildcard", "network: [proxy.example.test,", "network: [\"*.example.test\",", "\"*.example.test\"", "host name"},
		{"a port that is none", "files.example.test:8443", "files.example.test:99999", "\"files.example.test:99999\"", "host name"},
		{"a root of another kind", "root: scratch", "root: host", "host", "want machine or scratch"},
		{"all of the network", "network: none", "network: all", "all,", "want none"},
		{"an empty allow-list", "network: [proxy.example.test, \"files.example.test:8443\"]", "network: []", "[]", "empty"},
		{"memory without a unit", "memory: 4Gi", "memory: \"4\"", "\"4\"", "24Gi"},
		{"no memory", "memory: 4Gi", "memory: 0Gi", "0Gi", "24Gi"},
		{"half a second", "time: 90s", "time: 500ms", "500ms", "whole seconds"},
		{"a limit of nothing", "cpus: 2", "cpus: 0", "0, memory", "want 1 to"},
		{"a limit that nobody knows", "cpus: 2", "gpus: 2", "gpus", "unknown key"},
		{"a variable with a dash", "LANG: C", "LA-NG: C", "LA-NG", "letters, digits and _"},
		{"a tool with a path", "tools: [cross]", "tools: [../cross]", "../cross", "lower-case"},
		{"tools for an archive", "- name: pack", "- name: pack\n  tools: [go]", "[go]\n  archive", "only a step that runs"},
		{"no provenance", "file: [provenance, bundle]", "file: [bundle]", "[bundle]}", "provenance is required"},
		{"evidence that files have not", "file: [provenance, bundle]", "file: [provenance, signature]", "signature]", "an artifact of class file has"},
		{"a base without a lock", "lock: release.lock.yaml\n", "", "", "pinned nowhere"},
		// Steps of their own kinds.
		{"a go step for no platform", "  each: {platform: [linux/amd64]}\n", "", "name: helper", "needs each.platform"},
		{"a go step of two programs", "outputs: [{class: binary, name: \"bin/helper{exe}\"}]", "outputs: [{class: binary, name: a}, {class: binary, name: b}]", "name: helper", "exactly one"},
		{"a go step of an archive", "{class: binary, name: \"bin/helper{exe}\"}", "{class: archive, name: \"bin/helper{exe}\"}", "archive, name: \"bin/helper", "this step can make [binary]"},
		{"a go step that sets GOOS", "tools: [go]", "tools: [go]\n  env: {GOOS: plan9}", "GOOS", "follows from"},
		{"a module outside", "dir: sub", "dir: ../sub", "../sub", "clean path"},
		{"the archive would be empty", ", add: [LICENSE], take: [bin/helper]}", "}", "{class: archive, name: tool-helper", "the archive would be empty"},
		{"sums of nothing", ", take: [tool-helper.tar.gz, tool-source.tar.gz]}", "}", "{class: file, name: tool-checksums", "the list would be empty"},
		{"sums of the source", "take: [tool-helper.tar.gz, tool-source.tar.gz]", "take: source", "source}\n  outputs: [{class: file", "the source is not a file"},
		{"weak sums", "algorithm: sha512", "algorithm: md5", "md5", "want sha256 or sha512"},
		{"a program that takes", "on: server, name: \"share", "take: [bin/helper], name: \"share", "[bin/helper], name", "only an archive"},
		{"a program for each architecture", "on: server, name: \"share", "alsoPerArch: x, name: \"share", "x, name", "only an image"},
		{"an image repeated inside", "[{class: image, name: \"tool/{bin}\",", "[{class: image, each: {v: [a]}, name: \"tool/{bin}\",", "v: [a]", "exactly one"},
		// Taking.
		{"a word that nobody made", "take: [+bins]", "take: [+bins, install]", "install]", "for linux/amd64, which no earlier step makes"},
		{"a word that two outputs are", "name: \"share/{arch}.txt\"", "name: \"share/{arch}/serve\"", "+bins]", "which is ambiguous: "},
		// Templates.
		{"an unknown placeholder", "share/{arch}.txt", "share/{arch}{suffix}.txt", "\"share", "defined here: {arch}"},
		{"the output directory in a name", "share/{arch}.txt", "share/{out}.txt", "\"share", "{out} is not defined here"},
		{"the commit in a name", "share/{arch}.txt", "share/{commit.id}.txt", "\"share", "{commit.id} is not defined here"},
		{"a parameter that is not declared", "{parameter.jobs}", "{parameter.job}", "\"JOBS", "{parameter.job}"},
		{"text that looks like the commit's", "EPOCH: \"{commit.time}\"", "EPOCH: \"{{commit.time}\"", "\"{{commit.time}\"", "is reserved for placeholders"},
		// Parameters.
		{"a default that is no value", "default: plain", "default: other", "other", "is not an allowed value"},
		{"a choice of nothing", "values: [plain, fips], ", "", "{default: plain}", "values"},
		{"bounds the wrong way", "min: 1, max: 8", "min: 9, max: 8", "{type: int", "above"},
		{"a default out of bounds", "default: 4", "default: 9", "9}", "want 1 to 8"},
		{"values of a bool", "{type: bool,", "{type: bool, values: [a],", "[a]", "only for a parameter of type choice"},
		{"an unknown type", "{type: bool,", "{type: string,", "string", "want choice or bool or int"},
		// Places and names of the whole.
		{"an unknown scheme", "scheme: kubernetes", "scheme: calendar", "calendar", "want kubernetes"},
		{"an unknown rule of commits", "releaseCommit: tagged", "releaseCommit: any", "any}", "tagged or empty-child"},
		{"a place that owns a part", "owns: prefix", "owns: some", "some, sidecars", "want prefix"},
		{"a weak sidecar", "sidecars: [sha256]", "sidecars: [md5]", "md5", "sha256 or sha512"},
		{"sums of another name", "sums: [SHA256SUMS]", "sums: [CHECKSUMS]", "CHECKSUMS", "SHA256SUMS"},
		{"a tag that moves", "owns: {tags: [\"{version}\"]}", "owns: {tags: [latest]}", "[latest]", "other tags move"},
		{"two markers of one name", "\"{channel}-{major}.{minor}.txt\"", "\"stable.txt\"", "\"stable.txt\"", "two markers"},
		{"a marker outside", "\"{channel}.txt\"", "\"../{channel}.txt\"", "\"../", "clean relative name"},
		{"an SBOM with an output's name", "release: \"{name}.spdx.json\"", "release: tool-helper.tar.gz", "tool-helper.tar.gz}", "two artifacts"},
		{"a sidecar with an output's name", "name: tool-checksums.txt", "name: tool-helper.tar.gz.sha256", "tool-helper.tar.gz.sha256", "two artifacts"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			text := change(t, full, r.old, r.with)
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
			if !slices.ContainsFunc(faults, func(f plan.Fault) bool {
				return f.Line == line && (f.Column == column || strings.HasPrefix(r.at, "name:"))
			}) {
				t.Errorf("want a fault at %d:%d, got %v", line, column, err)
			}
		})
	}
}

// place is where a piece of text begins, counted as editors do.
func place(t *testing.T, text, piece string) (line, column int) {
	t.Helper()
	i := strings.LastIndex(text, piece)
	if i < 0 {
		t.Fatalf("%q is not in the configuration", piece)
	}
	start := strings.LastIndexByte(text[:i], '\n') + 1
	return strings.Count(text[:i], "\n") + 1, utf8.RuneCountInString(text[start:i]) + 1
}

// TestAllFaultsAreTold: whoever writes the file learns everything at once, in
// the order of the text.
func TestAllFaultsAreTold(t *testing.T) {
	text := change(t, change(t, change(t, full, "name: tool\n", "name: Tool\n"), "cpus: 2", "cpus: many"), "owns: prefix", "owns: some")
	_, err := plan.ParseConfig([]byte(text))
	var faults plan.Faults
	if !errors.As(err, &faults) || len(faults) != 3 {
		t.Fatalf("want three faults: %v", err)
	}
	for i, path := range []string{"name", "defaults.step.limits.cpus", "places.files.owns"} {
		if faults[i].Path != path || i > 0 && faults[i].Line <= faults[i-1].Line {
			t.Errorf("fault %d is %v, want one of %s", i, faults[i], path)
		}
	}
	many := "apiVersion: waybill/v1\nkind: Release\n" + strings.Repeat("x", 10)
	for i := range 100 {
		many = strings.Replace(many, "xxxxxxxxxx", "k"+strings.Repeat("a", i+1)+": 1\nxxxxxxxxxx", 1)
	}
	_, err = plan.ParseConfig([]byte(strings.Replace(many, "xxxxxxxxxx", "", 1)))
	if err == nil || !strings.Contains(err.Error(), "more") || len(err.Error()) > 20_000 {
		t.Errorf("a hundred faults make %d bytes", len(err.Error()))
	}
}

func TestParameters(t *testing.T) {
	c, err := plan.ParseConfig([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name  string
		given map[string]string
		want  string // of the whole set, or of the refusal
		fails bool
	}{
		{"defaults", nil, "debug=false flavour=plain jobs=4", false},
		{"some", map[string]string{"flavour": "fips", "jobs": "8"}, "debug=false flavour=fips jobs=8", false},
		{"a value that is not allowed", map[string]string{"flavour": "other"}, "want plain or fips", true},
		{"more than the most", map[string]string{"jobs": "9"}, "want 1 to 8", true},
		{"a number written otherwise", map[string]string{"jobs": "04"}, "want 1 to 8", true},
		{"a bool written otherwise", map[string]string{"debug": "yes"}, "want true or false", true},
		{"one that nobody declared", map[string]string{"speed": "high"}, "declares no such", true},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p, err := c.ExpandWith(ver(t, "v0.1.0"), r.given)
			if r.fails {
				if verdict.FindingOf("", err).Code != verdict.Usage || !strings.Contains(err.Error(), r.want) {
					t.Errorf("refused with %v, want USAGE and %q", err, r.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := "debug=" + p.Parameters["debug"] + " flavour=" + p.Parameters["flavour"] + " jobs=" + p.Parameters["jobs"]
			if got != r.want {
				t.Errorf("parameters %s, want %s", got, r.want)
			}
		})
	}
	required, err := plan.ParseConfig([]byte(change(t, full, ", default: plain", "")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = required.Expand(ver(t, "v0.1.0"))
	if err == nil || !strings.Contains(err.Error(), "--parameter flavour=") {
		t.Errorf("a parameter without a value: %v", err)
	}
}
