package draft_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/plan/draft"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// lantern is a project that GoReleaser releases.
func lantern(config string) fstest.MapFS {
	return tree("go.mod=module github.com/example/lantern\n", "cmd/lantern/main.go", "cmd/lamp/main.go", "LICENSE=x", "README.md=x",
		"Dockerfile=# one program\nFROM gcr.io/distroless/static:nonroot\nCOPY $TARGETPLATFORM/lantern /usr/bin/\nUSER 65532\nENTRYPOINT [\"/usr/bin/lantern\"]\n",
		"run.Dockerfile=FROM alpine\nRUN apk add git\nCOPY lantern /\nENTRYPOINT [\"/lantern\"]\n",
		".goreleaser.yaml="+config)
}

// convert converts a configuration, and expands the result.
func convert(t *testing.T, config string) (draft.Project, plan.Plan, map[string]string) {
	t.Helper()
	files := lantern(config)
	p, err := draft.Discover(files)
	if err != nil {
		t.Fatal(err)
	}
	left, err := p.Convert(files)
	if err != nil {
		t.Fatal(err)
	}
	if p.Registry != "" && len(p.Images) == 0 {
		t.Errorf("a registry %q without images", p.Registry)
	}
	c, err := plan.ParseConfig(p.Write())
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Write())
	}
	v, err := version.Parse("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	planned, err := c.Expand(v)
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Write())
	}
	why := map[string]string{}
	for _, l := range left {
		if l.Why == "" {
			t.Errorf("%s is left out without a reason", l.Key)
		}
		why[l.Key] += l.Why + "\n"
	}
	return p, planned, why
}

const goreleaser = `version: 2
project_name: lantern
before: {hooks: [go mod tidy]}
builds:
- id: lantern
  main: ./cmd/lantern
  env: [CGO_ENABLED=0, GOFLAGS=-mod=readonly]
  goos: [linux, darwin, windows]
  goarch: [amd64, arm64, "386"]
  ignore: [{goos: windows, goarch: arm64}, {goos: linux, goarch: 386}]
  flags: [-trimpath, -buildmode=pie]
  ldflags: ["-s -w", "-X main.version={{ .Version }} -X main.commit={{.FullCommit}}", "-X main.date={{.Date}}"]
  mod_timestamp: "{{ .CommitTimestamp }}"
- {id: lamp, main: ./cmd/lamp/main.go, binary: lamp, goos: [linux], goarch: [amd64], tags: [small]}
archives:
- ids: [lantern]
  formats: [tar.gz]
  format_overrides: [{goos: windows, formats: [zip]}]
  name_template: "{{ .ProjectName }}-{{ .Tag }}-{{ .Os }}-{{ .Arch }}"
  wrap_in_directory: true
  files: [LICENSE*, README.md]
- {id: raw, ids: [lamp], formats: [binary]}
checksum: {name_template: checksums.txt, split: true}
dockers:
- {image_templates: ["ghcr.io/example/lantern:{{ .Version }}-amd64"], dockerfile: Dockerfile, use: buildx}
- {image_templates: ["ghcr.io/example/lantern:{{ .Version }}-arm64"], goarch: arm64, dockerfile: Dockerfile}
- {image_templates: ["ghcr.io/example/tools:{{ .Version }}"], dockerfile: run.Dockerfile}
docker_manifests:
- {name_template: "ghcr.io/example/lantern:{{ .Version }}", image_templates: [x, y]}
kos:
- {id: lamp, build: lamp, base_image: scratch, repositories: [ghcr.io/example/lamp], bare: true, tags: [latest]}
signs: [{artifacts: checksum}]
brews: [{name: lantern}]
release: {github: {owner: example, name: lantern}, draft: true}
sign_everything: true
`

func TestGoReleaserIsConverted(t *testing.T) {
	p, planned, why := convert(t, goreleaser)
	text := string(p.Write())
	for _, name := range []string{
		"bin/linux/amd64/lantern", "bin/darwin/arm64/lantern", "bin/windows/amd64/lantern.exe", "bin/windows/386/lantern.exe", "bin/linux/amd64/lamp",
		"lantern-v1.2.3-linux-arm64.tar.gz", "lantern-v1.2.3-windows-386.zip", "lantern-v1.2.3-linux-arm64.tar.gz.sha256",
	} {
		if _, ok := planned.Find(name); !ok {
			t.Errorf("%s is not planned:\n%s", name, text)
		}
	}
	for _, name := range []string{"bin/linux/386/lantern", "bin/windows/arm64/lantern.exe", "bin/darwin/386/lantern", "lantern-v1.2.3-windows-amd64.tar.gz", "bin/darwin/arm64/lamp"} {
		if _, ok := planned.Find(name); ok {
			t.Errorf("%s is planned", name)
		}
	}
	for _, want := range []string{
		`ldflags: "-s -w -X main.version={version.number} -X main.commit={commit.id}"`, `env: {"GOFLAGS":"-mod=readonly"}`, `tags: ["small"]`,
		`add: ["LICENSE", "README.md"]`, `files: {"/usr/bin/lantern":"bin/{os}/{arch}/lantern"}`, `user: "65532:65532"`, `files: {"/ko-app/lamp":"bin/{os}/{arch}/lamp"}`,
		`images: "ghcr.io/example"`, `repository: "https://github.com/example/lantern"`, `uri: "github://example/lantern/{version}/"`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing:\n%s", want, text)
		}
	}
	if got := p.Bases(); len(got) != 1 || got["static"] != "gcr.io/distroless/static:nonroot" {
		t.Errorf("bases %v", got)
	}
	for key, say := range map[string]string{
		"before": "commit", "builds[0].flags": "-buildmode=pie", "builds[0].ldflags": "main.date", "checksum.name_template": "SHA256SUMS", "dockers[2]": "run.Dockerfile:2: RUN",
		"signs": "signed", "brews": "packages", "release.draft": "nothing like it", "sign_everything": "nothing like it", "archives[1].wrap_in_directory": "lantern",
	} {
		if !strings.Contains(why[key], say) {
			t.Errorf("%s: %q, want %q", key, why[key], say)
		}
	}
	for _, key := range []string{"project_name", "version", "builds[0].mod_timestamp", "builds[0].ignore", "archives[0].wrap_in_directory", "docker_manifests", "archives[1].formats", "kos[0]"} {
		if why[key] != "" {
			t.Errorf("%s is said to be left out: %s", key, why[key])
		}
	}
}

