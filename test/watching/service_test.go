package watching

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline/watch"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// TestServiceProfile: a service whose profile cannot be read any more follows no log, so it
// posts that as an alarm, once. What it posted before is not posted again afterwards.
func TestServiceProfile(t *testing.T) {
	w := newWorld(t)
	w.From = 0
	w.sign(t, lab.RoleRelease, "planted")
	posted := make(chan string, 10)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var v verdict.Verdict
		raw, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(raw, &v)
		}
		if err != nil {
			t.Error(err)
		}
		for _, f := range v.Findings {
			posted <- string(f.Code)
		}
	}))
	t.Cleanup(hook.Close)
	w.Webhook = hook.URL
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	opened, told := 0, []string{}
	s := &watch.Service{Config: w.Config, Every: time.Millisecond}
	s.Open = func(context.Context) (gate.Gate, error) {
		if opened++; opened == 2 || opened == 3 {
			return gate.Gate{}, verdict.Refuse(verdict.ConfigParse, "policy.yaml", "it is not YAML")
		}
		return w.Gate, nil
	}
	s.Tell = func(v *verdict.Verdict) error {
		for _, f := range v.Findings {
			told = append(told, string(f.Code))
		}
		if opened == 4 {
			stop()
		}
		return nil
	}
	scraped := make(chan bool)
	go func() { // the metrics are served before the first pass
		defer close(scraped)
		s.WriteMetrics(io.Discard)
	}()
	if err := s.Run(ctx); err != nil {
		t.Error(err)
	}
	<-scraped
	close(posted)
	var all []string
	for code := range posted {
		all = append(all, code)
	}
	if strings.Join(all, " ") != "LOG_UNEXPLAINED CONFIG" || strings.Join(told, " ") != "LOG_UNEXPLAINED CONFIG CONFIG LOG_UNEXPLAINED" {
		t.Errorf("posted %q, told %q", all, told)
	}
}

// TestNotFollowed: a pass that read no log is not accepted, and a log that was followed
// before is missed, whatever the name of the state directory.
func TestNotFollowed(t *testing.T) {
	w := newWorld(t)
	w.State = filepath.Join(w.State, "state[1")
	w.pass(t) // the twin
	w.down()
	w.pass(t, verdict.PlaceDown)
	w.State, w.Logs, w.now = filepath.Join(w.State, "new"), nil, time.Unix(0, 0)
	if v := w.pass(t, verdict.PlaceDown); v.Findings[0].Subject != "trust root" {
		t.Errorf("%+v", v.Findings)
	}
}
