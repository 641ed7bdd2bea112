package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"

	"github.com/waybill-release/waybill/pkg/backend/transport"
)

// maxGreeting bounds the answers to a greeting, which the library reads
// completely and ignores.
const maxGreeting = 64 << 10

// greeting is a transport for the first request to a registry. It records
// whether the registry allows anonymous access. Until it has ended, answers are
// limited, and a request that will carry credentials may not be redirected to
// another host, which could demand them for itself.
type greeting struct {
	http.RoundTripper
	named bool // credentials will be sent

	mu                   sync.Mutex // guards the fields below
	met, demanded, ended bool
}

// RoundTrip is that of the transport below.
func (g *greeting) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	ended := g.ended
	g.mu.Unlock()
	if first := firstOf(r); !ended && g.named && !strings.EqualFold(first.URL.Host, r.URL.Host) {
		return nil, fmt.Errorf("greeting %q: the registry redirects to %q, which must not ask for its credentials", first.URL.Host, r.URL.Host)
	}
	answer, err := g.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if ended {
		return answer, nil
	}
	answer.Body = &short{ReadCloser: answer.Body, left: maxGreeting, most: maxGreeting}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.met = true
	g.demanded = g.demanded || answer.StatusCode != http.StatusOK
	return answer, nil
}

// end ends the greeting: the requests that follow are ordinary.
func (g *greeting) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}

// open reports whether every answer so far allowed anonymous access, and we
// have no credentials: the session then serves all repositories and
// permissions.
func (g *greeting) open(as authn.Authenticator) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return as == authn.Anonymous && g.met && !g.demanded
}

// firstOf returns the request that led to this one by redirects.
func firstOf(r *http.Request) *http.Request {
	for range maxHops {
		if r.Response == nil || r.Response.Request == nil {
			break
		}
		r = r.Response.Request
	}
	return r
}

// maxHops is more than any client follows.
const maxHops = 20

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
