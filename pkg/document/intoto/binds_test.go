package intoto

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestBindsByBytes: a statement binds the bytes of a subject, and none that
// differ in one of the digests that it gives.
func TestBindsByBytes(t *testing.T) {
	a, b, other := digest.SetOf([]byte("a")), digest.SetOf([]byte("b")), digest.SetOf([]byte("other"))
	short := digest.Set{SHA256: b.SHA256}
	s, err := New("https://example.test/predicate/v1", []Subject{{Name: "a", Digests: a}, {Name: "b", Digests: short}}, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name  string
		bytes digest.Set
		binds bool
	}{
		{"those of a subject", a, true},
		{"those of a subject that gives one digest", b, true},
		{"others", other, false},
		{"of one subject by one digest, of another by the other", digest.Set{SHA256: a.SHA256, SHA512: b.SHA512}, false},
		{"sha512 alone, of a subject that gives sha256", digest.Set{SHA512: b.SHA512}, false},
		{"none", digest.Set{}, false},
	} {
		if got := s.Binds(row.bytes); got != row.binds {
			t.Errorf("%s: %t", row.name, got)
		}
	}
	if (Statement{}).Binds(a) {
		t.Error("no statement binds")
	}
}

// TestBracketsInNames: what stands in quotes does not hide subjects from the
// limit, and does not add any.
func TestBracketsInNames(t *testing.T) {
	statement := func(first string, n int) []byte {
		subjects := []string{fmt.Sprintf(`{"name":%q}`, first)}
		for i := 1; i < n; i++ {
			subjects = append(subjects, `{}`)
		}
		return []byte(`{"subject":[` + strings.Join(subjects, ",") + `]}`)
	}
	for _, name := range []string{"a", "[", "]", "[[[", "]]]", "{", "}}", `"[`, `\"]`, "[,,,", strings.Repeat(",", maxSubjects)} {
		if err := countSubjects(statement(name, maxSubjects)); err != nil {
			t.Errorf("a first subject %.20q, as many as there may be: %v", name, err)
		}
		if err := countSubjects(statement(name, maxSubjects+1)); err == nil || verdict.FindingOf("", err).Code != verdict.LimitSubjects {
			t.Errorf("a first subject %.20q, one more: %v, want LIMIT_SUBJECTS", name, err)
		}
	}
}
