package intoto_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const predicateType = "https://example.test/predicate/v1"

// valid is a statement with a space that no encoder of ours would write.
func valid() string {
	a, b := digest.SetOf([]byte("a")), digest.SetOf([]byte("b"))
	return fmt.Sprintf(`{"_type": "https://in-toto.io/Statement/v1","subject":[{"name":"bin/a","digest":{"sha256":"%s","sha512":"%s"}},{"name":"bin/b","digest":{"sha256":"%s"}}],"predicateType":"%s","predicate":{"k":1}}`,
		a.SHA256.Hex(), a.SHA512.Hex(), b.SHA256.Hex(), predicateType)
}

func TestParse(t *testing.T) {
	s, err := intoto.Parse([]byte(valid()))
	if err != nil {
		t.Fatal(err)
	}
	if s.PredicateType() != predicateType || string(s.Predicate()) != `{"k":1}` || len(s.Subjects()) != 2 || s.IsZero() {
		t.Errorf("parsed as %q %s %v", s.PredicateType(), s.Predicate(), s.Subjects())
	}
	if s.Subjects()[0].Digests != digest.SetOf([]byte("a")) {
		t.Errorf("first subject is %v", s.Subjects()[0])
	}
}

func TestParseRefuses(t *testing.T) {
	sum := digest.Of(digest.SHA256, []byte("a")).Hex()
	rows := []struct {
		name     string
		old, new string
		code     verdict.Code
	}{
		{"another statement type", "Statement/v1", "Statement/v9", verdict.StatementType},
		{"an old statement type", "Statement/v1", "Statement/v0.1", verdict.StatementType},
		{"no statement type", `"_type": "https://in-toto.io/Statement/v1",`, ``, verdict.StatementType},
		{"no predicate type", `"predicateType":"` + predicateType + `"`, `"predicateType":""`, verdict.StatementParse},
		{"no predicate", `,"predicate":{"k":1}`, ``, verdict.StatementParse},
		{"a predicate that is null", `{"k":1}`, `null`, verdict.StatementParse},
		{"a predicate that is text", `{"k":1}`, `"k"`, verdict.StatementParse},
		{"two subjects of one name", "bin/b", "bin/a", verdict.StatementParse},
		{"a subject without sha256", `"sha256":"` + sum + `",`, ``, verdict.StatementParse},
		{"a weak digest only", `"sha256":"` + sum + `",`, `"sha1":"` + sum[:40] + `",`, verdict.StatementParse},
		{"a digest in upper case", sum, strings.ToUpper(sum), verdict.StatementParse},
		{"a digest too short", sum, sum[:62], verdict.StatementParse},
		{"a second key of one name", `"predicate":`, `"predicateType":"x","predicate":`, verdict.StatementParse},
		{"a second key inside the predicate", `{"k":1}`, `{"k":1,"k":2}`, verdict.StatementParse},
		{"an unknown field", `"predicate":`, `"extra":1,"predicate":`, verdict.StatementParse},
		{"a key in another case", `"subject"`, `"Subject"`, verdict.StatementParse},
		{"something after the end", `{"k":1}}`, `{"k":1}} {}`, verdict.StatementParse},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			changed := strings.Replace(valid(), r.old, r.new, 1)
			if changed == valid() {
				t.Fatalf("%q is not in the valid statement", r.old)
			}
			refused(t, changed, r.code)
		})
	}
	for _, subjects := range []string{`[]`, `null`} {
		head, rest, _ := strings.Cut(valid(), `"subject":`)
		_, tail, _ := strings.Cut(rest, `],`)
		refused(t, head+`"subject":`+subjects+`,`+tail, verdict.StatementParse)
	}
}

func refused(t *testing.T, text string, code verdict.Code) {
	t.Helper()
	s, err := intoto.Parse([]byte(text))
	if err == nil {
		t.Fatalf("accepted %s", text)
	}
	if f := verdict.FindingOf("", err); f.Code != code {
		t.Errorf("refused as %s: %v, want %s", f.Code, err, code)
	}
	if !s.IsZero() {
		t.Error("a refusal came with a statement")
	}
}

