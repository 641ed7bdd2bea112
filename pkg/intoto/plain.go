package intoto

import (
	"bytes"
	"slices"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/strictjson"
)

// plainStatement reads a statement whose subjects are a plain list. It is not
// true of one that is anything else, or that breaks a rule.
func plainStatement(raw []byte) (Statement, bool) {
	var wire openStatement
	if strictjson.Unmarshal(raw, &wire) != nil || wire.Type != TypeV1 || checkPredicate(wire.PredicateType, wire.Predicate) != nil {
		return Statement{}, false
	}
	subjects, is := plainSubjects(wire.Subject)
	if !is {
		return Statement{}, false
	}
	seen := make(map[string]struct{}, len(subjects))
	for _, s := range subjects {
		if _, twice := seen[s.Name]; twice && s.Name != "" {
			return Statement{}, false
		}
		seen[s.Name] = struct{}{}
	}
	return Statement{
		raw: slices.Clone(raw), kind: wire.Type, predicateType: wire.PredicateType,
		subjects: subjects, predicate: wire.Predicate, names: &names{},
	}, true
}

// plainSubjects reads a list of subjects that is written as we write it: names
// without escapes, SHA-256 and perhaps SHA-512 digests, nothing else and no
// space. Such lists can be long. It is not true of any other list, which is
// then read by the whole rules; raw was checked to be JSON before.
func plainSubjects(raw []byte) ([]Subject, bool) {
	p := plain{rest: raw}
	if !p.take("[") {
		return nil, false
	}
	list := make([]Subject, 0, min(bytes.Count(raw, []byte(`"digest"`)), MaxSubjects))
	for {
		s := Subject{}
		if p.take(`{"name":"`) {
			s.Name = p.text()
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
			return nil, false
		}
		list = append(list, s)
		if !p.take(",") {
			return list, string(p.rest) == "]"
		}
	}
}

// plain is a text that is read from its beginning.
type plain struct {
	rest  []byte
	other bool // it is not of the form
}

// take takes a word, if that is what comes.
func (p *plain) take(word string) bool {
	if len(p.rest) < len(word) || string(p.rest[:len(word)]) != word {
		return false
	}
	p.rest = p.rest[len(word):]
	return true
}

func (p *plain) must(word string) { p.other = !p.take(word) || p.other }

// text takes what comes before a quote, if nothing of it is escaped.
func (p *plain) text() string {
	end := bytes.IndexByte(p.rest, '"')
	if end < 0 || bytes.IndexByte(p.rest[:end], '\\') >= 0 {
		p.other = true
		return ""
	}
	text := string(p.rest[:end])
	p.rest = p.rest[end:]
	return text
}

func (p *plain) digest(a digest.Algorithm) digest.Digest {
	n := 2 * a.Size()
	if len(p.rest) < n {
		p.other = true
		return digest.Digest{}
	}
	d, err := digest.ParseHex(a, string(p.rest[:n]))
	p.other = p.other || err != nil
	p.rest = p.rest[n:]
	return d
}
