package registry

import (
	"net/http"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
)

// greeting is a transport that notes how a registry answers the first question
// on the way to a repository: whether it lets anybody in.
type greeting struct {
	http.RoundTripper

	mu            sync.Mutex // guards what follows
	met, demanded bool
}

// RoundTrip is that of the transport below.
func (g *greeting) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := g.RoundTripper.RoundTrip(r)
	if err == nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.met = true
		g.demanded = g.demanded || answer.StatusCode != http.StatusOK
	}
	return answer, err
}

// open reports whether every answer so far let us in, and we have no name
// there: the way is then that of every repository and of every permission.
func (g *greeting) open(as authn.Authenticator) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return as == authn.Anonymous && g.met && !g.demanded
}
