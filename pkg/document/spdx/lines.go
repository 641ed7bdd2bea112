package spdx

import (
	"fmt"
	"strconv"
	"strings"
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

// linesOf finds the lines, skipping texts of several lines.
func linesOf(text string) numbered {
	found, tags, within, n := numbered{}, began(), false, 0
	for line := range strings.Lines(text) {
		n++
		if !within {
			tag, _, _ := strings.Cut(line, ":")
			if name, known := tags[strings.TrimSpace(tag)]; known {
				found[name] = append(found[name], n)
			}
			within = strings.Contains(line, "<text>")
		}
		if strings.Contains(line, "</text>") {
			within = false
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
