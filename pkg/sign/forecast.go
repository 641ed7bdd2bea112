package sign

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/sign/token"
)

// Forecast is what [Signer.Each] would do.
type Forecast struct {
	// As is whom the signatures will name, as far as the token tells; empty if
	// that is known only from a certificate.
	As string
	// Expected are those that may sign, by the policy.
	Expected []string
	Services Services
	// Entries are how many the logs get together: of new signatures, and of
	// those that an earlier run made, if the logs do not have them.
	Entries, Unfinished int
	// New are the signatures to be made, and Stamps the timestamps that they
	// get: one of every authority, and none in the legacy forms.
	New, Stamps int
	// Found is how many signatures are there already, to be verified again.
	Found int
}

// Forecast says what would be signed, as whom and with which services. It asks
// the source of tokens, and nobody else; what would be refused is refused.
func (s *Signer) Forecast(ctx context.Context, orders []Order) (Forecast, error) {
	f, err := s.Count(orders)
	if err != nil {
		return Forecast{}, err
	}
	f.As, err = s.As(ctx)
	return f, err
}

// Count is a forecast that asks nobody, so it does not know as whom.
func (s *Signer) Count(orders []Order) (Forecast, error) {
	contents, _, err := s.contents(orders)
	if err != nil {
		return Forecast{}, err
	}
	f := Forecast{Expected: s.config.Policy.Expected(s.config.Role), Services: s.config.Services}
	for _, c := range contents {
		entries := len(s.logs)
		if c.legacy != nil {
			entries = 1
		}
		switch r := s.config.Work.Kept.known(c.name(s.as)); {
		case r.logged():
			f.Found++
		case r.Signature != nil:
			f.Unfinished++
			f.Entries += entries
		default:
			f.New++
			f.Entries += entries
			f.Stamps += len(s.stampsOf(c))
		}
	}
	return f, nil
}

// As is whom the signatures would name, as far as the token tells; a token of
// somebody else is refused. It asks the source of tokens, and nobody else.
func (s *Signer) As(ctx context.Context) (string, error) {
	if s.config.Token == nil {
		return s.key.String(), nil
	}
	text, err := s.config.Token(ctx)
	if err != nil {
		return "", fmt.Errorf("identity token for the %s role: %w", s.config.Role, err)
	}
	said, err := token.Read(text)
	if err != nil {
		return "", err
	}
	if err := errors.Join(said.Check(s.config.Clock()), s.foresee(said)); err != nil {
		return "", err
	}
	for _, who := range said.Identities() {
		if s.checkRole(who, s.config.Clock()) == nil {
			return who.String(), nil
		}
	}
	return "", nil
}

// known is what is kept of a content, if anything is kept.
func (k *Kept) known(name string) record {
	if k == nil {
		return record{}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.records[name]
}
