package sbomcheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The profiles that [Lacks] knows.
const (
	cisa2026 = "cisa-2026" // CISA and others: 2026 Minimum Elements for an SBOM, July 2026, table 1
	bsi21    = "bsi-2.1"   // BSI TR-03183-2, version 2.1.0, of 2025-08-20
)

// Profiles lists the sets of elements that a policy can demand.
func Profiles() []string { return []string{cisa2026, bsi21} }

// ProfileLeft lists what a profile also asks for, and no document of SPDX 2.3
// can show.
func ProfileLeft(profile string) []string {
	return map[string][]string{
		cisa2026: {"the SBOM author's signature, and the practices of cisa-2026: they are outside of the document"},
		bsi21:    {"the format: section 4 of bsi-2.1 accepts SPDX from 3.0.1 and CycloneDX from 1.6 only, and this is SPDX 2"},
	}[profile]
}

// element is a row of the table of elements.
type element struct {
	name      string
	cisa, bsi string // its name or clause there; "" if it is not required
	// One of the following says whether it is given: in the document, for the
	// described package, or for each package. All are nil for an element without
	// which a document is not valid SPDX.
	document      func(spdx.Document) bool
	subject, each func(*looked, spdx.Package) bool
	unknown       string // the word for it in a list of unknowns, see [Unknown]
}

// elements is the table. Where the profiles ask for the same, they share a row.
func elements() []element {
	return []element{
		{name: "SBOM timestamp", cisa: "SBOM Timestamp", bsi: "5.2.1 Timestamp"},
		{name: "SBOM format", cisa: "SBOM Data Format Name and Version"},
		{name: "SBOM version", cisa: "SBOM Version", bsi: "5.2.3 SBOM-URI"}, // the namespace
		{name: "SBOM author", cisa: "SBOM Author", document: func(d spdx.Document) bool { return created(d, "Organization: ", "") || created(d, "Person: ", "") }},
		{name: "address of the SBOM author", bsi: "5.2.1 Creator of the SBOM", document: func(d spdx.Document) bool {
			return created(d, "Organization: ", "://") || created(d, "Organization: ", "@") || created(d, "Person: ", "@")
		}},
		{name: "SBOM tool and its version", cisa: "SBOM Tool Name and Version", document: func(d spdx.Document) bool { return slices.ContainsFunc(d.Creators(), versioned().MatchString) }},
		{name: "generation context", cisa: "SBOM Generation Context", document: func(d spdx.Document) bool { return contexts().MatchString(d.Context()) }},
		{name: "name", cisa: "Component Name", bsi: "5.2.2 Component name"},
		{name: "version", cisa: "Component Version", bsi: "5.2.2 Component version", unknown: "version", each: func(_ *looked, p spdx.Package) bool { return p.Version != "" && p.Version != spdx.NoAssertion }},
		{name: "supplier", cisa: "Component Producer", unknown: "supplier", each: func(_ *looked, p spdx.Package) bool { return p.Supplier+p.Originator != "" }},
		{name: "address of the supplier", bsi: "5.2.2 Component creator", unknown: "supplier", each: func(_ *looked, p spdx.Package) bool { return hasAddress(p.Supplier) || hasAddress(p.Originator) }},
		// A strong checksum identifies a component that has bytes.
		{name: "identifier", cisa: "Component Identifiers", bsi: "5.2.4 Other unique identifiers", unknown: "identifier", each: func(_ *looked, p spdx.Package) bool { return p.PURL+p.Identifier != "" || p.Digests != digest.Set{} }},
		{name: "hash", cisa: "Component Hash Value and Algorithm", unknown: "hash", each: func(l *looked, p spdx.Package) bool {
			return p.Digests != digest.Set{} || p.Verification != "" || l.weak[p.ID]
		}},
		{name: "SHA-512", bsi: "5.2.2 Hash value of the deployable component", subject: func(_ *looked, p spdx.Package) bool { return !p.Digests.SHA512.IsZero() || isLogical(p) }},
		{name: "licence", cisa: "Component License", bsi: "5.2.2 Distribution licences", unknown: "licence", each: func(_ *looked, p spdx.Package) bool { return p.Licence+p.Concluded != "" }},
		{name: "relationship", cisa: "Component Dependency Relationship", bsi: "5.2.2 Dependencies", each: func(l *looked, p spdx.Package) bool { return l.related[p.ID] }},
		{name: "file name", bsi: "5.2.2 Filename", subject: func(_ *looked, p spdx.Package) bool { return p.FileName != "" || isLogical(p) }},
		{name: "primary purpose", bsi: "5.2.2 Executable, archive and structured property", each: func(_ *looked, p spdx.Package) bool { return p.Purpose != "" }},
	}
}

