package caller_test

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const book = `audience: https://gate.example.test
callers:
- name: release-ci
  token: {issuer: "https://token.example.test", subject: "repo:example/lantern:ref:refs/heads/main", claims: {repository_id: "1234", workflow_ref: "example/lantern/release.yml@refs/heads/main"}}
- name: nightly
  token: {issuer: "https://token.example.test", subject: "repo:example/lantern:ref:refs/heads/nightly"}
- name: officer
  token: {issuer: "https://accounts.example.test", subject: "42", claims: {email: officer@example.test}}
- name: registry
  certificate: {uri: "spiffe://example.test/registry"}
- name: auditor
  certificate: {uri: "spiffe://example.test/auditor"}
grants:
- {caller: release-ci, verbs: [verify, promote], from: [staging.example.test/lantern], to: [prod.example.test/lantern], channels: [stable, beta]}
- {caller: release-ci, verbs: [verify], from: [staging.example.test/], to: [staging.example.test/], channels: [none]}
- {caller: nightly, verbs: [verify, promote], from: [staging.example.test/nightly/], to: [prod.example.test/nightly/], channels: [nightly]}
- {caller: officer, verbs: [override], from: [staging.example.test/lantern], to: [prod.example.test/lantern], channels: [stable]}
- {caller: registry, verbs: [verify], from: [prod.example.test/], to: [prod.example.test/], channels: [none]}
- {caller: auditor, verbs: [audit], from: [prod.example.test/], to: [prod.example.test/], channels: [none]}
`

