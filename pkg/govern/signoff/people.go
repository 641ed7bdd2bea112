package signoff

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// same reports whether two handles are of one person.
func same(a, b string) bool {
	return handle(a) != "" && handle(a) == handle(b)
}

// handle is a handle as it is compared: without what nobody sees.
func handle(who string) string {
	seen := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, who)
	return strings.ToLower(strings.TrimPrefix(strings.TrimSpace(seen), "@"))
}

// among reports whether a person is on a list of those who may do something.
func among(who string, list []string) bool {
	return slices.ContainsFunc(list, func(o string) bool { return same(who, o) })
}

// mention matches a handle or an address in a text.
var mention = regexp.MustCompile(`[\w.+/-]*@[\w./-]+`)

// wrote reports whether a person is an author. An author stands there in any
// form, as "A. Keeper (@keeper)"; one handle or address in common is enough.
func wrote(who string, authors []string) bool {
	mine := handles(who)
	return slices.ContainsFunc(authors, func(author string) bool {
		return slices.ContainsFunc(handles(author), func(h string) bool { return slices.Contains(mine, h) })
	})
}

// handles are the names by which a text calls a person.
func handles(text string) (list []string) {
	for _, name := range append(mention.FindAllString(text, -1), text) {
		if h := strings.TrimRight(handle(name), "."); h != "" {
			list = append(list, h)
		}
	}
	return list
}
