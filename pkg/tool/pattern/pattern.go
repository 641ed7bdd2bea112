// Package pattern compiles regular expressions when they are first used: a program
// has many, and a run of it needs few.
//
//	var commit = pattern.Lazy(`\A[0-9a-f]{40}\z`)
//	commit().MatchString(text)
//
// Other projects should not import this package: it changes without notice.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns a function that returns the compiled expression. Its first call panics
// if the expression is invalid; test/arch compiles each.
func Lazy(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
