package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// helperPatience is how long a credential helper may take: it asks a keyring,
// or a service that gives out short-lived passwords.
const helperPatience = 10 * time.Second

// credentials reads the Docker configuration and asks its helpers, which are
// programs of others: one that hangs is left behind, and what one prints is
// not shown, for it may be a password.
func credentials(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	patience, _ := transport.Patience() // a wrong one is the transport's error
	ctx, cancel := context.WithTimeoutCause(ctx, min(helperPatience, patience), errors.New("the credential helper does not answer"))
	defer cancel()
	type answer struct {
		auth authn.Authenticator
		err  error
	}
	answers := make(chan answer, 1)
	go func() { // ends when the helper does
		auth, err := authn.Resolve(ctx, authn.DefaultKeychain, target)
		answers <- answer{auth, err}
	}()
	select {
	case a := <-answers:
		if a.err != nil {
			return nil, fmt.Errorf("reading registry credentials of %q: the Docker configuration or its credential helper is at fault; what it says is not shown, for it may hold a secret", target.RegistryStr())
		}
		return a.auth, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("reading registry credentials of %q: %w", target.RegistryStr(), context.Cause(ctx))
	}
}
