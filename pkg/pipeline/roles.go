package pipeline

import (
	"context"
	"slices"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/produce/run"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// builderToken is the name of the token that signs provenance in a mode. Each
// mode has an identity of its own. An identity that the policy lists for the
// unisolated builder, at level 1, has nothing to gain from the name, and may be
// given as the builder. Unless asks, no person is asked to log in to find out.
func builderToken(ctx context.Context, j *job, mode sandbox.Mode, asks bool) string {
	source := j.Tokens[TokenBuilder]
	switch {
	case mode == sandbox.Isolated:
		return TokenBuilder
	case source == nil || j.Tokens[TokenUnisolated] != nil || !asks && token.IsPerson(source):
		return TokenUnisolated
	}
	for _, who := range identitiesOf(ctx, source) {
		if id, level := policy.BuilderOf(j.Profile.Policy, who); id == provenance.BuilderUnisolated && level == 1 {
			return TokenBuilder
		}
	}
	return TokenUnisolated
}

// identitiesOf are the identities that a token may be of; none if there is no
// token, which is reported where it is needed.
func identitiesOf(ctx context.Context, source token.Source) []identity.Identity {
	if source == nil {
		return nil
	}
	text, err := source.Token(ctx)
	if err != nil {
		return nil
	}
	said, err := token.Read(text)
	if err != nil {
		return nil
	}
	return said.Identities()
}

// examineTokens checks the tokens that are going to be used. One identity for
// two roles is one fault, instead of one for each role.
func (p checkup) examineTokens(purpose doctor.Purpose, f found) []doctor.Ask {
	var names []string
	var asks []doctor.Ask // no result: it would be the list that asks for itself
	for _, a := range actsFor(purpose) {
		name := a.signs.token
		if a.name == actBuild {
			name = f.builder
		}
		// That there is no token of an unisolated builder, the isolation check says.
		if a.signs.role == "" || slices.Contains(names, name) || a.name == actBuild && f.built || name == TokenUnisolated && p.Tokens[name] == nil {
			continue
		}
		names = append(names, name)
		if key := p.Keys[name]; key != nil {
			asks = append(asks, answered(p.examineKey(name, a.signs.role, key)))
			continue
		}
		t := doctor.Token{Name: name, Source: p.Tokens[name], Role: a.signs.role, Missing: noToken(name)}
		if a.name == actBuild {
			t.Builder = run.BuilderID(f.isolation.Mode)
		}
		asks = append(asks, t.Ask(p.Profile.Policy, p.Clock))
	}
	if purpose != doctor.Stage || f.built {
		return asks
	}
	return []doctor.Ask{func(ctx context.Context) (checks []doctor.Check) {
		if err := p.oneForBoth(ctx, f); err != nil {
			return []doctor.Check{doctor.Fault("identity tokens builder, release", err)}
		}
		for _, ask := range asks {
			checks = append(checks, ask(ctx)...)
		}
		return checks
	}}
}

// oneForBoth refuses one identity as builder and as release, unless the policy
// lets a builder share it.
func (p checkup) oneForBoth(ctx context.Context, f found) error {
	builder := p.Tokens[f.builder]
	if builder == nil {
		builder = p.Tokens[TokenBuilder]
	}
	if p.Keys[TokenRelease] != nil {
		return nil
	}
	release := identitiesOf(ctx, p.Tokens[TokenRelease])
	for _, who := range identitiesOf(ctx, builder) {
		listed := func(role policy.Role) bool { return p.Profile.Policy.CheckIdentity(who, role, p.Clock()) == nil }
		if slices.Contains(release, who) && (!listed(policy.Builder) || !listed(policy.Release)) {
			return verdict.Refuse(verdict.SignedAsElse, "identity tokens", "builder and release tokens are the same identity, %s", who).Advise(doctor.TwoWorkflows)
		}
	}
	return nil
}
