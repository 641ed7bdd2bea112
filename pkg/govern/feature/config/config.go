// Package config sets up a reconciler of features: from the reviewed file with the
// desired states and the reporters, with the signer of transitions, and with the loop
// of passes.
//
//	c, err := config.ParseConfig(raw, dir, known.Registry())
//	…
//	r, err := c.Reconciler(config.World{Site: site, Registry: known.Registry(), Deeds: deeds, Signer: signer, Version: v})
//	c.Loop(ctx, r, func(pass context.Context, did []reconcile.Pass, err error) { … })
//
// It knows no feature by name: the caller passes the table of features and their
// tasks, so a program with its own features, in its own namespace, is set up in the
// same way. Package feature decides when a state changes, and package reconcile runs
// the passes.
//
// Other projects should not import this package: it changes without notice.
package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/address"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Kind is the kind of the file.
const Kind = "Features"

// usual is the default time between two passes.
const usual = time.Minute

// Limits of the file.
const (
	maxReporters = 500
	maxIdentity  = 200
	maxPublic    = 1000
)

// Config is a file of kind Features: the reviewed configuration of a reconciler.
type Config struct {
	// Site is where the features are stored, and Profile the file that names
	// policy, trust root and signing services.
	Site, Profile string
	// Identity is the unique name of this reconciler, and Every the longest time
	// between two of its passes.
	Identity string
	Every    time.Duration
	// Expect has the reporters, by namespace, and Wishes the desired states.
	Expect map[string]reconcile.Expect
	Wishes reconcile.Wishes
	// Public are the repositories that audits and clean-ups visit, and Releases
	// the releases of the sign-off audit.
	Public   []string
	Releases []version.Version
}

// wire is the YAML form of the file.
type wire struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Site       string            `yaml:"site"`
	Profile    string            `yaml:"profile"`
	Identity   string            `yaml:"identity"`
	Every      *time.Duration    `yaml:"every"`
	Reporters  []reporter        `yaml:"reporters"`
	Window     *time.Duration    `yaml:"window"`
	Desired    map[string]wanted `yaml:"desired"`
	Dynamic    []string          `yaml:"dynamic"`
	Public     []string          `yaml:"public"`
	Releases   []string          `yaml:"releases"`
}

// reporter is a place where programs run that use features.
type reporter struct {
	Identity string        `yaml:"identity"`
	Every    time.Duration `yaml:"every"`
	// Namespace is the namespace of its features; nil for Waybill's.
	Namespace *string `yaml:"namespace"`
}

// wanted is the desired state of one feature.
type wanted struct {
	State string `yaml:"state"`
	// Scope limits where; everywhere if it is left out.
	Scope []string `yaml:"scope"`
}

// ParseConfig reads a configuration for the features of a table. Its paths are
// relative to dir. Values without effect are refused: a reviewer would believe that
// they have one.
func ParseConfig(raw []byte, dir string, known feature.Registry) (Config, error) {
	r := reader{raw: raw, known: known}
	if err := strictyaml.Unmarshal(raw, &r.file); err != nil {
		return Config{}, verdict.Wrap(verdict.ConfigParse, "features", err)
	}
	for _, part := range []func() error{r.head, r.reporters, r.window, r.desired, r.dynamic, r.public, r.releases} {
		if err := part(); err != nil {
			return Config{}, verdict.Wrap(verdict.ConfigParse, "features", err)
		}
	}
	r.Profile = beside(dir, r.Profile)
	if !strings.Contains(r.Site, "://") {
		r.Site = beside(dir, r.Site)
	}
	return r.Config, nil
}

