package spdx

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	tags "github.com/spdx/tools-golang/tagvalue/reader"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// numbered maps the names of elements in JSON to the lines on which they begin
// in the tag-value form.
type numbered map[string][]int

// began maps the tags that begin an element, or a property.
func began() map[string]string {
	return map[string]string{
		"PackageName": "packages", "FileName": "files", "Relationship": "relationships", "ExternalDocumentRef": "externalDocumentRefs",
		"LicenseID": "hasExtractedLicensingInfos", "SnippetSPDXID": "snippets", "Creator": "creationInfo.creators",
		"Created": "creationInfo.created", "SPDXVersion": "spdxVersion", "DataLicense": "dataLicense", "DocumentName": "name",
		"DocumentNamespace": "documentNamespace",
	}
}

func linesOf(text string) numbered {
	found, names := numbered{}, began()
	all, _ := tagsOf(text) // up to the line that ended the reading
	for _, t := range all {
		if name, known := names[t.Tag]; known {
			found[name] = append(found[name], t.line)
		}
	}
	return found
}

// place adds the line to a position in JSON. The first relationships of a
// document, as many as implied, have no line of their own.
func (l numbered) place(place string, implied int) string {
	name, rest, indexed := strings.Cut(place, "[")
	index := 0
	if indexed {
		digits, _, _ := strings.Cut(rest, "]")
		index, _ = strconv.Atoi(digits) // written by this package
		if name == "relationships" {
			index -= implied
		}
	}
	if list := l[name]; index >= 0 && index < len(list) && (indexed || len(list) == 1) {
		return fmt.Sprintf("line %d, %s", list[index], place)
	}
	return place
}

// tagged is one tag with its value, on one line or several.
type tagged struct {
	tags.TagValuePair

	line int
}

// tagsOf splits a text into its tags, as the library does, which copies a value
// of many lines once for each of them and refuses long lines.
func tagsOf(text string) (all []tagged, err error) {
	for n, rest := 1, text; rest != ""; n++ {
		line, after, _ := strings.Cut(rest, "\n")
		tag, value, split := strings.Cut(line, ":")
		begin := strings.TrimLeftFunc(line, unicode.IsSpace)
		if begin == "" || begin[0] == '#' {
			rest = after
			continue
		}
		if !split {
			return all, fmt.Errorf("line %d has no colon", n)
		}
		t := tagged{tags.TagValuePair{Tag: strings.TrimSpace(tag), Value: strings.TrimSpace(value)}, n}
		if before, _, long := strings.Cut(value, "<text>"); long {
			inside, closing, ends := strings.Cut(rest[len(tag)+len(":")+len(before)+len("<text>"):], "</text>")
			if !ends {
				return all, fmt.Errorf("the text that begins in line %d does not end", n)
			}
			_, after, _ = strings.Cut(closing, "\n")
			t.Value = strings.ReplaceAll(inside, "\r\n", "\n")
			n += strings.Count(inside, "\n")
		}
		all, rest = append(all, t), after
	}
	return all, nil
}

// once are the tags that an element has at most once.
var once = pattern.Lazy(`^(SPDX(ID|Version)|DataLicense|Document(Name|Namespace|Comment)|Created|FilesAnalyzed|PrimaryPackagePurpose|LicenseConcluded|` +
	`Package(Version|FileName|Supplier|Originator|DownloadLocation|VerificationCode|LicenseConcluded|LicenseDeclared))$`)

// arrange puts the tags of section 6.1 to 6.7 before those of creation, and
// takes out the snippets, whose identifiers it keeps: the library accepts
// neither another order, nor a snippet behind a package. Of a tag that occurs
// twice the library reads the last one, and others the first: it is refused.
func (r *reader) arrange(all []tagged) []tags.TagValuePair {
	var first, rest []tags.TagValuePair
	head, seen := true, map[string]bool{}
	for _, t := range all {
		switch t.Tag {
		case "PackageName", "FileName", "SnippetSPDXID", "LicenseID":
			clear(seen)
			head = false
		case "Relationship", "Annotator", "Reviewer":
			head = false
		}
		if seen[t.Tag] {
			r.add(ruleForm, fmt.Sprintf("line %d", t.line), "a second %s of one element", t.Tag)
		}
		switch seen[t.Tag] = once().MatchString(t.Tag); {
		case t.Tag == "SnippetSPDXID":
			r.m.snippets = append(r.m.snippets, t.Value)
		case snippetTag().MatchString(t.Tag):
		case head && (seen[t.Tag] && t.Tag != "Created" || t.Tag == "ExternalDocumentRef"):
			first = append(first, t.TagValuePair)
		default:
			rest = append(rest, t.TagValuePair)
		}
	}
	return append(first, rest...)
}

// snippetTag matches the tags of section 9.
var snippetTag = pattern.Lazy(`^(Snippet(SPDXID|FromFileSPDXID|ByteRange|LineRange|LicenseConcluded|LicenseComments|CopyrightText|Comment|Name|AttributionText)|LicenseInfoInSnippet)$`)
