package intoto

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// plainStatement parses a statement in the form in which most encoders write
// it: keys and members of subjects in their usual order, and subjects with only
// a name and strong digests. Such statements can be long, so this is one pass
// that copies only names. It returns false for a statement in any other form,
// or one that breaks a rule: the full parser decides then, and would read the
// same here.
//
// Only the predicate can have any form; it is skipped with all rules of
// strictjson. The rest of such a statement contains no numbers, and nothing
// that could occur twice except the names of subjects.
func plainStatement(raw []byte) (Statement, bool) {
	s, p := Statement{raw: raw, names: &names{}}, newPlain(raw)
	p.must(`{"_type":`)
	s.kind = string(p.Text())
	if p.Take(`,"predicateType":`) { // the order of the first version of in-toto-golang
		s.predicateType = string(p.Text())
		p.must(`,"subject":[`)
		s.subjects = p.subjects()
		p.must(`]`)
	} else {
		p.must(`,"subject":[`)
		s.subjects = p.subjects()
		p.must(`],"predicateType":`)
		s.predicateType = string(p.Text())
	}
	p.must(`,"predicate":`)
	known := s.kind == TypeV1 || s.kind == typeV01
	if p.other || !known || p.Peek() != '{' || s.predicateType == "" {
		return Statement{}, false
	}
	from := p.Offset()
	p.Skip()
	s.predicate = raw[from:p.Offset()]
	p.must("}")
	p.End()
	return s, !p.other && !p.Failed()
}

// apart returns a copy of a plain statement that shares no memory with raw.
func (s Statement) apart() Statement {
	from := cap(s.raw) - cap(s.predicate) // a part of it
	s.raw = slices.Clone(s.raw)
	s.predicate = s.raw[from : from+len(s.predicate)]
	return s
}

// distinct reports whether no two subjects share a name, not counting empty
// names.
func distinct(subjects []Subject) bool {
	ascend := true
	for i := 1; i < len(subjects) && ascend; i++ {
		ascend = subjects[i-1].Name < subjects[i].Name
	}
	if ascend {
		return true
	}
	seen := make(map[string]struct{}, len(subjects))
	for _, s := range subjects {
		if _, twice := seen[s.Name]; twice && s.Name != "" {
			return false
		}
		seen[s.Name] = struct{}{}
	}
	return true
}

// plain reads a statement in the expected form.
type plain struct {
	*strictjson.Scanner[[]byte]
	size  int  // the whole document
	other bool // false at the first difference
}

func newPlain(raw []byte) plain {
	// The tokens around a predicate are compared, not parsed, so the depth is
	// one level.
	return plain{Scanner: strictjson.NewScanner(raw, strictjson.MaxDepth(strictjson.DefaultDepth-1)), size: len(raw)}
}

// subjects reads a list of subjects with names, SHA-256 and optional SHA-512
// digests, and nothing else.
func (p *plain) subjects() (list []Subject) {
	var text []byte // all names concatenated, and the end of each
	var ends []int
	for before := p.Offset(); ; {
		s := Subject{}
		if p.Take(`{"name":`) {
			text = append(text, p.Text()...)
			p.must(`,"digest":{"sha256":`)
		} else {
			p.must(`{"digest":{"sha256":`)
		}
		s.Digests.SHA256 = p.digest(digest.SHA256)
		if p.Peek() == ',' {
			p.must(`,"sha512":`)
			s.Digests.SHA512 = p.digest(digest.SHA512)
		}
		p.must("}}")
		if p.other || len(list) == maxSubjects {
			p.other = true
			return nil
		}
		if list == nil { // the others usually have the same form as the first
			n := min((p.size-before)/(p.Offset()-before)+1, maxSubjects)
			list, ends, text = make([]Subject, 0, n), make([]int, 0, n), append(make([]byte, 0, n*(len(text)+1)), text...)
		}
		list, ends = append(list, s), append(ends, len(text))
		if p.Peek() != ',' {
			break
		}
		p.must(",")
	}
	all, from := string(text), 0
	for i, end := range ends {
		list[i].Name, from = all[from:end], end
	}
	return list
}

func (p *plain) must(word string) { p.other = !p.Take(word) || p.other }

func (p *plain) digest(a digest.Algorithm) digest.Digest {
	d, err := digest.ParseHexBytes(a, p.Text())
	p.other = p.other || err != nil
	return d
}

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