// isLogical reports whether a described component is no file: a source tree, or a
// whole release. That its hash is unknown does not make a file one.
func isLogical(p spdx.Package) bool {
	return (p.Purpose == spdx.Source || p.Purpose == spdx.Install) && p.Digests == digest.Set{} && p.FileName == ""
}

// created reports whether a creator of a kind is named, by a name with a part.
func created(d spdx.Document, kind, part string) bool {
	return slices.ContainsFunc(d.Creators(), func(c string) bool {
		name, is := strings.CutPrefix(c, kind)
		return is && name != spdx.NoAssertion && strings.Contains(strings.Trim(name, "-"), part)
	})
}

func hasAddress(who string) bool { return strings.Contains(who, "@") || strings.Contains(who, "://") }

// contexts matches a line of the comment on the creation that gives the context,
// and nothing else but a remark in parentheses.
var contexts = pattern.Lazy(`(?m)^(Generation context|SBOM [Tt]ype): (Design|Source|Build|Analyzed|Deployed|Runtime)( \([^()\n]*\))?\.?\r?$`)

// looked is what is known of the packages of a document from its other parts.
type looked struct{ related, weak map[string]bool }

// Unknown begins the line of a package's comment that lists what is not known
// of it, each with a reason in parentheses: SPDX has NOASSERTION for some
// elements, and no reason.
const Unknown = "Unknown: "

// isUnknown reports whether a package says why an element is unknown.
func isUnknown(p spdx.Package, element string) bool {
	for line := range strings.Lines(p.Comment) {
		rest, is := strings.CutPrefix(strings.TrimSpace(line), Unknown)
		if is = is && unknowns().MatchString(rest); !is {
			continue
		}
		for _, one := range strings.SplitAfter(rest, "), ") {
			if name, _, _ := strings.Cut(one, " ("); name == element {
				return true
			}
		}
	}
	return false
}

// unknowns matches a list of elements, each with its reason.
var unknowns = pattern.Lazy(`\A(?:[^(),]+ \([^()]*[^() ][^()]*\)(?:, |\z))+\z`)

// versioned matches the name of a tool with its version, NAME-VERSION.
var versioned = pattern.Lazy(`\ATool: .*[^-]-(?:devel|[^-]*[0-9])`)

// Profiled refuses a document that lacks elements of a profile; an unknown
// profile, such as "", has none.
func Profiled(a Artifact, profile string) (all []verdict.Finding) {
	if a.Document.IsZero() {
		return nil // refused elsewhere
	}
	for _, lack := range Lacks(a.Document, profile) {
		f := verdict.Find("SBOM_PROFILE", a.Name, "%s (%s)", lack, profile)
		if strings.Contains(lack, "SBOM author: ") && Ours(a.Document) {
			f.Fix = `generate the SBOM again with --supplier "NAME (ADDRESS)"`
		}
		all = append(all, f)
	}
	return all
}

// Lacks lists the elements of a profile that a document lacks, with the number
// of packages. An element may be unknown if the document says why; NOASSERTION
// alone does not.
func Lacks(doc spdx.Document, profile string) (all []string) {
	if !slices.Contains(Profiles(), profile) {
		return nil
	}
	l, subject, packages := looked{map[string]bool{}, map[string]bool{}}, subjectPackage(doc), doc.Packages()
	for _, r := range doc.Relationships() {
		l.related[r.From], l.related[r.To] = true, true
	}
	for _, c := range doc.Checksums() {
		l.weak[c.ID] = true
	}
	for _, e := range elements() {
		clause, where := map[string]string{cisa2026: e.cisa, bsi21: e.bsi}[profile], ""
		switch {
		case clause == "":
		case e.document != nil && !e.document(doc):
			where = "in the document"
		case e.subject != nil && !e.subject(&l, subject) && !isUnknown(subject, e.unknown):
			where = "in the described component"
		case e.each != nil && len(packages) == 0:
			where = "because the document lists no packages"
		case e.each != nil:
			n, first := 0, ""
			for _, p := range packages {
				if !e.each(&l, p) && !isUnknown(p, e.unknown) {
					n, first = n+1, cmp.Or(first, p.Name)
				}
			}
			if n > 0 {
				where = fmt.Sprintf("in %d of %s, the first: %.100q", n, plural.Of(len(packages), "package"), first)
			}
		}
		if where != "" {
			all = append(all, fmt.Sprintf("%s: missing %s, clause %q", e.name, where, clause))
		}
	}
	return all
}

// subjectPackage is the described package, or the described file as one.
func subjectPackage(doc spdx.Document) spdx.Package {
	id := subjectOf(doc.Relationships())
	for p := range doc.EachPackage() {
		if p.ID == id {
			return p
		}
	}
	for _, f := range doc.Files() {
		if f.ID == id {
			return spdx.Package{ID: f.ID, Name: f.Name, FileName: f.Name, Digests: f.Digests, Comment: f.Comment}
		}
	}
	return spdx.Package{}
}
