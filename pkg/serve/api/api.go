// Package api is a client of the gate service, which decides whether images may
// be promoted to a destination.
//
//	c, err := api.New("https://gate.example.test", rt, token)
//	answer, err := c.Decide(ctx, []ask.Question{{Verb: api.Promote, Image: "staging.example.test/demo@sha256:…", To: "prod.example.test/demo"}})
//	if err == nil && answer.Accepted() { … }
//
// An answer counts only if it is consistent and matches the questions. The
// client trusts the gate's decision; to verify independently, verify the image
// itself.
//
// Callers authenticate with a token, or with a client certificate of the
// transport:
//
//	pair, err := api.Certificate(certificatePEM, keyPEM)
//	rt := transport.New(transport.Config{Certificate: &pair})
//	c, err := api.New("https://gate.example.test", rt, nil)
package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Schemas of requests and answers.
const (
	SchemaRequest = "waybill/decision-request/v1"
	SchemaAnswer  = "waybill/decisions/v1"
)

// MaxBatch is how many questions one request may contain.
const MaxBatch = 100

const maxAnswer = 64 << 20

// Verb is the kind of a question.
type Verb string

// The verbs.
const (
	Verify  Verb = "verify"  // would the image be accepted?
	Promote Verb = "promote" // may the image be promoted to a destination, now?
	// Override is [Promote] with exceptions. Its token is single-use: to repeat
	// a request that got no answer, use another token.
	Override Verb = "override"
)

// MaxExceptions is how many exceptions one question may contain, and
// MaxException the size limit of each.
const (
	MaxExceptions = 16
	MaxException  = 64 << 10
)

// Question asks about one image.
type Question struct {
	Verb Verb `json:"verb"`
	// Image is HOST/PATH@sha256:…; tags are not accepted, because they can
	// move.
	Image string `json:"image"`
	// To is the destination repository; empty with [Verify].
	To string `json:"to,omitempty"`
	// Channel is the channel of the release; empty for none.
	Channel string `json:"channel,omitempty"`
	// Version is the version of the release, if a policy compares builds with
	// it.
	Version string `json:"version,omitempty"`
	// Exceptions are the bundles of the exceptions of an [Override], byte for
	// byte: attestations/exception/v1, signed by the officer of the gate's
	// policy for this image, this destination and this policy.
	Exceptions [][]byte `json:"exceptions,omitempty"`
}

// Request is the body of a request.
type Request struct {
	Schema    string     `json:"schema"`
	Decisions []Question `json:"decisions"`
	// TimeoutSeconds is how long the caller waits. A decision that takes longer
	// is unavailable; zero means the server's limit.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

// Answer holds the decisions, in the order of the questions.
type Answer struct {
	Schema    string     `json:"schema"`
	RequestID string     `json:"requestId"`
	Outcome   string     `json:"outcome"` // the worst
	Decisions []Decision `json:"decisions"`
}

// Decision answers one question.
type Decision struct {
	Image   string `json:"image"`
	Outcome string `json:"outcome"`
	// Cached says that the decision was reused from a recent request.
	Cached  bool             `json:"cached,omitempty"`
	Verdict *verdict.Verdict `json:"verdict"`
	// Summary is the verification summary of an accepted promotion, as a
	// Sigstore bundle to attach at the destination; only from a gate that signs
	// summaries. The summary of an [Override] names the exceptions.
	Summary json.RawMessage `json:"summary,omitempty"`
}

// Accepted reports whether all images are accepted.
func (a Answer) Accepted() bool {
	yes := verdict.Accepted.String()
	return a.Outcome == yes && len(a.Decisions) > 0 && !slices.ContainsFunc(a.Decisions, func(d Decision) bool {
		return d.Outcome != yes || d.Verdict == nil || d.Verdict.Outcome() != verdict.Accepted
	})
}

// Problem is the answer to a request that was rejected before any decision.
type Problem struct {
	Schema    string          `json:"schema"`
	RequestID string          `json:"requestId"`
	Outcome   string          `json:"outcome"`
	Problem   verdict.Finding `json:"problem"`
}

// Client is a client of one gate.
type Client struct {
	address *url.URL
	http    *http.Client
	once    *http.Client // for requests that must not be sent twice
	token   func(ctx context.Context) (string, error)
}

// New makes a client of the gate at an address, reached through rt, which may
// have a client certificate, see [Certificate]. With a nil token function no
// token is sent. Redirects are refused: neither question nor credentials are
// sent to another host.
func New(address string, rt http.RoundTripper, token func(ctx context.Context) (string, error)) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && (u.Scheme != "http" || !transport.Loopback(u.Hostname())) {
		return nil, verdict.Refuse(verdict.Usage, "gate", "%q is not the https address of a gate", address)
	}
	// Requests are idempotent and may be retried, except an override, whose
	// token is single-use.
	return &Client{address: u, http: client(transport.Repeatable(rt)), once: client(rt), token: token}, nil
}

