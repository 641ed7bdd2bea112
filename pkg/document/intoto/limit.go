package intoto

import (
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// countSubjects refuses a statement with too many subjects before anything is
// allocated for them. An entry of two bytes would otherwise take a hundred
// bytes of memory.
func countSubjects(raw []byte) error {
	if elements(raw, 1) > maxSubjects {
		return verdict.Refuse(verdict.LimitSubjects, "statement", "more than %d subjects", maxSubjects)
	}
	return nil
}

// elements is an upper bound of the length of the longest list at a nesting
// depth.
func elements(raw []byte, depth int) (most int) {
	count, list := 0, false
	for level, mark := range strictjson.Marks(raw) {
		switch {
		case mark != ',' && level == depth:
			list, count = mark == '[', 1
		case mark == ',' && list && level == depth+1:
			count++
			most = max(most, count)
		}
	}
	return most
}
