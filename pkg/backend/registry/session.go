package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/redact"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// maxPages bounds a paged list: a registry could go on for ever.
const maxPages = 10_000

// maxList bounds the bytes of all pages of a list of tags or referrers, which
// stand in memory together.
const maxList = 32 << 20

// maxSessions bounds the repositories that are known at a time: a service may be
// asked about any number of them. One that is forgotten is opened anew.
const maxSessions = 1000

// errNoAPI is how registries without the referrers API answer, if not by 404.
var errNoAPI = errors.New("the registry has no such interface")

// sessionKey names one permission for one repository.
type sessionKey struct {
	repo  string
	scope string
}

// session is a way to a repository, with credentials.
type session struct {
	mu     sync.Mutex // owns the rest while it is made; then it never changes
	client *http.Client
	pusher *remote.Pusher // only where something may be written
}

// session returns the way to target, opening it at first. A failed opening is
// tried again next time.
func (r *Remote) session(ctx context.Context, target name.Repository, scope string) (*session, error) {
	key := sessionKey{repo: target.Name(), scope: scope}
	r.mu.Lock()
	s, ok := r.sessions[key]
	if !ok {
		if len(r.sessions) >= maxSessions { // whoever is in one stays in it
			clear(r.sessions)
		}
		s = &session{}
		r.sessions[key] = s
	}
	r.mu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s, nil
	}
	auth, err := credentials(ctx, target)
	if err != nil {
		return nil, err
	}
	way, err := r.way(ctx, target, auth, scope)
	if err != nil {
		return nil, err
	}
	if scope == ggcr.PushScope {
		if s.pusher, err = newPusher(way); err != nil {
			return nil, err
		}
	}
	s.client = transport.Client(way)
	return s, nil
}

// newPusher is the library's way to write. The way to the registry is a
// [ggcr.Wrapper], so neither option adds retries to those of the transport
// below. A whole upload is repeated, as nobody else can.
func newPusher(way http.RoundTripper) (*remote.Pusher, error) {
	return remote.NewPusher(remote.WithTransport(way), remote.WithRetryPredicate(uploadAgain),
		remote.WithRetryBackoff(remote.Backoff{Duration: 100 * time.Millisecond, Factor: 3, Jitter: 0.5, Steps: uploads}))
}

// way is the way to a repository. The registry is asked who may come in; one
// that lets in anybody is not asked again, and the first answer is waited for
// by all who set out at the same time.
func (r *Remote) way(ctx context.Context, target name.Repository, as authn.Authenticator, scope string) (way http.RoundTripper, err error) {
	first := false
	r.greeted.Do(func() {
		first = true
		way, err = r.greet(ctx, target, as, scope)
	})
	if first {
		return way, err
	}
	r.mu.Lock()
	open := r.open
	r.mu.Unlock()
	if open != nil && as == authn.Anonymous {
		return open, nil
	}
	return r.greet(ctx, target, as, scope)
}

// greet asks the registry who may come in. One that took all the patience
// there is keeps nobody else waiting: they have its answer for as long again.
func (r *Remote) greet(ctx context.Context, target name.Repository, as authn.Authenticator, scope string) (http.RoundTripper, error) {
	r.mu.Lock()
	silent, until := r.silent, r.silentUntil
	r.mu.Unlock()
	if silent != nil && time.Now().Before(until) {
		return nil, silent
	}
	patience, _ := transport.Patience() // a wrong one is the transport's error
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	first := &greeting{RoundTripper: r.rt, named: as != authn.Anonymous}
	way, err := ggcr.NewWithContext(asking, target.Registry, as, first, []string{target.Scope(scope)})
	late := err != nil && ctx.Err() == nil && asking.Err() != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case late:
		r.silent, r.silentUntil = fmt.Errorf("greeting %q: it neither let us in nor turned us away within %s: %w", target.RegistryStr(), patience, err), time.Now().Add(patience)
		return nil, r.silent
	case err != nil:
		return nil, err
	case first.open(as):
		r.open = way
	}
	first.end()
	return way, nil
}

// uploads is how often an upload is begun at most.
const uploads = 3

// uploadAgain reports whether an upload that failed may go better: its source
// was not at fault, and the registry did not refuse it.
func uploadAgain(err error) bool {
	var coded interface{ Code() string }
	var refused *ggcr.Error
	switch {
	case err == nil, errors.As(err, &coded), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case errors.As(err, &refused):
		return refused.Temporary()
	}
	return true
}

// query is one question to a repository.
type query struct {
	target name.Repository
	op     string // for errors
	method string // default GET
	path   string // below /v2/<repository>/
	accept []string
}

func (q query) unavailable(err error) error {
	return &UnavailableError{Place: q.target.Name(), Op: q.op, Err: discreet{err}}
}

