package identity_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/value/identity"
)

func known() identity.Identity {
	return identity.Identity{Issuer: "https://accounts.example.test", Subject: "release@example.test", Type: identity.Email}
}

func TestMatchIsExact(t *testing.T) {
	m, err := identity.Exact(known())
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name   string
		change func(*identity.Identity)
		want   bool
	}{
		{"the very identity", func(*identity.Identity) {}, true},
		{"another subject", func(i *identity.Identity) { i.Subject = "builder@example.test" }, false},
		{"a longer subject", func(i *identity.Identity) { i.Subject += ".evil.example" }, false},
		{"another case", func(i *identity.Identity) { i.Subject = "Release@example.test" }, false},
		{"another issuer", func(i *identity.Identity) { i.Issuer = "https://other.example.test" }, false},
		{"an issuer with a slash more", func(i *identity.Identity) { i.Issuer += "/" }, false},
		{"the same text as a URI", func(i *identity.Identity) { i.Type = identity.URI }, false},
		{"no type", func(i *identity.Identity) { i.Type = "" }, false},
		{"nobody", func(i *identity.Identity) { *i = identity.Identity{} }, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			who := known()
			r.change(&who)
			if got := m.Match(who); got != r.want {
				t.Errorf("matches %s: %t, want %t", who, got, r.want)
			}
		})
	}
}

func TestZeroMatcherMatchesNothing(t *testing.T) {
	var m identity.Matcher
	for _, who := range []identity.Identity{{}, known()} {
		if m.Match(who) {
			t.Errorf("the zero matcher matches %s", who)
		}
	}
	if m.String() != "no identity" {
		t.Errorf("the zero matcher is called %q", m)
	}
}

func TestCheck(t *testing.T) {
	rows := []struct {
		name   string
		change func(*identity.Identity)
		ok     bool
	}{
		{"an e-mail address", func(*identity.Identity) {}, true},
		{"a workflow", func(i *identity.Identity) {
			i.Type, i.Subject = identity.URI, "https://forge.example.test/org/repo/.forge/workflows/release.yml@refs/tags/v1.2.3"
		}, true},
		{"a plus address", func(i *identity.Identity) { i.Subject = "release+ci@example.test" }, true},
		{"an issuer with a path", func(i *identity.Identity) { i.Issuer = "https://issuer.example.test/realm/a" }, true},
		{"http on this machine", func(i *identity.Identity) { i.Issuer = "http://127.0.0.1:8080" }, true},

		{"no issuer", func(i *identity.Identity) { i.Issuer = "" }, false},
		{"no subject", func(i *identity.Identity) { i.Subject = "" }, false},
		{"no type", func(i *identity.Identity) { i.Type = "" }, false},
		{"an unknown type", func(i *identity.Identity) { i.Type = "dns" }, false},
		{"a pattern with a star", func(i *identity.Identity) { i.Subject = "*@example.test" }, false},
		{"an anchored pattern", func(i *identity.Identity) { i.Subject = "^release@example.test$" }, false},
		{"an alternative", func(i *identity.Identity) { i.Subject = "a@example.test|b@example.test" }, false},
		{"a character class", func(i *identity.Identity) { i.Subject = "[a-z]@example.test" }, false},
		{"an escaped dot", func(i *identity.Identity) { i.Subject = `release@example\.test` }, false},
		{"a pattern as issuer", func(i *identity.Identity) { i.Issuer = "https://*.example.test" }, false},
		{"a space", func(i *identity.Identity) { i.Subject = "release@example.test " }, false},
		{"http elsewhere", func(i *identity.Identity) { i.Issuer = "http://accounts.example.test" }, false},
		{"http on a look-alike of this machine", func(i *identity.Identity) { i.Issuer = "http://127.0.0.1.evil.example" }, false},
		{"http with this machine as user", func(i *identity.Identity) { i.Issuer = "http://127.0.0.1@evil.example" }, false},
		{"http on localhost, a name that others answer", func(i *identity.Identity) { i.Issuer = "http://localhost:8080" }, false},
		{"https with a user", func(i *identity.Identity) { i.Issuer = "https://accounts.example.test@evil.example" }, false},
		{"another scheme", func(i *identity.Identity) { i.Issuer = "ftp://accounts.example.test" }, false},
		{"no scheme", func(i *identity.Identity) { i.Issuer = "accounts.example.test" }, false},
		{"no host", func(i *identity.Identity) { i.Issuer = "https://" }, false},
		{"a port without a host", func(i *identity.Identity) { i.Issuer = "https://:443" }, false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			who := known()
			r.change(&who)
			if err := who.Check(); (err == nil) != r.ok {
				t.Errorf("Check(%s) = %v", who, err)
			}
			m, err := identity.Exact(who)
			if (err == nil) != r.ok || m.Match(who) != r.ok {
				t.Errorf("Exact(%s): matches %t, %v", who, m.Match(who), err)
			}
		})
	}
}
