package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// defaultAudit is the number of decisions in an answer to an auditor who gives
// no limit.
const defaultAudit = 100

// audit answers GET /v1/audit: the last decisions that the caller may audit,
// and the end of the record.
func (s *Server) audit(w http.ResponseWriter, r *http.Request) {
	id := rand.Text()
	w.Header().Set("Waybill-Request-Id", id)
	ctx, stop := context.WithTimeout(r.Context(), s.limits.Deadline)
	defer stop()
	basis := s.basis.Load()
	who, err := s.admission.identify(ctx, r, basis, "")
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, err: err, status: http.StatusUnauthorized})
		return
	}
	if err := basis.Callers.Audits(who); err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
		return
	}
	about, limit, err := readAudit(r.URL.RawQuery)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
		return
	}
	leave, err := s.admission.take(ctx, who, 1)
	if err != nil {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err, status: http.StatusTooManyRequests})
		return
	}
	defer leave()
	head, last, err := s.records.record.tell(ctx)
	if err != nil && head.Number == 0 {
		s.turnAway(w, r, notLetIn{id: id, who: who, err: err})
		return
	}
	answer := api.Audit{Schema: api.SchemaAudit, RequestID: id, Head: head, Decisions: []api.Line{}}
	for _, l := range slices.Backward(last) {
		if len(answer.Decisions) < limit && (about == "" || strings.HasSuffix(l.Image, "@"+about)) && basis.Callers.May(who, auditOf(l)) == nil {
			answer.Decisions = append(answer.Decisions, l)
		}
	}
	writeJSON(w, http.StatusOK, answer)
}

// auditOf returns the grant that is needed to read a decision.
func auditOf(l api.Line) caller.Act {
	from, _, _ := strings.Cut(l.Image, "@")
	return caller.Act{Verb: caller.Audit, From: from, To: l.To, Channel: l.Channel}
}

// readAudit parses the query of a request: a digest and a limit, both optional.
func readAudit(text string) (about string, limit int, err error) {
	query, err := url.ParseQuery(text)
	if err != nil || len(text) > 1000 {
		return "", 0, malformed("query: malformed or longer than 1000 characters")
	}
	limit = defaultAudit
	for name, values := range query {
		if len(values) != 1 || name != "digest" && name != "limit" {
			return "", 0, malformed("query: only digest and limit are allowed, each at most once")
		}
	}
	if text := query.Get("digest"); query.Has("digest") {
		d, err := digest.Parse(text)
		if err != nil || d.Algorithm() != digest.SHA256 {
			return "", 0, malformed("digest %.100q: want sha256:…", text)
		}
		about = d.String()
	}
	if text := query.Get("limit"); query.Has("limit") {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > api.MaxAudit {
			return "", 0, malformed("limit %.50q: want a number from 1 to %d", text, api.MaxAudit)
		}
	}
	return about, limit, nil
}

// writeJSON writes a value without HTML escaping: signed or hashed text is
// unchanged when read back.
func writeJSON(w http.ResponseWriter, code int, v any) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		code = http.StatusInternalServerError
		out.Reset()
		out.WriteString(`{"schema":"` + api.SchemaAnswer + `","outcome":"` + verdict.Internal.String() + "\"}\n")
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes()) // the caller may be gone; there is no one to report an error to
}
