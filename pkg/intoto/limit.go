package intoto

import "github.com/waybill-release/waybill/pkg/verdict"

// countSubjects refuses a statement of too many subjects before anything is
// allocated for them. An entry of two bytes would otherwise become a value of
// a hundred.
func countSubjects(raw []byte) error {
	if elements(raw, 1) > MaxSubjects {
		return verdict.Refuse(verdict.LimitSubjects, "statement", "more than %d subjects", MaxSubjects)
	}
	return nil
}

// elements is an upper bound of how many entries the longest list has that
// stands depth levels below the top. It looks at quotes, commas and brackets
// only, so that it may be asked of any bytes at all.
func elements(raw []byte, depth int) (most int) {
	level, count, quoted, list := 0, 0, false, false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			if level == depth {
				list, count = c == '[', 1
			}
			level++
		case c == '}', c == ']':
			level--
		case c == ',' && list && level == depth+1:
			count++
			most = max(most, count)
		}
	}
	return most
}
