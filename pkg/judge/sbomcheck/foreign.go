package sbomcheck

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Ours reports whether a document says that Waybill wrote it. An attacker can
// leave this out, so checks that apply to such documents only can be avoided;
// signing and admitting a release therefore apply them to every document.
func Ours(doc spdx.Document) bool {
	return slices.ContainsFunc(doc.Creators(), func(c string) bool { return c == "Tool: waybill" || strings.HasPrefix(c, "Tool: waybill-") })
}

// Claimed is the digest that a document gives for its subject: as checksum, in
// the package URL of an image, or as version.
func Claimed(doc spdx.Document) digest.Digest {
	_, sum := doc.Describes()
	if !sum.IsZero() {
		return sum
	}
	own := subjectOf(doc.Relationships())
	for p := range doc.EachPackage() {
		if p.ID == own {
			sum = ClaimedBy(p)
		}
	}
	return sum
}

// ClaimedBy is the digest that a package gives for itself.
func ClaimedBy(p spdx.Package) digest.Digest {
	sum := p.Digests.SHA256
	if name, version, found := strings.Cut(strings.TrimPrefix(p.PURL, "pkg:oci/"), "@"); found && name != p.PURL && sum.IsZero() {
		version, _, _ = strings.Cut(version, "?")
		sum, _ = digest.Parse(unescape(version)) // an invalid digest is zero and equals none
	}
	if sum.IsZero() {
		sum, _ = digest.Parse(p.Version)
	}
	return sum
}

// Bytes requires that a document, whichever tool wrote it, describes these
// bytes.
func Bytes(a Artifact) []verdict.Finding {
	switch sum := Claimed(a.Document); {
	case sum.IsZero():
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM gives no SHA-256 for the artifact, or describes several things")}
	case !sum.Equal(a.Digests.SHA256):
		return []verdict.Finding{verdict.Find(verdict.SBOMSubject, a.Name, "its SBOM describes other bytes").Differ(a.Digests.SHA256.String(), sum.String())}
	}
	return Checksums(a)
}

// Foreign compares the document of another tool with what is found in the
// artifact: all Go, apk and dpkg packages, and each file that it lists. Other
// tools list files only where they found packages, and write dependencies in
// their own ways, so that is not compared. left lists what was not compared.
func Foreign(a Artifact, found spdx.Draft) (all []verdict.Finding, left []string) {
	c := foreign{a: a, found: found, own: subjectOf(a.Document.Relationships())}
	all, left = c.packages()
	more, rest := c.files()
	return append(all, more...), append(left, rest...)
}

// foreign compares a document of another tool.
type foreign struct {
	a     Artifact
	found spdx.Draft
	own   string // identifier of the subject
}

// known returns a name for a package of a kind that is catalogued, independent
// of the tool that wrote it; "" for other kinds.
func known(p spdx.Package) (name, version string) {
	name, version, ok := parsePURL(p.PURL)
	if !ok {
		return "", ""
	}
	kind, _, _ := strings.Cut(strings.TrimPrefix(p.PURL, "pkg:"), "/")
	name = strings.ToLower(kind + " " + name)
	if arch := qualifier(p.PURL, "arch"); arch != "" && kind != "golang" {
		name += " for " + arch
	}
	if version == "" && p.Version != spdx.NoAssertion {
		version = p.Version
	}
	switch version {
	case "UNKNOWN", "(devel)":
		version = ""
	}
	if name == "golang stdlib" {
		version = strings.TrimPrefix(version, "go")
	}
	return name, version
}

func qualifier(purl, key string) string {
	_, query, _ := strings.Cut(purl, "?")
	query, _, _ = strings.Cut(query, "#")
	values, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	return values.Get(key)
}

