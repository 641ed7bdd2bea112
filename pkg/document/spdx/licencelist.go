package spdx

import (
	_ "embed" // for the list of licences
	"strings"
)

// listed is the date of the list of licences: see list/README.md.
const listed = "2026-04-28"

//go:embed list/licences.txt
var licenceList string

//go:embed list/exceptions.txt
var exceptionList string

// onList reports whether a list of lines, sorted ignoring case, contains an
// identifier. Annex D: identifiers match in any case.
func onList(list, id string) bool {
	id = strings.ToLower(id)
	for list != "" {
		// The line around the middle.
		begin := strings.LastIndexByte(list[:len(list)/2], '\n') + 1
		end := begin + strings.IndexByte(list[begin:], '\n')
		switch strings.Compare(id, strings.ToLower(list[begin:end])) {
		case 0:
			return true
		case -1:
			list = list[:begin]
		default:
			list = list[end+1:]
		}
	}
	return false
}
