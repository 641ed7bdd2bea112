package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Lock is a parsed release.lock.yaml: the digests of the names in release.yaml.
type Lock struct {
	Bases   map[string]BaseLock
	Tools   map[string]ToolLock
	Modules map[string]ModuleLock // by directory; "." is the top of the source
	// Downloads are other things that steps need from the network, by name.
	Downloads map[string]DownloadLock
}

// DownloadLock pins one download: its address, size and digest.
type DownloadLock struct {
	URL    string
	Size   int64 // in bytes
	Digest digest.Digest
}

// MaxDownload is the largest download that a lock may pin, in bytes.
const MaxDownload = 16 << 30

// BaseLock pins one base image. The tag is only where the digest was found, for
// waybill lock.
type BaseLock struct {
	Image  string
	Tag    string
	Digest digest.Digest
}

// ToolLock pins one tool: a program by the digest of its file, a Go toolchain
// by version and checksum, or an image.
type ToolLock struct {
	Program string
	Image   string
	Tag     string
	Digest  digest.Digest
	// Platforms pin a program for machines of several platforms, instead of
	// Digest. The keys are OS/ARCH. The values are sha256:… of the file or, of a
	// toolchain, h1:… of its module golang.org/toolchain as in go.sum.
	Platforms map[string]string
	// Toolchain is the version of Go, such as go1.26.8, whose files Platforms
	// pin; empty if only the program's file is pinned.
	Toolchain string
}

// PinOn is what pins the program on machines of a platform, OS/ARCH; empty if
// nothing does.
func (t ToolLock) PinOn(platform string) string {
	if t.Platforms != nil || t.Digest.IsZero() {
		return t.Platforms[platform]
	}
	return t.Digest.String()
}

// ModuleLock pins the dependencies of one Go module: the files that select
// them, and every module by its hash in go.sum.
type ModuleLock struct {
	GoMod   digest.Digest
	GoSum   digest.Digest // zero if there is no go.sum
	Require []string      // "path version h1:…", sorted
}

// ParseLock reads release.lock.yaml strictly. It returns all faults at once,
// each with line and column.
func ParseLock(raw []byte) (Lock, error) {
	r := &reader{}
	l := r.lock(r.root(raw))
	if err := refusal(LockName, r.faults); err != nil {
		return Lock{}, err
	}
	return l, nil
}

func (r *reader) lock(n node) (l Lock) {
	top := n.object("apiVersion", "kind", "bases", "tools", "modules", "downloads")
	if !n.given() || !top.kind("Lock") {
		return l
	}
	keys, values := top.get("bases").pairs("a mapping from names to images")
	for i, key := range keys {
		o := values[i].object("image", "tag", "digest")
		b := BaseLock{Image: o.need("image", "a base needs an image").text().s, Tag: o.get("tag").text().s, Digest: o.need("digest", "a base needs a sha256 digest").sha256()}
		put(&l.Bases, key.s, b)
	}
	keys, values = top.get("tools").pairs("a mapping from names to tools")
	for i, key := range keys {
		put(&l.Tools, key.s, values[i].tool())
	}
	keys, values = top.get("modules").pairs("a mapping from directories to modules")
	for i, key := range keys {
		put(&l.Modules, key.s, values[i].module())
	}
	keys, values = top.get("downloads").pairs("a mapping from names to downloads")
	for i, key := range keys {
		o := values[i].object("url", "size", "digest")
		put(&l.Downloads, key.s, DownloadLock{
			URL:    o.need("url", "a download needs its address").address().s,
			Size:   o.need("size", "a download needs its size in bytes").number(1, MaxDownload),
			Digest: o.need("digest", "a download needs a sha256 digest").sha256(),
		})
	}
	return l
}

// The forms of a platform, of the version of a released Go toolchain, and of a
// checksum in go.sum.
var (
	platformForm  = pattern.Lazy(`\A[a-z0-9]+/[a-z0-9]+\z`)
	toolchainForm = pattern.Lazy(`\Ago[1-9][0-9]*(\.[0-9]+){1,2}((rc|beta)[0-9]+)?\z`)
	checksumForm  = pattern.Lazy(`\Ah1:[A-Za-z0-9+/]{43}=\z`)
)

