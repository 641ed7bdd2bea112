package sign

import (
	"context"
	"errors"
	"fmt"

	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

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
