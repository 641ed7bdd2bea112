package doctor

import (
	"context"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// shortLife is the life of a token below which a long build may outlive it,
// where it comes from a file that nobody may be writing anew.
const shortLife = 5 * time.Minute

// Token is an identity token that an act needs. What it says is read and never
// believed, and it is never printed: the certificate authority verifies it.
type Token struct {
	Name   string // as the flag names it
	Source token.Source
	Role   policy.Role
	// Missing is why it is needed, where it was not given.
	Missing error
}

// Ask looks whether the token is to be had, valid now, and of somebody whom
// the policy knows in the role.
func (t Token) Ask(p policy.Policy, clock func() time.Time) Ask {
	return func(ctx context.Context) []Check { return []Check{t.look(ctx, p, clock)} }
}

func (t Token) look(ctx context.Context, p policy.Policy, clock func() time.Time) Check {
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
	now := clock() // it may have been issued since
	if err := said.Check(now); err != nil {
		return Fault(name, err)
	}
	who, known, err := t.who(said, p, now)
	left := said.Expires.Sub(now).Round(time.Second)
	switch {
	case err != nil:
		return Fault(name, err)
	case t.open() != "":
		return Doubt(name, "chmod 600 "+t.open(), "every account of this machine can read it")
	case !known:
		return Doubt(name, "nothing is to be done: the certificate is held against the policy before anything is signed",
			"it does not say which name its certificate will have; issuer %s", said.Issuer())
	case t.lasts(left):
		return Fine(name, "of %s, valid for %s", who, left)
	}
	return Doubt(name, "fetch a new one just before you begin", "of %s, expires in %s: a long build may outlive it", who, left)
}

// lasts reports whether there will be a token when one is needed.
func (t Token) lasts(left time.Duration) bool {
	_, isFile := t.Source.(token.File)
	return !isFile || left >= shortLife
}

// open is the file of the token, if everybody can read it.
func (t Token) open() string {
	path, isFile := t.Source.(token.File)
	if !isFile || runtime.GOOS == "windows" {
		return ""
	}
	if info, err := os.Stat(string(path)); err != nil || info.Mode().Perm()&0o044 == 0 {
		return ""
	}
	return string(path)
}

// who is whom the certificate will name, as far as the token says.
func (t Token) who(said token.Claims, p policy.Policy, now time.Time) (who string, known bool, err error) {
	names := said.Identities()
	for _, who := range names {
		err := p.CheckIdentity(who, t.Role, now)
		if err == nil {
			return who.String(), true, nil
		}
		if verdict.FindingOf("", err).Code == verdict.IdentityWindow {
			return "", false, err
		}
	}
	if len(names) == 0 {
		return "", false, nil
	}
	f := verdict.Find(verdict.SignedAsElse, "identity token", "it is not one of the %s role", t.Role)
	return "", false, &verdict.Error{Finding: f.Differ(strings.Join(p.Expected(t.Role), " or "), names[0].String())}
}
