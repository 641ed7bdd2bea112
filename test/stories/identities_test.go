package stories

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/test/scene"
)

// asBoth runs a command with tokens for builder and release, of the given roles.
func asBoth(s *scene.Scene, t *testing.T, command, builder, release string, more ...string) scene.Result {
	t.Helper()
	save(t, []byte(s.Lab.Token(builder)), s.Dir, "one.token")
	save(t, []byte(s.Lab.Token(release)), s.Dir, "other.token")
	return s.Run(t.Context(), append(append([]string{"waybill"}, strings.Fields(command)...), append([]string{"--source", "lantern", "--profile", "profile.yaml",
		"--identity-token", "builder=one.token", "--identity-token", "release=other.token"}, more...)...)...)
}

// TestOneIdentityIsNotTwo: one identity as builder and as release is refused
// with the advice to use two workflows, and nothing else; two are not.
func TestOneIdentityIsNotTwo(t *testing.T) {
	isolating(t)
	s := open(t)
	const same = "builder and release tokens are the same identity"
	for _, role := range []string{"builder", "release", "verifier"} {
		r := asBoth(s, t, "stage "+scene.Version, role, role, "--confirm")
		want(t, r, 1, "SIGNED_AS_ELSE", same, role+"@lab.invalid", "use two workflows, see https://")
		if out := r.Stdout + r.Stderr; strings.Contains(out, "POLICY_WEAK") || strings.Count(out, "SIGNED_AS_ELSE") != 1 {
			t.Errorf("it says more than that:\n%s", out)
		}
	}
	// Each in the other's place: the advice is the same, for each of the two.
	r := asBoth(s, t, "doctor "+scene.Version, "release", "builder")
	want(t, r, 1, "use two workflows, see https://", "the policy lists it as builder", "the policy lists it as release")
	want(t, asBoth(s, t, "doctor "+scene.Version, "builder", "release"), 0)
	// A policy in which one identity has both roles does not load.
	issuer, _ := s.Lab.Identity("builder")
	edit(t, s.Path("policy.yaml"), "subject: \"release@lab.invalid\"", "subject: \"builder@lab.invalid\"")
	want(t, asBoth(s, t, "doctor "+scene.Version, "builder", "release"), 2, "POLICY_WEAK", issuer, "sign from two workflows (docs/how-to/github-actions.md)")
}

// TestUnisolatedIdentityAlone: where steps cannot be isolated fully, the builder
// needs no second identity if the policy lists it for the unisolated builder
// alone, at level 1. At level 2, or for the isolated builder, it does; and it
// never signs for a build that is isolated.
func TestUnisolatedIdentityAlone(t *testing.T) {
	isolating(t)
	s := open(t)
	c := newCluster(t, s)
	dir := c.unprivileged(t)
	subject := func(role string) string {
		_, subject := s.Lab.Identity(role)
		return fmt.Sprintf("subject: %q", subject)
	}
	alone := func(level string) string { // the one builder of the policy
		text := string(contents(t, s.Path("policy.yaml")))
		head, rest, _ := strings.Cut(text, "builders:\n")
		_, tail, _ := strings.Cut(rest, "source:")
		issuer, _ := s.Lab.Identity("builder")
		return fmt.Sprintf("%sbuilders:\n- id: %s\n  level: %s\n  signers: [{issuer: %q, %s, type: email}]\nsource:%s", head, provenance.BuilderUnisolated, level, issuer, subject("builder"), tail)
	}
	two := string(contents(t, s.Path("policy.yaml")))
	run := func(text string) ended {
		for _, role := range []string{"builder", "release"} {
			save(t, []byte(s.Lab.Token(role)), dir, role+".token")
		}
		c.own(t, dir)
		return c.runs(t, dir, "waybill "+text+" "+scene.Version+" --source "+c.Path("lantern")+" --profile profile.yaml --identity-token builder=builder.token --identity-token release=release.token")
	}
	ends(t, run("doctor"), 1, "NOT_ISOLATED", "build as root", "at level 1") // the identity of the isolated builder

	save(t, []byte(alone("2")), s.Dir, "policy.yaml")
	ends(t, run("doctor"), 1, "NOT_ISOLATED", "build as root")

	save(t, []byte(alone("1")), s.Dir, "policy.yaml")
	ends(t, run("doctor"), 0, "cannot claim level 3", "build as root")
	ends(t, run("stage --confirm --verbose"), 0, "level 1")

	want(t, asBoth(s, t, "doctor "+scene.Version, "builder", "release"), 1, "BUILDER", provenance.BuilderIsolated, provenance.BuilderUnisolated)
	save(t, []byte(two), s.Dir, "policy.yaml")
	want(t, asBoth(s, t, "doctor "+scene.Version, "builder", "release"), 0)
	want(t, asBoth(s, t, "doctor "+scene.Version, "builder-unisolated", "release"), 1, "BUILDER")
}
