package strictjson

import "iter"

// Marks are the commas and opening brackets of raw that are not in a string,
// each with the number of brackets around it. They are for counting what a
// document holds before anything is allocated for it: whether raw is JSON is
// not asked.
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

// endOfString is where the quote is that ends the string from i on.
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
