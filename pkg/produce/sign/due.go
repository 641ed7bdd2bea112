package sign

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/produce/sign/token"
)

// Due is what [Signer.Each] would have to do.
type Due struct {
	// Entries are how many the logs get together: of new signatures, and of
	// those that an earlier run made, if the logs do not have them.
	Entries, Unfinished int
	// New are the signatures to be made, and Stamps the timestamps that they
	// get: one of every authority, and none in the legacy forms.
	New, Stamps int
	// Found is how many signatures are there already, to be verified again.
	Found int
}

// Due says what is to be done for orders. It asks nobody; what would be refused
// is refused.
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