func (n node) tool() ToolLock {
	o := n.object("program", "toolchain", "image", "tag", "digest", "platforms")
	t := ToolLock{Program: o.get("program").text().s, Toolchain: o.get("toolchain").text().s, Image: o.get("image").text().s, Tag: o.get("tag").text().s}
	keys, values := o.get("platforms").pairs("a mapping from OS/ARCH to digests")
	for i, key := range keys {
		if !platformForm().MatchString(key.s) {
			values[i].fail("%s: want OS/ARCH", quote(key.s))
		}
		if sum := values[i].text().s; t.Toolchain == "" {
			put(&t.Platforms, key.s, values[i].sha256().String())
		} else if put(&t.Platforms, key.s, sum); !checksumForm().MatchString(sum) {
			values[i].fail("%s: want h1: and the checksum of a toolchain", quote(sum))
		}
	}
	if !o.get("platforms").given() {
		t.Digest = o.need("digest", "a tool needs a sha256 digest").sha256()
	}
	switch {
	case (t.Program == "") == (t.Image == "") || t.Program != "" && t.Tag != "":
		n.fail("want a program, or an image with its tag")
	case o.get("platforms").given() && (t.Image != "" || len(keys) == 0 || o.get("digest").given()):
		n.fail("platforms pin a program, instead of digest, for at least one platform")
	case t.Toolchain != "" && (t.Platforms == nil || !toolchainForm().MatchString(t.Toolchain)):
		n.fail("want a toolchain such as go1.26.8, with platforms")
	}
	return t
}

func (n node) module() ModuleLock {
	o := n.object("goMod", "goSum", "require")
	m := ModuleLock{GoMod: o.need("goMod", "a module needs the digest of its go.mod").sha256()}
	m.GoSum = o.get("goSum").sha256()
	m.Require = wordsOf(o.get("require").wordsThat("modules", func(s string) bool { _, ok := parseRequire(s); return ok }, "%s: want path, version and h1: hash"))
	if !slices.IsSorted(m.Require) || len(m.Require) > 0 && m.GoSum.IsZero() {
		n.fail("goSum must be present and require sorted; write the file with waybill lock")
	}
	return m
}

func put[V any](m *map[string]V, key string, v V) {
	if *m == nil {
		*m = map[string]V{}
	}
	(*m)[key] = v
}

// sha256 reads a digest of the algorithm that all registries use.
func (n node) sha256() digest.Digest {
	t := n.text()
	if !t.given() {
		return digest.Digest{}
	}
	d, err := digest.Parse(t.s)
	if err != nil || d.Algorithm() != digest.SHA256 {
		n.fail("%s: want a sha256 digest", quote(t.s))
		return digest.Digest{}
	}
	return d
}

// Encode writes the lock. Equal locks are equal bytes.
func (l Lock) Encode() []byte {
	var b strings.Builder
	b.WriteString("# Written by waybill lock. Review it as a diff; change it by running the command again.\n")
	fmt.Fprintf(&b, "apiVersion: %s\nkind: Lock\n", apiVersion)
	heading(&b, "bases", len(l.Bases))
	for _, name := range sortedKeys(l.Bases) {
		v := l.Bases[name]
		fmt.Fprintf(&b, "  %q: {%s}\n", name, keyed("image", v.Image, "tag", v.Tag, "digest", v.Digest.String()))
	}
	heading(&b, "tools", len(l.Tools))
	for _, name := range sortedKeys(l.Tools) {
		v := l.Tools[name]
		fmt.Fprintf(&b, "  %q: {%s", name, keyed("program", v.Program, "toolchain", v.Toolchain, "image", v.Image, "tag", v.Tag, "digest", v.Digest.String()))
		var pinned []string
		for _, platform := range sortedKeys(v.Platforms) {
			pinned = append(pinned, strconv.Quote(platform), v.Platforms[platform])
		}
		if pinned != nil {
			fmt.Fprintf(&b, ", platforms: {%s}", keyed(pinned...))
		}
		b.WriteString("}\n")
	}
	heading(&b, "modules", len(l.Modules))
	for _, dir := range sortedKeys(l.Modules) {
		m := l.Modules[dir]
		fmt.Fprintf(&b, "  %q:\n    goMod: %q\n", dir, m.GoMod)
		if !m.GoSum.IsZero() {
			fmt.Fprintf(&b, "    goSum: %q\n", m.GoSum)
		}
		if len(m.Require) > 0 {
			b.WriteString("    require:\n")
		}
		for _, r := range m.Require {
			fmt.Fprintf(&b, "    - %q\n", r)
		}
	}
	heading(&b, "downloads", len(l.Downloads))
	for _, name := range sortedKeys(l.Downloads) {
		d := l.Downloads[name]
		fmt.Fprintf(&b, "  %q: {url: %q, size: %d, digest: %q}\n", name, d.URL, d.Size, d.Digest)
	}
	return []byte(b.String())
}

