package intoto_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestParseOpenReadsWhatOthersWrite(t *testing.T) {
	sum := digest.SetOf([]byte("a"))
	rows := []struct {
		name     string
		old, new string
	}{
		{"as it is", "", ""},
		{"version 0.1", "Statement/v1", "Statement/v0.1"},
		{"an unknown field", `"predicate":`, `"extra":{"a":[1]},"predicate":`},
		{"an unknown field of a subject", `{"name":"bin/a",`, `{"name":"bin/a","extra":1,`},
		{"annotations of a subject", `{"name":"bin/a",`, `{"name":"bin/a","annotations":{"x":[1]},`},
		{"two subjects of one name", "bin/b", "bin/a"},
		{"a subject without a name", `"name":"bin/b",`, ``},
		{"a subject with SHA-512 only", `"sha256":"` + sum.SHA256.Hex() + `",`, ``},
		{"a weak digest only", `"sha256":"` + sum.SHA256.Hex() + `",`, `"gitCommit":"` + sum.SHA256.Hex()[:40] + `",`},
		{"a digest of no known kind", `"sha256":"` + sum.SHA256.Hex() + `",`, `"gce_image_id":"8970095005306000053",`},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			text := strings.Replace(valid(), r.old, r.new, 1)
			s, err := intoto.ParseOpen([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			if string(s.Raw()) != text || len(s.Subjects()) != 2 || len(s.Resources()) != 2 {
				t.Errorf("read as %v", s.Resources())
			}
			strict, strictErr := s.Strict()
			_, want := intoto.Parse([]byte(text))
			if (strictErr == nil) != (want == nil) || (want == nil) != (string(strict.Raw()) == text) {
				t.Errorf("Strict says %v, Parse says %v", strictErr, want)
			}
		})
	}
}

func TestParseOpenRefuses(t *testing.T) {
	sum := digest.SetOf([]byte("a"))
	both := fmt.Sprintf(`"sha256":"%s","sha512":"%s"`, sum.SHA256.Hex(), sum.SHA512.Hex())
	rows := []struct {
		name     string
		old, new string
		code     verdict.Code
	}{
		{"another statement type", "Statement/v1", "Statement/v0.2", verdict.StatementType},
		{"a predicate that is no object", `{"k":1}`, `"k"`, verdict.StatementParse},
		{"a predicate that is a list", `{"k":1}`, `[]`, verdict.StatementParse},
		{"a second key", `"predicate":`, `"predicateType":"x","predicate":`, verdict.StatementParse},
		{"a second key of an unknown field", `"predicate":`, `"x":{"a":1,"a":1},"predicate":`, verdict.StatementParse},
		{"a key in another case", `"predicate":`, `"Subject":[],"predicate":`, verdict.StatementParse},
		{"a key that folds", `"predicate":`, `"ſubject":[],"predicate":`, verdict.StatementParse},
		{"a digest in upper case", sum.SHA256.Hex(), strings.ToUpper(sum.SHA256.Hex()), verdict.StatementParse},
		{"a digest too short", sum.SHA512.Hex(), sum.SHA512.Hex()[2:], verdict.StatementParse},
		{"an algorithm in upper case", `"sha256"`, `"SHA256"`, verdict.StatementParse},
		{"a subject without digests", both, ``, verdict.StatementParse},
		{"something after the end", `{"k":1}}`, `{"k":1}} {}`, verdict.StatementParse},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			changed := strings.Replace(valid(), r.old, r.new, 1)
			if changed == valid() {
				t.Fatalf("%q is not in the valid statement", r.old)
			}
			s, err := intoto.ParseOpen([]byte(changed))
			if err == nil {
				t.Fatal("accepted")
			}
			if f := verdict.FindingOf("", err); f.Code != r.code || !s.IsZero() {
				t.Errorf("refused as %s with %v: %v, want %s", f.Code, s.Subjects(), err, r.code)
			}
		})
	}
}

// TestNoPredicate: a predicate may be omitted, which is the same as an empty one;
// our own statements have one.
func TestNoPredicate(t *testing.T) {
	for _, with := range []string{``, `,"predicate":null`, `,"predicate":{}`} {
		text := strings.Replace(valid(), `,"predicate":{"k":1}`, with, 1)
		s, err := intoto.ParseOpen([]byte(text))
		if err != nil || string(s.Predicate()) != "{}" || string(s.Raw()) != text {
			t.Errorf("%q: %q, %v", with, s.Predicate(), err)
		}
		if _, err := intoto.Parse([]byte(text)); err == nil && with != `,"predicate":{}` {
			t.Errorf("%q is read as one of ours", with)
		}
	}
}