func open(t *testing.T) caller.Book {
	t.Helper()
	b, err := caller.Parse([]byte(book))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func codeOf(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

// TestMatrix asks for every verb, by everybody, from and to everywhere, in
// every channel. What is granted is written here once more, by hand; all else
// is denied.
func TestMatrix(t *testing.T) {
	b, is := open(t), newIssuer(t)
	who := map[string]caller.Principal{"nobody": {}}
	for name, said := range map[string]map[string]any{
		"release-ci": {"iss": "https://token.example.test", "sub": "repo:example/lantern:ref:refs/heads/main", "repository_id": "1234", "workflow_ref": "example/lantern/release.yml@refs/heads/main"},
		"nightly":    {"iss": "https://token.example.test", "sub": "repo:example/lantern:ref:refs/heads/nightly"},
		"officer":    {"iss": "https://accounts.example.test", "sub": "42", "email": "officer@example.test", "email_verified": true},
	} {
		p, err := b.Token(is.token(t, nil, said), is.keys, is.now)
		if err != nil {
			t.Fatal(err)
		}
		who[name] = p
	}
	for _, name := range []string{"registry", "auditor"} {
		p, err := b.Certificate(shown(name, is.now.Add(-time.Hour), is.now), is.now)
		if err != nil {
			t.Fatal(err)
		}
		who[name] = p
	}
	granted := map[string]bool{}
	grant := func(name string, verbs []caller.Verb, from, to, channel string) {
		for _, v := range verbs {
			granted[fmt.Sprint(name, v, from, to, channel)] = true
		}
	}
	both := []caller.Verb{caller.Verify, caller.Promote}
	for _, channel := range []string{"stable", "beta"} {
		grant("release-ci", both, "staging.example.test/lantern", "prod.example.test/lantern", channel)
	}
	for _, from := range []string{"staging.example.test/lantern", "staging.example.test/nightly/lantern", "staging.example.test/lantern-evil"} {
		for _, to := range []string{"staging.example.test/lantern"} {
			grant("release-ci", both[:1], from, to, "none")
		}
	}
	grant("nightly", both, "staging.example.test/nightly/lantern", "prod.example.test/nightly/lantern", "nightly")
	grant("officer", []caller.Verb{caller.Override}, "staging.example.test/lantern", "prod.example.test/lantern", "stable")
	grant("registry", both[:1], "prod.example.test/lantern", "prod.example.test/lantern", "none")
	grant("registry", both[:1], "prod.example.test/lantern", "prod.example.test/nightly/lantern", "none")
	grant("auditor", []caller.Verb{caller.Audit}, "prod.example.test/lantern", "prod.example.test/lantern", "none")
	grant("auditor", []caller.Verb{caller.Audit}, "prod.example.test/lantern", "prod.example.test/nightly/lantern", "none")

	cells, yes := 0, 0
	for name, p := range who {
		for _, verb := range append(caller.Verbs(), "", "*", "delete") {
			for _, from := range []string{
				"staging.example.test/lantern", "staging.example.test/nightly/lantern", "staging.example.test/lantern-evil", "prod.example.test/lantern", "",
				"staging.example.test//lantern", "staging.example.test/../lantern", "staging.example.test.evil.test/lantern",
			} {
				for _, to := range []string{"prod.example.test/lantern", "prod.example.test/nightly/lantern", "staging.example.test/lantern", "prod.example.test/lantern/", ""} {
					for _, channel := range []string{"stable", "beta", "nightly", "none", "", "*"} {
						cells++
						err := b.May(p, caller.Act{Verb: verb, From: from, To: to, Channel: channel})
						want := granted[fmt.Sprint(name, verb, from, to, channel)]
						if (err == nil) != want || err != nil && codeOf(err) != verdict.NotGranted {
							t.Errorf("%s, %s from %q to %q in %q: %v, want granted: %v", name, verb, from, to, channel, err, want)
						}
						if want {
							yes++
						}
					}
				}
			}
		}
	}
	if cells < 500 || yes != len(granted) {
		t.Errorf("%d cells, %d granted of %d", cells, yes, len(granted))
	}
}

// TestParse: each line of a book that would let in more than is written there
// is refused.
func TestParse(t *testing.T) {
	for _, c := range [][2]string{
		{"audience: https://gate.example.test\n", ""},
		{`subject: "42"`, `subject: ""`},
		{`issuer: "https://accounts.example.test"`, `issuer: "http://accounts.example.test"`},
		{`issuer: "https://accounts.example.test"`, `issuer: ""`},
		{"name: nightly", "name: release-ci"},
		{"name: nightly", `name: "Nightly Build"`},
		{`ref:refs/heads/nightly"}`, `ref:refs/heads/main"}`},
		{"claims: {email: officer@example.test}", `claims: {email: ""}`},
		{"claims: {email: officer@example.test}", `claims: {aud: everybody}`},
		{`uri: "spiffe://example.test/auditor"`, `uri: ""`},
		{`uri: "spiffe://example.test/auditor"`, `uri: "spiffe://` + strings.Repeat("a", 1001) + `"`},
		{`uri: "spiffe://example.test/auditor"`, `uri: "spiffe://example.test/registry"`},
		{`certificate: {uri: "spiffe://example.test/auditor"}`, `certificate: {uri: "spiffe://example.test/auditor"}` + "\n" + `  token: {issuer: "https://a.example.test", subject: b}`},
		{"- {caller: registry, verbs: [verify]", "- {caller: registry, verbs: [verify, override]"},
		{"verbs: [override]", "verbs: []"},
		{"verbs: [override]", "verbs: [everything]"},
		{"from: [staging.example.test/nightly/]", "from: []"},
		{"from: [staging.example.test/nightly/]", `from: ["*"]`},
		{"from: [staging.example.test/nightly/]", `from: ["staging.example.test/../"]`},
		{"to: [prod.example.test/nightly/]", `to: [""]`},
		{"channels: [nightly]", "channels: []"},
		{"channels: [nightly]", `channels: ["*"]`},
		{"{caller: nightly,", "{caller: daily,"},
		{"- {caller: auditor, verbs: [audit], from: [prod.example.test/], to: [prod.example.test/], channels: [none]}\n", ""},
		{"grants:\n", "grants: []\nmore:\n"},
		{book, "audience: https://gate.example.test\ncallers: []\ngrants: []\n"},
	} {
		if strings.Count(book, c[0]) == 0 {
			t.Fatalf("%q is not in the book", c[0])
		}
		if _, err := caller.Parse([]byte(strings.Replace(book, c[0], c[1], 1))); codeOf(err) != verdict.ConfigParse {
			t.Errorf("%q for %q: %v", c[1], c[0], err)
		}
	}
}

// TestParseLongURI: the longest URI of a certificate is parsed.
func TestParseLongURI(t *testing.T) {
	long := strings.Replace(book, "spiffe://example.test/auditor", "spiffe://"+strings.Repeat("a", 1000), 1)
	if _, err := caller.Parse([]byte(long)); err != nil {
		t.Error(err)
	}
}

// shown is a certificate that names a caller.
func shown(name string, from, until time.Time) *x509.Certificate {
	return &x509.Certificate{NotBefore: from, NotAfter: until, URIs: []*url.URL{{Scheme: "spiffe", Host: "example.test", Path: "/" + name}}}
}

// TestCertificateAtThisTime: a certificate says who asks while it is valid, and
// not a second longer, however old the connection is.
func TestCertificateAtThisTime(t *testing.T) {
	b, now := open(t), newIssuer(t).now
	for name, row := range map[string]struct {
		from, until time.Time
		good        bool
	}{
		"valid":            {now.Add(-time.Hour), now.Add(time.Hour), true},
		"its last moment":  {now.Add(-time.Hour), now, true},
		"its first moment": {now, now.Add(time.Hour), true},
		"expired":          {now.Add(-time.Hour), now.Add(-time.Second), false},
		"not valid yet":    {now.Add(time.Second), now.Add(time.Hour), false},
	} {
		who, err := b.Certificate(shown("registry", row.from, row.until), now)
		if (err == nil) != row.good || row.good && who.Name() != "registry" || !row.good && verdict.FindingOf("", err).Code != verdict.TokenTime {
			t.Errorf("%s: %q, %v, want good %v", name, who.Name(), err, row.good)
		}
	}
}

// TestMayAsk: whoever has no grant but to read the record may ask for nothing.
func TestMayAsk(t *testing.T) {
	b, now := open(t), newIssuer(t).now
	for name, good := range map[string]bool{"registry": true, "auditor": false, "nobody": false} {
		who := caller.Principal{}
		if name != "nobody" {
			var err error
			if who, err = b.Certificate(shown(name, now, now), now); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.MayAsk(who); (err == nil) != good || !good && verdict.FindingOf("", err).Code != verdict.NotGranted {
			t.Errorf("%s: %v, want good %v", name, err, good)
		}
	}
}