// packages compares the packages of kinds that are catalogued.
func (c foreign) packages() (all []verdict.Finding, left []string) {
	want, mains := map[string]spdx.Package{}, map[string]bool{}
	for _, p := range c.found.Packages {
		name, version := known(p)
		switch {
		case name == "" || p.ID == subjectOf(c.found.Relationships):
		case p.Purpose == spdx.Source: // a main module may have no version
			mains[name] = true
		default:
			want[name+" "+version] = p
		}
	}
	got := map[string]spdx.Package{}
	for _, p := range c.a.Document.Packages() {
		name, version := known(p)
		switch {
		case p.ID == c.own || mains[name]:
		case name == "":
			more, rest := c.stranger(p)
			all, left = append(all, more...), append(left, rest...)
		default:
			got[name+" "+version] = p
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, there := got[name]; !there {
			all = append(all, verdict.Find(verdict.SBOMIncomplete, c.a.Name, "the artifact contains %.200q, but its SBOM does not list it", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if _, there := want[name]; !there {
			all = append(all, verdict.Find(verdict.Conflict, c.a.Name, "its SBOM lists %.200q, which the artifact does not contain", name))
		}
	}
	more, rest := c.sums(want, got)
	return append(all, more...), append(left, rest...)
}

// stranger checks a package of a kind that is not catalogued. A Go program
// names everything that it is built from, so it cannot contain one; other
// artifacts can.
func (c foreign) stranger(p spdx.Package) (all []verdict.Finding, left []string) {
	if p.PURL == "" && slices.ContainsFunc(c.found.Packages, func(f spdx.Package) bool { return nameOf(f) == nameOf(p) }) ||
		Ours(c.a.Document) && (p.Purpose == spdx.Container || p.Purpose == spdx.Archive) {
		return nil, nil // images and layers are compared elsewhere
	}
	name := strings.TrimSpace(nameOf(p) + " " + p.PURL)
	if len(c.found.Packages) > 0 && c.found.Packages[0].Purpose == spdx.Application && p.PURL != "" { // one Go program
		return []verdict.Finding{verdict.Find(verdict.Conflict, c.a.Name, "its SBOM lists %.200q, which the program does not contain", name)}, nil
	}
	return nil, []string{fmt.Sprintf("the package %.200q, of a kind that Waybill does not catalogue", name)}
}

// sums compares the checksums of Go modules. Some tools write the go.sum
// checksum as a file checksum, others write something else: if at least one is
// correct, all are taken for go.sum checksums.
func (c foreign) sums(want, got map[string]spdx.Package) (all []verdict.Finding, left []string) {
	var wrong []verdict.Finding
	right, stated := 0, 0
	for _, name := range slices.Sorted(maps.Keys(got)) {
		w, sum := want[name].Sum, got[name].Sum
		if sum == "" && !got[name].Digests.SHA256.IsZero() {
			sum = asSum(got[name].Digests.SHA256)
		}
		switch {
		case w == "" || sum == "":
		case w == sum:
			right++
			stated++
		default:
			stated++
			wrong = append(wrong, verdict.Find(verdict.Conflict, c.a.Name, "artifact and SBOM have different checksums of %.200q", name).Differ(w, sum))
		}
	}
	if right > 0 || stated == 0 {
		return wrong, nil
	}
	return nil, []string{fmt.Sprintf("the checksums of %s, which are not those of go.sum", plural.Of(stated, "module"))}
}

// asSum formats a digest as in go.sum.
func asSum(d digest.Digest) string {
	raw, err := hex.DecodeString(d.Hex())
	if err != nil {
		return ""
	}
	return "h1:" + base64.StdEncoding.EncodeToString(raw)
}

// Summed requires that the Go modules in an artifact have the checksums of
// go.sum.
func Summed(a Artifact, found spdx.Draft, sums map[string]string) (all []verdict.Finding) {
	for _, p := range found.Packages {
		name := p.Name + " " + p.Version
		if want, there := sums[name]; p.Sum != "" && isModule(p) && p.Purpose != spdx.Source && want != p.Sum {
			if !there {
				want = "none"
			}
			all = append(all, verdict.Find(verdict.Conflict, a.Name, "go.sum at the source commit has another checksum of %.200q", name).Differ(want, p.Sum))
		}
	}
	return all
}

// files compares each file that the document lists. If the document says that
// it analysed all files, it must list them all.
func (c foreign) files() (all []verdict.Finding, left []string) {
	there := map[string][]spdx.File{}
	for _, f := range c.found.Files {
		there[rooted(f.Name)] = append(there[rooted(f.Name)], f)
	}
	self := spdx.File{Digests: c.a.Digests}
	listed, unread, weak := map[string]bool{}, 0, 0
	for _, f := range c.a.Document.Files() {
		name := rooted(f.Name)
		listed[name] = true
		held := there[name]
		if held == nil && path.Base(name) == path.Base(c.a.Name) && len(c.found.Files) == 0 {
			held = []spdx.File{self}
		}
		switch {
		case len(held) > 0 && held[0].Digests.IsZero():
			unread++
		case held == nil:
			all = append(all, verdict.Find(verdict.Conflict, c.a.Name, "its SBOM lists the file %.200q, which does not exist", f.Name))
		case f.SHA1 != "" && f.Digests.IsZero() && slices.ContainsFunc(held, func(h spdx.File) bool { return h.SHA1 == f.SHA1 }):
			weak++
		case !slices.ContainsFunc(held, func(h spdx.File) bool { return Same(f, h) }):
			all = append(all, verdict.Find(verdict.Conflict, c.a.Name, "its SBOM has a wrong digest for the file %.200q", f.Name).Differ(held[0].Digests.SHA256.String(), sumsOf(f)))
		}
	}
	if unread > 0 {
		left = append(left, fmt.Sprintf("files that are hard links: %d", unread))
	}
	if weak > 0 {
		left = append(left, fmt.Sprintf("files with only a SHA-1, which proves nothing: %d", weak))
	}
	if !c.rolled() {
		return all, left
	}
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if !listed[name] {
			all = append(all, verdict.Find(verdict.SBOMIncomplete, c.a.Name, "its SBOM does not list the file %.200q", name))
		}
	}
	return all, left
}

// rolled reports whether the document claims to list every file of its subject.
func (c foreign) rolled() bool {
	return slices.ContainsFunc(c.a.Document.Packages(), func(p spdx.Package) bool { return p.ID == c.own && p.Verification != "" })
}

// rooted returns a file name relative to the root of the artifact.
func rooted(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }
