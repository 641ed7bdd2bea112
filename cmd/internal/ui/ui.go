// Package ui holds the rules of the terminal:
//
//   - results go to stdout, messages and progress to stderr;
//   - a message says what is happening, and to how much;
//   - a line is redrawn only if stderr is a terminal, and is never wider than it;
//     elsewhere what lasts is a line every ten seconds;
//   - with --log-format json, each line of stderr is one JSON object with the
//     trace ids of the action that it is about.
package ui

import "fmt"

// Bytes prints a size for people.
func Bytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, exp := float64(n)/unit, 0
	for value >= unit && exp < 4 {
		value /= unit
		exp++
	}
	return fmt.Sprintf("%.1f %ciB", value, "KMGTP"[exp])
}
