package registry

import (
	"bytes"
	"cmp"
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
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPages bounds a paged list: a registry could continue for ever.
const maxPages = 10_000

// maxList bounds the bytes of all pages of a list of tags or referrers, which
// are in memory together.
const maxList = 32 << 20

// maxSessions bounds the cached sessions: a service may be asked about any
// number of repositories. An evicted session is opened again.
const maxSessions = 1000

// errNoAPI is the answer of registries without the referrers API, if not 404.
var errNoAPI = errors.New("the registry does not support this API")

// sessionKey names one permission for one repository.
type sessionKey struct {
	repo  string
	scope string
}

// session is an authenticated way to a repository.
type session struct {
	mu     sync.Mutex // guards the fields below while they are set; then they never change
	client *http.Client
	pusher *remote.Pusher // only if something may be written
}

// session returns the session for target, and opens it on first use. A failed
// opening is tried again next time.
func (r *Remote) session(ctx context.Context, target name.Repository, scope string) (*session, error) {
	key := sessionKey{repo: target.Name(), scope: scope}
	r.mu.Lock()
	s, ok := r.sessions[key]
	if !ok {
		if len(r.sessions) >= maxSessions { // callers that use an evicted session keep it
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

// newPusher returns the library's writer. Our transport is a [ggcr.Wrapper], so
// neither option adds retries to those of the transport below. Only the library
// can repeat a whole upload.
func newPusher(way http.RoundTripper) (*remote.Pusher, error) {
	return remote.NewPusher(remote.WithTransport(way), remote.WithRetryPredicate(uploadAgain),
		remote.WithRetryBackoff(remote.Backoff{Duration: 100 * time.Millisecond, Factor: 3, Jitter: 0.5, Steps: uploads}))
}

// way returns an authenticated transport for a repository. If the registry
// allows anonymous access, this is remembered; concurrent first callers share
// one check.
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

// greet checks access to the registry. A registry that times out does not delay
// later callers: they get the same error for as long again.
func (r *Remote) greet(ctx context.Context, target name.Repository, as authn.Authenticator, scope string) (http.RoundTripper, error) {
	r.mu.Lock()
	silent, until := r.silent, r.silentUntil
	r.mu.Unlock()
	if silent != nil && time.Now().Before(until) {
		return nil, silent
	}
	patience, _ := transport.Patience() // a wrong value is reported by the transport
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	first := &greeting{RoundTripper: r.rt, named: as != authn.Anonymous}
	way, err := ggcr.NewWithContext(asking, target.Registry, as, first, []string{target.Scope(scope)})
	late := err != nil && ctx.Err() == nil && asking.Err() != nil
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case late:
		r.silent, r.silentUntil = fmt.Errorf("greeting %q: the registry neither granted nor denied access within %s: %w", target.RegistryStr(), patience, err), time.Now().Add(patience)
		return nil, r.silent
	case err != nil:
		return nil, err
	case first.open(as):
		r.open = way
	}
	first.end()
	return way, nil
}

// uploads is how many times an upload is started at most.
const uploads = 3

// uploadAgain reports whether a failed upload may succeed when repeated: its
// source was not at fault, and the registry did not refuse it.
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

// query is one request to a repository.
type query struct {
	target name.Repository
	op     string // what is done, for errors
	method string // default GET
	path   string // below /v2/<repository>/
	accept []string
}

func (q query) unavailable(err error) error {
	return &verdict.UnavailableError{Place: q.target.Name(), Op: q.op, Err: discreet{advised(err, q.target.RegistryStr())}}
}

// discreet is an error whose text may contain our credentials, because a
// registry may quote them.
type discreet struct{ error }

// Error returns the text without credentials.
func (d discreet) Error() string { return redact.Secrets(d.error.Error()) }

// Unwrap returns the error itself.
func (d discreet) Unwrap() error { return d.error }

// askOnce sends q and returns the answer if its status is 200.
func (r *Remote) askOnce(ctx context.Context, q query) (*http.Response, error) {
	s, err := r.session(ctx, q.target, ggcr.PullScope)
	if err != nil {
		return nil, q.unavailable(err)
	}
	req, err := http.NewRequestWithContext(ctx, q.method, q.url(), nil)
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

func (q query) url() string {
	return q.target.Scheme() + "://" + q.target.RegistryStr() + "/v2/" + q.target.RepositoryStr() + "/" + q.path
}

// send sends q with a body, if it is not nil. The body of the answer is in memory,
// so that the connection is reused.
func (q query) send(ctx context.Context, s *session, body []byte, mediaType string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, q.method, q.url(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if mediaType != "" {
		req.Header.Set("Content-Type", mediaType)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, MaxManifest)) // only for the text of an error
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(raw))
	return resp, nil
}

// refused turns an answer other than 200 into an error.
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
		return nil, nil, tooLarge(q.target.Name(), q.path, MaxManifest)
	}
	return raw, resp.Header, nil
}

// pages reads a list that may have several pages (distribution specification,
// "Listing Tags"; RFC 5988). collect may return the path of the next page, for
// a page that names none.
func (r *Remote) pages(ctx context.Context, q query, collect func(raw []byte) (after string, err error)) error {
	seen, left := map[string]bool{}, maxList
	for range maxPages {
		seen[q.path] = true
		raw, header, err := r.get(ctx, q)
		if err != nil {
			return err
		}
		if left -= len(raw); left < 0 {
			return tooLarge(q.target.Name(), "bytes of a list", maxList)
		}
		if strings.HasPrefix(q.path, "referrers/") && mediaType(header) != MediaTypeIndex {
			return q.unavailable(errNoAPI) // a page elsewhere on the server
		}
		after, err := collect(raw)
		if err != nil {
			return q.unavailable(err)
		}
		next, err := q.next(header.Get("Link"))
		if err != nil {
			return q.unavailable(err)
		}
		if next = cmp.Or(next, after); next == "" {
			return nil
		}
		if seen[next] {
			return q.unavailable(errors.New("the list does not advance"))
		}
		q.path = next
	}
	return tooLarge(q.target.Name(), "pages of a list", maxPages)
}

// next returns the path of the following page, "" after the last. A list that
// continues on another host is not followed.
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
	return []string{MediaTypeIndex, MediaTypeManifest, mediaTypeDockerList, mediaTypeDockerManifest}
}

// mediaType returns the content type without parameters.
func mediaType(h http.Header) string {
	parsed, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return parsed
}

// decodeOpen reads a list, in which registries may add fields.
func decodeOpen(raw []byte, v any) error { return strictjson.UnmarshalOpen(raw, v) }
