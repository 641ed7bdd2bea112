package k8slayout

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/policies"
)

// List names the files that the source of a project says each release of one
// minor version has, without digests. A release may have more. The zero List
// names none.
type List struct {
	minor     string
	digest    digest.Digest // of its file
	sources   []ListSource
	files     []string
	images    []string
	platforms []string
}

// ListSource is where a part of a list was read.
type ListSource struct {
	Name       string `yaml:"name"`
	Repository string `yaml:"repository"`
	Path       string `yaml:"path"`
	Commit     string `yaml:"commit"`
	// Of is the release that it says it describes, if it says so.
	Of string `yaml:"of"`
}

// ListKind is the kind of the file of a list.
const ListKind = "ExpectedRelease"

type listFile struct {
	APIVersion string              `yaml:"apiVersion"`
	Kind       string              `yaml:"kind"`
	Project    string              `yaml:"project"`
	Minor      string              `yaml:"minor"`
	Sources    []ListSource        `yaml:"sources"`
	Lists      map[string][]string `yaml:"lists"`
	Files      []listed            `yaml:"files"`
	Images     struct {
		From  []string `yaml:"from"`
		Names []string `yaml:"names"`
		On    string   `yaml:"on"`
	} `yaml:"images"`
}

// listed is a template of file names: one name for each platform of a list, and
// for each of some programs.
type listed struct {
	From []string `yaml:"from"`
	Name string   `yaml:"name"`
	On   string   `yaml:"on"`
	Bins []string `yaml:"bins"`
}

var (
	commitPattern   = pattern.Lazy(`\A[0-9a-f]{40}\z`)
	minorPattern    = pattern.Lazy(`\A(?:0|[1-9][0-9]{0,4})\.(?:0|[1-9][0-9]{0,4})\z`)
	platformPattern = pattern.Lazy(`\A[a-z]+/[a-z0-9]+\z`)
)

// Kubernetes returns the embedded list for a version of Kubernetes. known is
// false for a minor version without a list.
func Kubernetes(v version.Version) (l List, known bool, err error) {
	minor := fmt.Sprintf("%d.%d", v.Major(), v.Minor())
	raw, err := policies.Read("kubernetes/expected/" + minor)
	if errors.Is(err, fs.ErrNotExist) {
		return List{}, false, nil
	}
	if err == nil {
		l, err = ParseList(raw)
	}
	if err == nil && l.minor != minor {
		err = verdict.Refuse(verdict.ConfigParse, "expected list", "the list of %s describes %s", minor, l.minor)
	}
	return l, err == nil, err
}

// ParseList reads a file of kind ExpectedRelease. It refuses parts without
// effect, such as an unused source or list, and templates with a placeholder
// that is not filled.
func ParseList(raw []byte) (l List, err error) {
	var f listFile
	err = strictyaml.Unmarshal(raw, &f)
	if err == nil {
		l, err = f.list()
		l.digest = digest.Of(digest.SHA256, raw)
	}
	if err != nil {
		return List{}, verdict.Wrap(verdict.ConfigParse, "expected list", err)
	}
	return l, nil
}

func (f listFile) list() (List, error) {
	switch {
	case f.APIVersion != "waybill/v1" || f.Kind != ListKind:
		return List{}, fmt.Errorf("want apiVersion waybill/v1 and kind ExpectedRelease")
	case f.Project == "" || !minorPattern().MatchString(f.Minor):
		return List{}, fmt.Errorf("want a project, and a minor version such as 1.31")
	case len(f.Files) == 0:
		return List{}, fmt.Errorf("files: empty")
	}
	x := &expander{lists: f.Lists, used: map[string]bool{}}
	for _, s := range f.Sources {
		if s.Name == "" || s.Repository == "" || s.Path == "" || !commitPattern().MatchString(s.Commit) {
			return List{}, fmt.Errorf("source %q: want a name, a repository, a path and the full commit at which it was read", s.Name)
		}
		x.sources = append(x.sources, s.Name)
	}
	l := List{minor: f.Minor, sources: f.Sources}
	for _, t := range f.Files {
		names, err := x.expand(t)
		if err != nil {
			return List{}, fmt.Errorf("file %q: %w", t.Name, err)
		}
		l.files = append(l.files, names...)
	}
	if len(f.Images.Names) > 0 {
		var err error
		if l.images = f.Images.Names; !x.from(f.Images.From) {
			return List{}, fmt.Errorf("images: from: no such source")
		}
		if l.platforms, err = x.platforms(f.Images.On, 0); err != nil {
			return List{}, fmt.Errorf("images: %w", err)
		}
	}
	return l, x.unused(l.files)
}

