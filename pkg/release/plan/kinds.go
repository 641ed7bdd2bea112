package plan

import (
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// Scratch is the empty base image, which needs no pin.
const Scratch = "scratch"

// The formats of an archive.
const (
	formatTarGz = "tar.gz"
	formatZip   = "zip"
)

// account is a user with a group, in numbers: names need a file of the image.
var account = pattern.Lazy(`^(0|[1-9][0-9]{0,8}):(0|[1-9][0-9]{0,8})$`)

// gobuild is the built-in step that compiles one Go program.
type gobuild struct {
	main    text // package to compile
	dir     text // directory of the module, if it is not the top of the source
	ldflags text
	tags    []text
	cgo     bool
}

// archive is the built-in step that packs files under one directory.
type archive struct {
	at     where
	format string
	root   text
	add    []text
	take   taking
}

// image is the built-in step that assembles one image for several platforms.
type image struct {
	at         where
	base       text
	imported   text // in place of base, files and entrypoint
	platforms  []text
	files      []pair
	entrypoint []text
	user       text // the account it runs as; not given, the base says
}

// checksums is the built-in step that lists the digests of earlier outputs.
type checksums struct {
	at        where
	algorithm string
	take      taking
}

func readGo(n node) *gobuild {
	if !n.given() {
		return nil
	}
	o := n.object("package", "dir", "ldflags", "tags", "cgo")
	g := &gobuild{main: o.get("package").text(), dir: o.get("dir").text(), ldflags: o.get("ldflags").text(), cgo: o.get("cgo").boolean()}
	if g.dir.given() && !isSourcePath(g.dir.s) {
		o.get("dir").fail("%s: want a clean path of the source", quote(g.dir.s))
	}
	g.tags = o.get("tags").words("build tags")
	return g
}

func (c *Config) readArchive(n node) *archive {
	if !n.given() {
		return nil
	}
	o := n.object("format", "root", "add", "take")
	a := &archive{at: n.at, format: o.need("format", "want tar.gz or zip").choice(formatTarGz, formatZip), root: o.get("root").text()}
	a.add = o.get("add").wordsThat("files of the source", isSourcePath, "%s: want a clean path of the source")
	a.take = c.readTake(o.get("take"))
	if !isName(a.root.s) {
		o.get("root").placed(n).fail("%s: want the name of the top directory in the archive", quote(a.root.s))
	}
	return a
}

// placed gives a missing member the position of the mapping that lacks it.
func (n node) placed(parent node) node {
	if !n.given() {
		n.at.line, n.at.column = parent.at.line, parent.at.column
	}
	return n
}

func (c *Config) readImage(n node) *image {
	if !n.given() {
		return nil
	}
	o := n.object("base", "import", "platforms", "files", "entrypoint", "user")
	i := &image{at: n.at, user: o.get("user").text(), platforms: c.lists.platforms(o.need("platforms", "name the list of its platforms"))}
	if m := o.get("import"); m.given() {
		i.imported = m.text()
		for _, key := range []string{"base", "files", "entrypoint", "user"} {
			if other := o.get(key); other.given() {
				other.fail("an image that is imported has its own %s; leave out this or import", key)
			}
		}
		return i
	}
	i.base = o.need("base", "name a base that "+LockName+" pins, or "+Scratch+"; or import an archive").text()
	if i.base.given() && !isName(i.base.s) {
		o.get("base").fail("%s: want the name of a base that %s pins", quote(i.base.s), LockName)
	}
	i.files = o.need("files", "name the files of the image").texts("a mapping from paths in the image to earlier outputs")
	i.entrypoint = o.need("entrypoint", "name the command").arguments()
	if i.user.given() && !account().MatchString(i.user.s) {
		o.get("user").fail("%s: want numbers of a user and a group, as in 65532:65532", quote(i.user.s))
	}
	return i
}

func (c *Config) readChecksums(n node) *checksums {
	if !n.given() {
		return nil
	}
	o := n.object("algorithm", "take")
	s := &checksums{at: n.at, algorithm: o.get("algorithm").choice("sha256", "sha512")}
	if s.take = c.readTake(o.get("take")); s.take.source {
		o.get("take").fail("the source is not a file; take outputs")
	}
	return s
}

// check refuses steps whose outputs do not fit their kind.
func (s step) check(r *reader) {
	fail := func(at where, format string, args ...any) { r.faults = append(r.faults, at.fault(format, args...)) }
	platforms := slices.ContainsFunc(s.each, func(l loop) bool { return l.name.s == platformVar })
	switch {
	case s.image != nil && platforms:
		fail(s.at, "each.platform: an image is one step for all its platforms")
	case (s.image != nil || s.gobuild != nil) && len(s.outputs) > 1:
		fail(s.at, "outputs: this step makes exactly one")
	case s.gobuild != nil && !platforms:
		fail(s.at, "a go step needs each.platform: it compiles for one platform at a time")
	}
	for _, o := range s.outputs {
		if s.archive != nil && !s.archive.take.given() && !o.take.given() && len(s.archive.add) == 0 {
			fail(o.at, "take: the archive would be empty; name earlier outputs, or source")
		}
		if s.checksums != nil && !s.checksums.take.given() && !o.take.given() {
			fail(o.at, "take: the list would be empty; name earlier outputs")
		}
	}
	if s.gobuild == nil {
		return
	}
	for _, v := range s.surroundings.env {
		if v.key.s == "GOOS" || v.key.s == "GOARCH" || v.key.s == "CGO_ENABLED" {
			fail(v.key.at, "%s follows from each.platform and go.cgo", v.key.s)
		}
	}
}

// isSourcePath reports whether a name is a clean path below the source.
func isSourcePath(name string) bool {
	return path.Clean(name) == name && !path.IsAbs(name) && name != "." && name != ".." && !strings.HasPrefix(name, "../")
}

// Class is the kind of an artifact. It decides which evidence the artifact can
// have.
type Class string

// The classes. Steps make the first four; a platform of an image is beside its
// index. The others are metadata about them.
const (
	Binary     Class = "binary"
	Archive    Class = "archive"
	Other      Class = "file"
	Image      Class = "image"
	ImageChild Class = "image-child"
	SBOM       Class = "sbom"
	Provenance Class = "provenance"
	Signature  Class = "signature"
	ConfigFile Class = "config"
	Sums       Class = "sums"
	// Checksum is a sidecar: it contains only the digest of one file, in
	// hexadecimal.
	Checksum Class = "checksum"
	// ProvenanceV02 repeats a Provenance in the legacy form for older readers.
	// It is not evidence.
	ProvenanceV02 Class = "provenance-v0.2"
)

// Kind is a kind of evidence.
type Kind string

// The kinds of evidence. A file has a bundle beside it, an image a signature in
// the registry.
const (
	KindProvenance Kind = "provenance"
	KindSBOM       Kind = "sbom"
	kindBundle     Kind = "bundle"
	kindSignature  Kind = "signature"
)

// kindsOf lists the evidence that an artifact of a class can have. By default
// it has all of it.
func kindsOf(c Class) []Kind {
	switch c {
	case Binary, Archive, Other:
		return []Kind{KindProvenance, KindSBOM, kindBundle}
	case Image:
		return []Kind{KindProvenance, KindSBOM, kindSignature}
	}
	return nil
}

// The places of artifacts.
const (
	placeFiles  = "files"
	placeImages = "images"
)

// Media types of artifacts.
const (
	MediaBundle   = "application/vnd.dev.sigstore.bundle.v0.3+json"
	mediaSPDX     = "application/spdx+json"
	mediaTagValue = "text/spdx"
	mediaOctet    = "application/octet-stream"
	mediaGzip     = "application/gzip"
	mediaZip      = "application/zip"
	mediaYAML     = "application/yaml"
	mediaText     = "text/plain"
	mediaLines    = "application/jsonl"
	mediaIndex    = "application/vnd.oci.image.index.v1+json"
	mediaImage    = "application/vnd.oci.image.manifest.v1+json"
)

// ProvenanceName is the name of the provenance file of a step.
func ProvenanceName(instance string) string { return "provenance/" + instance + ".sigstore.json" }

// ProvenanceV02Name is the name of that file in the legacy form. It has a
// directory of its own, which no step's name can be: a step's name has no
// slash.
func ProvenanceV02Name(instance string) string {
	return "provenance/v0.2/" + instance + ".sigstore.json"
}

// SBOMName is the name of the SBOM file of an artifact.
func SBOMName(artifact string) string {
	if image, ok := strings.CutPrefix(artifact, "oci/"); ok {
		artifact = "image/" + image
	}
	return artifact + ".spdx.json"
}

// BundleName is the name of the signature file of an artifact.
func BundleName(artifact string) string { return artifact + ".sigstore.json" }

// sbomMedia is the media type of an SBOM, by its file name.
func sbomMedia(name string) string {
	if strings.HasSuffix(name, ".spdx") {
		return mediaTagValue
	}
	return mediaSPDX
}
