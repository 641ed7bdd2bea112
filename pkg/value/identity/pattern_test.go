package identity

import (
	"strings"
	"testing"
)

// TestPatternOfSomebody: a pattern is of an issuer and a kind of subject, as an
// identity is.
func TestPatternOfSomebody(t *testing.T) {
	const issuer, meant = "https://issuer.example", `release@example\.test`
	for _, row := range []struct {
		name, issuer string
		kind         SANType
		made         bool
	}{
		{"whole", issuer, Email, true},
		{"without an issuer", "", Email, false},
		{"of an issuer without https", "http://issuer.example", Email, false},
		{"without a kind", issuer, "", false},
		{"of a kind that is none", issuer, "phone", false},
	} {
		m, err := Pattern(row.issuer, meant, row.kind)
		if (err == nil) != row.made {
			t.Errorf("a pattern %s: %v", row.name, err)
		}
		if got := m.Match(Identity{Issuer: row.issuer, Subject: "release@example.test", Type: row.kind}); got != row.made {
			t.Errorf("a pattern %s matches: %t", row.name, got)
		}
	}
}

// TestLengthOfPatterns: at the limit, and one byte over it.
func TestLengthOfPatterns(t *testing.T) {
	const end = `@example\.test`
	long := strings.Repeat("a", maxPattern-len(end)) + end
	if _, err := Pattern("https://issuer.example", long, Email); err != nil {
		t.Errorf("%d bytes: %v", len(long), err)
	}
	_, err := Pattern("https://issuer.example", "a"+long, Email)
	if err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("%d bytes: %v", len(long)+1, err)
	}
}