// expander expands templates to names, and records which sources and lists were
// used.
type expander struct {
	sources []string
	lists   map[string][]string
	used    map[string]bool
}

func (x *expander) from(names []string) bool {
	for _, name := range names {
		if !slices.Contains(x.sources, name) {
			return false
		}
		x.used["source "+name] = true
	}
	return len(names) > 0
}

// platforms returns the platforms of a list; "+other" includes another list.
func (x *expander) platforms(name string, depth int) (all []string, err error) {
	list := x.lists[name]
	if len(list) == 0 || depth > len(x.lists) {
		return nil, fmt.Errorf("list %q: does not exist, is empty, or includes itself", name)
	}
	x.used["list "+name] = true
	for _, word := range list {
		some := []string{word}
		if other, includes := strings.CutPrefix(word, "+"); includes {
			if some, err = x.platforms(other, depth+1); err != nil {
				return nil, err
			}
		} else if !platformPattern().MatchString(word) {
			return nil, fmt.Errorf("list %q: %q is not a platform", name, word)
		}
		all = append(all, some...)
	}
	return all, nil
}

func (x *expander) expand(t listed) (names []string, err error) {
	if !x.from(t.From) {
		return nil, fmt.Errorf("from: no such source")
	}
	platforms, bins := []string{""}, []string{""}
	if t.On != "" {
		if platforms, err = x.platforms(t.On, 0); err != nil {
			return nil, err
		}
	}
	if len(t.Bins) > 0 {
		bins = t.Bins
	}
	for _, platform := range platforms {
		system, arch, _ := strings.Cut(platform, "/")
		exe := ""
		if system == "windows" {
			exe = ".exe"
		}
		for _, bin := range bins {
			name := t.Name
			for _, w := range [][2]string{{"{os}", system}, {"{arch}", arch}, {"{bin}", bin}} {
				if strings.Contains(name, w[0]) != (w[1] != "") {
					return nil, fmt.Errorf("placeholder %s is used without a value, or has a value and is not used", w[0])
				}
				name = strings.ReplaceAll(name, w[0], w[1])
			}
			name = strings.ReplaceAll(name, "{exe}", exe)
			if reason := badName(name); reason != "" {
				return nil, errors.New(reason)
			}
			names = append(names, name)
		}
	}
	return names, nil
}

// unused refuses unused lists and sources, and names that occur twice.
func (x *expander) unused(files []string) error {
	for name := range x.lists {
		if !x.used["list "+name] {
			return fmt.Errorf("list %q: not used", name)
		}
	}
	for _, name := range x.sources {
		if !x.used["source "+name] {
			return fmt.Errorf("source %q: not used", name)
		}
	}
	sorted := slices.Sorted(slices.Values(files))
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return fmt.Errorf("file %q: listed twice", sorted[i])
		}
	}
	return nil
}

// IsZero reports whether l is the zero List.
func (l List) IsZero() bool { return l.minor == "" }

// Statement is what the role policy signs: that a file with this text is the list.
func (l List) Statement(file string, raw []byte) (intoto.Statement, error) {
	return signedpolicy.New(file, digest.SetOf(raw), signedpolicy.Predicate{Name: "expected-kubernetes-" + l.minor, Sequence: 1})
}

// Minor is the minor version of the list, such as 1.31.
func (l List) Minor() string { return l.minor }

// Digest is that of the file of the list.
func (l List) Digest() digest.Digest { return l.digest }

// Sources says what the list was read from.
func (l List) Sources() []ListSource { return slices.Clone(l.sources) }

// Witness returns the list as a witness: it names files, without digests.
func (l List) Witness() Witness {
	w := Witness{name: "the list of " + l.minor, independent: true, claims: map[string]digest.Set{}, images: map[Image]Built{}}
	for _, name := range l.files {
		w.claims[name] = digest.Set{}
	}
	for _, name := range l.images {
		for _, platform := range l.platforms {
			w.images[Image{name, platform}] = Built{}
		}
	}
	return w
}