// TestGoReleaserDefaults: what a configuration does not say is what GoReleaser
// does.
func TestGoReleaserDefaults(t *testing.T) {
	p, planned, _ := convert(t, "builds: [{main: ./cmd/lantern}]\n")
	for _, name := range []string{"bin/linux/386/lantern", "bin/windows/arm64/lantern.exe", "lantern_1.2.3_windows_amd64.tar.gz"} {
		if _, ok := planned.Find(name); !ok {
			t.Errorf("%s is not planned", name)
		}
	}
	if got := p.Archives[0].Add; !slices.Equal(got, []string{"LICENSE", "README.md"}) {
		t.Errorf("archives have %v", got)
	}
}

func TestGoReleaserThatIsMalformed(t *testing.T) {
	for name, row := range map[string]struct {
		config, says string
		code         verdict.Code
	}{
		"no YAML":                  {"builds: [\n", "not a configuration of GoReleaser", verdict.ConfigParse},
		"a list":                   {"- builds\n", "not a configuration of GoReleaser", verdict.ConfigParse},
		"empty":                    {"# nothing\n", "not a configuration of GoReleaser", verdict.ConfigParse},
		"nothing in Go":            {"builds: [{builder: rust}]\n", "none of its builds", verdict.Usage},
		"builds of the wrong kind": {"builds: [7]\narchives: text\n", "", ""},
		"images of the wrong kind": {"builds: [{main: ./cmd/lantern}]\ndockers: [7]\nkos: {a: b}\nchecksum: [1]\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			files := lantern(row.config)
			p, err := draft.Discover(files)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Convert(files)
			if row.code == "" && err == nil {
				return
			}
			if f := verdict.FindingOf("", err); err == nil || f.Code != row.code || !strings.Contains(err.Error(), row.says) || f.Subject != ".goreleaser.yaml" || f.Fix == "" {
				t.Errorf("%v, next: %s", err, verdict.FindingOf("", err).Fix)
			}
		})
	}
	files := lantern("")
	delete(files, ".goreleaser.yaml")
	p, err := draft.Discover(files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Convert(files); err == nil || verdict.FindingOf("", err).Code != verdict.Usage {
		t.Errorf("without the file: %v", err)
	}
}

// FuzzConvert: no configuration makes it panic, and what is written can be read.
// TestGoReleaserInjectsNothing: a name is a name, also with the signs of YAML in it.
func TestGoReleaserInjectsNothing(t *testing.T) {
	for name, config := range map[string]string{
		"name_template": "archives: [{name_template: 'a\"}]\n- {name: evil, run: [sh], outputs: [{class: file, name: \"b'}]\n",
		"goos":          "builds: [{main: ./cmd/lantern, goos: ['linux: [linux/amd64]\n\n  evil'], goarch: [amd64]}]\n",
		"image":         "dockers: [{image_templates: [\"registry.example.test/a\\n  run: [evil]\"]}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			files := lantern(config)
			p, err := draft.Discover(files)
			if err == nil {
				_, err = p.Convert(files)
			}
			if err != nil {
				t.Fatal(err)
			}
			var of struct {
				Lists map[string]any
				Steps []map[string]any
			}
			if err := yaml.Unmarshal(p.Write(), &of); err != nil {
				t.Fatalf("%v\n%s", err, p.Write())
			}
			for _, s := range of.Steps {
				if s["run"] != nil || s["name"] == "evil" {
					t.Errorf("a step of others:\n%s", p.Write())
				}
			}
			if of.Lists["evil"] != nil {
				t.Errorf("a list of others:\n%s", p.Write())
			}
		})
	}
}

// TestGoReleaserOfManyPlatforms: two lists of a few thousand would be millions.
func TestGoReleaserOfManyPlatforms(t *testing.T) {
	for n, want := range map[int]bool{9: true, 3000: false} {
		list := "[" + strings.TrimSuffix(strings.Repeat("linux,", n), ",") + "]"
		files := lantern("builds: [{main: ./cmd/lantern, goos: " + list + ", goarch: " + list + "}]\n")
		p, err := draft.Discover(files)
		if err != nil {
			t.Fatal(err)
		}
		left, err := p.Convert(files)
		said := slices.ContainsFunc(left, func(l draft.LeftOut) bool { return strings.Contains(l.Why, "more than 100") })
		if err != nil || said == want || (len(p.Programs[0].Platforms) > 0) != want {
			t.Errorf("%d: %v, %v, %d platforms", n, err, said, len(p.Programs[0].Platforms))
		}
	}
}

func FuzzConvert(f *testing.F) {
	f.Add(goreleaser)
	f.Add("builds: [{binary: '../../x', main: ..}]\narchives: [{files: ['../*', {src: a}]}]\n")
	f.Fuzz(func(t *testing.T, config string) {
		files := lantern(config)
		p, err := draft.Discover(files)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Convert(files); err == nil {
			_, _ = plan.ParseConfig(p.Write())
		}
	})
}