func heading(b *strings.Builder, title string, entries int) {
	if entries > 0 {
		fmt.Fprintf(b, "%s:\n", title)
	}
}

// keyed writes members of a mapping on one line, from keys and values; those
// without a value are left out.
func keyed(pairs ...string) string {
	var parts []string
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			parts = append(parts, fmt.Sprintf("%s: %q", pairs[i], pairs[i+1]))
		}
	}
	return strings.Join(parts, ", ")
}

// Needs is what release.yaml needs pinned, each list sorted.
type Needs struct {
	Bases   []string
	Tools   []string
	Modules []string // directories
	// Downloads are addresses by name.
	Downloads map[string]string
}

// Needs lists what the lock must pin.
func (c Config) Needs() Needs {
	return Needs{Bases: wordsOf(c.bases()), Tools: wordsOf(c.tools()), Modules: wordsOf(c.moduleDirs()), Downloads: c.addresses()}
}

// moduleDirs are the declared modules and those that go steps compile.
func (c Config) moduleDirs() []text {
	list := slices.Clone(c.modules)
	for _, s := range c.steps {
		if s.gobuild == nil || !c.lock.given() {
			continue
		}
		dir := text{s: ".", at: s.at}
		if s.gobuild.dir.given() {
			dir = s.gobuild.dir
		}
		list = append(list, dir)
	}
	return distinct(list)
}

func wordsOf(list []text) []string {
	return slice.Map(list, func(t text) string { return t.s })
}

// Covers refuses a lock that does not pin exactly the names in release.yaml. A
// name without a digest could mean anything, and an unused pin shows that the
// two files do not belong together.
func (l Lock) Covers(c Config) error {
	needs := c.Needs()
	var faults []string
	for _, part := range []struct {
		what   string
		needed []string
		pinned []string
	}{
		{"base", needs.Bases, sortedKeys(l.Bases)},
		{"tool", needs.Tools, sortedKeys(l.Tools)},
		{"module", needs.Modules, sortedKeys(l.Modules)},
		{"download", sortedKeys(needs.Downloads), sortedKeys(l.Downloads)},
	} {
		for _, name := range part.needed {
			if !slices.Contains(part.pinned, name) {
				faults = append(faults, fmt.Sprintf("the lock does not pin %s %s", part.what, quote(name)))
			}
		}
		for _, name := range part.pinned {
			if !slices.Contains(part.needed, name) {
				faults = append(faults, fmt.Sprintf("the lock pins %s %s, which release.yaml does not use", part.what, quote(name)))
			}
		}
	}
	for _, name := range sortedKeys(needs.Downloads) {
		if d, pinned := l.Downloads[name]; pinned && d.URL != needs.Downloads[name] {
			faults = append(faults, fmt.Sprintf("the lock pins download %s at %s, but release.yaml says %s", quote(name), quote(d.URL), quote(needs.Downloads[name])))
		}
	}
	if err := stale(faults); err != nil {
		return err
	}
	return l.oneRoot(c)
}

// RootOf is the tool of a step that the lock pins as an image, if there is one:
// the step runs in its file system.
func (l Lock) RootOf(step Step) (name string, t ToolLock, ok bool) {
	for _, name := range step.Tools {
		if t = l.Tools[name]; t.Image != "" {
			return name, t, true
		}
	}
	return "", ToolLock{}, false
}

// oneRoot refuses a step with two tools pinned as images: it can only run in
// one of them.
func (l Lock) oneRoot(c Config) error {
	var faults Faults
	for _, s := range c.steps {
		if !s.runs() {
			continue
		}
		root := ""
		for _, t := range s.surroundings.withDefaults(c.defaults.step).tools {
			switch {
			case l.Tools[t.s].Image == "":
			case root != "":
				faults = append(faults, t.at.fault("step %s: tools %s and %s are both pinned as images, and a step runs in one; make one image of them, or two steps",
					quote(s.name.s), quote(root), quote(t.s)))
			default:
				root = t.s
			}
		}
	}
	return refusal(ConfigName, faults)
}

func stale(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return verdict.Refuse(verdict.LockStale, LockName, "%s", strings.Join(faults, "\n"))
}
