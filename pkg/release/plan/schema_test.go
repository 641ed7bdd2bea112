package plan_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaAcceptsWhatWeRead: whatever the parser accepts, the schema accepts;
// and what the schema refuses, the parser refuses.
func TestSchemaAcceptsWhatWeRead(t *testing.T) {
	s := checkschema.Load(t, plan.ConfigSchema())
	kubernetes, _ := golden(t, "kubernetes")
	goreleaser, _ := golden(t, "goreleaser")
	for name, text := range map[string]string{"small": small, "full": full, "kubernetes": kubernetes, "goreleaser": goreleaser, "example": exampleText(t)} {
		if err := s.Accepts(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	rows := map[string][2]string{
		"an unknown key":       {"kind: Release", "kind: Release\nartifacts: {}"},
		"another kind":         {"kind: Release", "kind: Lock"},
		"a name in upper case": {"name: tool\n", "name: Tool\n"},
		"an empty list":        {"bins: [serve, ctl]", "bins: []"},
		"no steps' outputs":    {"outputs: [{class: file, name: tool-checksums.txt}]", "outputs: []"},
		"a word as a number":   {"cpus: 2", "cpus: many"},
		"too many processors":  {"cpus: 2", "cpus: 5000"},
		"memory in bytes":      {"memory: 4Gi", "memory: 4G"},
		"a weak sidecar":       {"sidecars: [sha256]", "sidecars: [md5]"},
		"a moving tag":         {"{tags: [\"{version}\"]}", "{tags: [latest]}"},
		"a platform twice":     {"server: [linux/amd64, linux/arm64]", "server: [linux/amd64, linux/amd64]"},
		"an unknown algorithm": {"algorithm: sha512", "algorithm: md5"},
		"an unknown evidence":  {"file: [provenance, bundle]", "file: [provenance, signature]"},
	}
	for name, row := range rows {
		text := change(t, full, row[0], row[1])
		if s.Accepts(text) == nil {
			t.Errorf("%s: the schema accepts it", name)
		}
		if _, err := plan.ParseConfig([]byte(text)); err == nil {
			t.Errorf("%s: the parser accepts it", name)
		}
	}
}

// TestSchemaKnowsTheKeys: every key that the parser knows is in the schema and
// the other way round; the parser itself lists them in its refusals.
func TestSchemaKnowsTheKeys(t *testing.T) {
	release, locked := checkschema.Load(t, plan.ConfigSchema()), checkschema.Load(t, plan.LockSchema())
	lock := string(whole(t).Encode())
	parseLock := func(text string) error { _, err := plan.ParseLock([]byte(text)); return err }
	parse := func(text string) error { _, err := plan.ParseConfig([]byte(text)); return err }
	const given = "apiVersion: waybill/v1\nkind: Release\nname: tool\nsource: {repository: r}\n" +
		"outputs:\n- {class: file, name: x}\noutside: [{name: y}]\nplaces: {files: {uri: \"https://dl.example.test/{version}/\"}, images: {uri: r, owns: {tags: [\"{version}\"]}}}\n"
	for path, row := range map[string]struct{ text, old, with string }{
		"":                     {full, "kind: Release", "kind: Release\nunknown: x"},
		"version":              {given, "name: tool", "name: tool\nversion: {unknown: x}"},
		"source":               {given, "{repository: r", "{unknown: x, repository: r"},
		"sboms":                {given, "name: tool", "name: tool\nsboms: {unknown: x}"},
		"parameters.*":         {given, "name: tool", "name: tool\nparameters: {a: {unknown: x}}"},
		"defaults":             {given, "name: tool", "name: tool\ndefaults: {unknown: x}"},
		"defaults.step":        {given, "name: tool", "name: tool\ndefaults: {step: {unknown: x}}"},
		"defaults.step.limits": {given, "name: tool", "name: tool\ndefaults: {step: {limits: {unknown: x}}}"},
		"defaults.evidence":    {given, "name: tool", "name: tool\ndefaults: {evidence: {unknown: x}}"},
		"steps[]":              {full, "- name: pack", "- name: pack\n  unknown: x"},
		"steps[].outputs[]":    {full, "{class: image,", "{unknown: x, class: image,"},
		"steps[].archive":      {full, "{format: tar.gz,", "{unknown: x, format: tar.gz,"},
		"steps[].image":        {full, "{base: static,", "{unknown: x, base: static,"},
		"steps[].go":           {full, "{package: ./cmd/helper,", "{unknown: x, package: ./cmd/helper,"},
		"steps[].checksums":    {full, "{algorithm: sha512,", "{unknown: x, algorithm: sha512,"},
		"outputs[]":            {given, "{class: file", "{unknown: x, class: file"},
		"outside[]":            {given, "{name: y", "{unknown: x, name: y"},
		"places":               {given, "places: {", "places: {unknown: x, "},
		"places.files":         {given, "files: {", "files: {unknown: x, "},
		"places.images":        {given, "images: {", "images: {unknown: x, "},
		"places.images.owns":   {given, "owns: {", "owns: {unknown: x, "},
		"lock ":                {lock, "kind: Lock", "kind: Lock\nunknown: x"},
		"lock bases.*":         {lock, "{image:", "{unknown: x, image:"},
		"lock tools.*":         {lock, "{program:", "{unknown: x, program:"},
		"lock modules.*":       {lock, "    goMod:", "    unknown: x\n    goMod:"},
	} {
		s, err := release, error(nil)
		at, isLock := strings.CutPrefix(path, "lock ")
		if text := change(t, row.text, row.old, row.with); isLock {
			s, err = locked, parseLock(text)
		} else {
			err = parse(text)
		}
		refused(t, err, "known here: ")
		_, list, _ := strings.Cut(err.Error(), "known here: ")
		list, _, _ = strings.Cut(list, "\n")
		known := strings.Split(list, ", ")
		slices.Sort(known)
		if want := s.Keys(at); !slices.Equal(known, want) {
			t.Errorf("%s: the parser knows %q, the schema %q", path, known, want)
		}
	}
}

// TestSchemaDefaults: a default that the schema states is what the parser takes
// if the key is left out: writing it down changes nothing in the plan.
func TestSchemaDefaults(t *testing.T) {
	file, image := []any{"provenance", "sbom", "bundle"}, []any{"provenance", "sbom", "signature"}
	checkschema.Load(t, plan.LockSchema()).Defaults(nil)
	s := checkschema.Load(t, plan.ConfigSchema())
	s.Defaults(map[string]any{
		"version.scheme": "kubernetes", "version.tag": "{version}", "source.releaseCommit": "tagged", "provenance": []any{"v1"},
		"sboms.release": "{name}.spdx.json", "places.files.sums": []any{"SHA256SUMS", "SHA512SUMS"}, "parameters.*.type": "choice",
		"defaults.evidence.binary": file, "defaults.evidence.archive": file, "defaults.evidence.file": file, "defaults.evidence.image": image,
		"steps[].go.package": ".", "steps[].go.cgo": false, "steps[].checksums.algorithm": "sha256",
	})
	const least = `apiVersion: waybill/v1
kind: Release
name: kit
version: {}
source: {repository: "https://example.test/tool"}
lock: release.lock.yaml
parameters: {flavour: {values: [plain], default: plain}}
sboms: {}
defaults: {evidence: {}}
steps:
- {name: build, each: {platform: [linux/amd64]}, go: {cgo: false}, tools: [go], outputs: [{class: binary, name: tool}]}
- {name: image, image: {base: scratch, platforms: [linux/amd64], files: {/tool: tool}, entrypoint: [/tool]}, outputs: [{class: image, name: tool}]}
- {name: sums, checksums: {take: [tool]}, outputs: [{class: file, name: sums.txt}]}
places: {files: {uri: "https://dl.example.test/{version}/"}, images: registry.example.test/tool}
`
	want := planned(t, least)
	for _, row := range [][2]string{
		{"version: {}", "version: {scheme: kubernetes}"}, {"version: {}", `version: {tag: "{version}"}`},
		{"/tool\"}", "/tool\", releaseCommit: tagged}"}, {"sboms: {}", "provenance: [v1]"},
		{"sboms: {}", `sboms: {release: "{name}.spdx.json"}`}, {"/{version}/\"}", "/{version}/\", sums: [SHA256SUMS, SHA512SUMS]}"},
		{"{values:", "{type: choice, values:"}, {"evidence: {}", "evidence: {binary: [provenance, sbom, bundle]}"},
		{"evidence: {}", "evidence: {file: [provenance, sbom, bundle]}"}, {"evidence: {}", "evidence: {image: [provenance, sbom, signature]}"},
		{"{cgo: false}", "{package: .}"}, {"{take: [tool]}", "{algorithm: sha256, take: [tool]}"},
	} {
		if got := planned(t, change(t, least, row[0], row[1])); !reflect.DeepEqual(got, want) {
			t.Errorf("%s changes the plan", row[1])
		}
	}
	for _, row := range [][2]string{
		{"version: {}", `version: {tag: "x{version}"}`}, {"/tool\"}", "/tool\", releaseCommit: empty-child}"}, {"sboms: {}", "provenance: [v1, v0.2]"},
		{"evidence: {}", "evidence: {binary: [provenance, sbom]}"}, {"{cgo: false}", "{package: ./cmd}"}, {"{take: [tool]}", "{algorithm: sha512, take: [tool]}"},
	} {
		if got := planned(t, change(t, least, row[0], row[1])); reflect.DeepEqual(got, want) {
			t.Errorf("%s changes nothing in the plan", row[1])
		}
	}
}

func TestLockSchema(t *testing.T) {
	s := checkschema.Load(t, plan.LockSchema())
	text, shared := string(whole(t).Encode()), string(team(t).Encode())
	for _, text := range []string{text, shared} {
		if err := s.Accepts(text); err != nil {
			t.Error(err)
		}
	}
	if s.Accepts(change(t, shared, "h1:", "h2:")) == nil || s.Accepts(change(t, shared, "platforms:", "digests:")) == nil {
		t.Error("another checksum, or another key, is accepted")
	}
	for name, row := range map[string][2]string{
		"a digest that is short": {sum("go").String(), "sha256:abc"},
		"an unknown key":         {"program:", "path: x, program:"},
		"a requirement of two":   {"example.test/dep v1.0.0 h1:aaaa=", "example.test/dep h1:aaaa="},
		"another kind":           {"kind: Lock", "kind: Release"},
	} {
		if s.Accepts(change(t, text, row[0], row[1])) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

// planned is the plan of a text that is right.
func planned(t *testing.T, text string) plan.Plan {
	t.Helper()
	p, err := expand(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
