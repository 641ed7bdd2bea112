package k8slayout

import (
	"bytes"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// expectedText is a list without what Derive reads. requiredText are the texts
// that a script must have for the rest of the list to hold: without options all
// supported platforms are built, and packed into these archives; and each program
// with an image is published as an archive, with the tag beside it.
var (
	//go:embed expected.tmpl
	expectedText string
	//go:embed required.txt
	requiredText string
)

// Derive writes the list of a version of Kubernetes from the build scripts of its
// source, of which nothing is executed. A variable of isSet is set once, on the
// outermost level, as NAME=(WORD…) or from a function that only prints such an
// array. Any other line that names one, and any other file below RELEASE_TARS, is
// refused with file and line.
func Derive(v version.Version, commit string, read func(path string) ([]byte, error)) ([]byte, error) {
	s := &scripts{lists: map[string][]string{}}
	for _, script := range []string{"build/lib/release.sh", "build/common.sh", "hack/lib/golang.sh"} {
		raw, err := read(script)
		if err == nil {
			s.path, s.text = script, isComment().ReplaceAllString(string(raw), "")
			err = s.read()
		}
		if err != nil {
			return nil, err
		}
	}
	for _, name := range s.lists["KUBE_NODE_TARGETS"] {
		if !slices.Contains(s.lists["KUBE_SERVER_TARGETS"], name) {
			return nil, s.refuse(0, "the program %s of nodes is not built for servers", name)
		}
	}
	s.lists["node only"] = slices.DeleteFunc(slices.Clone(s.lists["KUBE_SUPPORTED_NODE_PLATFORMS"]), func(p string) bool {
		return slices.Contains(s.lists["KUBE_SUPPORTED_SERVER_PLATFORMS"], p)
	})
	words := []string{"{{minor}}", fmt.Sprintf("%d.%d", v.Major(), v.Minor()), "{{tag}}", v.String(), "{{commit}}", commit}
	for name, list := range s.lists {
		words = append(words, "{{"+name+"}}", strings.Join(list, ", "))
	}
	text := strings.NewReplacer(words...).Replace(expectedText)
	if _, unset, is := strings.Cut(text, "{{"); is {
		name, _, _ := strings.Cut(unset, "}}")
		return nil, s.refuse(0, "no script sets %s", name)
	}
	_, err := ParseList([]byte(text))
	return []byte(text), err
}

// scripts are the lists of platforms and programs that were read, by variable or
// function, and the script that is being read.
type scripts struct {
	path, text string
	lists      map[string][]string
}

var (
	isComment = pattern.Lazy(`(?m)^[ \t]*#.*$`)
	// isNamed finds what must be understood: a variable, except in an expansion
	// such as "${NAME[@]}", and the definition of a function.
	isNamed = pattern.Lazy(`(?:^|[^{A-Za-z0-9_])(KUBE_SUPPORTED_[A-Z_]*PLATFORMS|KUBE_(?:SERVER|NODE|CLIENT)_TARGETS)\b|\bRELEASE_TARS\b` +
		`|kube::(?:golang::(?:server|node|client)_targets|build::get_docker_wrapped_binaries)\(\)`)
	isSet = pattern.Lazy(`(?m)^(?:(?:readonly )?(KUBE_SUPPORTED_(?:SERVER|NODE|CLIENT|TEST)_PLATFORMS|KUBE_(?:SERVER|NODE|CLIENT)_TARGETS)=\(([^()]*)\)` +
		`|IFS=" " read -ra (KUBE_(?:SERVER|NODE|CLIENT)_TARGETS) <<< "\$\((kube::golang::[a-z_]+)\)"` +
		`|(kube::golang::(?:server|node|client)_targets|kube::build::get_docker_wrapped_binaries)\(\) \{\s+local targets=\(([^()]*)\)\s+echo "\$\{targets\[@\]\}"\s+\}` +
		`|readonly KUBE_[A-Z]+_TARGETS)$`)
	isWord = pattern.Lazy(`\A(?:([a-z0-9][A-Za-z0-9._/-]*)|"([a-z0-9][a-z0-9-]*),\$\{[A-Z_]+\}")\z`)
	begins = pattern.Lazy(`(?m)^(?:(?:if|for|while|until|case)\b|\S.*[({]$)`)
	ends   = pattern.Lazy(`(?m)^(?:fi|done|esac|\}|\))`)
)

// refuse refuses what is at a place in the script.
func (s *scripts) refuse(at int, format string, args ...any) error {
	return verdict.Refuse(verdict.ConfigParse, fmt.Sprintf("%s:%d", s.path, 1+strings.Count(s.text[:at], "\n")), format, args...).
		Advise("read the script there; if it says the same in a new form, write the list by hand (waybill schema expected) and report it")
}

// read reads the script, and refuses what it does not understand. Each text that
// is required of it is there, and may name what is below RELEASE_TARS.
func (s *scripts) read() error {
	rest, missing := []byte(s.text), ""
	for _, m := range isSet().FindAllStringSubmatchIndex(s.text, -1) {
		if err := s.set(m[0], func(n int) string { return s.text[max(m[2*n], 0):max(m[2*n+1], 0)] }); err != nil {
			return err
		}
		clear(rest[m[0]:m[1]])
	}
	for line := range strings.Lines(requiredText) {
		script, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "|")
		if script == s.path && !bytes.Contains(rest, []byte(text)) {
			missing = text
		} else if script == s.path {
			rest = bytes.ReplaceAll(rest, []byte(text), make([]byte, len(text)))
		}
	}
	if m := isNamed().FindIndex(rest); m != nil {
		return s.refuse(m[1], "%s is used in a form that is not understood", strings.TrimSpace(s.text[m[0]:m[1]]))
	}
	if missing != "" {
		return s.refuse(len(s.text), "the script no longer has %q", missing)
	}
	return nil
}

// set sets a variable, or keeps what a function prints: a match of isSet.
func (s *scripts) set(at int, part func(n int) string) error {
	name, list := part(1)+part(3)+part(5), s.lists[part(4)]
	for _, word := range strings.Fields(part(2) + part(6)) {
		w := isWord().FindStringSubmatch(word)
		if w == nil {
			return s.refuse(at+strings.Index(s.text[at:], word), "%s: %.80q is no plain word", name, word)
		}
		if word = w[1] + w[2]; !strings.HasSuffix(name, "PLATFORMS") {
			word = path.Base(word) // as "${TARGETS[@]##*/}"
		}
		list = append(list, word)
	}
	conditional := len(begins().FindAllString(s.text[:at], -1)) != len(ends().FindAllString(s.text[:at], -1))
	if name != "" && (conditional || s.lists[name] != nil || len(list) == 0) {
		return s.refuse(at, "%s is set under a condition, twice, or to nothing that is understood", name)
	}
	s.lists[name] = list
	return nil
}