func TestWeakDigestsBindNothing(t *testing.T) {
	a := digest.SetOf([]byte("a"))
	text := func(d string) string {
		return `{"_type":"https://in-toto.io/Statement/v0.1","subject":[{"name":"a","digest":{` + d + `}}],"predicateType":"x","predicate":{}}`
	}
	rows := []struct {
		why    string
		digest string
		bytes  digest.Set
		want   bool
	}{
		{"SHA-512 only", `"sha512":"` + a.SHA512.Hex() + `"`, a, true},
		{"SHA-512 only, not read", `"sha512":"` + a.SHA512.Hex() + `"`, digest.Set{SHA256: a.SHA256}, false},
		{"SHA-512 of other bytes", `"sha512":"` + a.SHA512.Hex() + `"`, digest.SetOf([]byte("b")), false},
		{"a commit", `"gitCommit":"` + strings.Repeat("a", 40) + `"`, a, false},
		{"SHA-256 under a name of its own", `"sha-256":"` + a.SHA256.Hex() + `"`, a, false},
	}
	for _, r := range rows {
		s, err := intoto.ParseOpen([]byte(text(r.digest)))
		if err != nil {
			t.Fatalf("%s: %v", r.why, err)
		}
		if got := s.Names("a", r.bytes); got != r.want {
			t.Errorf("%s: %t, want %t", r.why, got, r.want)
		}
		if s.Type() != "https://in-toto.io/Statement/v0.1" {
			t.Errorf("type %q", s.Type())
		}
	}
}

func TestCommit(t *testing.T) {
	c := strings.Repeat("c", 40)
	rows := []struct {
		r    intoto.Resource
		want string
	}{
		{intoto.Resource{Digest: map[string]string{"gitCommit": c}}, c},
		{intoto.Resource{URI: "git+https://example.test/a", Digest: map[string]string{"sha1": c}}, c},
		{intoto.Resource{URI: "https://example.test/a", Digest: map[string]string{"sha1": c}}, ""},
		{intoto.Resource{Digest: map[string]string{"gitCommit": strings.ToUpper(c)}}, ""},
		{intoto.Resource{Digest: map[string]string{"gitCommit": c[1:]}}, ""},
		{intoto.Resource{URI: "git+https://example.test/a"}, ""},
	}
	for _, r := range rows {
		if got := r.r.Commit(); got != r.want {
			t.Errorf("%v: %q, want %q", r.r, got, r.want)
		}
	}
}

// Entries of two bytes must be counted before there is room for them.
func TestTooManySubjectsAreRefusedAtOnce(t *testing.T) {
	bomb := []byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[` + strings.Repeat(`{},`, 4<<20) + `{}],"predicateType":"x","predicate":{}}`)
	for name, parse := range map[string]func([]byte) (intoto.Statement, error){"ours": intoto.Parse, "open": intoto.ParseOpen} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := parse(bomb)
		runtime.ReadMemStats(&after)
		if code := verdict.FindingOf("", err).Code; code != verdict.LimitSubjects {
			t.Errorf("%s: refused as %s: %v", name, code, err)
		}
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", name, grown)
		}
	}
	// The very cap is read.
	sum := digest.SetOf([]byte("a")).SHA256.Hex()
	for n, want := range map[int]verdict.Code{intoto.MaxSubjects: "", intoto.MaxSubjects + 1: verdict.LimitSubjects} {
		list := strings.TrimSuffix(strings.Repeat(`{"name":"a","digest":{"sha256":"`+sum+`"}},`, n), ",")
		s, err := intoto.ParseOpen([]byte(`{"_type":"` + intoto.TypeV1 + `","subject":[` + list + `],"predicateType":"x:y","predicate":{}}`))
		if err == nil && (want != "" || len(s.Subjects()) != n) || err != nil && verdict.FindingOf("", err).Code != want {
			t.Errorf("%d subjects: %v, want %q", n, err, want)
		}
	}
	// Many members of a predicate are no subjects.
	wide := strings.Replace(valid(), `{"k":1}`, `{"k":[`+strings.Repeat(`1,`, 2*intoto.MaxSubjects)+`1]}`, 1)
	if _, err := intoto.Parse([]byte(wide)); err != nil {
		t.Error(err)
	}
}

func FuzzParseOpen(f *testing.F) {
	f.Add([]byte(valid()))
	f.Add([]byte(strings.Replace(valid(), "Statement/v1", "Statement/v0.1", 1)))
	f.Add([]byte(strings.Replace(valid(), `"predicate":`, `"slsaProvenance":{},"predicate":`, 1)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() { _, _ = intoto.ParseOpen(raw) })
		s, err := intoto.ParseOpen(raw)
		strict, strictErr := intoto.Parse(raw)
		if err != nil {
			if strictErr == nil {
				t.Fatalf("ours, but not for others: %v", err)
			}
			return
		}
		if string(s.Raw()) != string(raw) || !json.Valid(s.Predicate()) || len(s.Subjects()) != len(s.Resources()) {
			t.Fatal("raw bytes, predicate or subjects are not those that were read")
		}
		if strictErr == nil {
			for i, sub := range strict.Subjects() {
				if sub != s.Subjects()[i] {
					t.Fatalf("subject %d is %v for us and %v for others", i, sub, s.Subjects()[i])
				}
			}
		}
	})
}