// client returns a client that does not follow redirects.
func client(rt http.RoundTripper) *http.Client {
	c := transport.Client(rt)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Decide asks the gate. If the gate rejects the request, its finding is
// returned as a [*verdict.Error]; no answer is unavailable.
func (c *Client) Decide(ctx context.Context, questions []Question) (Answer, error) {
	q := Request{Schema: SchemaRequest, Decisions: questions}
	if until, has := ctx.Deadline(); has {
		q.TimeoutSeconds = max(1, int(time.Until(until).Seconds()))
	}
	body, err := json.Marshal(q)
	if err != nil {
		return Answer{}, verdict.Wrap(verdict.Usage, "questions", err)
	}
	through := c.http
	if slices.ContainsFunc(questions, func(q Question) bool { return q.Verb == Override }) {
		through = c.once
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address.JoinPath("v1", "decisions").String(), bytes.NewReader(body))
	if err != nil {
		return Answer{}, verdict.Wrap(verdict.Usage, "gate", err)
	}
	req.Header.Set("Content-Type", "application/json")
	status, raw, err := c.do(req, through)
	if err != nil {
		return Answer{}, err
	}
	return c.read(status, raw, questions)
}

// do sends a request with a token, and reads the whole answer.
func (c *Client) do(req *http.Request, through *http.Client) (status int, raw []byte, err error) {
	if c.token != nil {
		text, err := c.token(req.Context())
		if err != nil {
			return 0, nil, err
		}
		req.Header.Set("Authorization", "Bearer "+text)
	}
	carry.Inject(req.Context(), req.Header)
	resp, err := through.Do(req)
	if refused := refusal(c.address.String(), err); refused != nil {
		return 0, nil, refused
	}
	if err != nil {
		return 0, nil, c.unavailable(err)
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err == nil && len(raw) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return 0, nil, c.unavailable(err)
	}
	return resp.StatusCode, raw, nil
}

func (c *Client) unavailable(err error) error {
	return &verdict.UnavailableError{Place: c.address.String(), Op: "asking the gate", Err: err}
}

// read parses an answer. Its HTTP status must match its content, and it must
// match the questions.
func (c *Client) read(status int, raw []byte, questions []Question) (a Answer, err error) {
	if err := c.problem(status, raw); err != nil {
		return Answer{}, err
	}
	if err := json.Unmarshal(raw, &a); err != nil || a.Schema != SchemaAnswer {
		return Answer{}, c.unavailable(fmt.Errorf("the answer with status %d is not that of a gate", status))
	}
	if len(a.Decisions) != len(questions) {
		return Answer{}, c.unavailable(fmt.Errorf("the gate answered %d of %d questions", len(a.Decisions), len(questions)))
	}
	for i, d := range a.Decisions {
		if d.Verdict == nil || d.Image != questions[i].Image || d.Outcome != d.Verdict.Outcome().String() || len(d.Summary) > 0 && d.Verdict.Outcome() != verdict.Accepted {
			return Answer{}, c.unavailable(fmt.Errorf("answer %s does not match its question", strconv.Itoa(i+1)))
		}
	}
	if (status == http.StatusOK) != a.Accepted() {
		return Answer{}, c.unavailable(fmt.Errorf("the answer contradicts its status %d", status))
	}
	return a, nil
}

// problem returns the error of a [Problem]; nil if the answer is another one.
func (c *Client) problem(status int, raw []byte) error {
	var p Problem
	if err := json.Unmarshal(raw, &p); err != nil || p.Problem.Code == "" {
		return nil //nolint:nilerr // then it is an answer of another kind, and read as that
	}
	f := p.Problem
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests || f.Code.Outcome() == verdict.Unavailable {
		return c.unavailable(fmt.Errorf("%s: %s", f.Code, f.Message))
	}
	return &verdict.Error{Finding: f}
}