// discreet is an error that may quote a registry, which may quote what it was
// shown: our credentials.
type discreet struct{ error }

// Error is the text without them.
func (d discreet) Error() string { return redact.Secrets(d.error.Error()) }

// Unwrap returns the error itself.
func (d discreet) Unwrap() error { return d.error }

// askOnce sends q and returns the answer if it is 200.
func (r *Remote) askOnce(ctx context.Context, q query) (*http.Response, error) {
	s, err := r.session(ctx, q.target, ggcr.PullScope)
	if err != nil {
		return nil, q.unavailable(err)
	}
	target := q.target.Scheme() + "://" + q.target.RegistryStr() + "/v2/" + q.target.RepositoryStr() + "/" + q.path
	req, err := http.NewRequestWithContext(ctx, q.method, target, nil)
	if err != nil {
		return nil, fmt.Errorf("%s at %q: %w", q.op, q.target, err)
	}
	if len(q.accept) > 0 {
		req.Header.Set("Accept", strings.Join(q.accept, ", "))
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, q.unavailable(err)
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, q.refused(resp)
}

// refused makes an error of an answer other than 200.
func (q query) refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusNotFound:
		return fmt.Errorf("%s at %q: %w", q.op, q.target.Name(), ErrNotFound)
	case http.StatusBadRequest, http.StatusNotAcceptable:
		if strings.HasPrefix(q.path, "referrers/") {
			return q.unavailable(errNoAPI)
		}
	}
	if err := ggcr.CheckError(resp, http.StatusOK); err != nil {
		return q.unavailable(err)
	}
	return q.unavailable(fmt.Errorf("the registry answered %q", resp.Status))
}

// get reads a whole manifest or list.
func (r *Remote) get(ctx context.Context, q query) ([]byte, http.Header, error) {
	resp, err := r.ask(ctx, q)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, MaxManifest+1))
	switch {
	case err != nil:
		return nil, nil, q.unavailable(err)
	case len(raw) > MaxManifest:
		return nil, nil, &LimitError{Place: q.target.Name(), What: q.path, Limit: MaxManifest}
	}
	return raw, resp.Header, nil
}

// pages reads a list that may have several pages (distribution specification,
// "Listing Tags"; RFC 5988).
func (r *Remote) pages(ctx context.Context, q query, collect func(raw []byte) error) error {
	seen, left := map[string]bool{}, maxList
	for range maxPages {
		seen[q.path] = true
		raw, header, err := r.get(ctx, q)
		if err != nil {
			return err
		}
		if left -= len(raw); left < 0 {
			return &LimitError{Place: q.target.Name(), What: "bytes of a list", Limit: maxList}
		}
		if strings.HasPrefix(q.path, "referrers/") && mediaType(header) != MediaTypeIndex {
			return q.unavailable(errNoAPI) // some other page of the server
		}
		if err := collect(raw); err != nil {
			return q.unavailable(err)
		}
		next, err := q.next(header.Get("Link"))
		if err != nil {
			return q.unavailable(err)
		}
		if next == "" {
			return nil
		}
		if seen[next] {
			return q.unavailable(errors.New("the list does not advance"))
		}
		q.path = next
	}
	return &LimitError{Place: q.target.Name(), What: "pages of a list", Limit: maxPages}
}

// next returns the path of the following page, "" after the last. A list that
// continues elsewhere is not followed.
func (q query) next(link string) (string, error) {
	if link == "" {
		return "", nil
	}
	address, params, found := strings.Cut(strings.TrimPrefix(link, "<"), ">")
	if !found || !strings.Contains(params, "next") {
		return "", fmt.Errorf("unknown continuation %q", link)
	}
	base := &url.URL{Scheme: q.target.Scheme(), Host: q.target.RegistryStr(), Path: "/v2/" + q.target.RepositoryStr() + "/"}
	here, err := base.Parse(q.path)
	if err != nil {
		return "", err
	}
	there, err := here.Parse(address)
	if err != nil {
		return "", err
	}
	rest, inside := strings.CutPrefix(there.RequestURI(), base.Path)
	if !inside || there.Host != base.Host {
		return "", fmt.Errorf("the list continues outside the repository: %q", link)
	}
	return rest, nil
}

func manifestTypes() []string {
	return []string{MediaTypeIndex, MediaTypeManifest, MediaTypeDockerList, MediaTypeDockerManifest}
}

// mediaType is the content type without parameters.
func mediaType(h http.Header) string {
	parsed, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return parsed
}

// decodeOpen reads a list, which registries extend as they like.
func decodeOpen(raw []byte, v any) error { return strictjson.UnmarshalOpen(raw, v) }
