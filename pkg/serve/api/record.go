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

// MaxAudit is how many decisions an answer to an auditor can contain.
const MaxAudit = 1000

// Messages of lines of the record.
const (
	Began    = "record begins" // the first line of each record
	Decided  = "decision"
	NotLetIn = "not let in"
)

// Entry is the content of a line in the record of a gate: a decision, or why a
// request was rejected. Message determines which fields are set.
type Entry struct {
	Time    time.Time `json:"time"`
	Level   string    `json:"level"`
	Message string    `json:"msg"`

	// The trace ids of the decision, which lead to the caller's logs. Rejected
	// requests have ids of the gate's own.
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
	// Waived are the exceptions that were applied: code and evidence of each.
	Waived []string `json:"waived,omitempty"`
	Cached bool     `json:"cached,omitempty"`
	Policy string   `json:"policy,omitempty"`
	// Features are the switched requirements of the policy, and how each was
	// applied.
	Features  []verdict.Feature `json:"features,omitempty"`
	TrustRoot string            `json:"trust_root,omitempty"`
	Took      string            `json:"took,omitempty"`

	// Code, Problem and Status say why a request was rejected.
	Code    verdict.Code `json:"code,omitempty"`
	Problem string       `json:"message,omitempty"`
	Status  int          `json:"status,omitempty"`
	// Count is the number of requests of unknown callers that were rejected for
	// this reason since the last such line; none means one.
	Count int64 `json:"count,omitempty"`

	// After is the end of the record that this one continues, if the instance
	// had one that could not be written any more.
	After *Head `json:"after,omitempty"`
}

// Line is one line of the record.
type Line struct {
	Entry
	Link
}

// Link chains a line to the previous one. It comes last in a line.
type Link struct {
	// Instance names the record: one for each start of a service.
	Instance string `json:"instance"`
	// Number is one more than that of the line before; the first is 1.
	Number int64 `json:"number"`
	// Previous is the digest of the line before, without its newline; zero for
	// the first.
	Previous digest.Digest `json:"previous,omitzero"`
}

// Head is the end of a record: a copy of it proves later that nothing before it
// was removed or changed.
type Head struct {
	Instance string        `json:"instance"`
	Number   int64         `json:"number"`
	Digest   digest.Digest `json:"digest"` // digest of the line with that number
}

// Audit is a gate's answer to an auditor: the last decisions, newest first, and
// the end of the record.
type Audit struct {
	Schema    string `json:"schema"`
	RequestID string `json:"requestId"`
	Head      Head   `json:"head"`
	Decisions []Line `json:"decisions"`
}

// Audit requests the last decisions: about one image, if a digest is given, and
// at most limit decisions, if limit is not zero. A gate returns only decisions
// that the caller may audit.
func (c *Client) Audit(ctx context.Context, about digest.Digest, limit int) (a Audit, err error) {
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
	if err := json.Unmarshal(raw, &a); err != nil || status != http.StatusOK || a.Schema != SchemaAudit || a.Head.Instance == "" {
		return Audit{}, c.unavailable(fmt.Errorf("the answer with status %d is not that of a gate", status))
	}
	return a, nil
}
