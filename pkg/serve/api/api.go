// Package api is a client of the gate as a service: it asks whether images may
// go somewhere.
//
//	c, err := api.New("https://gate.example.test", rt, token)
//	answer, err := c.Decide(ctx, []ask.Question{{Verb: api.Promote, Image: "staging.example.test/demo@sha256:…", To: "prod.example.test/demo"}})
//	if err == nil && answer.Accepted() { … }
//
// An answer is believed only if it is one to the very questions that were
// asked, and says yes in every place where it says something. The package
// knows nothing of how a gate decides; whoever must not rely on the gate's word
// verifies the image itself.
//
// Who asks shows a token, or a certificate, which the transport brings:
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

// Schemas of what is asked and answered.
const (
	SchemaRequest = "waybill/decision-request/v1"
	SchemaAnswer  = "waybill/decisions/v1"
)

// MaxBatch is how many questions one request can have.
const MaxBatch = 100

// maxAnswer bounds an answer.
const maxAnswer = 64 << 20

// Verb is what is wanted.
type Verb string

// The verbs that can be asked for.
const (
	Verify  Verb = "verify"  // would it be accepted?
	Promote Verb = "promote" // may it go to a destination, now?
	// Override is [Promote] with exceptions. A request with one uses its token up:
	// whoever has no answer to it asks again with another.
	Override Verb = "override"
)

// MaxExceptions is how many exceptions one question can bring, and MaxException
// how large each can be.
const (
	MaxExceptions = 16
	MaxException  = 64 << 10
)

// Question asks about one image.
type Question struct {
	Verb Verb `json:"verb"`
	// Image is HOST/PATH@sha256:…: what a tag names can change until it is used.
	Image string `json:"image"`
	// To is the repository that it is to go to; left out with [Verify].
	To string `json:"to,omitempty"`
	// Channel is what the release is for; without one it is none.
	Channel string `json:"channel,omitempty"`
	// Version is that of the release, where a policy holds builds against it.
	Version string `json:"version,omitempty"`
	// Exceptions are the bundles of the exceptions of an [Override], byte for byte:
	// attestations/exception/v1, signed by the officer of the gate's policy for
	// this image, this destination and this policy.
	Exceptions [][]byte `json:"exceptions,omitempty"`
}

// Request is what is sent.
type Request struct {
	Schema    string     `json:"schema"`
	Decisions []Question `json:"decisions"`
	// TimeoutSeconds is how long the caller waits. What is not decided by then
	// is unavailable; zero leaves it to the server.
	TimeoutSeconds int `json:"timeoutSeconds,omitempty"`
}

// Answer is what was decided, in the order of the questions.
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
	// Cached says that it was decided before, no longer ago than the server
	// remembers.
	Cached  bool             `json:"cached,omitempty"`
	Verdict *verdict.Verdict `json:"verdict"`
	// Summary is the verification summary of what was accepted to be promoted, as
	// a Sigstore bundle to attach at the destination; only from a gate that signs
	// them. That of an [Override] names what was excepted.
	Summary json.RawMessage `json:"summary,omitempty"`
}

// Accepted reports whether everything that was asked about is accepted.
func (a Answer) Accepted() bool {
	yes := verdict.Accepted.String()
	if a.Outcome != yes || len(a.Decisions) == 0 {
		return false
	}
	for _, d := range a.Decisions {
		if d.Outcome != yes || d.Verdict == nil || d.Verdict.Outcome() != verdict.Accepted {
			return false
		}
	}
	return true
}

// Problem is the answer to a request that was not decided about.
type Problem struct {
	Schema    string          `json:"schema"`
	RequestID string          `json:"requestId"`
	Outcome   string          `json:"outcome"`
	Problem   verdict.Finding `json:"problem"`
}

// Client asks one gate.
type Client struct {
	address *url.URL
	http    *http.Client
	once    *http.Client // for what is not asked twice
	token   func(ctx context.Context) (string, error)
}

// New makes a client of the gate at an address, reached through rt, which
// brings a client certificate where there is one, see [Certificate]. Without a
// token function no token is shown. A redirect is no answer: neither a question
// nor who asks it is shown to anybody else.
func New(address string, rt http.RoundTripper, token func(ctx context.Context) (string, error)) (*Client, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Scheme != "https" && (u.Scheme != "http" || !transport.Loopback(u.Hostname())) {
		return nil, verdict.Refuse(verdict.Usage, "gate", "%q: want its https address", address)
	}
	// Asking twice changes nothing, so what got no answer is asked again; but not
	// an override, which uses its token up.
	return &Client{address: u, http: client(transport.Repeatable(rt)), once: client(rt), token: token}, nil
}

// client takes what the address answers, and goes nowhere else.
func client(rt http.RoundTripper) *http.Client {
	c := transport.Client(rt)
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// Decide asks. A gate that refuses to answer is the refusal that it gives as a
// [*verdict.Error]; one that gives no answer is unavailable.
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

// do sends a request with a token, and reads the answer whole.
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

// read reads an answer. Its status must be that of what it says, and it must
// answer what was asked.
func (c *Client) read(status int, raw []byte, questions []Question) (Answer, error) {
	if err := c.problem(status, raw); err != nil {
		return Answer{}, err
	}
	var a Answer
	if err := json.Unmarshal(raw, &a); err != nil || a.Schema != SchemaAnswer {
		return Answer{}, c.unavailable(fmt.Errorf("it answered %d, and not as a gate does", status))
	}
	if len(a.Decisions) != len(questions) {
		return Answer{}, c.unavailable(fmt.Errorf("it answered %d of %d questions", len(a.Decisions), len(questions)))
	}
	for i, d := range a.Decisions {
		if d.Verdict == nil || d.Image != questions[i].Image || d.Outcome != d.Verdict.Outcome().String() || len(d.Summary) > 0 && d.Verdict.Outcome() != verdict.Accepted {
			return Answer{}, c.unavailable(fmt.Errorf("its answer %s is none to what was asked", strconv.Itoa(i+1)))
		}
	}
	if (status == http.StatusOK) != a.Accepted() {
		return Answer{}, c.unavailable(fmt.Errorf("its answer of status %d contradicts itself", status))
	}
	return a, nil
}

// problem is what an answer says that is none, if it is one of those.
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
