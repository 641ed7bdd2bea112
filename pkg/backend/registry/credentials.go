package registry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// helperPatience is how long a credential helper may take: it reads a keyring,
// or calls a service that issues short-lived passwords.
const helperPatience = 10 * time.Second

// credentials reads the Docker configuration and runs its helpers, which are
// foreign programs: one that hangs is abandoned, and its output is never shown,
// because it may be a password.
func credentials(ctx context.Context, target authn.Resource) (authn.Authenticator, error) {
	patience, _ := transport.Patience() // a wrong value is reported by the transport
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
			return nil, &refusedError{fmt.Errorf("reading registry credentials of %q: the Docker configuration or its credential helper failed; its output may hold a secret and is not shown", target.RegistryStr()), loginAct(target.RegistryStr())}
		}
		return a.auth, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("reading registry credentials of %q: %w", target.RegistryStr(), context.Cause(ctx))
	}
}
