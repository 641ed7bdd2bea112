package identity_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/identity"
)

// One identity is meant, and no other: not even the same text as another kind
// of name.
func ExampleExact() {
	release := identity.Identity{Issuer: "https://accounts.example.test", Subject: "release@example.test", Type: identity.Email}
	m, err := identity.Exact(release)
	if err != nil {
		panic(err)
	}
	other := release
	other.Type = identity.URI
	fmt.Println(m.Match(release), m.Match(other), identity.Matcher{}.Match(identity.Identity{}))
	// Output: true false false
}

// A pattern is of the whole subject, and one that a stranger can meet is not
// made.
func ExamplePattern() {
	m, err := identity.Pattern("https://token.example.test", `https://example\.test/lantern/\.ci/release\.yml@refs/tags/v[0-9.]+`, identity.URI)
	if err != nil {
		panic(err)
	}
	tag := identity.Identity{Issuer: "https://token.example.test", Subject: "https://example.test/lantern/.ci/release.yml@refs/tags/v1.2.3", Type: identity.URI}
	branch := tag
	branch.Subject = "https://example.test/lantern/.ci/release.yml@refs/heads/v1.2.3"
	fmt.Println(m.Match(tag), m.Match(branch))
	_, err = identity.Pattern("https://token.example.test", `https://example.test/.*`, identity.URI)
	fmt.Println(err != nil)
	// Output:
	// true false
	// true
}
