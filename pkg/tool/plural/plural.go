// Package plural writes numbers with nouns that agree: 1 digest, 2 digests.
//
// Other projects should not import this package: it changes without notice.
package plural

import (
	"fmt"
	"strings"
)

// Of writes a number and its noun, given in the singular, as "image" or "image
// manifest". It knows the regular English plurals only.
func Of[N int | int64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if stem, is := strings.CutSuffix(noun, "y"); is && stem != "" && !strings.ContainsRune("aeiou", rune(stem[len(stem)-1])) {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	if strings.HasSuffix(noun, "s") || strings.HasSuffix(noun, "x") || strings.HasSuffix(noun, "ch") || strings.HasSuffix(noun, "sh") {
		return fmt.Sprintf("%d %ses", n, noun)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
