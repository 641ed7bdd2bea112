package signing

import (
	"net/http"
	"testing"
	"time"

	trustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"
	"github.com/sigstore/sigstore-go/pkg/bundle"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// newPair is a world with two logs and two timestamp authorities, of which a
// selector asks for some.
func newPair(t *testing.T, s lab.Signing) *world {
	t.Helper()
	w := worldOf(t, lab.NewWith(t, lab.Options{Second: true}))
	w.token = w.lasting(t, lab.RoleRelease)
	w.services = w.selected(t, s)
	return w
}

func (w *world) selected(t *testing.T, s lab.Signing) sign.Services {
	t.Helper()
	raw, err := w.SigningConfigFor(s)
	if err != nil {
		t.Fatal(err)
	}
	services, err := sign.ParseServices(raw, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return services
}

func demanding(t *testing.T, w *world, logs, times int) *verify.Verifier {
	t.Helper()
	r, err := trust.Parse(w.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.NewWith(r, verify.Rules{Logs: logs, Times: times, SCTs: 1})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestSelectors: a signature is brought before as many logs and timestamp
// authorities as the configuration asks for, and convinces a verifier who asks
// for that many distinct ones. What cannot be had is refused before anything.
func TestSelectors(t *testing.T) {
	w := newPair(t, lab.Signing{})
	for name, c := range map[string]struct {
		asked lab.Signing
		want  int // 0: refused
	}{
		"ANY":     {lab.Signing{}, 1},
		"ALL":     {lab.Signing{Selector: trustroot.ServiceSelector_ALL}, 2},
		"EXACT 1": {lab.Signing{Selector: trustroot.ServiceSelector_EXACT, Count: 1}, 1},
		"EXACT 2": {lab.Signing{Selector: trustroot.ServiceSelector_EXACT, Count: 2}, 2},
		"EXACT 3": {lab.Signing{Selector: trustroot.ServiceSelector_EXACT, Count: 3}, 0},
		"EXACT 0": {lab.Signing{Selector: trustroot.ServiceSelector_EXACT}, 0},
		"unknown": {lab.Signing{Selector: 7}, 0},
		"past":    {lab.Signing{Until: time.Now().Add(-time.Minute)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := w.SigningConfigFor(c.asked)
			if err != nil {
				t.Fatal(err)
			}
			services, err := sign.ParseServices(raw, time.Now())
			if c.want == 0 {
				refused(t, err, "SERVICE_SELECTOR")
				return
			}
			refused(t, err, "")
			m := w.honest()
			signer := w.signer(t, m, func(sc *sign.Config) { sc.Services = services })
			got, _, err := signer.Blob(t.Context(), file(len(name)))
			refused(t, err, "")
			if tally := signer.Tally(); tally.Made != 1 || tally.Entries != c.want {
				t.Errorf("%+v, want one signature and %d entries", tally, c.want)
			}
			if m.to("rekor")+m.to("rekor2") != c.want || m.to("tsa")+m.to("tsa2") != c.want {
				t.Errorf("%v", m.calls)
			}
			for asked := 1; asked <= 2; asked++ {
				want := verdict.Code("")
				if asked > c.want {
					want = verdict.Threshold
				}
				_, err = demanding(t, w, asked, 1).Blob(got, file(len(name)))
				refused(t, err, want)
				_, err = demanding(t, w, 1, asked).Blob(got, file(len(name)))
				refused(t, err, want)
			}
		})
	}
}

// TestEachIsChecked: of two logs and two authorities none may lie, be away or
// stand for the other. The first row is the twin.
func TestEachIsChecked(t *testing.T) {
	w := newPair(t, lab.Signing{Selector: trustroot.ServiceSelector_ALL})
	for name, c := range map[string]struct {
		meddle func(call) (*http.Response, error)
		edit   func(*sign.Config)
		want   verdict.Code
	}{
		"honest":                {nil, func(*sign.Config) {}, ""},
		"a log's lie":           {answering("rekor2", 201, `{"logIndex":"1"}`), func(*sign.Config) {}, verdict.BundleLacks},
		"a log's no":            {answering("rekor2", 403, "no"), func(*sign.Config) {}, verdict.ServiceRefused},
		"a log that is away":    {answering("rekor2", 502, ""), func(*sign.Config) {}, verdict.PlaceDown},
		"an authority's lie":    {answering("tsa2", 200, "yes"), func(*sign.Config) {}, verdict.TimeInvalid},
		"an authority's no":     {answering("tsa2", 403, "no"), func(*sign.Config) {}, verdict.ServiceRefused},
		"an authority away":     {answering("tsa2", 502, ""), func(*sign.Config) {}, verdict.PlaceDown},
		"one log as two":        {nil, func(c *sign.Config) { c.Services.Logs = []string{w.Rekor, w.Rekor} }, verdict.ServiceRefused},
		"an entry of the other": {w.instead("rekor2", w.Rekor), func(*sign.Config) {}, verdict.ServiceRefused},
	} {
		t.Run(name, func(t *testing.T) {
			signer := w.signer(t, w.meddler(c.meddle), c.edit)
			_, _, err := signer.Blob(t.Context(), file(len(name)))
			refused(t, err, c.want)
			if tally := signer.Tally(); tally.Entries > 2 || c.want == "" && tally.Entries != 2 {
				t.Errorf("%+v", tally)
			}
		})
	}
}

// instead has another answer in place of a service.
func (w *world) instead(service, address string) func(call) (*http.Response, error) {
	return func(c call) (*http.Response, error) {
		if c.service != service {
			return c.pass()
		}
		r, err := http.NewRequestWithContext(c.request.Context(), c.request.Method, address+c.request.URL.Path, c.request.Body)
		if err != nil {
			return nil, err
		}
		r.Header = c.request.Header
		return oneWay.RoundTrip(r)
	}
}

// TestSeveralResumed: where one log has a signature and the other was away, the
// next run offers the same bytes to both, and neither has it twice.
func TestSeveralResumed(t *testing.T) {
	w := newPair(t, lab.Signing{Selector: trustroot.ServiceSelector_ALL})
	path := journalIn(t)
	_, err := w.signAll(t, w.meddler(answering("rekor2", 503, "")), path, orders(t, 3))
	refused(t, err, verdict.PlaceDown)
	got, err := w.signAll(t, w.honest(), path, orders(t, 3))
	refused(t, err, "")
	if got.Made+got.Finished != 3 || got.Finished == 0 || w.twins() != 0 || len(w.Logged()) != 3 {
		t.Errorf("%+v, %d entries, %d twice", got, len(w.Logged()), w.twins())
	}
	m := w.honest()
	got, err = w.signAll(t, m, path, orders(t, 3))
	refused(t, err, "")
	if got != (sign.Tally{Found: 3}) || m.all != 0 {
		t.Errorf("%+v, with %d requests", got, m.all)
	}
	// Whoever asks for two logs now does not take what one has.
	w.services = w.selected(t, lab.Signing{})
	single := journalIn(t)
	if _, err := w.signAll(t, w.honest(), single, orders(t, 2)); err != nil {
		t.Fatal(err)
	}
	w.services = w.selected(t, lab.Signing{Selector: trustroot.ServiceSelector_ALL})
	raw, e, err := w.signer(t, w.honest(), keeping(t, single)).Blob(t.Context(), file(0))
	refused(t, err, "")
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(raw); err != nil || e.IsZero() || len(b.GetVerificationMaterial().GetTlogEntries()) != 2 {
		t.Errorf("%v: %s", err, raw)
	}
}