func TestMangledStatementsAreRefused(t *testing.T) {
	for i := range len(valid()) {
		if _, err := intoto.Parse([]byte(valid()[:i])); err == nil {
			t.Errorf("accepted the first %d bytes", i)
		}
	}
}

func TestRawBytesAreKept(t *testing.T) {
	given := []byte(valid())
	s, err := intoto.Parse(given)
	if err != nil {
		t.Fatal(err)
	}
	given[0] = 'X'
	if string(s.Raw()) != valid() {
		t.Errorf("raw bytes are %s", s.Raw())
	}
	s.Raw()[0], s.Predicate()[0], s.Subjects()[0].Name = 'X', 'X', "X"
	if string(s.Raw()) != valid() || string(s.Predicate()) != `{"k":1}` || s.Subjects()[0].Name != "bin/a" {
		t.Error("what a caller does to a copy reaches the statement")
	}
}

func TestNamesByNameAndDigest(t *testing.T) {
	s, err := intoto.Parse([]byte(valid()))
	if err != nil {
		t.Fatal(err)
	}
	a, b := digest.SetOf([]byte("a")), digest.SetOf([]byte("b"))
	rows := []struct {
		why   string
		name  string
		bytes digest.Set
		want  bool
	}{
		{"name and both digests", "bin/a", a, true},
		{"a subject with sha256 only", "bin/b", b, true},
		{"the bytes of another subject", "bin/a", b, false},
		{"the name of another subject", "bin/b", a, false},
		{"a name that is not there", "bin/c", a, false},
		{"no name", "", a, false},
		{"no bytes", "bin/a", digest.Set{}, false},
		{"sha512 of other bytes", "bin/a", digest.Set{SHA256: a.SHA256, SHA512: b.SHA512}, false},
		{"sha512 not read", "bin/a", digest.Set{SHA256: a.SHA256}, false},
	}
	for _, r := range rows {
		if got := s.Names(r.name, r.bytes); got != r.want {
			t.Errorf("%s: %t, want %t", r.why, got, r.want)
		}
	}
	if (intoto.Statement{}).Names("", digest.Set{}) {
		t.Error("the zero statement names something")
	}
}

func TestNew(t *testing.T) {
	subjects := []intoto.Subject{{Name: "b", Digests: digest.SetOf([]byte("b"))}, {Name: "a", Digests: digest.SetOf([]byte("a"))}}
	s, err := intoto.New(predicateType, subjects, map[string]int{"k": 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Subjects(); got[0] != subjects[0] || got[1] != subjects[1] {
		t.Errorf("subjects changed order or content: %v", got)
	}
	again, err := intoto.Parse(s.Raw())
	if err != nil || !bytes.Equal(again.Raw(), s.Raw()) {
		t.Errorf("its own bytes are read as %s, %v", again.Raw(), err)
	}
	if _, err := intoto.New(predicateType, nil, struct{}{}); err == nil {
		t.Error("a statement about nothing was made")
	}
	for _, make := range []func(string, []intoto.Subject, any) (intoto.Statement, error){intoto.New, intoto.NewV01} {
		if _, err := make(predicateType, subjects, func() {}); err == nil || !strings.Contains(err.Error(), "encoding predicate "+predicateType) {
			t.Errorf("a predicate that has no JSON was encoded: %v", err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(valid()))
	f.Add([]byte(strings.Replace(valid(), "bin/b", "", 1)))
	f.Add([]byte(strings.Replace(valid(), `{"k":1}`, `{"k":1,"k":1}`, 1)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() { _, _ = intoto.Parse(raw) })
		s, err := intoto.Parse(raw)
		if err != nil {
			if code := verdict.FindingOf("", err).Code; code.Outcome() != verdict.Refused {
				t.Fatalf("refused as %s: %v", code, err)
			}
			return
		}
		if !bytes.Equal(s.Raw(), raw) || !json.Valid(s.Predicate()) {
			t.Fatal("raw bytes or predicate are not those that were read")
		}
		again, err := intoto.New(s.PredicateType(), s.Subjects(), s.Predicate())
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		for i, subject := range s.Subjects() {
			if subject != again.Subjects()[i] || !again.Names(subject.Name, subject.Digests) {
				t.Fatalf("subject %d became %v", i, again.Subjects()[i])
			}
		}
	})
}
