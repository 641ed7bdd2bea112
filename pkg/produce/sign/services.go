package sign

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	trustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Services are the addresses that a signature needs.
type Services struct {
	Fulcio string
	// TSAs and Logs all receive every signature. An unreachable one is waited
	// for; none is left out.
	TSAs, Logs []string
	// LogV1 is the log that signatures in the legacy forms need; empty if
	// there is none. See [Order].
	LogV1 string
	// Login is where a person logs in; empty if logins are not possible.
	Login string
}

// ParseServices reads a Sigstore signing_config.json (version 0.2) and
// chooses the services that are valid at a time: version 1 of the certificate
// and timestamp services, version 2 of the logs. Of each operator the newest
// service counts, and of those as many as the configuration's selector says:
// ALL of them, EXACT so many, or ANY one, which is the newest here, so two
// runs choose the same. Missing services and unknown selectors are refused: a
// signature that convinces fewer verifiers than intended would be noticed too
// late.
func ParseServices(raw []byte, now time.Time) (s Services, err error) {
	wire, err := root.NewSigningConfigProtobuf(raw)
	if err != nil {
		return Services{}, verdict.Wrap(verdict.ConfigParse, "signing config", err)
	}
	config, err := root.NewSigningConfigFromProtobuf(wire)
	if err != nil {
		return Services{}, verdict.Wrap(verdict.ConfigParse, "signing config", err)
	}
	if s.Fulcio = newest(config.FulcioCertificateAuthorityURLs(), 1, now); s.Fulcio == "" {
		return Services{}, verdict.Refuse("SERVICE_SELECTOR", "signing config", "certificate authority: no service of version 1 is valid now")
	}
	if s.TSAs, err = choose("timestamp authority", valid(config.TimestampAuthorityURLs(), 1, now), wire.GetTsaConfig()); err != nil {
		return Services{}, err
	}
	logs := config.RekorLogURLs()
	if s.Logs, err = choose("transparency log of version 2", valid(logs, 2, now), wire.GetRekorTlogConfig()); err != nil {
		return Services{}, err
	}
	s.LogV1, s.Login = newest(logs, 1, now), newest(config.OIDCProviderURLs(), 1, now)
	return s, nil
}

// choose takes as many of the services as a selector says.
func choose(what string, all []string, asked *trustroot.ServiceConfiguration) ([]string, error) {
	refuse := func(format string, args ...any) ([]string, error) {
		return nil, verdict.Refuse("SERVICE_SELECTOR", "signing config", what+": "+format, args...)
	}
	switch {
	case len(all) == 0:
		return refuse("no service is valid now")
	case len(all) > maxServices:
		return refuse("%d operators, the limit is %d", len(all), maxServices)
	}
	switch count := int(asked.GetCount()); asked.GetSelector() {
	case trustroot.ServiceSelector_ALL:
		return all, nil
	case trustroot.ServiceSelector_ANY:
		return all[:1], nil
	case trustroot.ServiceSelector_EXACT:
		if count < 1 || count > len(all) {
			return refuse("want exactly %d, got %d that are valid now, of different operators", count, len(all))
		}
		return all[:count], nil
	}
	return refuse("unknown selector %s: want ALL, ANY or EXACT", asked.GetSelector())
}

// maxServices limits how many services receive each signature.
const maxServices = 8

// valid are the services of a version that are valid at a time, newest first,
// one of each operator.
func valid(list []root.Service, version uint32, now time.Time) (all []string) {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b root.Service) int { return b.ValidityPeriodStart.Compare(a.ValidityPeriodStart) })
	operators := map[string]bool{}
	for _, s := range list {
		if s.MajorAPIVersion != version || !s.ValidAtTime(now) || s.URL == "" || operators[s.Operator] {
			continue
		}
		operators[s.Operator] = true
		all = append(all, s.URL)
	}
	return all
}

func newest(list []root.Service, version uint32, now time.Time) string {
	if all := valid(list, version, now); len(all) > 0 {
		return all[0]
	}
	return ""
}

// Due is what [Signer.Each] would have to do.
type Due struct {
	// Entries counts the log entries to add: for new signatures, and for the
	// Unfinished ones of an earlier run, which the logs may not have.
	Entries, Unfinished int
	// New counts signatures to make, and Stamps the timestamps for them: one
	// from every authority, and none in the legacy forms.
	New, Stamps int
	// Found counts signatures that exist already, which are verified again.
	Found int
}

// Due says what orders would require. It contacts no service, and refuses
// what [Signer.Each] would refuse.
func (s *Signer) Due(orders []Order) (d Due, _ error) {
	contents, _, err := s.contents(orders)
	if err != nil {
		return Due{}, err
	}
	for _, c := range contents {
		entries := len(s.logs)
		if c.legacy != nil {
			entries = 1
		}
		switch r := s.config.Work.Kept.known(c.name(s.as)); {
		case r.logged():
			d.Found++
		case r.Signature != nil:
			d.Unfinished++
			d.Entries += entries
		default:
			d.New++
			d.Entries += entries
			d.Stamps += len(s.stampsOf(c))
		}
	}
	return d, nil
}

// As is the identity that the signatures would name, as far as the token
// says; a token of another identity is refused. It calls the source of
// tokens, and no other service.
func (s *Signer) As(ctx context.Context) (none identity.Identity, _ error) {
	if s.config.Token == nil {
		return s.key, nil
	}
	text, err := s.config.Token(ctx)
	if err != nil {
		return none, fmt.Errorf("identity token for the %s role: %w", s.config.Role, err)
	}
	said, err := token.Read(text)
	if err != nil {
		return none, err
	}
	if err := errors.Join(said.Check(s.config.Clock()), s.checkToken(said)); err != nil {
		return none, err
	}
	for _, who := range said.Identities() {
		if s.checkRole(who, s.config.Clock()) == nil {
			return who, nil
		}
	}
	return none, nil
}
