package registry

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/google/go-containerregistry/pkg/authn"
)

// maxGreeting bounds the answers to a greeting, which the library reads to
// their end and has no use for.
const maxGreeting = 64 << 10

// greeting is a transport that notes how a registry answers the first question
// on the way to a repository: whether it lets anybody in. Until it has ended,
// answers are short, and whoever shows credentials is not sent to another
// host to ask there for what is demanded.
type greeting struct {
	http.RoundTripper
	named bool // credentials will be shown

	mu                   sync.Mutex // guards what follows
	met, demanded, ended bool
}

// RoundTrip is that of the transport below.
func (g *greeting) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	ended := g.ended
	g.mu.Unlock()
	if first := firstOf(r); !ended && g.named && !sameHost(first.URL, r.URL) {
		return nil, fmt.Errorf("greeting %q: it sends the greeting on to %q, whose demand for credentials is not its own", first.URL.Host, r.URL.Host)
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

// end ends the greeting: what goes this way now is what it was for.
func (g *greeting) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended = true
}

// open reports whether every answer so far let us in, and we have no name
// there: the way is then that of every repository and of every permission.
func (g *greeting) open(as authn.Authenticator) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return as == authn.Anonymous && g.met && !g.demanded
}

// firstOf is the request that led to this one by redirects.
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

func sameHost(a, b *url.URL) bool { return strings.EqualFold(a.Host, b.Host) }
