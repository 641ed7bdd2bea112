package gate

import (
	"net/url"
	"strings"

	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// distribution matches the names of wheels and source distributions on PyPI.
var distribution = pattern.Lazy(`\A([^-].*?)-([^-]+)(?:(?:-[0-9][^-]*)?-[^-]+-[^-]+-[^-]+\.whl|\.tar\.gz|\.zip)\z`)

// packageOf reports whether the name of a subject is that of a package, asked for
// as NAME@VERSION: a package URL of npm, or the file of a distribution on PyPI,
// for which letters of either case, and - and _ and . in the name, are alike.
func packageOf(asked, subject string) bool {
	at := strings.LastIndexByte(asked, '@')
	if at < 1 || at == len(asked)-1 {
		return false
	}
	if npm, is := strings.CutPrefix(subject, "pkg:npm/"); is {
		name, err := url.PathUnescape(npm)
		return err == nil && name == asked
	}
	found := distribution().FindStringSubmatch(strings.ToLower(subject))
	normal := func(name string) string {
		return strings.Join(strings.FieldsFunc(name, func(r rune) bool { return strings.ContainsRune("-_.", r) }), "-")
	}
	return len(found) == 3 && normal(found[1]) == normal(strings.ToLower(asked[:at])) && found[2] == strings.ToLower(asked[at+1:])
}

// published compares the publication that npm states with the package that was
// asked for: name, version, and the registry that package URLs of npm mean.
func (a Ask) published(e verify.Evidence, subject string) error {
	const specification, registry = "https://github.com/npm/attestation/tree/main/specs/publish/", "https://registry.npmjs.org"
	if a.Package == "" || !strings.HasPrefix(e.Kind(), specification) {
		return nil
	}
	var said struct {
		Name     string `json:"name"`
		Version  string `json:"version"`
		Registry string `json:"registry"`
	}
	_ = strictjson.UnmarshalOpen(e.Statement().Predicate(), &said) // what cannot be read differs
	want, got := a.Package+" in "+registry, said.Name+"@"+said.Version+" in "+strings.TrimSuffix(said.Registry, "/")
	if got == want {
		return nil
	}
	return &verdict.Error{Finding: verdict.Find(verdict.Conflict, subject, "npm's statement is about one publication and names another").Differ(want, got).Citing(e.Bundle())}
}
