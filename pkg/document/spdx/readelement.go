package spdx

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

func (r *reader) pkg() *shape {
	begin := func() {
		r.sums, r.refs, r.code, r.excluded, r.hasFiles = r.sums[:0], r.refs[:0], "", nil, nil
	}
	ref := shaped(nil, func(v *values) {
		r.refs = append(r.refs, externalRef{v.get("referenceCategory"), v.get("referenceType"), v.get("referenceLocator")})
	},
		property{name: "comment", kind: text},
		property{name: "referenceCategory", kind: text, demand: required, among: categories},
		property{name: "referenceLocator", kind: text, demand: required}, property{name: "referenceType", kind: text, demand: required},
	)
	code := shaped(nil, func(v *values) { r.code = v.get("packageVerificationCodeValue") },
		property{name: "packageVerificationCodeExcludedFiles", kind: texts, each: collect(&r.excluded)},
		property{name: "packageVerificationCodeValue", kind: text, demand: required},
	)
	return shaped(begin, r.addPackage,
		property{name: "SPDXID", kind: text, demand: required}, property{name: "annotations", kind: objects, of: annotation()},
		property{name: "attributionTexts", kind: texts}, property{name: "builtDate", kind: text},
		property{name: "checksums", kind: objects, of: r.checksum()}, property{name: "comment", kind: text},
		property{name: "copyrightText", kind: text, demand: requiredIn22}, property{name: "description", kind: text},
		property{name: "downloadLocation", kind: text, demand: required}, property{name: "externalRefs", kind: objects, of: ref},
		property{name: "filesAnalyzed", kind: flag}, property{name: "hasFiles", kind: texts, each: collect(&r.hasFiles)},
		property{name: "homepage", kind: text}, property{name: "licenseComments", kind: text},
		property{name: "licenseConcluded", kind: text, demand: requiredIn22, each: r.licence},
		property{name: "licenseDeclared", kind: text, demand: requiredIn22, each: r.licence},
		property{name: "licenseInfoFromFiles", kind: texts, each: r.licence}, property{name: "name", kind: text, demand: required},
		property{name: "originator", kind: text}, property{name: "packageFileName", kind: text},
		property{name: "packageVerificationCode", kind: object, of: code},
		property{name: "primaryPackagePurpose", kind: text, among: purposes}, property{name: "releaseDate", kind: text},
		property{name: "sourceInfo", kind: text}, property{name: "summary", kind: text}, property{name: "supplier", kind: text},
		property{name: "validUntilDate", kind: text}, property{name: "versionInfo", kind: text},
	)
}

func (r *reader) addPackage(v *values) {
	if n := r.room(len(r.m.packages), 512); n > 0 {
		r.m.packages = slices.Grow(r.m.packages, n)
	}
	r.m.packages = append(r.m.packages, Package{
		ID: v.get("SPDXID"), Name: v.get("name"), Version: v.get("versionInfo"), FileName: v.get("packageFileName"),
		Purpose: strings.ReplaceAll(v.get("primaryPackagePurpose"), "-", "_"), Download: v.get("downloadLocation"), Comment: v.get("comment"),
		Licence: asserted(v.get("licenseDeclared")), Supplier: asserted(v.get("supplier")), Source: v.get("sourceInfo"),
		Originator: asserted(v.get("originator")), Concluded: asserted(v.get("licenseConcluded")), Verification: r.code, Digests: r.set(r.sums),
	})
	p := &r.m.packages[len(r.m.packages)-1]
	r.keep(p.ID, "")
	for _, ref := range r.refs {
		switch {
		case ref.kind == "purl" && p.PURL == "":
			p.PURL = ref.locator
		case ref.kind == sumReference && p.Sum == "":
			p.Sum = ref.locator
		case ref.category != "OTHER" && p.Identifier == "":
			p.Identifier = ref.locator
		}
		if ref.locator == "" || strings.ContainsAny(ref.locator, " \t\r\n") {
			r.fault(ruleReference, "reference %s: the locator contains spaces", quote(ref.locator))
		} else if ref.kind == "purl" && !isPURL(ref.locator) {
			r.fault(ruleReference, "reference %s: not a package URL", quote(ref.locator))
		}
	}
	r.minimum(v)
	r.analyzed(v)
	for _, id := range r.hasFiles {
		r.relate(Relationship{From: p.ID, Type: Contains, To: id})
	}
}

// minimum checks the elements of a component that NTIA required in 2021, and
// the specification does not. NOASSERTION is a declared unknown, which they
// accept; an absent value is not.
func (r *reader) minimum(v *values) {
	for _, name := range []string{"supplier", "versionInfo"} {
		if v.get(name) == "" {
			r.m.least.add(ruleNTIA, r.where(), "%s is missing; give it, or %s", name, NoAssertion)
		}
	}
}

