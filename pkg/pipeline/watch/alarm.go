package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// alarms is the file with the findings of the last pass, and whether each was posted.
const alarms = "alarms.json"

// alarm posts the findings that were not posted yet, as a verdict in JSON. What did not
// answer is posted if the pass before did not reach it either. If posting fails, this is a
// finding, and the next pass posts them again.
func (r *run) alarm(ctx context.Context) error {
	before, now, fresh := map[string]bool{}, map[string]bool{}, *r.v
	if err := r.read(alarms, &before); err != nil {
		return err
	}
	down := func(f verdict.Finding) bool { return f.Code.Outcome() == verdict.Unavailable }
	key := func(f verdict.Finding) string { return string(f.Code) + " " + f.Subject }
	if fresh.Findings = nil; r.partial || slices.ContainsFunc(r.v.Findings, down) { // what was found before may still be so
		maps.Copy(now, before)
	}
	for _, f := range r.v.Findings {
		posted, known := before[key(f)]
		if now[key(f)] = posted; !posted && (known || !down(f)) {
			fresh.Findings = append(fresh.Findings, f)
		}
	}
	if len(fresh.Findings) == 0 {
		return r.write(ctx, alarms, now)
	}
	err := r.post(ctx, fresh)
	for _, f := range fresh.Findings {
		now[key(f)] = err == nil
	}
	return errors.Join(err, r.write(ctx, alarms, now))
}

// post posts a verdict; the transport repeats what fails. Messages leave out the path of
// the address, which is often a secret.
func (r *run) post(ctx context.Context, v verdict.Verdict) error {
	var body bytes.Buffer
	if err := render.Write(&body, render.JSON, v); err != nil {
		return err
	}
	to, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Webhook, &body)
	if err != nil {
		return verdict.Refuse(verdict.Usage, "webhook", "its address is no URL")
	}
	to.Header.Set("Content-Type", "application/json")
	resp, err := transport.Client(transport.Repeatable(r.Transport)).Do(to)
	if named := (*url.Error)(nil); errors.As(err, &named) {
		err = named.Err
	}
	if err == nil {
		defer resp.Body.Close()
		switch {
		case resp.Request.Method != http.MethodPost: // such as to a login page, which answers 200
			err = errors.New("it redirected to a page, without what was posted")
		case resp.StatusCode/100 == 2:
			return nil
		default:
			err = fmt.Errorf("it answered %s", resp.Status)
		}
	}
	return &verdict.UnavailableError{Place: to.URL.Scheme + "://" + to.URL.Host, Op: "posting an alarm to the webhook", Err: err}
}
