package verdict

import (
	_ "embed"
	"strings"
)

// briefs has a line "CODE PHRASE" for each code. A phrase that begins with "n "
// tells what N objects are; any other is a clause about the whole release.
//
//go:embed brief.txt
var briefs string

// brief is the code in two to seven words: "altered", of objects, or "the
// manifest has expired", of the whole release. A code without a phrase is its own.
func (c Code) brief() string {
	phrase, _ := c.phrase()
	return phrase
}

// counted reports whether [Code.brief] completes a number of objects: "2 files
// altered".
func (c Code) counted() bool {
	_, objects := c.phrase()
	return objects
}

func (c Code) phrase() (text string, objects bool) {
	_, rest, found := strings.Cut("\n"+briefs, "\n"+string(c)+" ")
	if !found {
		return strings.ToLower(string(c)), true
	}
	line, _, _ := strings.Cut(rest, "\n")
	return strings.CutPrefix(line, "n ")
}
