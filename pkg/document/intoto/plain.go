package intoto

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// plainStatement reads a statement in the form in which most encoders write it:
// keys and members of subjects in their order, and subjects with nothing but a
// name and strong digests. Such statements can be long, so this is one pass that
// copies nothing but names. It is not true of a statement in any other form or
// that breaks a rule: that is read, or refused, by the whole rules, which would
// read the same here.
//
// Only the predicate is of any form, and skipped by all rules of strictjson.
// What is left of a statement without it has no number and nothing that could
// stand twice but the names of subjects.
func plainStatement(raw []byte) (Statement, bool) {
	s, p := Statement{raw: raw, names: &names{}}, newPlain(raw)
	p.must(`{"_type":`)
	s.kind = string(p.Text())
	if p.Take(`,"predicateType":`) { // as the first version of in-toto-golang has it
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
	known := s.kind == TypeV1 || s.kind == TypeV01
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

// apart gives a statement that was read as plain bytes of its own.
func (s Statement) apart() Statement {
	from := cap(s.raw) - cap(s.predicate) // which is a piece of it
	s.raw = slices.Clone(s.raw)
	s.predicate = s.raw[from : from+len(s.predicate)]
	return s
}

// distinct reports whether no two subjects share a name. Those without one
// share nothing.
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

// plain reads a statement that is in the form that is expected.
type plain struct {
	*strictjson.Scanner[[]byte]
	size  int  // of all of it
	other bool // it is not
}

func newPlain(raw []byte) plain {
	// What is around a predicate is taken, not opened: it is one level of all.
	return plain{Scanner: strictjson.NewScanner(raw, strictjson.MaxDepth(strictjson.DefaultDepth-1)), size: len(raw)}
}

// subjects takes a list of subjects: with names, SHA-256 and perhaps SHA-512
// digests, and nothing else.
func (p *plain) subjects() []Subject {
	var list []Subject
	var text []byte // all names, one after another, and where each ends
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
		if p.other || len(list) == MaxSubjects {
			p.other = true
			return nil
		}
		if list == nil { // the others are like the first, mostly
			n := min((p.size-before)/(p.Offset()-before)+1, MaxSubjects)
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
