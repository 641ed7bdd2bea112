package signoff

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// same reports whether two handles are equal.
func same(a, b string) bool {
	return handle(a) != "" && handle(a) == handle(b)
}

// handle is a handle in comparable form: lower case, without @ and invisible characters.
func handle(who string) string {
	seen := strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, who)
	return strings.ToLower(strings.TrimPrefix(strings.TrimSpace(seen), "@"))
}

// among reports whether a person is on a list.
func among(who string, list []string) bool {
	return slices.ContainsFunc(list, func(o string) bool { return same(who, o) })
}

// mention matches a handle or an address in a text.
var mention = regexp.MustCompile(`[\w.+/-]*@[\w./-]+`)

// wrote reports whether a person is an author. Authors are free text, such as
// "A. Keeper (@keeper)"; one common handle or address is enough.
func wrote(who string, authors []string) bool {
	mine := handles(who)
	return slices.ContainsFunc(authors, func(author string) bool {
		return slices.ContainsFunc(handles(author), func(h string) bool { return slices.Contains(mine, h) })
	})
}

// handles are the handles and addresses in a text, and the text itself.
func handles(text string) (list []string) {
	for _, name := range append(mention.FindAllString(text, -1), text) {
		if h := strings.TrimRight(handle(name), "."); h != "" {
			list = append(list, h)
		}
	}
	return list
}
