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

// TestRepetitionsOfPatterns: a short pattern may be long when it is written out.
func TestRepetitionsOfPatterns(t *testing.T) {
	for pattern, made := range map[string]bool{`(?:abcd){100}@example\.test`: true, `(?:abcd){1000}@example\.test`: false} {
		_, err := Pattern("https://issuer.example", pattern, Email)
		if (err == nil) != made || err != nil && !strings.Contains(err.Error(), "too long when written out") {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}

// TestPatternsOfAnyOwner: a pattern that a stranger's identity matches is said
// to be one of any owner.
func TestPatternsOfAnyOwner(t *testing.T) {
	for pattern, kind := range map[string]SANType{`.*`: URI, `[a-z]`: Email, `https://[a-z/.]+`: URI, `[^@]+@[^@]+`: Email} {
		if faults := LintPattern(pattern, kind); !strings.Contains(strings.Join(faults, "\n"), "any owner") {
			t.Errorf("%s: %q", pattern, faults)
		}
	}
	if faults := LintPattern(`[^@]+@example\.test`, Email); len(faults) != 0 {
		t.Errorf("of one host: %q", faults)
	}
}

// TestPrefix: every subject that matches begins with the prefix.
func TestPrefix(t *testing.T) {
	const issuer = "https://issuer.example"
	exact, err := Exact(Identity{Issuer: issuer, Subject: "release@example.test", Type: Email})
	if err != nil || exact.Prefix() != "release@example.test" || (Matcher{}).Prefix() != "" {
		t.Errorf("%q, %v", exact.Prefix(), err)
	}
	for _, row := range []struct {
		pattern, prefix, matches string
		kind                     SANType
	}{
		{`https://host\.example/owner/[a-z]+`, "https://host.example/owner/", "https://host.example/owner/x", URI},
		{`\Ahttps://host\.example/owner/a?b`, "https://host.example/owner/", "https://host.example/owner/b", URI},
		{`^https://host\.example/owner/x\z`, "https://host.example/owner/x", "https://host.example/owner/x", URI},
		{`(a|b)@example\.test`, "", "b@example.test", Email},
		{`ab*@example\.test`, "a", "a@example.test", Email},
		{`(?i:Re)lease@example\.test`, "", "release@example.test", Email},
	} {
		m, err := Pattern(issuer, row.pattern, row.kind)
		if err != nil {
			t.Errorf("%s: %v", row.pattern, err)
			continue
		}
		if m.Prefix() != row.prefix || !strings.HasPrefix(row.matches, m.Prefix()) || !m.Match(Identity{Issuer: issuer, Subject: row.matches, Type: row.kind}) {
			t.Errorf("%s: %q", row.pattern, m.Prefix())
		}
	}
}

// TestOpenDots: a dot in the host is escaped or in a character class; one after
// either is neither.
func TestOpenDots(t *testing.T) {
	for pattern, open := range map[string]bool{
		`release@example\.test`: false, `release@example.test`: true, `release@ex[.]ample\.test`: false, `release@ex[.]ample.test`: true, `release@ex\.ample.test`: true,
	} {
		_, err := Pattern("https://issuer.example", pattern, Email)
		if said := err != nil && strings.Contains(err.Error(), "matches any character"); said != open {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}
