package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// SchemaAudit is the schema of an [Audit].
const SchemaAudit = "waybill/audit/v1"

// MaxAudit is how many decisions an answer to an auditor can have.
const MaxAudit = 1000

// What a line of the record is about.
const (
	Began    = "record begins" // the first of each
	Decided  = "decision"
	NotLetIn = "not let in"
)

// Entry is what one line of the record of a gate says: what was decided, or why
// a request was not let in. Which fields it has is told by Message.
type Entry struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Message string    `json:"msg"`

	// The ids of the decision, by which the log of who asked is found. Those of a
	// request that was not let in are the gate's own.
	Trace   trace.ID     `json:"trace_id,omitzero"`
	Span    trace.SpanID `json:"span_id,omitzero"`
	Initial trace.ID     `json:"initial_trace_id,omitzero"`

	Request   string         `json:"request_id,omitempty"`
	Principal string         `json:"principal,omitempty"`
	Verb      Verb           `json:"verb,omitempty"`
	Image     string         `json:"image,omitempty"`
	To        string         `json:"to,omitempty"`
	Channel   string         `json:"channel,omitempty"`
	Outcome   string         `json:"outcome,omitempty"`
	Reasons   []verdict.Code `json:"reasons,omitempty"`
	// Waived are the exceptions that it rests on: code and evidence of each.
	Waived []string `json:"waived,omitempty"`
	Cached bool     `json:"cached,omitempty"`
	Policy string   `json:"policy,omitempty"`
	// Features are what of the policy was switched, and how far it counted.
	Features  []verdict.Feature `json:"features,omitempty"`
	TrustRoot string            `json:"trust_root,omitempty"`
	Took      string            `json:"took,omitempty"`

	// Code, Problem and Status say why a request was not let in.
	Code    verdict.Code `json:"code,omitempty"`
	Problem string       `json:"message,omitempty"`
	Status  int          `json:"status,omitempty"`
	// Count is how many requests of unknown callers were not let in for this
	// reason since the last such line; none for one.
	Count int64 `json:"count,omitempty"`

	// After is the end of the record that this one goes on from, where the
	// instance had one that could not be written on.
	After *Head `json:"after,omitempty"`
}

// Line is one line of the record.
type Line struct {
	Entry
	Link
}

// Link ties a line to the one before it. It comes last in a line.
type Link struct {
	// Instance names the record: one for each start of a service.
	Instance string `json:"instance"`
	// Number is one more than that of the line before; the first is 1.
	Number int64 `json:"number"`
	// Previous is the digest of the line before, without its end; zero for the
	// first.
	Previous digest.Digest `json:"previous,omitzero"`
}

// Head is where a record ends: whoever keeps it can tell later that nothing was
// taken away from before it, or changed.
type Head struct {
	Instance string        `json:"instance"`
	Number   int64         `json:"number"`
	Digest   digest.Digest `json:"digest"` // of the line of that number
}

// Audit is what a gate tells an auditor: the last decisions, the newest first,
// and where the record ends.
type Audit struct {
	Schema    string `json:"schema"`
	RequestID string `json:"requestId"`
	Head      Head   `json:"head"`
	Decisions []Line `json:"decisions"`
}

// Audit asks what was decided last: about one image, where a digest is given,
// and at most so many decisions, where the limit is not zero. A gate tells of
// what the caller may audit.
func (c *Client) Audit(ctx context.Context, about digest.Digest, limit int) (Audit, error) {
	at, query := c.address.JoinPath("v1", "audit"), url.Values{}
	if !about.IsZero() {
		query.Set("digest", about.String())
	}
	if limit != 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	at.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return Audit{}, verdict.Wrap(verdict.Usage, "gate", err)
	}
	status, raw, err := c.do(req, c.http)
	if err != nil {
		return Audit{}, err
	}
	if err := c.problem(status, raw); err != nil {
		return Audit{}, err
	}
	var a Audit
	if err := json.Unmarshal(raw, &a); err != nil || status != http.StatusOK || a.Schema != SchemaAudit || a.Head.Instance == "" {
		return Audit{}, c.unavailable(fmt.Errorf("it answered %d, and not as a gate does", status))
	}
	return a, nil
}
