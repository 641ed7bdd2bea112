package doctor

import (
	"cmp"
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// shortLife is the remaining life below which a token may expire during a
// long build, if it comes from a file that may not be refreshed.
const shortLife = 5 * time.Minute

// TwoWorkflows is the advice for one identity in two roles.
const TwoWorkflows = "use two workflows, see https://github.com/waybill-release/waybill/blob/main/docs/how-to/github-actions.md, or two accounts"

// Token is an identity token that an act needs. Its claims are read but not
// trusted: the certificate authority verifies them. The token is never
// printed.
type Token struct {
	Name   string // as in the flag
	Source token.Source
	Role   policy.Role
	// Builder is the ID of the builder that provenance will name, for a token of
	// the builder role.
	Builder string
	// Missing is the error if no token was given.
	Missing error
}

// Ask checks that the token is available, currently valid, and of an identity
// that the policy lists in the role.
func (t Token) Ask(p policy.Policy, clock func() time.Time) Ask {
	return func(ctx context.Context) []Check { return []Check{t.check(ctx, p, clock)} }
}

func (t Token) check(ctx context.Context, p policy.Policy, clock func() time.Time) Check {
	name := "identity token " + t.Name
	if t.Source == nil {
		return Fault(name, t.Missing)
	}
	text, err := t.Source.Token(ctx)
	if err != nil {
		return Fault(name, err)
	}
	said, err := token.Read(text)
	if err != nil {
		return Fault(name, err)
	}
	now := clock() // the token may have been issued after the examination began
	if err := said.Check(now); err != nil {
		return Fault(name, err)
	}
	who, known, err := t.who(said, p, now)
	left := said.Expires.Sub(now).Round(time.Second)
	switch {
	case err != nil:
		return Fault(name, err)
	case t.readableByOthers() != "":
		return Doubt(name, "chmod 600 "+t.readableByOthers(), "other accounts of this machine can read the token file")
	case !known:
		return Doubt(name, "nothing to do: the certificate is compared with the policy before anything is signed",
			"the token of issuer %s does not say which name its certificate will have", said.Issuer())
	case t.lasts(left):
		return Fine(name, "token of %s, valid for %s", who, left)
	}
	return Doubt(name, "get a new token just before you begin", "token of %s, expires in %s, which may be before a long build ends", who, left)
}

// lasts reports whether there will be a valid token when one is needed.
func (t Token) lasts(left time.Duration) bool {
	_, isFile := t.Source.(token.File)
	return !isFile || left >= shortLife
}

// readableByOthers is the file of the token, if other accounts can read it.
func (t Token) readableByOthers() string {
	path, isFile := t.Source.(token.File)
	if !isFile || runtime.GOOS == "windows" {
		return ""
	}
	if info, err := os.Stat(string(path)); err != nil || info.Mode().Perm()&0o044 == 0 {
		return ""
	}
	return string(path)
}

// who is the identity that the certificate will name, as far as the token
// says.
func (t Token) who(said token.Claims, p policy.Policy, now time.Time) (who string, known bool, err error) {
	names := said.Identities()
	fix := ""
	for _, who := range names {
		err := p.CheckIdentity(who, t.Role, now)
		if err == nil {
			return who.String(), true, t.ofBuilder(p, who)
		}
		if other := (map[policy.Role]policy.Role{policy.Builder: policy.Release, policy.Release: policy.Builder})[t.Role]; other != "" && p.CheckIdentity(who, other, now) == nil {
			fix = "the policy lists it as " + string(other) + "; " + TwoWorkflows
		}
		if verdict.FindingOf("", err).Code == verdict.IdentityWindow {
			return "", false, err
		}
	}
	if len(names) == 0 {
		return "", false, nil
	}
	f := verdict.Find(verdict.SignedAsElse, "identity token", "the policy does not list the token's identity in the %s role", t.Role)
	f.Fix = cmp.Or(fix, f.Fix)
	return "", false, &verdict.Error{Finding: f.Differ(strings.Join(p.Expected(t.Role), " or "), names[0].String())}
}

// ofBuilder refuses an identity that may not sign for the builder that
// provenance will name: what it signs would be refused after the build.
func (t Token) ofBuilder(p policy.Policy, who identity.Identity) error {
	id, _ := policy.BuilderOf(p, who)
	if t.Builder == "" || id == t.Builder {
		return nil
	}
	return verdict.Refuse(verdict.Builder, "identity token", "the policy lists %s for another builder than the one that builds here", who).Differ(t.Builder, id).
		Advise("give the token of an identity that the policy lists for this builder, or list one; steps that run isolated and steps that do not are two builders")
}
