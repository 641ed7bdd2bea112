package watch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"

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
	if fresh.Findings = nil; r.undecided() { // what was found before may still be so
		now = maps.Clone(before)
	}
	for _, f := range r.v.Findings {
		key := fmt.Sprintf("%s %s", f.Code, f.Subject)
		posted, known := before[key]
		if now[key] = posted; !posted && (known || f.Code.Outcome() != verdict.Unavailable) {
			fresh.Findings = append(fresh.Findings, f)
		}
	}
	err := r.post(ctx, fresh)
	for _, f := range fresh.Findings {
		now[fmt.Sprintf("%s %s", f.Code, f.Subject)] = err == nil
	}
	return errors.Join(err, r.write(ctx, alarms, now))
}

// undecided reports whether something did not answer in this pass.
func (r *run) undecided() bool {
	for _, f := range r.v.Findings {
		if f.Code.Outcome() == verdict.Unavailable {
			return true
		}
	}
	return false
}

// post posts a verdict with findings; the transport repeats what fails. Messages leave out
// the path of the address, which is often a secret.
func (r *run) post(ctx context.Context, v verdict.Verdict) error {
	if len(v.Findings) == 0 {
		return nil
	}
	var body bytes.Buffer
	err := render.Write(&body, render.JSON, v)
	if err != nil {
		return err
	}
	to, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Webhook, &body)
	if err != nil || to.URL.Host == "" {
		return verdict.Refuse(verdict.Usage, "webhook", "the address is not a URL with a host")
	}
	to.Header.Set("Content-Type", "application/json")
	resp, err := transport.Client(transport.Repeatable(r.Transport)).Do(to)
	var named *url.Error
	if errors.As(err, &named) {
		err = named.Err
	}
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode/100 != 2 {
			err = fmt.Errorf("it answered %s", resp.Status)
		}
	}
	if err != nil {
		return &verdict.UnavailableError{Place: to.URL.Scheme + "://" + to.URL.Host, Op: "posting an alarm to the webhook", Err: err}
	}
	return nil
}
