package doctor

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/identity"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/strictjson"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxToken bounds a token file.
const maxToken = 64 << 10

// shortLife is the life of a token below which a long build may outlive it.
const shortLife = 5 * time.Minute

// Token is an identity token that an act needs. What it says is read and never
// believed, and it is never printed: the certificate authority verifies it.
type Token struct {
	Name string // as the flag names it
	Path string
	Role policy.Role
	// Missing is why it is needed, where it was not given.
	Missing error
}

// claims are what is read of a token.
type claims struct {
	Issuer    string      `json:"iss"`
	Subject   string      `json:"sub"`
	Email     string      `json:"email"`
	Verified  any         `json:"email_verified"`
	Expires   json.Number `json:"exp"`
	NotBefore json.Number `json:"nbf"`
	Workflow  string      `json:"job_workflow_ref"`  // GitHub
	Config    string      `json:"ci_config_ref_uri"` // GitLab
	Federated struct {
		Connector string `json:"connector_id"`
	} `json:"federated_claims"`
}

// Ask looks whether the token is given, readable, valid now, and of somebody
// whom the policy knows in the role.
func (t Token) Ask(p policy.Policy, now time.Time) Ask {
	return func(context.Context) []Check { return []Check{t.look(p, now)} }
}

func (t Token) look(p policy.Policy, now time.Time) Check {
	name := "identity token " + t.Name
	if t.Path == "" {
		return Fault(name, t.Missing)
	}
	c, open, err := readClaims(t.Path)
	if err != nil {
		return Fault(name, err)
	}
	left, err := c.life(now)
	if err != nil {
		return Fault(name, err)
	}
	who, known, err := c.who(p, t.Role)
	switch {
	case err != nil:
		return Fault(name, err)
	case open:
		return Doubt(name, "chmod 600 "+t.Path, "every account of this machine can read it")
	case !known:
		return Doubt(name, "nothing is to be done: the certificate is held against the policy before anything is signed",
			"it does not say which name its certificate will have; issuer %s", c.issuers()[0])
	case left < shortLife:
		return Doubt(name, "fetch a new one just before you begin", "of %s, expires in %s: a long build may outlive it", who, left.Round(time.Second))
	}
	return Fine(name, "of %s, valid for %s", who, left.Round(time.Second))
}

// readClaims reads a token file, and whether everybody can.
func readClaims(path string) (c claims, open bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return claims{}, false, verdict.Wrap(verdict.Usage, "identity token", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return claims{}, false, err
	}
	raw, err := io.ReadAll(io.LimitReader(f, maxToken+1))
	if err != nil {
		return claims{}, false, verdict.Wrap(verdict.Usage, "identity token", err)
	}
	parts := strings.Split(strings.TrimSpace(string(raw)), ".")
	if len(raw) > maxToken || len(parts) != 3 {
		return claims{}, false, verdict.Refuse(verdict.Usage, "identity token", "%q is not a signed web token", path)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || strictjson.UnmarshalOpen(payload, &c) != nil {
		return claims{}, false, verdict.Refuse(verdict.Usage, "identity token", "the claims in %q are not readable", path)
	}
	return c, info.Mode().Perm()&0o044 != 0 && runtime.GOOS != "windows", nil
}

// life is how long the token is valid from now on.
func (c claims) life(now time.Time) (time.Duration, error) {
	seconds, err := c.Expires.Float64()
	if err != nil {
		return 0, verdict.Refuse(verdict.TokenRefused, "identity token", "it does not say when it expires")
	}
	if left := time.Unix(int64(seconds), 0).Sub(now); left > 0 {
		begin, err := c.NotBefore.Float64()
		if early := time.Unix(int64(begin), 0).Sub(now); err == nil && early > 0 {
			return 0, verdict.Refuse(verdict.TokenRefused, "identity token", "it is valid only in %s; is the clock wrong?", early.Round(time.Second))
		}
		return left, nil
	}
	return 0, verdict.Refuse(verdict.TokenRefused, "identity token", "it expired at %s; fetch a new one", time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339))
}

// who finds the identity that the certificate will name, as far as a token
// says: an address, or one of the names that authorities make of workflows.
func (c claims) who(p policy.Policy, role policy.Role) (who identity.Identity, known bool, err error) {
	names := []identity.Identity{}
	for _, issuer := range c.issuers() {
		if c.Email != "" {
			names = append(names, identity.Identity{Issuer: issuer, Subject: c.Email, Type: identity.Email})
			continue
		}
		for _, uri := range []string{c.Subject, "https://github.com/" + c.Workflow, "https://" + c.Config} {
			names = append(names, identity.Identity{Issuer: issuer, Subject: uri, Type: identity.URI})
		}
	}
	for _, who := range names {
		if got, is := p.RoleOf(who); is && got == role {
			return who, true, nil
		}
	}
	if c.Email == "" {
		return identity.Identity{}, false, nil
	}
	f := verdict.Find(verdict.SignedAsElse, "identity token", "it is not one of the %s role", role)
	return identity.Identity{}, false, &verdict.Error{Finding: f.Differ(strings.Join(p.Expected(role), " or "), names[0].String())}
}

// issuers are who may stand as issuer in the certificate: the one that signed
// the token, or the one that it passes on.
func (c claims) issuers() []string {
	if c.Federated.Connector != "" {
		return []string{c.Federated.Connector, c.Issuer}
	}
	return []string{c.Issuer}
}