// analyzed checks sections 7.8 and 7.9. A package has a verification code if
// and only if its files were analyzed.
func (r *reader) analyzed(v *values) {
	looked := v.get("filesAnalyzed") != "false"
	switch {
	case !looked && r.code != "":
		r.fault(ruleCode, "has a verification code, but its files were not analyzed")
	case looked && r.code == "":
		r.fault(ruleFiles, "files were analyzed, but the verification code is missing; set filesAnalyzed: false if they were not")
	}
	if r.code != "" && !isHex(r.code, 40) {
		r.fault(ruleCode, "verification code %s: want 40 hex digits", quote(r.code))
	}
	if len(r.excluded) > 0 {
		r.m.excluding = append(r.m.excluding, v.get("SPDXID"))
	}
}

func (r *reader) file() *shape {
	artifactOf := shaped(nil, nil)
	artifactOf.open = true
	begin := func() { r.sums, r.info = r.sums[:0], "" }
	info := func(at, val string) {
		r.licence(at, val)
		r.info = asserted(val)
	}
	return shaped(begin, r.addFile,
		property{name: "SPDXID", kind: text, demand: required}, property{name: "annotations", kind: objects, of: annotation()},
		property{name: "artifactOfs", kind: objects, of: artifactOf}, property{name: "attributionTexts", kind: texts},
		property{name: "checksums", kind: objects, demand: required, least: 1, of: r.checksum()},
		property{name: "comment", kind: text}, property{name: "copyrightText", kind: text, demand: requiredIn22},
		property{name: "fileContributors", kind: texts}, property{name: "fileDependencies", kind: texts},
		property{name: "fileName", kind: text, demand: required}, property{name: "fileTypes", kind: texts, among: fileKinds},
		property{name: "licenseComments", kind: text},
		property{name: "licenseConcluded", kind: text, demand: requiredIn22, each: r.licence},
		property{name: "licenseInfoInFiles", kind: texts, demand: requiredIn22, each: info}, property{name: "noticeText", kind: text},
	)
}

func (r *reader) addFile(v *values) {
	f := File{
		ID: v.get("SPDXID"), Name: v.get("fileName"), Comment: v.get("comment"), Licence: r.info,
		Digests: r.set(r.sums),
	}
	r.keep(f.ID, "SHA1")
	for _, s := range r.sums {
		if s.algorithm == "SHA1" && isHex(s.value, 40) {
			f.SHA1 = s.value
		}
	}
	// Section 8.4: SHA-1 is mandatory for files.
	if f.SHA1 == "" {
		r.fault(ruleChecksum, "file %s: no SHA1 checksum", quote(f.Name))
	}
	if n := r.room(len(r.m.files), 512); n > 0 {
		r.m.files = slices.Grow(r.m.files, n)
	}
	r.m.files = append(r.m.files, f)
}

func (r *reader) snippet() *shape {
	pointer := func() *shape {
		return shaped(nil, nil,
			property{name: "reference", kind: text, demand: required}, property{name: "offset", kind: number},
			property{name: "lineNumber", kind: number})
	}
	ranges := shaped(nil, nil,
		property{name: "endPointer", kind: object, demand: required, of: pointer()},
		property{name: "startPointer", kind: object, demand: required, of: pointer()})
	return shaped(nil, func(v *values) { r.m.snippets = append(r.m.snippets, v.get("SPDXID")) },
		property{name: "SPDXID", kind: text, demand: required}, property{name: "annotations", kind: objects, of: annotation()},
		property{name: "attributionTexts", kind: texts}, property{name: "comment", kind: text},
		property{name: "copyrightText", kind: text, demand: requiredIn22}, property{name: "licenseComments", kind: text},
		property{name: "licenseConcluded", kind: text, demand: requiredIn22, each: r.licence},
		property{name: "licenseInfoInSnippets", kind: texts, each: r.licence}, property{name: "name", kind: text, demand: required},
		property{name: "ranges", kind: objects, demand: required, least: 1, of: ranges},
		property{name: "snippetFromFile", kind: text, demand: required},
	)
}

// set collects the strong checksums and refuses two values of one algorithm: a
// reader could use either.
func (r *reader) set(sums []sum) (set digest.Set) {
	for i, s := range sums {
		for _, other := range sums[:i] {
			if strings.EqualFold(other.algorithm, s.algorithm) {
				r.fault(ruleChecksum, "checksum %s: given twice", quote(s.algorithm))
			}
		}
		var err error
		switch s.algorithm {
		case "SHA256":
			set.SHA256, err = digest.ParseHex(digest.SHA256, s.value)
		case "SHA512":
			set.SHA512, err = digest.ParseHex(digest.SHA512, s.value)
		default:
			if want, known := algorithms[s.algorithm]; known && !isHex(strings.ToLower(s.value), want) {
				r.fault(ruleChecksum, "checksum %s %s: empty, or not %d hex digits", s.algorithm, quote(s.value), want)
			}
		}
		if err != nil {
			r.fault(ruleChecksum, "checksum %s: %v", s.algorithm, err)
		}
	}
	return set
}

// keep stores the checksums that are in no [digest.Set], except for one that is
// stored elsewhere.
func (r *reader) keep(id, elsewhere string) {
	for _, s := range r.sums {
		if s.algorithm != "SHA256" && s.algorithm != "SHA512" && s.algorithm != elsewhere {
			r.m.weak = append(r.m.weak, Checksum{ID: id, Algorithm: s.algorithm, Value: s.value})
		}
	}
}
