package strictjson

import "iter"

// Marks iterates over the commas and opening brackets of raw that are not in a
// string, each with its nesting depth. It is for counting the contents of a
// document before anything is allocated for it, and does not check that raw is
// JSON.
func Marks(raw []byte) iter.Seq2[int, byte] {
	return func(yield func(level int, mark byte) bool) {
		level := 0
		for i := 0; i < len(raw); i++ {
			switch c := raw[i]; c {
			case '"':
				i = endOfString(raw, i+1)
			case '{', '[':
				if !yield(level, c) {
					return
				}
				level++
			case '}', ']':
				level--
			case ',':
				if !yield(level, c) {
					return
				}
			}
		}
	}
}

// endOfString returns the index of the quote that ends the string from i on.
func endOfString(raw []byte, i int) int {
	for i < len(raw) {
		switch i += Plain(raw[i:]); {
		case i == len(raw) || raw[i] == '"':
			return i
		case raw[i] == '\\':
			i++
		}
		i++
	}
	return i
}
