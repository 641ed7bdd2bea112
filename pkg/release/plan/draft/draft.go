// Package draft writes the first release.yaml of a Go project.
//
// [Discover] looks at a source tree, [Project.Write] writes what it found as a
// release.yaml that is complete, small, and meant to be edited:
//
//	p, err := draft.Discover(os.DirFS("."))
//	fmt.Printf("%s", p.Write())
//
// The result is a guess that a person must review. The package compiles nothing
// and uses no network.
//
// Other projects should not import this package: it changes without notice.
package draft

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"text/template"
)

// Project is what Discover found out about a source tree.
type Project struct {
	Name       string
	Repository string
	Mains      []Main   // programs, by directory
	Add        []string // files at the top that belong in every archive
	Platforms  []string
	// Modules reports whether a build must fetch Go modules: go.sum names some,
	// and there is no vendor directory with them.
	Modules bool
}

// Main is one program.
type Main struct {
	Name string // of the program
	Dir  string // "." or a path below it
}

// Package is the package path for go build.
func (m Main) Package() string {
	if m.Dir == "." {
		return "."
	}
	return "./" + m.Dir
}

// platforms are the platforms of most Go programs.
func platforms() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}
}

// shape is the template of the file.
var shape = template.Must(template.New("release.yaml").Parse(`# Written by waybill init. Every name in it is yours to change; see what it plans
# with: waybill plan VERSION --dir .
apiVersion: waybill/v1
kind: Release
name: {{.Name}}
source: {repository: "{{.Repository}}"}   # where users find the source
lock: release.lock.yaml                   # written by waybill lock
{{- if .Modules}}
modules: [.]                              # fetched before the steps run, as go.sum says
{{- end}}
defaults: {step: {tools: [go], root: scratch, network: none}}   # go and nothing else of the machine is there
lists:
  every: [{{.Every}}]
{{- if .Many}}
  bins: [{{.Bins}}]
{{- end}}
steps:
{{- range .Steps}}
- name: {{.Name}}
  each: {platform: every{{if .Each}}, bin: bins{{end}}}
  go: {package: "{{.Package}}", ldflags: "-s -w"}
  outputs: [{class: binary, name: "bin/{os}/{arch}/{{.Bin}}{exe}"}]
{{- end}}
- name: pack
  each: {platform: every}
  archive: {format: tar.gz, root: {{.Name}}{{if .Add}}, add: [{{.AddList}}]{{end}}, take: [{{.Take}}]}
  outputs: [{class: archive, name: "{{.Name}}_{version.number}_{os}_{arch}.tar.gz"}]
places:
  files: "https://dl.example.test/{{.Name}}/{version}/"   # where users will find it
`))

// compile is one step of the draft.
type compile struct {
	Name, Package, Bin string
	Each               bool
}

// Write writes the release.yaml of the project.
func (p Project) Write() []byte {
	view := struct {
		Project
		Every, Bins, Take, AddList string
		Many                       bool
		Steps                      []compile
	}{Project: p, Every: strings.Join(p.Platforms, ", "), AddList: quoted(p.Add)}
	parent := path.Dir(p.Mains[0].Dir)
	together := len(p.Mains) > 1
	for _, m := range p.Mains {
		together = together && path.Dir(m.Dir) == parent && path.Base(m.Dir) == m.Name && m.Dir != "."
	}
	var names []string
	for _, m := range p.Mains {
		names = append(names, m.Name)
		step := compile{Name: "compile", Package: m.Package(), Bin: m.Name}
		if len(p.Mains) > 1 {
			step.Name = "compile-" + m.Name
		}
		view.Steps = append(view.Steps, step)
	}
	view.Take = quoted(names)
	if together {
		view.Many, view.Bins, view.Take = true, quoted(names), "+bins"
		view.Steps = []compile{{Name: "compile", Package: "./" + path.Join(parent, "{bin}"), Bin: "{bin}", Each: true}}
	}
	var b bytes.Buffer
	if err := shape.Execute(&b, view); err != nil {
		panic("draft: a template of plain fields always executes: " + err.Error())
	}
	return b.Bytes()
}

func quoted(names []string) string {
	list := slices.Clone(names)
	for i, n := range list {
		list[i] = fmt.Sprintf("%q", n)
	}
	return strings.Join(list, ", ")
}
