// Package draft writes the first release.yaml of a Go project.
//
// [Discover] looks at a source tree, [Project.Write] writes what it found as a
// release.yaml that is complete, small, and meant to be edited. Between them,
// [Project.Convert] takes over what a .goreleaser.yaml says:
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
	_ "embed" // of the template
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// Project is what is released.
type Project struct {
	Name       string
	Repository string
	// Place is the address where users find the files, with {version} in it;
	// Registry that of the images, if there are any.
	Place, Registry string
	Programs        []Program
	Archives        []Archive
	Images          []Image
	// Sidecars are the sums beside each file, such as sha256; usually none.
	Sidecars []string
	// Modules reports whether a build must fetch Go modules: go.sum names some,
	// and there is no vendor directory with them.
	Modules bool

	add []string // files at the top that belong in every archive
}

// Program is one Go program.
type Program struct {
	Name      string // of the program
	Package   string // as go build names it
	Dir       string // of its module; "" is the top
	LDFlags   string
	Tags      []string
	Env       map[string]string
	Cgo       bool
	Platforms []string
}

// Archive is one archive for each platform.
type Archive struct {
	Name      string // without the ending, which is that of the format
	Format    string
	Add, Take []string
	Platforms []string
}

// Image is one image. Base is what it is called in the lock, From where the
// lock finds it.
type Image struct {
	Name, Base, From string
	Files            map[string]string
	Entrypoint       []string
	User             string
	Platforms        []string
}

// platforms are the platforms of most Go programs.
func platforms() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}
}

// Bases is where the lock finds the base of each image.
func (p Project) Bases() map[string]string {
	all := map[string]string{}
	for _, i := range p.Images {
		if i.From != "" {
			all[i.Base] = i.From
		}
	}
	return all
}

//go:embed release.yaml.tmpl
var shape string

// list is a named list of release.yaml.
type list struct {
	Name  string
	Items []string
}

// step is a step of release.yaml. Each is the list of its platforms.
type step struct {
	Step, Each string
	Bins       bool // for each program of a list
	Program    Program
	Archive    Archive
	Image      Image
}

// writer gives names to lists and steps.
type writer struct {
	Project
	Lists []list
	Steps []step
	used  map[string]int
}

// Write writes the release.yaml of the project.
func (p Project) Write() []byte {
	w := &writer{Project: p, used: map[string]int{}}
	programs, bins := p.Programs, p.beside()
	if bins != nil {
		one := programs[0]
		one.Package, one.Name = "./"+path.Join(path.Dir(one.Package), "{bin}"), "{bin}"
		programs = []Program{one}
	}
	for _, one := range programs {
		name := "compile"
		if len(programs) > 1 {
			name += "-" + one.Name
		}
		w.Steps = append(w.Steps, step{Step: w.unique(name), Each: w.platforms(one.Platforms), Bins: bins != nil, Program: one})
	}
	for _, one := range p.Archives {
		name := map[bool]string{false: "pack", true: "zip"}[one.Format == "zip"]
		if bins != nil && slices.Equal(one.Take, bins) {
			one.Take = []string{"+bins"}
		}
		w.Steps = append(w.Steps, step{Step: w.unique(name), Each: w.platforms(one.Platforms), Archive: one})
	}
	for _, one := range p.Images {
		w.Steps = append(w.Steps, step{Step: w.unique("image-" + plainName(one.Name)), Each: w.platforms(one.Platforms), Image: one})
	}
	if bins != nil {
		w.Lists = append(w.Lists, list{"bins", bins})
	}
	return Fill(shape, w)
}

// Fill fills in a template of YAML, in which q quotes a value and qs the items
// of a list. The template and its view are of this program.
func Fill(shape string, view any) []byte {
	t := template.Must(template.New("").Funcs(template.FuncMap{"q": quoted, "qs": quotedList}).Parse(shape))
	var b bytes.Buffer
	if err := t.Execute(&b, view); err != nil {
		panic("draft: a template of plain fields always executes: " + err.Error())
	}
	return b.Bytes()
}

// beside lists the names of several programs that lie beside each other and
// differ in nothing else; nil if they do not.
func (p Project) beside() (names []string) {
	if len(p.Programs) < 2 {
		return nil
	}
	plain := func(one Program) string {
		one.Name, one.Package = "", path.Dir(one.Package)
		return fmt.Sprintf("%q", []any{one})
	}
	for _, one := range p.Programs {
		if path.Base(one.Package) != one.Name || plain(one) != plain(p.Programs[0]) {
			return nil
		}
		names = append(names, one.Name)
	}
	return names
}

// platforms names the list of these platforms.
func (w *writer) platforms(all []string) string {
	for _, l := range w.Lists {
		if slices.Equal(l.Items, all) {
			return l.Name
		}
	}
	systems := map[string]bool{}
	for _, p := range all {
		system, _, _ := strings.Cut(p, "/")
		systems[system] = true
	}
	name := "every"
	switch {
	case len(systems) == 1:
		name = plainName(slices.Collect(maps.Keys(systems))[0])
	case len(w.Lists) > 0 && !systems["windows"]:
		name = "unix"
	}
	l := list{w.unique(name), all}
	w.Lists = append(w.Lists, l)
	return l.Name
}

// unique numbers a name that is used already.
func (w *writer) unique(name string) string {
	if w.used[name]++; w.used[name] > 1 {
		return fmt.Sprintf("%s-%d", name, w.used[name])
	}
	return name
}

// quoted writes a value in quotes; YAML reads those of JSON.
func quoted(v any) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return strings.TrimSpace(b.String()), err
}

// isPlatform matches what needs no quotes.
var isPlatform = pattern.Lazy(`\A[a-z0-9]+/[a-z0-9]+\z`)

func quotedList(items []string) (string, error) {
	all := make([]string, len(items))
	for i, item := range items {
		if all[i] = item; isPlatform().MatchString(item) {
			continue
		}
		var err error
		if all[i], err = quoted(item); err != nil {
			return "", err
		}
	}
	return strings.Join(all, ", "), nil
}