func beside(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// reader turns a file into a Config, part by part.
type reader struct {
	Config
	file  wire
	raw   []byte
	known feature.Registry
}

// fail refuses the value at a path, by line and column.
func (r *reader) fail(path []any, format string, args ...any) error {
	return strictyaml.At(r.raw, path, "FEATURES_VALUE", fmt.Sprintf(format, args...))
}

func at(path ...any) []any { return path }

func (r *reader) head() error {
	w := r.file
	switch {
	case w.APIVersion != "waybill/v1" || w.Kind != Kind:
		return r.fail(nil, "apiVersion %.40q and kind %.40q: want waybill/v1 and %s", w.APIVersion, w.Kind, Kind)
	case w.Site == "":
		return r.fail(at("site"), "required: the directory or bucket where the features are stored")
	case w.Profile == "":
		return r.fail(at("profile"), "required: the file that names policy, trust root and signing services")
	case !featuretransition.IsNamespace(w.Identity):
		return r.fail(at("identity"), "%q: want a unique name of this reconciler, such as reconciler-0", w.Identity)
	}
	r.Site, r.Profile, r.Identity, r.Every = w.Site, w.Profile, w.Identity, usual
	if w.Every != nil {
		if *w.Every < time.Second {
			return r.fail(at("every"), "%s: want a time between two passes of at least 1s", *w.Every)
		}
		r.Every = *w.Every
	}
	return nil
}

func (r *reader) reporters() error {
	list := r.file.Reporters
	if len(list) == 0 {
		return r.fail(at("reporters"), "required: the programs that use the features, with the longest time between two runs of each; without them, no report would be waited for")
	}
	if len(list) > maxReporters {
		return r.fail(at("reporters"), "%d reporters, the limit is %d", len(list), maxReporters)
	}
	r.Expect = map[string]reconcile.Expect{}
	for i, one := range list {
		namespace := feature.CoreNamespace
		if one.Namespace != nil {
			namespace = *one.Namespace
		}
		e := r.Expect[namespace]
		switch {
		case !r.has(namespace):
			return r.fail(at("reporters", i, "namespace"), "%q: no known feature is in this namespace", namespace)
		case !oneline.Is(one.Identity, maxIdentity):
			return r.fail(at("reporters", i, "identity"), "%q: want the name under which its runs report (--report-as)", one.Identity)
		case slices.ContainsFunc(e.Reporters, func(o reconcile.Reporter) bool { return o.Identity == one.Identity }):
			return r.fail(at("reporters", i, "identity"), "%q is listed twice", one.Identity)
		case one.Every < time.Second:
			return r.fail(at("reporters", i, "every"), "%s: want the longest time between two of its runs, at least 1s", one.Every)
		}
		e.Reporters = append(e.Reporters, reconcile.Reporter{Identity: one.Identity, Every: one.Every})
		r.Expect[namespace] = e
	}
	for _, k := range r.known.Keys() {
		if _, expected := r.Expect[k.Namespace]; !expected {
			return r.fail(at("reporters"), "no reporter has namespace %s, so switching %s would wait for no program", k.Namespace, k)
		}
	}
	return nil
}

// has reports whether the table has features in a namespace.
func (r *reader) has(namespace string) bool {
	return slices.ContainsFunc(r.known.Keys(), func(k feature.Key) bool { return k.Namespace == namespace })
}

func (r *reader) window() error {
	if r.file.Window == nil {
		return nil
	}
	for _, namespace := range slices.Sorted(maps.Keys(r.Expect)) {
		e := r.Expect[namespace]
		for _, one := range e.Reporters {
			if *r.file.Window < one.Every {
				return r.fail(at("window"), "%s: shorter than the %s between two runs of %s, which could not report within it", *r.file.Window, one.Every, one.Identity)
			}
		}
		e.Window = *r.file.Window
		r.Expect[namespace] = e
	}
	return nil
}

func (r *reader) desired() error {
	if r.file.Desired != nil && len(r.file.Desired) == 0 {
		return r.fail(at("desired"), "empty; give a desired state, or leave the key out")
	}
	r.Wishes.Wanted = map[feature.Key]feature.Wanted{}
	for _, name := range slices.Sorted(maps.Keys(r.file.Desired)) {
		w := r.file.Desired[name]
		k, _, err := r.named(name, at("desired", name))
		if err != nil {
			return err
		}
		if _, twice := r.Wishes.Wanted[k]; twice {
			return r.fail(at("desired", name), "%s is named twice", k)
		}
		state := feature.State(w.State)
		if !state.IsSteady() {
			return r.fail(at("desired", name, "state"), `%q: want "On" or "Off"`, w.State)
		}
		if state == feature.Off && w.Scope != nil {
			return r.fail(at("desired", name, "scope"), "a scope is only for On: Off is off everywhere; to leave a repository out, list the others with On")
		}
		scope, err := r.scope(w.Scope, at("desired", name, "scope"))
		if err != nil {
			return err
		}
		r.Wishes.Wanted[k] = feature.Wanted{Desired: state, Scope: scope}
	}
	return nil
}

// scope reads a list of repositories; everything if the list was left out.
func (r *reader) scope(list []string, path []any) (feature.Scope, error) {
	if list == nil {
		return feature.Scope{Everything: true}, nil
	}
	repositories, err := r.repositories(list, path)
	return feature.Scope{Repositories: repositories}, err
}

// repositories reads and sorts a list of repositories, in canonical spelling. A
// repository that is empty, or listed twice in any spelling, is refused.
func (r *reader) repositories(list []string, path []any) ([]string, error) {
	if len(list) == 0 {
		return nil, r.fail(path, "empty; name a repository, or leave the key out")
	}
	if len(list) > maxPublic {
		return nil, r.fail(path, "%d repositories, the limit is %d", len(list), maxPublic)
	}
	var all []string
	for i, name := range list {
		one := append(slices.Clone(path), i)
		canonical, err := address.Canonical(name)
		if err != nil || (feature.Scope{Repositories: []string{name}}).Validate() != nil {
			return nil, r.fail(one, "%q: want a repository as host/path, in lower case", name)
		}
		if slices.Contains(all, canonical) {
			return nil, r.fail(one, "%q is listed twice", name)
		}
		all = append(all, canonical)
	}
	return slices.Sorted(slices.Values(all)), nil
}

func (r *reader) named(name string, path []any) (feature.Key, feature.Definition, error) {
	k, err := ParseName(name)
	if err != nil {
		return feature.Key{}, feature.Definition{}, r.fail(path, "%v", err)
	}
	d, known := r.known.Definition(k)
	if !known {
		return feature.Key{}, feature.Definition{}, r.fail(path, "unknown feature %s; known are %s", k, strings.Join(slice.Map(r.known.Keys(), feature.Key.Short), ", "))
	}
	return k, d, nil
}

func (r *reader) dynamic() error {
	if r.file.Dynamic != nil && len(r.file.Dynamic) == 0 {
		return r.fail(at("dynamic"), "empty; name a feature, or leave the key out")
	}
	for i, name := range r.file.Dynamic {
		path := at("dynamic", i)
		k, d, err := r.named(name, path)
		if err != nil {
			return err
		}
		_, desired := r.Wishes.Wanted[k]
		switch {
		case !d.Dynamic && len(d.RequiresFlags) > 0:
			return r.fail(path, "%s cannot be dynamic: it needs --%s, and the site cannot set flags", k, strings.Join(d.RequiresFlags, ", --"))
		case !d.Dynamic:
			return r.fail(path, "%s cannot be dynamic: its desired state must be reviewed; write it under desired", k)
		case desired:
			return r.fail(path, "%s is also under desired; leave one of the two out", k)
		case slices.Contains(r.Wishes.Dynamic, k):
			return r.fail(path, "%s is listed twice", k)
		}
		r.Wishes.Dynamic = append(r.Wishes.Dynamic, k)
	}
	return nil
}

func (r *reader) public() (err error) {
	if r.file.Public != nil {
		r.Public, err = r.repositories(r.file.Public, at("public"))
	}
	return err
}

func (r *reader) releases() error {
	if r.file.Releases != nil && len(r.file.Releases) == 0 {
		return r.fail(at("releases"), "empty; name a release, or leave the key out")
	}
	for i, text := range r.file.Releases {
		v, err := version.Parse(text)
		if err != nil {
			return r.fail(at("releases", i), "%v", err)
		}
		if slices.Contains(r.Releases, v) {
			return r.fail(at("releases", i), "%s is listed twice", v)
		}
		r.Releases = append(r.Releases, v)
	}
	return nil
}

// ParseName reads the name of a feature: NAMESPACE/Name, or only the name of a
// feature of Waybill.
func ParseName(text string) (feature.Key, error) {
	k := feature.Key{Namespace: feature.CoreNamespace, Name: text}
	if namespace, name, both := strings.Cut(text, "/"); both {
		k = feature.Key{Namespace: namespace, Name: name}
	}
	if !featuretransition.IsNamespace(k.Namespace) || !featuretransition.IsName(k.Name) {
		return feature.Key{}, verdict.Refuse(verdict.Usage, "feature", "%q: want a name such as RequireProvenance, or NAMESPACE/Name", text)
	}
	return k, nil
}
