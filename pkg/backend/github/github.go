// Package github speaks the REST API of GitHub Releases.
//
//	c, err := github.New("github://example/lantern/v1.0.0", rt)
//	…
//	release, err := c.Published(ctx)
//	assets, err := c.Assets(ctx, release.ID)
//
// It follows docs.github.com/rest/releases, and reads and writes one release.
// Package store makes a place of it for readers, package store/draft one for
// writers. Each request goes to the API of the host in the address, with the
// token for that host; the bytes of an asset come from another host, to which
// the transport passes no token.
//
// Other projects should not import this package: it changes without notice.
package github

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Answers of the API.
var (
	// ErrNotFound: there is no such release or asset.
	ErrNotFound = errors.New("not found")
	// ErrExists: another release or asset has the name.
	ErrExists = errors.New("the name is taken")
)

const (
	maxAnswer = 16 << 20
	maxPages  = 1000
)

// Release is a release as the API describes it.
type Release struct {
	ID        int64  `json:"id"`
	Tag       string `json:"tag_name"`
	Draft     bool   `json:"draft"`
	Immutable bool   `json:"immutable"`
	// Title and Text are shown above the assets.
	Title string `json:"name"`
	Text  string `json:"body"`
}

// Asset is a file of a release. Its bytes never change: a replaced asset has
// another ID.
type Asset struct {
	ID    int64  `json:"id"`
	Name  string `json:"name"`
	Label string `json:"label"`
	// State is "uploaded" once all bytes are there.
	State string `json:"state"`
	Size  int64  `json:"size"`
	// Digest as the service computed it; zero if it has none.
	Digest digest.Digest `json:"digest"`
}

// Whole reports whether all bytes of the asset were uploaded.
func (a Asset) Whole() bool { return a.State == "uploaded" }

// Client reads and writes the release at an address. It is safe for concurrent
// use.
type Client struct {
	Address
	http *http.Client

	once  sync.Once // guards the fields below while the token is found
	token token
	err   error
}

// New returns a client for the release at uri. Nothing is requested yet.
func New(uri string, rt http.RoundTripper) (*Client, error) {
	at, err := Parse(uri)
	if err != nil {
		return nil, err
	}
	if rt == nil {
		return nil, &verdict.UsageError{Err: fmt.Errorf("opening place %q: no transport", uri)}
	}
	return &Client{Address: at, http: transport.Client(rt)}, nil
}

func (c *Client) credential() (token, error) {
	c.once.Do(func() { c.token, c.err = c.findToken() })
	return c.token, c.err
}

// HasToken reports whether requests carry a token.
func (c *Client) HasToken() bool {
	t, err := c.credential()
	return err == nil && t.secret != ""
}

// Unavailable says that the service did not answer.
func (c *Client) Unavailable(op string, err error) error {
	return &verdict.UnavailableError{Place: c.URI(), Op: op, Err: err}
}

// Content opens bytes to send, and says how many there are.
type Content func() (io.ReadCloser, int64, error)

type call struct {
	op     string // for messages
	method string // default GET
	url    string
	accept string  // default JSON
	body   any     // JSON, or
	raw    Content // bytes
	media  string  // of raw
}

