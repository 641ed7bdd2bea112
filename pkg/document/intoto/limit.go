package intoto

import (
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
// stands depth levels below the top.
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
