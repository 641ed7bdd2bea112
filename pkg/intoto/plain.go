package intoto

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/strictjson"
)

// plainStatement reads a statement in the form in which encoders of Go write
// it: its four keys in their order, subjects that are plain, and no space
// between them. Such statements can be long, so this is one pass that copies
// nothing but names. It is not true of a statement in any other form or that
// breaks a rule: that is read, or refused, by the whole rules, which would read
// the same here.
//
// Only the predicate is of any form, and held to the rules of strictjson by
// itself. What is left of a statement without it has no number, no escape and
// nothing that could stand twice but the names of subjects.
func plainStatement(raw []byte) (Statement, bool) {
	p := plain{rest: raw}
	s := Statement{raw: raw, names: &names{}}
	switch {
	case len(raw) > strictjson.DefaultSize:
		return Statement{}, false
	case p.take(`{"_type":"` + TypeV1 + `","subject":[`):
		s.kind = TypeV1
	case p.take(`{"_type":"` + TypeV01 + `","subject":[`):
		s.kind = TypeV01
	default:
		return Statement{}, false
	}
	if s.subjects = p.subjects(); !p.take(`],"predicateType":"`) {
		return Statement{}, false
	}
	s.predicateType = string(p.text())
	p.must(`","predicate":`)
	if p.other || !bytes.HasSuffix(p.rest, []byte("}")) {
		return Statement{}, false
	}
	s.predicate = p.rest[:len(p.rest)-1]
	whole := bytes.HasPrefix(s.predicate, []byte("{")) && bytes.HasSuffix(s.predicate, []byte("}"))
	return s, whole && s.predicateType != "" && strictjson.Check(s.predicate, strictjson.MaxDepth(strictjson.DefaultDepth-1)) == nil
}

// apart gives a statement that was read as plain bytes of its own.
func (s Statement) apart() Statement {
	s.raw = slices.Clone(s.raw)
	s.predicate = s.raw[len(s.raw)-1-len(s.predicate) : len(s.raw)-1]
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

// plain is a text that is read from its beginning.
type plain struct {
	rest  []byte
	other bool // it is not of the form
}

// subjects takes a list of subjects: with names that have no escapes, SHA-256
// and perhaps SHA-512 digests, nothing else and no space.
func (p *plain) subjects() []Subject {
	var list []Subject
	var text []byte // all names, one after another, and where each ends
	var ends []int
	for before := len(p.rest); ; {
		s := Subject{}
		if p.take(`{"name":"`) {
			text = append(text, p.text()...)
			p.must(`",`)
		} else {
			p.must("{")
		}
		p.must(`"digest":{"sha256":"`)
		s.Digests.SHA256 = p.digest(digest.SHA256)
		if p.take(`","sha512":"`) {
			s.Digests.SHA512 = p.digest(digest.SHA512)
		}
		p.must(`"}}`)
		if p.other || len(list) == MaxSubjects {
			p.other = true
			return nil
		}
		if list == nil { // the others are like the first, mostly
			n := min(before/(before-len(p.rest))+1, MaxSubjects)
			list, ends, text = make([]Subject, 0, n), make([]int, 0, n), append(make([]byte, 0, n*(len(text)+1)), text...)
		}
		list, ends = append(list, s), append(ends, len(text))
		if !p.take(",") {
			break
		}
	}
	all, from := string(text), 0
	for i, end := range ends {
		list[i].Name, from = all[from:end], end
	}
	return list
}

// take takes a word, if that is what comes.
func (p *plain) take(word string) bool {
	if p.other || len(p.rest) < len(word) || string(p.rest[:len(word)]) != word {
		return false
	}
	p.rest = p.rest[len(word):]
	return true
}

func (p *plain) must(word string) { p.other = !p.take(word) || p.other }

// text takes what comes before a quote, if it is text and nothing of it is
// escaped.
func (p *plain) text() []byte {
	ascii := true
	for i, c := range p.rest {
		switch {
		case c == '"':
			text := p.rest[:i]
			p.rest, p.other = p.rest[i:], p.other || !ascii && !utf8.Valid(text)
			return text
		case c < ' ' || c == '\\':
			p.other = true
			return nil
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	p.other = true
	return nil
}

func (p *plain) digest(a digest.Algorithm) digest.Digest {
	n := 2 * a.Size()
	if len(p.rest) < n {
		p.other = true
		return digest.Digest{}
	}
	d, err := digest.ParseHexBytes(a, p.rest[:n])
	p.other = p.other || err != nil
	p.rest = p.rest[n:]
	return d
}