// do sends a call. The caller closes the body of the answer.
func (c *Client) do(ctx context.Context, k call) (*http.Response, error) {
	req, err := k.request(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s at %q: %w", k.op, c.URI(), err)
	}
	held, err := c.credential()
	if err != nil {
		return nil, c.Unavailable(k.op, err)
	}
	if held.secret != "" {
		req.Header.Set("Authorization", "Bearer "+held.secret)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.Unavailable(k.op, err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refused(k.op, resp, held)
}

func (k call) request(ctx context.Context) (*http.Request, error) {
	var body io.ReadCloser
	size, media := int64(0), "application/json"
	open := k.raw
	if k.body != nil {
		text, err := json.Marshal(k.body)
		if err != nil {
			return nil, err
		}
		open = func() (io.ReadCloser, int64, error) {
			return io.NopCloser(bytes.NewReader(text)), int64(len(text)), nil
		}
	}
	if k.raw != nil {
		media = k.media
	}
	if open != nil {
		var err error
		if body, size, err = open(); err != nil {
			return nil, err
		}
		if size == 0 { // net/http takes 0 for unknown
			_ = body.Close()
			body = http.NoBody
		}
	}
	req, err := http.NewRequestWithContext(ctx, k.method, k.url, body)
	if err != nil {
		return nil, err
	}
	if open != nil {
		req.ContentLength = size
		req.Header.Set("Content-Type", media)
		req.GetBody = func() (io.ReadCloser, error) { again, _, err := open(); return again, err }
	}
	req.Header.Set("Accept", "application/vnd.github+json")
	if k.accept != "" {
		req.Header.Set("Accept", k.accept)
		req.Header.Set("Accept-Encoding", "identity")
	}
	req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
	return req, nil
}

// refused is the error for an answer that is not a success.
func (c *Client) refused(op string, resp *http.Response, held token) error {
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // an answer without a text has a status
	var told struct {
		Message string `json:"message"`
		Errors  []struct {
			Code string `json:"code"`
		} `json:"errors"`
	}
	_ = json.Unmarshal(raw, &told)
	err := error(&answerError{fmt.Sprintf("the server answered %q: %.200q", resp.Status, told.Message), ""})
	limited := resp.Header.Get("X-RateLimit-Remaining") == "0" || resp.Header.Get("Retry-After") != "" || strings.Contains(told.Message, "rate limit")
	switch status := resp.StatusCode; {
	case status == http.StatusNotFound:
		return fmt.Errorf("%s at %q: %w", op, c.URI(), ErrNotFound)
	case status == http.StatusUnauthorized:
		return expired(c.URI(), held)
	case status == http.StatusTooManyRequests, status == http.StatusForbidden && limited:
		err = limit(resp, told.Message, held)
	case status == http.StatusForbidden:
		err = &answerError{err.Error(), "give the token the permission to read the repository's contents, and to write them for a release; nothing was decided"}
	case status == http.StatusUnprocessableEntity && len(told.Errors) > 0 && told.Errors[0].Code == "already_exists":
		return fmt.Errorf("%s at %q: %w", op, c.URI(), ErrExists)
	}
	return c.Unavailable(op, err)
}

// answerError is an answer of the service, and the next act if one helps.
type answerError struct{ text, act string }

func (e *answerError) Error() string { return e.text }

// NextAct is what to do; package verdict reads it.
func (e *answerError) NextAct() string { return e.act }

// expired refuses a token that the service does not accept.
func expired(uri string, held token) error {
	if held.secret == "" {
		return verdict.Refuse("CREDENTIAL_REFUSED", uri, "GitHub demands a token, and none was found").
			Advise("set GH_TOKEN, or GH_ENTERPRISE_TOKEN and GH_HOST for a host of your own; nothing was decided")
	}
	return verdict.Refuse("CREDENTIAL_REFUSED", uri, "GitHub does not accept the token of %s: it is expired or revoked", held.source).
		Advise("renew the token of " + held.source + ", or remove it to read a public release without one; nothing was decided")
}

// limit is a rate limit, which passes.
func limit(resp *http.Response, message string, held token) error {
	text := fmt.Sprintf("GitHub's rate limit is used up: %.200q", message)
	if seconds, err := strconv.ParseInt(resp.Header.Get("X-RateLimit-Reset"), 10, 64); err == nil {
		text += ", until " + time.Unix(seconds, 0).UTC().Format(time.RFC3339)
	} else if after := resp.Header.Get("Retry-After"); after != "" {
		text += fmt.Sprintf(", for %.20s seconds", after)
	}
	act := "wait until then, and run the command again"
	if held.secret == "" {
		act += "; with GH_TOKEN set, GitHub answers 5,000 requests an hour in place of 60"
	}
	return &answerError{text, act + "; nothing was decided"}
}

// read sends a call and parses its answer. It reports whether there is a next
// page; the address of that is never followed, because it could name another
// host.
func (c *Client) read(ctx context.Context, k call, into any) (more bool, err error) {
	resp, err := c.do(ctx, k)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("the answer exceeds %d bytes", maxAnswer)
	}
	if err == nil && into != nil {
		err = strictjson.UnmarshalOpen(raw, into)
	}
	if err != nil {
		return false, c.Unavailable(k.op, err)
	}
	return strings.Contains(strings.Join(resp.Header.Values("Link"), ","), `rel="next"`), nil
}

// perPage is the size of a page that is asked for, the largest that GitHub allows.
const perPage = 100

// pages reads all pages of a list. A full page without a link to the next one is
// not taken for the last: a proxy may have removed the header, and what follows
// could be extra.
func pages[T any](ctx context.Context, c *Client, op, address string) (all []T, err error) {
	for page := 1; page <= maxPages; page++ {
		var list []T
		more, err := c.read(ctx, call{op: op, url: fmt.Sprintf("%s?per_page=%d&page=%d", address, perPage, page)}, &list)
		if err != nil {
			return nil, err
		}
		if all = append(all, list...); !more && len(list) < perPage {
			return all, nil
		}
	}
	return nil, c.Unavailable(op, errors.New("the listing does not end"))
}

// Published returns the published release with the tag. A missing repository
// is unavailable; above all, it is not one without releases.
func (c *Client) Published(ctx context.Context) (r Release, err error) {
	const op = "reading the release"
	_, err = c.read(ctx, call{op: op, url: c.api() + "/releases/tags/" + url.PathEscape(c.Tag)}, &r)
	if errors.Is(err, ErrNotFound) {
		if _, missing := c.read(ctx, call{op: op, url: c.api()}, nil); errors.Is(missing, ErrNotFound) {
			return Release{}, c.Unavailable(op, &answerError{"the repository does not exist, or is private and no token for it was given",
				"check the spelling, or set GH_TOKEN to a token that may read it; nothing was decided"})
		} else if missing != nil {
			return Release{}, missing
		}
		return Release{}, err
	}
	if err == nil && (r.Draft || r.Tag != c.Tag || r.ID == 0) {
		err = c.Unavailable(op, fmt.Errorf("the server answered with the release of the tag %.100q", r.Tag))
	}
	return r, err
}

// Drafts returns the drafts of the tag, the oldest first. Only a token that
// may write sees any.
func (c *Client) Drafts(ctx context.Context) (drafts []Release, err error) {
	all, err := pages[Release](ctx, c, "listing releases", c.api()+"/releases")
	drafts = slice.Filter(all, func(r Release) bool { return r.Draft && r.Tag == c.Tag })
	slices.SortFunc(drafts, func(a, b Release) int { return cmp.Compare(a.ID, b.ID) })
	return drafts, err
}

// Release reads a release or a draft.
func (c *Client) Release(ctx context.Context, id int64) (r Release, err error) {
	_, err = c.read(ctx, call{op: "reading the release", url: c.release(id)}, &r)
	return r, err
}

// Run returns the run of a workflow and the list of its artifacts, as the API
// describes them. The tag of the address is the id of the run.
func (c *Client) Run(ctx context.Context) (run, artifacts json.RawMessage, err error) {
	address := c.api() + "/actions/runs/" + url.PathEscape(c.Tag)
	if _, err = c.read(ctx, call{op: "reading the run", url: address}, &run); err == nil {
		_, err = c.read(ctx, call{op: "listing artifacts", url: fmt.Sprintf("%s/artifacts?per_page=%d", address, perPage)}, &artifacts)
	}
	return run, artifacts, err
}

// Assets lists the assets of a release.
func (c *Client) Assets(ctx context.Context, release int64) (Listing, error) {
	all, err := pages[Asset](ctx, c, "listing", c.release(release)+"/assets")
	if err != nil {
		return nil, err
	}
	return Index(c.URI(), all)
}

func (c *Client) release(id int64) string { return c.api() + "/releases/" + strconv.FormatInt(id, 10) }

// Download returns the bytes of an asset, which end with an error if they are
// not those that the service describes.
func (c *Client) Download(ctx context.Context, a Asset) (io.ReadCloser, error) {
	op := fmt.Sprintf("reading %q", a.Planned())
	resp, err := c.do(ctx, call{op: op, url: c.asset(a.ID), accept: "application/octet-stream"})
	if err != nil {
		return nil, err
	}
	body := transport.Reporting(resp.Body, func(err error) error { return c.Unavailable(op, err) })
	if a.Digest.Algorithm() != digest.SHA256 {
		return body, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{digest.NewVerifyingReader(body, a.Digest, a.Size), body}, nil
}

func (c *Client) asset(id int64) string {
	return c.api() + "/releases/assets/" + strconv.FormatInt(id, 10)
}
