// Package plan reads release.yaml and expands it into the plan of a release:
// a value that lists every step and every artifact to come, and nothing else.
//
// The producer's pipeline builds what the plan says; the seal lists what the
// plan says; a verifier expands the published release.yaml itself and compares.
// Nothing is implicit: signatures, SBOMs, provenance and checksum files are
// artifacts of the plan like any other.
//
//	config, err := plan.ParseConfig(releaseYAML)
//	p, err := config.Expand(v)
//	for _, a := range p.Artifacts { fmt.Println(a.Name, a.Class) }
//
// It owns the file format, its lock and its expansion. It runs nothing,
// resolves no ref and opens no file. The README beside this file is the
// reference of the format.
package plan

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Names of the configuration files, in the source and in the release.
const (
	ConfigName = "release.yaml"
	LockName   = "release.lock.yaml"
)

const apiVersion = "waybill/v1"

// Config is a parsed release.yaml, made by [ParseConfig]. The zero Config is
// refused.
type Config struct {
	project
	pinning
	published
	making
	parameters []Parameter
	defaults   defaults
	lists      lists
	places     places
}

// project says what is released, and from which source.
type project struct {
	name       text
	version    versioning
	repository text
	commit     string // the rule that ties the tag to the commit to build
}

// pinning says what the lock pins besides the names in steps.
type pinning struct {
	lock    text
	modules []text
	// downloads are names and addresses, in the order of the file.
	downloads []pair
}

// making says who makes the release: our steps, or another tool that made the
// files and leaves some of them unreleased.
type making struct {
	steps   []step
	given   []given
	outside []output
}

// published are the files about the whole release.
type published struct {
	v02     bool // also write provenance in the legacy form
	sboms   sboms
	markers []text
}

// versioning says how versions are written, and which tag a version has.
type versioning struct {
	scheme string
	tag    text
}

// The rules of source.releaseCommit.
const (
	// commitTagged: the tag names the commit to build.
	commitTagged = "tagged"
	// commitEmptyChild: the tag may name an empty commit whose only parent is
	// the commit to build.
	commitEmptyChild = "empty-child"
)

// sboms name the documents about the whole release.
type sboms struct{ release, source, supplier text }

// Name is the name of the project.
func (c Config) Name() string { return c.name.s }

// Repository is the canonical address of the source.
func (c Config) Repository() string { return c.repository.s }

// ReleaseCommit is the rule by which a tag determines the commit to build.
func (c Config) ReleaseCommit() string { return c.commit }

// Locked reports whether the configuration has a release.lock.yaml.
func (c Config) Locked() bool { return c.lock.given() }

// Parameters are what the caller of a build can choose; usually none.
func (c Config) Parameters() []Parameter { return slices.Clone(c.parameters) }

// ParseConfig reads release.yaml strictly and checks everything that needs no
// version. It returns all faults at once, each with line and column, as
// [Faults].
func ParseConfig(raw []byte) (Config, error) {
	r := &reader{}
	c := r.config(r.root(raw))
	if err := refusal(ConfigName, r.faults); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (r *reader) config(n node) (c Config) {
	top := n.object("apiVersion", "kind", "name", "version", "source", "lock", "modules", "downloads", "parameters",
		"defaults", "lists", "steps", "outputs", "outside", "provenance", "sboms", "places", "markers")
	if !n.given() || top.members == nil {
		return c
	}
	if !top.kind("Release") {
		return c
	}
	c.name = top.need("name", "name the project").text()
	if c.name.given() && !isName(c.name.s) {
		top.get("name").fail("%s: want lower-case letters, digits and dashes", quote(c.name.s))
	}
	v := top.get("version").object("scheme", "tag")
	c.version = versioning{scheme: v.get("scheme").choice("kubernetes"), tag: v.get("tag").text()}
	c.readSource(top)
	c.modules = top.get("modules").wordsThat("directories of Go modules", func(s string) bool { return isSourcePath(s) || s == "." }, "%s: want a clean path of the source, or \".\"")
	c.downloads = readDownloads(top.get("downloads"))
	c.parameters = readParameters(top.get("parameters"))
	c.lists = readLists(top.get("lists"))
	c.defaults = readDefaults(top.get("defaults"))
	c.readMakers(top)
	c.v02 = readProvenance(top.get("provenance"))
	s := top.get("sboms").object("release", "source", "supplier")
	c.sboms = sboms{release: s.get("release").text(), source: s.get("source").text(), supplier: s.get("supplier").text()}
	c.readPlaces(top)
	c.markers = top.get("markers").words("names of version markers")
	c.checkLocked(top)
	return c
}

// kind requires apiVersion and kind.
func (o object) kind(want string) bool {
	v, k := o.get("apiVersion").text().s, o.get("kind").text().s
	if v == apiVersion && k == want {
		return true
	}
	o.fail("want apiVersion %s and kind %s", apiVersion, want)
	return false
}

func (c *Config) readSource(top object) {
	o := top.need("source", "name the canonical repository as source.repository").object("repository", "releaseCommit")
	c.repository = o.need("repository", "name the canonical repository").text()
	c.commit = o.get("releaseCommit").choice(commitTagged, commitEmptyChild)
	if c.lock = top.get("lock").text(); c.lock.given() && c.lock.s != LockName {
		top.get("lock").fail("%s; want %q", quote(c.lock.s), LockName)
	}
}

// readProvenance reads the forms in which provenance is written, and whether
// the legacy form is one of them. v1 is mandatory, since only v1 is evidence.
func readProvenance(n node) (v02 bool) {
	if !n.given() {
		return false
	}
	first := false
	for _, t := range n.words("v1, or v1 and v0.2") {
		switch t.s {
		case "v1":
			first = true
		case "v0.2":
			v02 = true
		default:
			n.r.faults = append(n.r.faults, t.at.fault("%s; want v1 or v0.2", quote(t.s)))
		}
	}
	if !first {
		n.fail("v1 is required; v0.2 is only a copy for older readers and no evidence")
	}
	return v02
}

// checkLocked refuses names that only a lock can resolve if there is no lock.
func (c *Config) checkLocked(top object) {
	if c.lock.given() || !top.given() {
		return
	}
	needs := slices.Concat(c.bases(), c.tools(), c.modules)
	for _, d := range c.downloads {
		needs = append(needs, d.key)
	}
	if len(needs) == 0 {
		return
	}
	top.r.faults = append(top.r.faults, needs[0].at.fault(
		"%s is pinned nowhere; add \"lock: %s\" and run waybill lock", quote(needs[0].s), LockName))
}

// bases are the base images that steps name, each once.
func (c Config) bases() (list []text) {
	for _, s := range c.steps {
		if s.image != nil && s.image.base.given() && s.image.base.s != Scratch {
			list = append(list, s.image.base)
		}
	}
	return distinct(list)
}

// tools are the tools that steps use, each once.
func (c Config) tools() (list []text) {
	for _, s := range c.steps {
		if s.runs() {
			list = append(list, s.surroundings.withDefaults(c.defaults.step).tools...)
		}
	}
	return distinct(list)
}

func distinct(list []text) []text {
	slices.SortStableFunc(list, func(a, b text) int { return strings.Compare(a.s, b.s) })
	return slices.CompactFunc(list, func(a, b text) bool { return a.s == b.s })
}

// isName checks the grammar of names that become part of file names, tags and
// URIs.
func isName(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// invalid is the error for a bad request, as opposed to a bad file.
func invalid(subject, format string, args ...any) error {
	return verdict.Refuse(verdict.Usage, subject, format, args...)
}
